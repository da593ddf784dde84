# SPDX-License-Identifier: GPL-2.0-or-later
"""Random numbers in Python that are the same on every machine, as random.h's are in C.

No function comes from libm. Logarithm and exponential are made of IEEE additions, multiplications and divisions, which
every machine rounds alike, and of square roots, which IEEE rounds exactly, too.

>>> stream = Stream(1)
>>> 0 < stream.uniform() <= 1
True
"""

from __future__ import annotations

import math

__all__ = ["Stream", "exp", "ln"]

_MASK = 2**64 - 1
_LN2_HIGH = 0.693147180369123816490  # ln 2 in two parts, the first of few bits: k times it is exact
_LN2_LOW = 1.90821492927058770002e-10
_SQRT_HALF = 0.70710678118654752440


def ln(x: float) -> float:
    """Natural logarithm of x > 0, by 2 atanh((m - 1) / (m + 1)) of the mantissa m; error below 1e-15 (1 + |ln x|)."""
    m, e = math.frexp(x)
    if m < _SQRT_HALF:
        m, e = 2 * m, e - 1
    y = (m - 1) / (m + 1)
    square, total = y * y, 0.0
    for k in range(23, 0, -2):
        total = total * square + 1.0 / k
    return 2 * y * total + e * _LN2_LOW + e * _LN2_HIGH


def exp(x: float) -> float:
    """e to the x, |x| < 700, by its power series on [-ln 2 / 2, ln 2 / 2]; relative error below 1e-15."""
    k = math.floor(x / (_LN2_HIGH + _LN2_LOW) + 0.5)
    r, total = x - k * _LN2_HIGH - k * _LN2_LOW, 1.0
    for i in range(15, 0, -1):
        total = 1.0 + total * r / i
    return math.ldexp(total, k)


def _mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31


class Stream:
    """SplitMix64, seeded by a seed and a purpose: streams of other purposes are independent."""

    def __init__(self, seed: int, purpose: int = 0) -> None:
        """Begin; `purpose` is any small number."""
        self._state = _mix(_mix(seed + 0x632BE59BD9B4E019 & _MASK) ^ purpose + 1)

    def uniform(self) -> float:
        """Uniform in (0, 1]."""
        self._state = self._state + 0x9E3779B97F4A7C15 & _MASK
        return ((_mix(self._state) >> 11) + 1) * 2.0**-53

    def exponential(self) -> float:
        """Exponential of mean 1."""
        return -ln(self.uniform())

    def normal(self) -> float:
        """Standard normal, by the polar method."""
        while True:
            x, y = 2 * self.uniform() - 1, 2 * self.uniform() - 1
            s = x * x + y * y
            if 0 < s < 1:
                return x * math.sqrt(-2 * ln(s) / s)

    def gamma(self, shape: float, scale: float) -> float:
        """Gamma of shape 1 or more and a scale, from a cubed normal (Marsaglia and Tsang, ACM TOMS 26, 2000)."""
        d = shape - 1 / 3
        c = 1 / math.sqrt(9 * d)
        while True:
            x = self.normal()
            v = 1 + c * x
            if v <= 0:
                continue
            v = v * v * v
            if ln(self.uniform()) < 0.5 * x * x + d - d * v + d * ln(v):
                return d * v * scale

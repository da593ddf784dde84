# SPDX-License-Identifier: GPL-2.0-or-later
"""Brokers' certificates are renewed before they end, and no connection ends of it.

Only the node where the cluster was founded can sign. Once a day it asks the keeper of each broker for the broker's
certificate. If a third of its life or less is left, the keeper is given a new one, checks it, keeps it, and has
nats-server read it. Connections that are there stay; new ones see the new certificate.

A broker that was not reached is asked again the next day: it has four months for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ctl.cluster.certificates import Certificate, end_of, is_newer, renewed
from ctl.cluster.identity import RENEWER, Key, renewer_token
from ctl.cluster.link import Link, LinkError, Member
from ctl.cluster.membership import Files, keeper_name, key_of
from ctl.cluster.wire import certificate_subject
from ctl.errors import CoschedError

__all__ = ["Kept", "Renewed", "keep_renewing", "renew"]

_PART = 1 / 3  # of a certificate's life that is left when it is renewed
_DAY = 86_400.0  # seconds
_SOON = 60.0  # seconds after the start: a workstation need not run for a day
_log = logging.getLogger("ctl.cluster.renewal")


class Renewed(NamedTuple):
    """The brokers: until when the certificate of each is good now, Unix time, and those that did not answer."""

    ends: dict[str, float]
    missed: list[str]


async def renew(files: Files) -> Renewed:
    """Renew the certificates that will end soon. Raises CoschedError if the cluster was not founded on this node."""
    authority = files.need("authority", "certificates are renewed on the node of `ctl cluster init`")
    found = Renewed({}, [])
    if "life" not in authority:  # the cluster was founded when certificates had no end
        return found
    for name, server in authority["brokers"].items():
        try:
            found.ends[name] = await _renew_one(authority, name, server)
        except LinkError as error:
            _log.warning("the broker on %s has no new certificate: %s", name, error)
            found.missed.append(name)
    return found


async def keep_renewing(files: Files) -> None:
    """Renew until cancelled, if the cluster was founded on this node."""
    authority = files.read("authority")
    if authority is None or "life" not in authority:
        return
    usual = min(_DAY, authority["life"] * _PART / 4)
    pause = min(_SOON, usual)
    while True:
        await asyncio.sleep(pause)
        pause = usual
        try:
            await renew(files)
        except CoschedError as error:
            _log.warning("certificates are not renewed: %s", error)


async def _renew_one(authority: Mapping[str, Any], name: str, server: str) -> float:
    """When a broker's certificate ends, after it was renewed if need be. Raises LinkError."""
    user = Key("user")
    token = renewer_token(key_of(authority, "account"), user)
    link = Link(Member(RENEWER, (server,), authority["ca"]["certificate"], token, user.seed), lambda: None)
    subject, life = certificate_subject(keeper_name(name)), float(authority["life"])
    try:
        await link.connect([server])
        present = (await link.request(subject)).data.decode()
        if end_of(present) - time.time() > life * _PART:
            return end_of(present)
        new = renewed(Certificate(**authority["ca"]), present, life)
        if (await link.request(subject, new.encode())).data.decode() != new:
            raise LinkError("its keeper did not take it, and has logged why")
        return end_of(new)
    except ValueError as error:
        raise LinkError(f"its keeper did not send a certificate: {error}") from None
    finally:
        await link.close()


class Kept:
    """A broker's certificate, in the newest form that its keeper has been given."""

    def __init__(self, broker: Mapping[str, Any], file: Path, changed: Callable[[], None]) -> None:
        """`broker`: the content of broker.json; `file`: where a newer one is kept; `changed`: it has been given one."""
        self._authority = broker["keeper"]["ca"]
        self._file = file
        self._changed = changed
        self.present: str = broker["certificate"]["certificate"]
        with contextlib.suppress(OSError, ValueError):  # none was kept, or this node was invited anew since
            kept = file.read_text()
            if is_newer(self._authority, self.present, kept):
                self.present = kept

    def check(self) -> None:
        """Raise CoschedError if it has ended: no node would take the broker."""
        if (end := end_of(self.present)) < time.time():
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(end))
            raise CoschedError(
                f"this broker's certificate ended on {when}: `ctl cluster invite` this node, on the node of `init`, "
                "and join by it, gives it a new one"
            )

    def answer(self, question: bytes) -> bytes:
        """The certificate; the question may be a newer one, which is taken."""
        if question:
            try:
                self._take(question.decode())
            except (ValueError, OSError) as error:
                _log.error("a new certificate was not taken: %s", error)
        return self.present.encode()

    def _take(self, new: str) -> None:
        """Raises ValueError if it is none for this broker, OSError if it cannot be kept."""
        if new == self.present:
            return
        if not is_newer(self._authority, self.present, new):
            raise ValueError("it is not the cluster's, not this broker's, or ends earlier")
        descriptor, partial = tempfile.mkstemp(dir=self._file.parent, prefix=".certificate-")
        with os.fdopen(descriptor, "w") as file:
            file.write(new)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self._file)
        self.present = new
        _log.info("a new certificate, good until %s", time.strftime("%Y-%m-%d", time.localtime(end_of(new))))
        self._changed()

# SPDX-License-Identifier: GPL-2.0-or-later
"""The brokers' certificates: TLS keeps a link secret, and shows a node that the broker is the right one.

The cluster has an authority of its own, which nodes know from their invitation; it stays as long as the cluster. A
broker's certificate ends after a year. A new one is for the same key, so it holds no secret, and whoever has the
authority's certificate can check it.
"""

from __future__ import annotations

import datetime
import ipaddress
import time
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["BROKER_NAME", "LIFE", "Certificate", "end_of", "is_newer", "make_authority", "make_certificate", "renewed"]

BROKER_NAME = "broker.cosched"  # in every broker's certificate: nodes check this, not an address
LIFE: Final = 365 * 86_400.0  # seconds that a broker's certificate is good for
_VALID_FROM = datetime.datetime(2020, 1, 1)  # long ago, so that a node with a wrong clock can connect and learn of it
_AUTHORITY_TO = datetime.datetime(2120, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1)


class Certificate(NamedTuple):
    """A certificate and its private key, as PEM."""

    certificate: str
    key: str


def make_authority() -> Certificate:
    """A new certificate authority, for this cluster only."""
    key = ec.generate_private_key(ec.SECP256R1())
    common = "cosched authority"  # no node's name: else a certificate would pass for self-signed
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    builder = _builder(name, name, key.public_key(), _AUTHORITY_TO)
    builder = builder.add_extension(x509.BasicConstraints(True, 0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Certificate(_pem(builder.sign(key, hashes.SHA256())), _secret_pem(key))


def make_certificate(authority: Certificate, name: str, host: str, life: float = LIFE) -> Certificate:
    """A broker's certificate, for BROKER_NAME and, for the other brokers, its host; `name` is for people; `life`:
    seconds."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = x509.SubjectAlternativeName([x509.DNSName(BROKER_NAME), _general_name(host)])
    return Certificate(_signed(authority, subject, names, key.public_key(), life), _secret_pem(key))


def renewed(authority: Certificate, present: str, life: float = LIFE) -> str:
    """The same certificate with another end: `life` seconds from now."""
    old = x509.load_pem_x509_certificate(present.encode())
    names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return _signed(authority, old.subject, names, _public_key(old), life)


def end_of(certificate: str) -> float:
    """The Unix time at which a certificate ends. Raises ValueError if it is none."""
    return _end(x509.load_pem_x509_certificate(certificate.encode()))


def is_newer(authority: str, present: str, other: str) -> bool:
    """Whether `other` is a certificate of this authority for the same key and names as the present one, with a later
    end. Raises ValueError if one of them is none."""
    root, old, new = (x509.load_pem_x509_certificate(pem.encode()) for pem in (authority, present, other))
    if (new.subject, _public_key(new)) != (old.subject, _public_key(old)) or _end(new) <= _end(old):
        return False
    for kind in (x509.SubjectAlternativeName, x509.BasicConstraints):
        if new.extensions.get_extension_for_class(kind) != old.extensions.get_extension_for_class(kind):
            return False
    try:
        _public_key(root).verify(new.signature, new.tbs_certificate_bytes, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return new.issuer == root.subject


# inside


def _signed(
    authority: Certificate,
    subject: x509.Name,
    names: x509.SubjectAlternativeName,
    key: ec.EllipticCurvePublicKey,
    life: float,
) -> str:
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    secret = serialization.load_pem_private_key(authority.key.encode(), None)
    assert isinstance(secret, ec.EllipticCurvePrivateKey)
    builder = _builder(subject, issuer.subject, key, _EPOCH + datetime.timedelta(seconds=time.time() + life))
    builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
    builder = builder.add_extension(names, critical=False)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(secret.public_key())
    return _pem(builder.add_extension(signer, critical=False).sign(secret, hashes.SHA256()))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, end: datetime.datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    return builder.not_valid_before(_VALID_FROM).not_valid_after(end)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _public_key(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("a certificate of the cluster has a key on an elliptic curve")
    return key


def _end(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _secret_pem(key: ec.EllipticCurvePrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()

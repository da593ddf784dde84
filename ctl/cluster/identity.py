# SPDX-License-Identifier: GPL-2.0-or-later
"""Identities: keys, and the permissions that the broker gives to each.

The cluster is one NATS account. Its signing key for nodes carries a permission template. The broker puts the name of
the connecting node into the template, and so takes from a node only subjects that end in the node's name, whatever the
node's program sends. New nodes need no change to any broker: they bring a token (JWT) that the key has signed. A second
signing key belongs to the keeper, which makes the buckets of the key-value store; brokers have this key, nodes do not.

A node may not make consumers, and may read the store only key by key: a consumer could deliver messages to any subject,
without the node's name.

The brokers' certificates are in ctl/cluster/certificates.py.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ctl.cluster.wire import BUCKETS, HOLDS, JOBS, MAX_RECORD, NODES, certificate_subject

__all__ = [
    "MEMORY",
    "RENEWER",
    "UPDATER",
    "Key",
    "account_token",
    "operator_token",
    "renewer_token",
    "system_token",
    "updater_token",
    "user_token",
]

UPDATER = "updater"  # the name of who renews the account's token at brokers
RENEWER = "renewer"  # of who renews the brokers' certificates
_PREFIX = {"operator": 14 << 3, "account": 0, "user": 20 << 3}  # nkeys: the first letter is O, A or U
MEMORY = 256 << 20  # bytes of the key-value store: 100,000 records take 40 MB


class Key:
    """An Ed25519 key in a role of NATS."""

    def __init__(self, role: str, seed: bytes | None = None) -> None:
        """`role`: operator, account or user; a new key unless its 32 bytes are given."""
        self._key = Ed25519PrivateKey.generate() if seed is None else Ed25519PrivateKey.from_private_bytes(seed)
        raw = bytes([_PREFIX[role]]) + self._key.public_key().public_bytes_raw()
        checked = raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")
        self.public = base64.b32encode(checked).decode().rstrip("=")

    @property
    def seed(self) -> bytes:
        """The 32 secret bytes."""
        return self._key.private_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        """The 64 bytes of a signature."""
        return self._key.sign(data)

    def token(self, subject: str, name: str, claims: dict[str, Any]) -> str:
        """A JWT in which this key says `claims` of the public key `subject`."""
        body = {"iat": int(time.time()), "iss": self.public, "name": name, "sub": subject, "nats": claims}
        digest = hashlib.new("sha512_256", _compact(body)).digest()
        body["jti"] = base64.b32encode(digest).decode().rstrip("=")
        signed = b".".join([_base64(_compact({"typ": "JWT", "alg": "ed25519-nkey"})), _base64(_compact(body))])
        return b".".join([signed, _base64(self.sign(signed))]).decode()


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def operator_token(operator: Key, system: Key) -> str:
    """The operator of the cluster, named by itself."""
    claims = {"system_account": system.public, "type": "operator", "version": 2}
    return operator.token(operator.public, "cosched", claims)


def account_token(
    operator: Key, account: Key, nodes: Key, keepers: Key, revoked: Mapping[str, int] | None = None
) -> str:
    """The cluster's account, with the two signing keys and what those they sign may do.

    `revoked`: public keys to the Unix time at which they became worthless.
    """
    signing = [
        {"kind": "user_scope", "key": nodes.public, "role": "node", "template": _template(*_node_may())},
        {"kind": "user_scope", "key": keepers.public, "role": "keeper", "template": _template(*_keeper_may())},
    ]
    claims = {
        "limits": {**_NO_LIMITS, "mem_storage": MEMORY, "disk_storage": 0, "streams": len(BUCKETS), "consumer": 0},
        "signing_keys": signing,
        "revocations": dict(revoked or {}),
        "type": "account",
        "version": 2,
    }
    return operator.token(account.public, "cosched", claims)


def system_token(operator: Key, system: Key) -> str:
    """The brokers' own account, which no one else uses."""
    return operator.token(system.public, "system", {"limits": _NO_LIMITS, "type": "account", "version": 2})


def user_token(signer: Key, account: str, user: Key, name: str) -> str:
    """A node or a keeper: the template of the signing key has its permissions."""
    return signer.token(user.public, name, {"issuer_account": account, "type": "user", "version": 2})


def updater_token(system: Key, user: Key) -> str:
    """Who may give brokers a new token of the cluster's account, and no more."""
    return _asking_token(system, user, UPDATER, "$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE")


def renewer_token(account: Key, user: Key) -> str:
    """Who may give brokers' keepers a new certificate, and no more."""
    return _asking_token(account, user, RENEWER, certificate_subject("*"))


def _asking_token(account: Key, user: Key, name: str, subject: str) -> str:
    """A user of an account who may ask on one subject."""
    claims = {
        "pub": {"allow": [subject]},
        "sub": {"allow": [f"_INBOX.{name}.>"]},
        **dict.fromkeys(("subs", "data", "payload"), -1),
        "type": "user",
        "version": 2,
    }
    return account.token(user.public, name, claims)


_NO_LIMITS = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1}


def _template(payload: int, publish: list[str], subscribe: list[str]) -> dict[str, Any]:
    return {
        "pub": {"allow": publish},
        "sub": {"allow": subscribe},
        "subs": -1,
        "data": -1,
        "payload": payload,
        "allowed_connection_types": ["STANDARD"],
    }


def _node_may() -> tuple[int, list[str], list[str]]:
    name = "{{name()}}"
    publish = [
        f"cosched.job.*.event.{name}",
        f"cosched.job.*.ask.{name}",
        f"$KV.{HOLDS}.*.{name}",
        f"$KV.{NODES}.{name}",
        f"$KV.{JOBS}.{name}",
        *(f"$JS.API.{what}" for bucket in BUCKETS for what in _reading(bucket)),
    ]
    kept = [f"$KV.{HOLDS}.>", f"$KV.{NODES}.*", f"$KV.{JOBS}.*"]
    return MAX_RECORD, publish, ["cosched.job.>", *kept, f"_INBOX.{name}.>"]


def _reading(bucket: str) -> list[str]:
    return [f"DIRECT.GET.KV_{bucket}.>", f"STREAM.INFO.KV_{bucket}"]


def _keeper_may() -> tuple[int, list[str], list[str]]:
    verbs = ("CREATE", "UPDATE", "INFO", "DELETE")
    publish = [f"$JS.API.STREAM.{verb}.KV_{bucket}" for bucket in BUCKETS for verb in verbs]
    publish += [f"_INBOX.{RENEWER}.>"]
    return MAX_RECORD, publish, ["_INBOX.{{name()}}.>", certificate_subject("{{name()}}")]

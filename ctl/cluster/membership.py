# SPDX-License-Identifier: GPL-2.0-or-later
"""The membership of the cluster, which is founded on one node; this node invites the others.

    /etc/cosched/cluster/
        authority.json    all secrets of the cluster; only where it was founded
        broker.json       a broker's secrets; on the nodes with a broker
        member.json       this node's name, key and token; on every node

An invitation is a line with the node's member.json, and broker.json if the node gets a broker. The holder of the line
can act as the node. So send the line over a private channel, `ssh`, from which `ctl cluster join` reads it. No node
joins by it after a day. This is a check of `join`, against lines left lying about: the key in the line stays good until
it is revoked (ctl/cluster/revocation.py).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import tempfile
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctl.cluster.certificates import LIFE
from ctl.cluster.link import Member
from ctl.cluster.place import DIRECTORY
from ctl.cluster.wire import check_name
from ctl.errors import USAGE, CoschedError

if TYPE_CHECKING:
    from ctl.cluster.identity import Key

__all__ = [
    "DIRECTORY",
    "LONGEST",
    "MARK",
    "Files",
    "account",
    "default_name",
    "found",
    "invite",
    "join",
    "keeper_name",
    "key_of",
    "keys_of",
    "leave",
    "next_name",
    "read_member",
]

PORT = 4222  # NATS's own
MARK = "cosched1-"  # of an invitation; the number is its version
_JOINS_FOR = 86_400  # seconds in which an invitation can be taken
LONGEST = 64 * 1024  # characters of an invitation


class Files:
    """The cluster's files on this node."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self.directory = directory

    def read(self, name: str) -> dict[str, Any] | None:
        """A file's content, None if it is not there. Raises CoschedError if it cannot be read."""
        path = self.directory / f"{name}.json"
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise CoschedError(f"cannot read {path} ({error}): join the cluster again, or remove the file") from None
        if not isinstance(content, dict):
            raise CoschedError(f"{path} is not an object: join the cluster again, or remove the file")
        return content

    def need(self, name: str, way_out: str) -> dict[str, Any]:
        """A file's content. Raises CoschedError (status 2) with the way out if it is not there."""
        content = self.read(name)
        if content is None:
            raise CoschedError(f"there is no {self.directory / name}.json on this node: {way_out}", USAGE)
        return content

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a file atomically, readable for root only. Raises CoschedError."""
        path = self.directory / f"{name}.json"
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, partial = tempfile.mkstemp(dir=self.directory, prefix=f".{name}-")  # mode 0600
            with os.fdopen(descriptor, "w") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except OSError as error:
            raise CoschedError(f"cannot write {path}: {error.strerror}") from None

    def member(self) -> Member | None:
        """This node's membership, None if it has none. Raises CoschedError."""
        content = self.read("member")
        return None if content is None else read_member(content)

    def next_incarnation(self) -> int:
        """A number higher than at every earlier start: one more, or the time. It grows even if file or clock is lost.

        Raises CoschedError if it cannot be kept.
        """
        with contextlib.suppress(CoschedError, KeyError, TypeError, ValueError):
            kept = int((self.read("incarnation") or {"last": 0})["last"])
            return self._keep(max(kept + 1, int(time.time())))
        return self._keep(int(time.time()))

    def _keep(self, incarnation: int) -> int:
        self.write("incarnation", {"last": incarnation})
        return incarnation


def default_name() -> str:
    """The default name of this node: its host name, without the domain."""
    return socket.gethostname().partition(".")[0]


def next_name(name: str) -> str:
    """A name for the next node.

    >>> next_name("node1"), next_name("lab-09"), next_name("alpha")
    ('node2', 'lab-10', 'alpha2')
    """
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return f"{stem}{int(digits) + 1:0{len(digits)}}" if digits else f"{name}2"


def keeper_name(name: str) -> str:
    """The name by which the keeper of a node's broker is known to the broker."""
    return f"keeper-{name}"


def found(files: Files, name: str, address: str, others: Mapping[str, str], life: float = LIFE) -> None:
    """Found a cluster on this node, which runs a broker at this address; `others` run one too: name -> address.
    `life`: seconds that the brokers' certificates are good for.

    Raises CoschedError (status 2) if this node has a cluster already, or a name or address cannot be.
    """
    from ctl.cluster import certificates, identity

    if files.read("member") is not None or files.read("authority") is not None:
        raise CoschedError(
            f"this node is in a cluster already: `ctl cluster leave` first, which removes {files.directory}", USAGE
        )
    brokers = {name: address, **others}
    for broker, where in brokers.items():
        _check_name(broker)
        brokers[broker] = _check_address(where)
    if len(brokers) not in (1, 3, 5):
        raise CoschedError(f"{len(brokers)} brokers cannot outvote each other: have 1, 3 or 5", USAGE)
    keys = {role: identity.Key(kind) for role, kind in _ROLES.items()}
    certificate = certificates.make_authority()
    authority = {
        "brokers": brokers,
        "seeds": {role: key.seed.hex() for role, key in keys.items()},
        "ca": certificate._asdict(),
        "life": life,
        "operator": identity.operator_token(keys["operator"], keys["system"]),
        "system": identity.system_token(keys["operator"], keys["system"]),
        "invited": {},
        "revoked": {},
    }
    authority["account"] = account(authority)
    files.write("authority", authority)
    _accept(files, _make_invitation(files, authority, name))


def invite(files: Files, name: str) -> str:
    """An invitation for a node: one word. A node may be invited again, say after it was installed anew.

    Raises CoschedError (status 2) on a node where the cluster was not founded, or for a name that cannot be.
    """
    authority = files.need("authority", "invitations are written on the node of `ctl cluster init`")
    _check_name(name)
    content = zlib.compress(json.dumps(_make_invitation(files, authority, name), separators=(",", ":")).encode(), 9)
    return MARK + base64.urlsafe_b64encode(content).decode().rstrip("=")


def join(files: Files, invitation: str) -> Member:
    """Become what the invitation says. Raises CoschedError (status 2) if it is none, or this node has a cluster."""
    present = files.read("member")
    content = _read_invitation(invitation)
    if present is not None and present.get("ca") != content["member"]["ca"]:
        raise CoschedError(
            f"this node ({present.get('name')}) is in another cluster: `ctl cluster leave` first, "
            f"which removes {files.directory}",
            USAGE,
        )
    return _accept(files, content)


def leave(files: Files) -> None:
    """Forget the cluster. After the founding node has left, no node can be invited any more."""
    for name in ("member", "broker", "authority"):
        (files.directory / f"{name}.json").unlink(missing_ok=True)


_ROLES = {"operator": "operator", **dict.fromkeys(("account", "system", "nodes", "keepers"), "account")}


def key_of(authority: Mapping[str, Any], role: str) -> Key:
    """One of the cluster's own keys: operator, account, system, nodes or keepers."""
    from ctl.cluster.identity import Key

    return Key(_ROLES[role], bytes.fromhex(authority["seeds"][role]))


def keys_of(authority: Mapping[str, Any], name: str) -> list[str]:
    """The public keys that a node's invitations have had; the first form of the file kept the last one only."""
    kept = authority["invited"].get(name, [])
    return [kept] if isinstance(kept, str) else list(kept)


def account(authority: Mapping[str, Any]) -> str:
    """A token of the cluster's account, by what the authority says now."""
    from ctl.cluster.identity import account_token

    operator, own, nodes, keepers = (key_of(authority, role) for role in ("operator", "account", "nodes", "keepers"))
    return account_token(operator, own, nodes, keepers, authority.get("revoked"))


# inside


def _make_invitation(files: Files, authority: dict[str, Any], name: str) -> dict[str, Any]:
    """The membership of a node, with a new key. Kept are its name and the public keys of all its invitations."""
    from ctl.cluster import certificates, identity

    of_cluster, user = key_of(authority, "account").public, identity.Key("user")
    member = {
        "name": name,
        "servers": list(authority["brokers"].values()),
        "ca": authority["ca"]["certificate"],
        "token": identity.user_token(key_of(authority, "nodes"), of_cluster, user, name),
        "seed": user.seed.hex(),
    }
    content: dict[str, Any] = {"member": member, "until": int(time.time()) + _JOINS_FOR}
    if name in authority["brokers"]:
        keeper = identity.Key("user")
        host = authority["brokers"][name].rpartition(":")[0]
        ca, life = certificates.Certificate(**authority["ca"]), authority.get("life", certificates.LIFE)
        content["broker"] = {
            "name": name,
            "brokers": authority["brokers"],
            "operator": authority["operator"],
            "accounts": {of_cluster: authority["account"], key_of(authority, "system").public: authority["system"]},
            "certificate": certificates.make_certificate(ca, name, host, life)._asdict(),
            "keeper": {
                **member,
                "name": keeper_name(name),
                "token": identity.user_token(key_of(authority, "keepers"), of_cluster, keeper, keeper_name(name)),
                "seed": keeper.seed.hex(),
            },
        }
    keys = [*keys_of(authority, name), user.public]
    files.write("authority", {**authority, "invited": {**authority["invited"], name: keys}})
    return content


def _read_invitation(invitation: str) -> dict[str, Any]:
    """The content of an invitation. Raises CoschedError (status 2)."""
    text = invitation.strip()
    try:
        if not text.startswith(MARK) or len(text) > LONGEST:
            raise ValueError(f"it begins with {text[:12]!r}, not {MARK!r}")
        packed = base64.urlsafe_b64decode(text.removeprefix(MARK) + "==")
        content = json.loads(zlib.decompressobj().decompress(packed, LONGEST))
        read_member(content["member"])
        if "broker" in content:
            read_member(content["broker"]["keeper"])
        until = int(content.pop("until"))
    except (ValueError, KeyError, TypeError, RecursionError, zlib.error, CoschedError) as error:
        raise CoschedError(
            f"this is no invitation, or not a whole one ({error}): `ctl cluster invite NAME`, on the first node, "
            "writes one",
            USAGE,
        ) from None
    if time.time() > until:
        ended = time.strftime("%Y-%m-%d %H:%M", time.localtime(until))
        raise CoschedError(
            f"this invitation ended on {ended}, a day after it was written: have this node invited again", USAGE
        )
    return dict(content)


def _accept(files: Files, content: dict[str, Any]) -> Member:
    if "broker" in content:
        files.write("broker", content["broker"])
    files.write("member", content["member"])
    return read_member(content["member"])


def read_member(content: Mapping[str, Any]) -> Member:
    """A membership as it is written. Raises CoschedError."""
    try:
        seed = bytes.fromhex(content["seed"])
        member = Member(content["name"], tuple(content["servers"]), content["ca"], content["token"], seed)
        if len(seed) != 32 or not check_name(member.name) or "BEGIN CERTIFICATE" not in member.ca:
            raise ValueError("its key, name or certificate is none")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CoschedError(f"the membership is damaged ({error}): have this node invited again") from None
    return member


def _check_name(name: str) -> None:
    if not check_name(name):
        raise CoschedError(f"a node cannot be called {name[:70]!r}: allowed are 1 to 63 of A-Z a-z 0-9 _ -", USAGE)


def _check_address(address: str) -> str:
    """host:port, with NATS's port by default."""
    host, colon, port = address.rpartition(":")
    if not colon or host.endswith(":") or "]" in port:
        host, port = address, str(PORT)
    if not host or not port.isdigit() or not 1 <= int(port) <= 63535:
        raise CoschedError(f"{address!r} is no address: write HOST or HOST:PORT, the port from 1 to 63535", USAGE)
    return f"{host}:{port}"

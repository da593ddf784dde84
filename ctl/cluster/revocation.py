# SPDX-License-Identifier: GPL-2.0-or-later
"""A node whose key shall count no more, say because the machine was stolen.

The cluster's account has a list of worthless keys, which is a part of the account's token. The node where the cluster
was founded signs a new token, and gives it to every broker. A broker ends the connections of those keys at once,
refuses new ones, keeps the token on its disk, and gives it to brokers that were away.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from ctl.cluster.identity import UPDATER, Key, updater_token
from ctl.cluster.link import Link, LinkError, Member
from ctl.cluster.membership import Files, account, key_of, keys_of
from ctl.errors import FAILED, USAGE, CoschedError

__all__ = ["Revoked", "revoke"]


class Revoked(NamedTuple):
    """Which brokers, by name, refuse the node from now on, and which could not be reached."""

    told: list[str]
    missed: list[str]


def revoke(files: Files, name: str) -> Revoked:
    """Make all keys of a node worthless. It may be invited again, and has another key then.

    Raises CoschedError: the node was not invited, or has a broker; or no broker could be told, and then this is to be
    done again once one runs.
    """
    authority = files.need("authority", "keys are revoked on the node of `ctl cluster init`")
    if name in authority["brokers"]:
        raise CoschedError(
            f"{name} has a broker, which holds secrets of the cluster: found the cluster anew without it", USAGE
        )
    keys = keys_of(authority, name)
    if not keys:
        invited = ", ".join(sorted(set(authority["invited"]) - set(authority["brokers"]))) or "nobody"
        raise CoschedError(f"{name} was not invited, so it has no key: invited is {invited}", USAGE)
    authority["revoked"] = dict.fromkeys(keys, int(time.time())) | authority.get("revoked", {})
    authority["account"] = account(authority)
    files.write("authority", authority)
    _keep(files, authority)
    revoked = asyncio.run(_tell(authority))
    if not revoked.told:
        raise CoschedError(
            f"no broker of {', '.join(authority['brokers'].values())} was reached, so {name} still counts: "
            f"`ctl cluster revoke {name}` once more when one runs",
            FAILED,
        )
    return revoked


def _keep(files: Files, authority: Mapping[str, Any]) -> None:
    """This node's own broker begins with the new token."""
    broker = files.read("broker")
    if broker is not None:
        broker["accounts"][key_of(authority, "account").public] = authority["account"]
        files.write("broker", broker)


async def _tell(authority: Mapping[str, Any]) -> Revoked:
    """Give the account's token to each broker."""
    system, user = key_of(authority, "system"), Key("user")
    servers = tuple(authority["brokers"].values())
    member = Member(UPDATER, servers, authority["ca"]["certificate"], updater_token(system, user), user.seed)
    subject = f"$SYS.REQ.ACCOUNT.{key_of(authority, 'account').public}.CLAIMS.UPDATE"
    revoked = Revoked([], [])
    for name, server in authority["brokers"].items():
        link = Link(member, lambda: None)
        try:
            await link.connect([server])
            answer = json.loads((await link.request(subject, authority["account"].encode())).data)
            if answer.get("data", {}).get("code") != 200:
                raise CoschedError(f"the broker at {server} does not take the new token: {answer}", FAILED)
            revoked.told.append(name)
        except LinkError:
            revoked.missed.append(name)
        finally:
            await link.close()
    return revoked

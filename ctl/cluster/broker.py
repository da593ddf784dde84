# SPDX-License-Identifier: GPL-2.0-or-later
"""A broker: nats-server as a child, set up, kept running, and its buckets made.

The broker keeps records in memory only, because every node knows its own records and writes them again. A broker that
lost its memory is complete again once its keeper, this program, has made the buckets.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ctl.cluster.directory import KEEP
from ctl.cluster.identity import MEMORY
from ctl.cluster.link import Link, LinkError, end
from ctl.cluster.membership import read_member
from ctl.cluster.wire import BUCKETS, JOBS, MAX_MESSAGE, MAX_RECORD, stream_subjects
from ctl.errors import CoschedError

__all__ = ["Broker", "configuration"]

PROGRAM = os.environ.get("COSCHED_NATS_SERVER", "/usr/sbin/nats-server")
ROUTES = 2000  # a broker's port for other brokers is so much above that for nodes: 4222, 6222
# bytes: eight times what the account may use. nats-server 2.9 reserves that twice, and refuses the second time, when
# two nodes connect in the moment in which it starts.
_RESERVE = 8 * MEMORY
_RECONCILE = "10s"  # between two looks for newer tokens at another broker
_CHECK_EVERY = 5.0  # seconds between two looks at the buckets
_AGAIN = 0.1  # seconds until the buckets are looked at again, while there are none
_PAUSE = 1.0  # seconds before a broker that ended is started again
_STOP = 5.0  # seconds to end by itself
_log = logging.getLogger("ctl.cluster.broker")


def configuration(broker: Mapping[str, Any], directory: Path, accounts: Path) -> str:
    """nats-server's configuration file, for a broker whose certificates and state are in `directory`, and whose
    accounts' tokens are kept in `accounts`.

    The file is JSON, which nats-server accepts. A message larger than any message of ours closes its connection.
    """
    host, _, port = broker["brokers"][broker["name"]].rpartition(":")
    tls = {"cert_file": str(directory / "broker.pem"), "key_file": str(directory / "broker.key")}
    settings: dict[str, Any] = {
        "server_name": broker["name"],
        "host": _listen(host),
        "port": int(port),
        "max_payload": MAX_RECORD,
        "ping_interval": "5s",
        "ping_max": 2,
        "write_deadline": "2s",
        "tls": {**tls, "timeout": 5},
        "operator": broker["operator"],
        "system_account": _system(broker),
        # a newer token of an account, which says whose keys are worthless, outlives this broker and reaches the others
        "resolver": {"type": "full", "dir": str(accounts), "allow_delete": False, "interval": _RECONCILE},
        "resolver_preload": dict(broker["accounts"]),
        "jetstream": {"store_dir": str(directory / "jetstream"), "max_memory_store": _RESERVE, "max_file_store": 0},
        "log_file": str(directory / "log"),
        "logfile_size_limit": 4 << 20,
        "max_connections": 10_000,
        "client_advertise": broker["brokers"][broker["name"]],
    }
    others = [address for name, address in broker["brokers"].items() if name != broker["name"]]
    if others:
        settings["cluster"] = {
            "name": "cosched",
            "listen": f"{_listen(host)}:{int(port) + ROUTES}",
            "tls": {**tls, "ca_file": str(directory / "ca.pem"), "verify": True, "timeout": 5},
            "routes": [f"tls://{_route(address)}" for address in others],
        }
    return json.dumps(settings, indent=1)


def _listen(host: str) -> str:
    """Where to listen: on the cluster's address only. A name may mean the loopback address here, so all for a name."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return "0.0.0.0"
    return f"[{address}]" if address.version == 6 else str(address)


def _route(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + ROUTES}"


def _system(broker: Mapping[str, Any]) -> str:
    """The public key of the system account: the operator's token names it."""
    import base64

    claims = broker["operator"].split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(claims + "=="))["nats"]["system_account"])


def _bucket(name: str, replicas: int) -> dict[str, Any]:
    """A bucket as a stream: the last value of each key. Rollup is off: with rollup a node could purge records of
    others."""
    return {
        "name": f"KV_{name}",
        "subjects": [stream_subjects(name)],
        "retention": "limits",
        "storage": "memory",
        "num_replicas": replicas,
        "max_msgs_per_subject": 1,
        "max_msg_size": MAX_RECORD if name == JOBS else MAX_MESSAGE,
        "max_age": int(KEEP * 1e9),
        "duplicate_window": int(10e9),
        "discard": "old",
        "allow_direct": True,
        "allow_rollup_hdrs": False,
        "deny_delete": True,
        "deny_purge": True,
    }


class Broker:
    """This node's broker."""

    def __init__(self, broker: Mapping[str, Any], directory: Path, accounts: Path) -> None:
        """`broker`: the content of broker.json; `directory`: for state and certificates of this broker only;
        `accounts`: for what must outlive the machine's restart."""
        self._broker = broker
        self._directory = directory
        self._accounts = accounts
        self._keeper = read_member(broker["keeper"])
        self.pid = 0
        self._started = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        """Run until cancelled; `ready` is called when the buckets are there for the first time. Raises CoschedError."""
        self._write_files()
        keeping = asyncio.create_task(self._keep(ready))
        try:
            while True:
                began = time.monotonic()
                await self._serve()
                if time.monotonic() - began < _PAUSE and not keeping.done() and not self.pid:
                    raise CoschedError(f"nats-server does not start: see {self._directory / 'start'}")
                self.pid = 0
                await asyncio.sleep(_PAUSE)
        finally:
            await end(keeping)

    def _write_files(self) -> None:
        for directory in (self._directory, self._accounts):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        certificate = self._broker["certificate"]
        contents = {
            "ca.pem": self._broker["keeper"]["ca"],
            "broker.pem": certificate["certificate"],
            "broker.key": certificate["key"],
            "nats.conf": configuration(self._broker, self._directory, self._accounts),
        }
        for name, content in contents.items():
            path = self._directory / name
            path.unlink(missing_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(content)

    async def _serve(self) -> None:
        """Run nats-server until it ends. nats-server ends when this program ends, in any way."""
        log = (self._directory / "start").open("wb")
        with log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *("setpriv", "--pdeathsig", "TERM", PROGRAM, "-c", str(self._directory / "nats.conf")),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            except FileNotFoundError:
                raise CoschedError("a broker needs setpriv (util-linux) and nats-server: install them") from None
        self.pid = process.pid
        self._started.set()
        try:
            status = await process.wait()
            _log.warning("nats-server ended with status %d; %s tells more", status, self._directory / "log")
            if status == 1:
                self.pid = 0
        finally:
            if process.returncode is None:
                await _end(process)

    # the keeper

    async def _keep(self, ready: Callable[[], None]) -> None:
        """Make missing buckets, for ever: at once when the broker has started, and now and then."""
        told = False
        while True:
            self._started.clear()
            try:
                await self._look()
            except LinkError as error:
                _log.debug("the buckets: %s", error)
                await asyncio.sleep(_AGAIN)
                continue
            if not told:
                ready()
                told = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_EVERY):
                    await self._started.wait()

    async def _look(self) -> None:
        """Make the buckets that are missing, through our own broker. Raises LinkError."""
        link = Link(self._keeper, lambda: None)
        await link.connect([self._broker["brokers"][self._broker["name"]]])
        try:
            for name in BUCKETS:
                await self._make(link, _bucket(name, len(self._broker["brokers"])))
        finally:
            await link.close()

    async def _make(self, link: Link, wanted: dict[str, Any]) -> None:
        """Make a bucket if it is not there, set it right if it is another than wanted."""
        found = json.loads((await link.request(f"$JS.API.STREAM.INFO.{wanted['name']}")).data)
        if "error" in found:
            if found["error"].get("code") != 404:
                raise LinkError(f"the broker does not tell of {wanted['name']}: {found['error'].get('description')}")
            await link.ask(f"STREAM.CREATE.{wanted['name']}", **wanted)
            _log.info("made the bucket %s", wanted["name"])
        elif any(found["config"].get(key) != value for key, value in wanted.items() if value):
            await link.ask(f"STREAM.UPDATE.{wanted['name']}", **wanted)
            _log.warning("the bucket %s was another than it should be", wanted["name"])


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _STOP)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

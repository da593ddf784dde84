# SPDX-License-Identifier: GPL-2.0-or-later
"""A broker: nats-server as a child, set up, kept running, and its buckets made.

The broker keeps records in memory only, because every node knows its own records and writes them again. A broker that
lost its memory is complete again once its keeper, this program, has made the buckets.

nats-server talks to the network, so it is not root. Under systemd the keeper is a user of the broker's own, and so is
its child. A keeper that is root itself gives the child to the user that Debian's package makes for it. What this user
may write is in folders of its own, in which root writes nothing: else a broken nats-server could lead root's writing
elsewhere by a link.

    directory/   nats.conf, ca.pem, broker.pem, broker.key; start: what nats-server says before it has a log
        server/      nats-server's: log, jetstream
    kept/        outlives the machine's restart: certificate.pem, newer than broker.json's
        accounts/    nats-server's: the accounts' tokens
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import os
import pwd
import random
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ctl.cluster.directory import KEEP
from ctl.cluster.identity import MEMORY
from ctl.cluster.link import Link, LinkError, end
from ctl.cluster.membership import read_member
from ctl.cluster.renewal import Kept
from ctl.cluster.wire import BUCKETS, JOBS, MAX_MESSAGE, MAX_RECORD, certificate_subject, stream_subjects
from ctl.errors import CoschedError

__all__ = ["Broker", "configuration"]

PROGRAM = os.environ.get("COSCHED_NATS_SERVER", "/usr/sbin/nats-server")
_USER = "nats"  # of Debian's package nats-server
ROUTES = 2000  # a broker's port for other brokers is so much above that for nodes: 4222, 6222
# bytes: eight times what the account may use. nats-server 2.9 reserves that twice, and refuses the second time, when
# two nodes connect in the moment in which it starts.
_RESERVE = 8 * MEMORY
_RECONCILE = "10s"  # between two looks for newer tokens at another broker
_LEADERLESS = 60.0  # seconds without a leader after which a bucket is made anew; choosing one took 2.5 to 22
_CHECK_EVERY = 5.0  # seconds between two looks at the buckets
_AGAIN = 0.1  # seconds until the buckets are looked at again, while there are none
_PAUSE = 1.0  # seconds before a broker that ended is started again
_STOP = 5.0  # seconds to end by itself
_NO_PROGRAM = 126, 127  # setpriv's status if nats-server cannot be executed
_log = logging.getLogger("ctl.cluster.broker")


def configuration(broker: Mapping[str, Any], directory: Path, kept: Path) -> str:
    """nats-server's configuration file, for a broker in these two folders.

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
        "resolver": {"type": "full", "dir": str(kept / "accounts"), "allow_delete": False, "interval": _RECONCILE},
        "resolver_preload": dict(broker["accounts"]),
        "jetstream": {"store_dir": str(_own(directory)), "max_memory_store": _RESERVE, "max_file_store": 0},
        "log_file": str(_own(directory) / "log"),
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


def _own(directory: Path) -> Path:
    return directory / "server"


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

    def __init__(self, broker: Mapping[str, Any], directory: Path, kept: Path) -> None:
        """`broker`: the content of broker.json; `directory`: for state and certificates of this broker only;
        `kept`: for what must outlive the machine's restart."""
        self._broker = broker
        self._directory = directory
        self._kept = kept
        self._user = _user()
        self._keeper = read_member(broker["keeper"])
        self._certificate = Kept(broker, kept / "certificate.pem", self._read_anew)
        self._leaderless: dict[str, float] = {}  # buckets, and since when by the steady clock
        self.pid = 0

    async def run(self, ready: Callable[[], None]) -> None:
        """Run until cancelled; `ready` is called when the buckets are there for the first time. Raises CoschedError."""
        self._certificate.check()
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
        """Raises CoschedError if a folder cannot be made, or a file not be written."""
        contents = {
            "ca.pem": self._broker["keeper"]["ca"],
            "broker.pem": self._certificate.present,
            "broker.key": self._broker["certificate"]["key"],
            "nats.conf": configuration(self._broker, self._directory, self._kept),
        }
        try:
            for directory in (self._directory, self._kept):
                directory.mkdir(mode=0o711, parents=True, exist_ok=True)
            for directory in (_own(self._directory), self._kept / "accounts"):
                directory.mkdir(mode=0o700, exist_ok=True)
                self._give(directory)
            for name, content in contents.items():
                self._write(name, content)
        except OSError as error:
            raise CoschedError(f"the broker cannot write its files: {error}") from None

    def _write(self, name: str, content: str) -> None:
        """Write a file that nats-server reads, and nobody else."""
        path = self._directory / name
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "w") as file:
            self._give(file.fileno())
            file.write(content)

    def _read_anew(self) -> None:
        """There is another certificate: nats-server reads it, and keeps its connections."""
        self._write("broker.pem", self._certificate.present)
        if self.pid:
            os.kill(self.pid, signal.SIGHUP)

    def _give(self, what: Path | int) -> None:
        """Make a folder or an open file nats-server's."""
        if self._user is not None:
            os.chown(what, self._user.pw_uid, self._user.pw_gid)

    async def _serve(self) -> None:
        """Run nats-server until it ends. nats-server ends when this program ends, in any way."""
        log = (self._directory / "start").open("wb")
        with log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *("setpriv", "--no-new-privs", *_as_user(self._user), "--pdeathsig", "TERM"),
                    *(PROGRAM, "-c", str(self._directory / "nats.conf")),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            except FileNotFoundError:
                raise CoschedError("a broker needs setpriv (util-linux) and nats-server: install them") from None
        self.pid = process.pid
        try:
            status = await process.wait()
            _log.warning("nats-server ended with status %d; %s tells more", status, _own(self._directory) / "log")
            if status in (1, *_NO_PROGRAM):
                self.pid = 0
        finally:
            if process.returncode is None:
                await _end(process)

    # the keeper

    async def _keep(self, ready: Callable[[], None]) -> None:
        """Stay connected to our own broker, for ever: at once when it has started."""
        told = False

        def there() -> None:
            nonlocal told
            if not told:
                ready()
            told = True

        while True:
            link = Link(self._keeper, lambda: None)
            try:
                await link.connect([self._broker["brokers"][self._broker["name"]]])
                await link.answer(certificate_subject(self._keeper.name), self._certificate.answer)
                await self._look(link, there)
            except LinkError as error:
                _log.debug("the buckets: %s", error)
            finally:
                await link.close()
            await asyncio.sleep(_AGAIN)

    async def _look(self, link: Link, there: Callable[[], None]) -> None:
        """Make the buckets that are missing, now and then until the link ends. Raises LinkError."""
        while not link.lost.is_set():
            for name in BUCKETS:
                await self._make(link, _bucket(name, len(self._broker["brokers"])))
            there()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_EVERY):
                    await link.lost.wait()

    async def _make(self, link: Link, wanted: dict[str, Any]) -> None:
        """Make a bucket if it is not there, set it right if it is another than wanted, make it anew if it can take no
        records. The nodes write theirs again."""
        found = json.loads((await link.request(f"$JS.API.STREAM.INFO.{wanted['name']}")).data)
        if "error" in found:
            if found["error"].get("code") != 404:
                raise LinkError(f"the broker does not tell of {wanted['name']}: {found['error'].get('description')}")
            await link.ask(f"STREAM.CREATE.{wanted['name']}", **wanted)
            _log.info("made the bucket %s", wanted["name"])
        elif why := self._takes_none(wanted["name"], found, time.monotonic()):
            await link.ask(f"STREAM.DELETE.{wanted['name']}")
            await link.ask(f"STREAM.CREATE.{wanted['name']}", **wanted)
            _log.warning("made the bucket %s anew: it %s, and took no records", wanted["name"], why)
        elif any(found["config"].get(key) != value for key, value in wanted.items() if value):
            await link.ask(f"STREAM.UPDATE.{wanted['name']}", **wanted)
            _log.warning("the bucket %s was another than it should be", wanted["name"])

    def _takes_none(self, name: str, found: Mapping[str, Any], now: float) -> str:
        """Why a bucket that answers takes no records, in words; empty if it does. One has no leader for a moment after
        brokers were lost; nats-server#8519 has some without one for ever, and the keepers that wait for it differ."""
        if found["config"].get("sealed"):
            return "was sealed"
        if found.get("cluster", {"leader": ""}).get("leader") is not None:
            self._leaderless.pop(name, None)
            return ""
        since = self._leaderless.setdefault(name, now + random.uniform(0, _CHECK_EVERY))
        if now - since < _LEADERLESS:
            return ""
        del self._leaderless[name]
        return f"had no leader for {_LEADERLESS:g} s"


def _user() -> pwd.struct_passwd | None:
    """Who nats-server is to be, None: the user that this program is."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_USER)
    except KeyError:
        _log.warning("there is no user %s, so the broker is root: Debian's package nats-server makes this user", _USER)
        return None


def _as_user(user: pwd.struct_passwd | None) -> tuple[str, ...]:
    """setpriv's options: no groups of root's, and no capabilities for ever."""
    if user is None:
        return ()
    ids = f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"
    return *ids, "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _STOP)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

# SPDX-License-Identifier: GPL-2.0-or-later
"""Founding a cluster, inviting and joining: files, refusals, and the secrets that each node gets."""

from __future__ import annotations

import base64
import json
import stat
import time
import zlib
from pathlib import Path

import pytest
from cryptography import x509

from ctl.cluster.broker import configuration
from ctl.cluster.membership import Files, found, invite, join, leave, next_name
from ctl.errors import USAGE, CoschedError


@pytest.fixture
def first(tmp_path: Path) -> Files:
    files = Files(tmp_path / "node1")
    found(files, "node1", "10.0.0.1", {})
    return files


def test_who_joins_gets_a_name_a_key_of_its_own_and_no_secret_of_the_cluster(first: Files, tmp_path: Path) -> None:
    second = Files(tmp_path / "node2")
    line = invite(first, "node2")
    assert len(line) < 2000
    assert set(line) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
    member = join(second, f" {line}\n")
    founder = first.member()
    assert founder is not None
    assert second.member() == member
    assert (member.name, member.servers) == ("node2", ("10.0.0.1:4222",))
    assert (member.ca, member.seed != founder.seed) == (founder.ca, True)
    assert sorted(path.name for path in second.directory.iterdir()) == ["member.json"]
    authority = first.need("authority", "")
    text = json.dumps(second.read("member"))
    secrets = [*authority["seeds"].values(), authority["ca"]["key"]]
    assert not [secret for secret in secrets if secret in text or json.dumps(secret) in text]


def test_secrets_are_for_their_owner_only(first: Files) -> None:
    assert stat.S_IMODE(first.directory.stat().st_mode) == 0o700
    for path in first.directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_two_invitations_of_one_name_have_two_keys(first: Files, tmp_path: Path) -> None:
    one, two = (join(Files(tmp_path / name), invite(first, "node2")) for name in ("a", "b"))
    assert one.seed != two.seed


def test_brokers_get_certificates_of_their_own_and_one_configuration(tmp_path: Path) -> None:
    first = Files(tmp_path / "n1")
    found(first, "n1", "10.0.0.1:5000", {"n2": "10.0.0.2", "n3": "10.0.0.3"})
    contents = []
    for name in ("n2", "n3"):
        files = Files(tmp_path / name)
        assert join(files, invite(first, name)).servers == ("10.0.0.1:5000", "10.0.0.2:4222", "10.0.0.3:4222")
        contents.append(files.need("broker", ""))
    assert contents[0]["certificate"] != contents[1]["certificate"]
    assert contents[0]["operator"] == contents[1]["operator"] == first.need("broker", "")["operator"]
    settings = json.loads(configuration(contents[0], tmp_path, tmp_path))
    assert settings["cluster"]["routes"] == ["tls://10.0.0.1:7000", "tls://10.0.0.3:6222"]
    assert settings["cluster"]["tls"]["verify"]
    seeds = first.need("authority", "")["seeds"].values()
    assert not [seed for seed in seeds if seed in json.dumps(contents)]


def test_a_broker_may_have_any_name_a_node_may(tmp_path: Path) -> None:
    """By a certificate that names its issuer, OpenSSL would take it for self-signed, and refuse the connection."""
    for name in ("cosched", "broker", "authority"):
        files = Files(tmp_path / name)
        found(files, name, "10.0.0.1", {})
        pem = files.need("broker", "")["certificate"]["certificate"]
        certificate = x509.load_pem_x509_certificate(pem.encode())
        assert certificate.subject != certificate.issuer, name


@pytest.mark.parametrize(
    ("name", "address", "others", "words"),
    [
        ("node 1", "10.0.0.1", {}, "cannot be called 'node 1'"),
        ("", "10.0.0.1", {}, "cannot be called ''"),
        ("a.b", "10.0.0.1", {}, "cannot be called 'a.b'"),
        ("node1", "", {}, "'' is no address"),
        ("node1", "10.0.0.1:x", {}, "no address"),
        ("node1", "10.0.0.1:70000", {}, "the port from 1 to 63535"),
        ("node1", "10.0.0.1", {"node2": "10.0.0.2"}, "2 brokers cannot outvote each other: have 1, 3 or 5"),
    ],
)
def test_what_no_cluster_can_be(
    tmp_path: Path, name: str, address: str, others: dict[str, str], words: str
) -> None:
    files = Files(tmp_path / "x")
    with pytest.raises(CoschedError, match=words) as refused:
        found(files, name, address, others)
    assert refused.value.status == USAGE
    assert not files.directory.exists()


def test_a_second_cluster_is_refused_until_the_first_is_left(first: Files, tmp_path: Path) -> None:
    with pytest.raises(CoschedError, match="in a cluster already"):
        found(first, "node1", "10.0.0.1", {})
    other = Files(tmp_path / "other")
    found(other, "node1", "10.0.0.9", {})
    joined = Files(tmp_path / "node2")
    join(joined, invite(first, "node2"))
    join(joined, invite(first, "node2"))  # again, with a new key
    with pytest.raises(CoschedError, match=r"this node \(node2\) is in another cluster"):
        join(joined, invite(other, "node2"))
    leave(joined)
    assert join(joined, invite(other, "node2")).servers == ("10.0.0.9:4222",)


def test_invitations_that_are_none(first: Files, tmp_path: Path) -> None:
    line = invite(first, "node2")
    empty = "cosched1-" + base64.urlsafe_b64encode(zlib.compress(b"{}")).decode()
    bomb = "cosched1-" + base64.urlsafe_b64encode(zlib.compress(b"[" * 50_000_000, 9)).decode().rstrip("=")
    for bad in ("", "hello", line[:-20], line[:40], "cosched2-" + line[9:], empty, bomb, line.replace("e", "")):
        with pytest.raises(CoschedError, match="this is no invitation, or not a whole one") as refused:
            join(Files(tmp_path / "node2"), bad)
        assert refused.value.status == USAGE
    assert not (tmp_path / "node2").exists()


def test_an_invitation_ends_after_a_day(first: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line, now = invite(first, "node2"), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86_300)
    join(Files(tmp_path / "in time"), line)
    monkeypatch.setattr(time, "time", lambda: now + 86_500)
    with pytest.raises(CoschedError, match="have this node invited again") as error:
        join(Files(tmp_path / "late"), line)
    assert error.value.status == USAGE
    assert not (tmp_path / "late").exists()


def test_only_the_first_node_invites(first: Files, tmp_path: Path) -> None:
    files = Files(tmp_path / "node2")
    join(files, invite(first, "node2"))
    with pytest.raises(CoschedError, match="invitations are written on the node of `ctl cluster init`"):
        invite(files, "node3")
    with pytest.raises(CoschedError, match="cannot be called"):
        invite(first, "node.3")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"name": "node1"}', '{"name": 1, "seed": "zz"}'])
def test_a_damaged_membership_is_told_not_guessed(first: Files, text: str) -> None:
    (first.directory / "member.json").write_text(text)
    with pytest.raises(CoschedError, match=r"again|damaged"):
        first.member()


def test_incarnations_grow_whatever_happens_to_file_or_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(tmp_path)
    now = 1_800_000_000.0
    monkeypatch.setattr("time.time", lambda: now)
    one = files.next_incarnation()
    now -= 86400
    two = files.next_incarnation()
    (tmp_path / "incarnation.json").unlink()
    now += 2 * 86400
    three = files.next_incarnation()
    (tmp_path / "incarnation.json").write_text("garbage")
    now += 5
    four = files.next_incarnation()
    assert one < two < three < four


def test_next_name() -> None:
    assert [next_name(name) for name in ("node1", "lab-09", "pc99", "alpha")] == ["node2", "lab-10", "pc100", "alpha2"]

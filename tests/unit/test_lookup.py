"""Names that only a link's neighbors are still asked for: systemd-resolved's answers, and when they count."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.survey import lookup

# systemd 252 on a lab node, queried with the flag for name servers only
NO_SERVERS = '{"error":"io.systemd.Resolve.NoNameServers","parameters":{}}'
NXDOMAIN = '{"error":"io.systemd.Resolve.DNSError","parameters":{"rcode":3}}'
SERVFAIL = '{"error":"io.systemd.Resolve.DNSError","parameters":{"rcode":2}}'
FOUND = (
    '{"parameters":{"addresses":[{"family":2,"address":[127,0,1,1]}],'
    '"name":"gpu-ubuntu1","flags":786945}}'
)
STUB = "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch .\n"


class Resolved:
    """A socket that answers as resolved did, and keeps its queries."""

    def __init__(self, place: Path) -> None:
        self.answer, self.asked, self.pause = NO_SERVERS, [], 0.0  # type: str, list[Any], float
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(place))
        self.socket.listen(8)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                there, _ = self.socket.accept()
            except OSError:
                return
            with there:
                question = there.recv(4096)
                self.asked.append(json.loads(question[:-1]))
                time.sleep(self.pause)
                with contextlib.suppress(BrokenPipeError):  # the client no longer waits
                    there.sendall(self.answer.encode() + b"\0")


@pytest.fixture
def resolved(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Resolved]:
    place = tmp_path_factory.mktemp("r") / "s"
    there = Resolved(place)
    monkeypatch.setattr(lookup, "RESOLVED", str(place))
    monkeypatch.setattr(lookup, "NEIGHBOUR_SECONDS", 0.1)
    yield there
    there.socket.close()


def configure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hosts: str, resolv: str = STUB
) -> None:
    """Configure a node's name sources."""
    (tmp_path / "nsswitch.conf").write_text(f"passwd: files\nhosts: {hosts}\n")
    (tmp_path / "resolv.conf").write_text(resolv)
    monkeypatch.setattr(lookup, "NSSWITCH", str(tmp_path / "nsswitch.conf"))
    monkeypatch.setattr(lookup, "RESOLV_CONF", str(tmp_path / "resolv.conf"))


def resolve_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve a name that neighbors are asked for, and a known one."""

    def look_up(name: str, _family: int) -> list[str]:
        if name == "known":
            return ["192.0.2.1"]
        time.sleep(30)
        return []

    monkeypatch.setattr(lookup, "look_up_name", look_up)


@pytest.mark.parametrize(
    ("hosts", "resolv", "asks"),
    [
        ("files dns", STUB, True),
        ("files resolve [!UNAVAIL=return] dns myhostname", STUB, True),
        ("files resolve", "", True),
        ("files dns", "nameserver 127.0.0.54\nnameserver 127.0.0.53\n", True),
        # the stub is one of two servers, so the other one may not answer
        ("files dns", "nameserver 127.0.0.53\nnameserver 192.0.2.53\n", False),
        ("files dns", "nameserver 192.0.2.53\n", False),
        ("files dns", "", False),
        ("files mdns4_minimal [NOTFOUND=return] dns", STUB, False),
        ("files sss dns", STUB, False),
        ("files", STUB, False),
    ],
)
def test_resolved_is_trusted_only_if_it_is_the_sole_source(
    hosts: str, resolv: str, asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, tmp_path, hosts, resolv)
    assert lookup.is_resolved_in_use() is asks


@pytest.mark.parametrize(
    ("answer", "unknown"),
    [
        (NO_SERVERS, True),
        (NXDOMAIN, True),
        (SERVFAIL, False),
        (FOUND, False),
        ("[]", False),
        ("no JSON", False),
        ('{"error":"io.systemd.Resolve.DNSError","parameters":7}', False),
    ],
)
def test_the_answer_of_resolved_is_used(resolved: Resolved, answer: str, unknown: bool) -> None:
    resolved.answer = answer
    assert lookup.is_unknown_name("name", socket.AF_INET) is unknown
    (asked,) = resolved.asked
    assert asked == {
        "method": "io.systemd.Resolve.ResolveHostname",
        "parameters": {"name": "name", "flags": 1, "family": 2},
    }


def test_an_unknown_name_is_found_before_the_deadline(
    resolved: Resolved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, tmp_path, "files dns")
    resolve_unknown(monkeypatch)
    begun = time.monotonic()
    found = lookup.look_up_names({"known": socket.AF_INET, "unknown": socket.AF_INET}, 20.0)
    assert found == {"known": ["192.0.2.1"], "unknown": []}
    assert time.monotonic() - begun < 10
    # an answered name is not queried again
    assert [one["parameters"]["name"] for one in resolved.asked] == ["unknown"]


@pytest.mark.parametrize(
    "why", ["other resolver", "server fails", "resolved is silent", "not there"]
)
def test_a_silence_of_other_servers_stays_unknown(
    why: str, resolved: Resolved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, tmp_path, "files sss dns" if why == "other resolver" else "files dns")
    resolve_unknown(monkeypatch)
    resolved.answer = SERVFAIL if why == "server fails" else NO_SERVERS
    resolved.pause = 2.0 if why == "resolved is silent" else 0.0
    if why == "not there":
        monkeypatch.setattr(lookup, "RESOLVED", str(tmp_path / "nothing"))
    assert lookup.look_up_names({"unknown": socket.AF_INET}, 0.9) == {"unknown": None}


def test_a_late_answer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(_name: str, _family: int) -> list[str]:
        time.sleep(0.3)
        return ["192.0.2.2"]

    monkeypatch.setattr(lookup, "NEIGHBOUR_SECONDS", 0.05)
    monkeypatch.setattr(lookup, "look_up_name", late)
    monkeypatch.setattr(lookup, "is_resolved_in_use", lambda: False)
    assert lookup.look_up_names({"late": socket.AF_INET}, 20.0) == {"late": ["192.0.2.2"]}

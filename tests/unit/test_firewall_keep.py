"""Other people's iptables rules, kept over firewalld's flushes; the gate between two firewalls."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.firewall import preserve as keep

BEFORE = """\
*nat
:PREROUTING ACCEPT [0:0]
-A PREROUTING -p tcp -m tcp --dport 8443 -j REDIRECT --to-ports 443
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:DOCKER - [0:0]
:EMPTY - [0:0]
-A INPUT -p tcp -m tcp --dport 7000 -j DROP
-A FORWARD -o docker0 -j DOCKER
-A DOCKER -d 172.17.0.2/32 -p tcp -m tcp --dport 80 -j ACCEPT
COMMIT
"""
FLUSHED = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\nCOMMIT\n"


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def test_what_was_flushed_is_asked_for_again_in_its_order() -> None:
    assert lines(keep.missing(BEFORE, FLUSHED)) == [
        "*nat",
        ":PREROUTING - [0:0]",
        "-A PREROUTING -p tcp -m tcp --dport 8443 -j REDIRECT --to-ports 443",
        "COMMIT",
        "*filter",
        ":DOCKER - [0:0]",
        ":EMPTY - [0:0]",
        "-A INPUT -p tcp -m tcp --dport 7000 -j DROP",
        "-A FORWARD -o docker0 -j DOCKER",
        "-A DOCKER -d 172.17.0.2/32 -p tcp -m tcp --dport 80 -j ACCEPT",
        "COMMIT",
    ]


def test_what_docker_has_put_back_by_itself_is_not_put_there_twice() -> None:
    back = BEFORE.replace("-A INPUT -p tcp -m tcp --dport 7000 -j DROP\n", "")
    assert lines(keep.missing(BEFORE, back)) == [
        "*filter",
        "-A INPUT -p tcp -m tcp --dport 7000 -j DROP",
        "COMMIT",
    ]
    assert keep.missing(BEFORE, BEFORE) == ""


class Tools:
    """iptables-save and iptables-restore."""

    def __init__(self, now: str, rc: int = 0) -> None:
        self.now = now
        self.rc = rc
        self.given: list[str] = []

    def run(self, argv: list[str]) -> tuple[int, str]:
        if argv[0].endswith("-restore"):
            self.given.append(Path(argv[-1]).read_text(encoding="utf-8"))
            return self.rc, "line 3 failed"
        return (0, self.now) if argv[0] == "iptables-save" else (127, "")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(keep, "PLACE", str(tmp_path / "kept"))
    return tmp_path


def test_the_round_trip(place: Path) -> None:
    tools = Tools(BEFORE)
    others = keep.dump(tools.run)
    assert set(others) == {"4"}
    tools.now = FLUSHED
    assert keep.restore(tools.run, others) == []
    assert "DOCKER" in tools.given[0]
    assert list(place.iterdir()) == []
    tools.rc = 1
    assert keep.restore(tools.run, others) == ["iptables-restore: line 3 failed"]


def test_without_rules_there_is_nothing_to_keep() -> None:
    assert keep.dump(Tools(FLUSHED).run) == {}
    assert keep.save(Tools("").run, {}) == []


def test_the_way_back_makes_the_tables_what_they_were_and_only_root_reads_them(place: Path) -> None:
    path = place / "kept4"
    run = Tools("").run
    assert keep.save(run, {"4": BEFORE}) == [f"test ! -e {path} || iptables-restore {path}"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert keep.saved() == {"4": BEFORE}
    keep.save(run, {})
    assert not path.exists()
    keep.forget()
    assert keep.saved() == {}


def test_chains_that_the_kernel_has_not_are_not_made() -> None:
    """iptables-save prints POSTROUTING of a table that has PREROUTING only (iptables-nft 1.8.9)."""
    text = "table ip nat {\n\tchain PREROUTING {\n\t\ttype nat hook prerouting priority -100;\n\t}\n}\n"
    real = keep.chains_of(text)
    assert real == {"ip": {"nat": {"PREROUTING"}}}
    dump = "*nat\n:PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n-A PREROUTING -j X\nCOMMIT\n"
    assert keep.exact(dump, real["ip"]) == dump.replace(":POSTROUTING ACCEPT [0:0]\n", "")
    assert keep.exact(dump, {}) == dump


def test_a_node_with_rules_of_the_second_family_only(place: Path) -> None:
    """Each step goes on past the family that has nothing."""

    def run(argv: list[str]) -> tuple[int, str]:
        answers = {"ip6tables-save": (0, FLUSHED), "ip6tables-restore": (1, "no")}
        return answers.get(argv[0], (127, ""))

    before = {"6": BEFORE}
    assert keep.restore(run, before) == ["ip6tables-restore: no"]
    assert len(keep.save(run, before)) == 1
    assert keep.saved() == before
    keep.forget()
    assert list(place.iterdir()) == []


def test_where_nft_opens_the_gate_no_library_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def library(command: str) -> tuple[int, str]:
        raise AssertionError(command)

    monkeypatch.setattr(keep.firewalld, "library", library)
    told: list[list[str]] = []

    def run(argv: list[str]) -> tuple[int, str]:
        told.append(argv)
        return 0, ""

    keep.open_gate(run)
    assert told == [["nft", "delete", "table", "inet", "fullmesh_gate"]]


def test_the_gate_lets_ssh_in_wherever_it_listens(place: Path) -> None:
    seen: list[str] = []

    def run(argv: list[str]) -> tuple[int, str]:
        seen.append(Path(argv[-1]).read_text(encoding="utf-8"))
        return 0, ""

    assert keep.shut_gate(run, [22, 2222]) == ""
    assert "tcp dport { 22, 2222 } accept" in seen[0]
    assert list(place.iterdir()) == []


def test_without_the_command_nft_the_library_makes_the_gate(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    answers = [(0, ""), (0, ""), (127, "No module named 'nftables'")]

    def library(command: str) -> tuple[int, str]:
        told.append(command)
        return answers[len(told) - 1]

    monkeypatch.setattr(keep.firewalld, "library", library)
    without = Tools("").run
    assert keep.shut_gate(without, [22]) == ""
    keep.open_gate(without)
    assert "tcp dport { 22 } accept" in told[0]
    assert told[1] == "delete table inet fullmesh_gate"
    assert "nftables" in keep.shut_gate(without, [22])
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("there", [True, False])
def test_the_way_back_opens_the_gate_with_what_the_node_has(place: Path, there: bool) -> None:
    tools = place / "bin"
    tools.mkdir()
    log = place / "log"
    for name in ("nft", "python") if there else ("python",):
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\n', encoding="utf-8")
        (tools / name).chmod(0o755)
    command = keep.opening().replace(sys.executable, "python")
    done = subprocess.run(["/bin/sh", "-c", command], env={"PATH": str(tools)}, check=True)
    assert done.returncode == 0
    said = log.read_text(encoding="utf-8")
    assert "delete table inet fullmesh_gate" in said
    assert said.startswith("nft list" if there else "python -c import nftables")

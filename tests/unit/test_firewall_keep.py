"""Foreign iptables rules survive firewalld's flushes. Also the gate between two firewalls."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.firewall import preserve
from ansible.module_utils.fullmesh.tools.nft import ListedChain
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_flushed_rules_are_restored_in_their_order() -> None:
    assert lines(preserve.build_restore_text(BEFORE, FLUSHED)) == [
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


def test_rules_that_docker_restored_are_not_added_again() -> None:
    back = BEFORE.replace("-A INPUT -p tcp -m tcp --dport 7000 -j DROP\n", "")
    assert lines(preserve.build_restore_text(BEFORE, back)) == [
        "*filter",
        "-A INPUT -p tcp -m tcp --dport 7000 -j DROP",
        "COMMIT",
    ]
    assert preserve.build_restore_text(BEFORE, BEFORE) == ""


def test_a_drop_of_the_users_stays_before_dockers_return() -> None:
    """From the review: dockerd received the signal Reloaded and wrote its own rules first."""
    head = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:DOCKER-USER - [0:0]\n-A FORWARD -j DOCKER-USER\n"
    drop, end = (
        "-A DOCKER-USER -s 203.0.113.66/32 -j DROP\n",
        "-A DOCKER-USER -j RETURN\nCOMMIT\n",
    )
    tables = Tools(head + end)
    assert preserve.restore_iptables(tables.run, {"4": head + drop + end}) == []
    assert tables.now["4"] == preserve.parse_iptables_dump(head + drop + end)
    assert lines(tables.given[0]) == [
        "*filter",
        "-F DOCKER-USER",
        drop.strip(),
        "-A DOCKER-USER -j RETURN",
        "COMMIT",
    ]


def chain_of(*rules: str) -> str:
    return "\n".join(
        ["*filter", ":INPUT DROP [0:0]", *(f"-A INPUT {one}" for one in rules), "COMMIT", ""]
    )


@pytest.mark.parametrize(
    ("then", "now", "merged"),
    [
        # two equal rules stay two
        (["log", "a", "log"], ["log", "a"], ["log", "a", "log"]),
        (["log", "log"], [], ["log", "log"]),
        (["log", "log"], ["log", "new", "log"], None),
        # what is new follows its old neighbour
        (["a", "drop", "b"], ["a", "new", "newer", "b"], ["a", "new", "newer", "drop", "b"]),
        (["drop", "b"], ["new", "b", "newer"], ["drop", "new", "b", "newer"]),
        (["drop"], ["new", "newer"], ["drop", "new", "newer"]),
        (["a", "b"], ["b", "new", "a"], ["a", "b", "new"]),
        (["a", "b"], ["a", "b", "a"], None),
    ],
)
def test_a_chain_is_restored_as_a_whole(
    then: list[str], now: list[str], merged: list[str] | None
) -> None:
    tables = Tools(chain_of(*now))
    assert preserve.restore_iptables(tables.run, {"4": chain_of(*then)}) == []
    assert tables.now["4"] == preserve.parse_iptables_dump(
        chain_of(*(now if merged is None else merged))
    )
    assert len(tables.given) == (merged is not None)
    # a built-in chain keeps its current policy, because it is never declared
    assert not any(":INPUT" in text for text in tables.given)


RULES = st.lists(st.sampled_from([f"-s 10.0.0.{n} -j X" for n in range(6)]), max_size=9)


@settings(max_examples=300)
@given(RULES, RULES)
def test_no_rule_is_lost_or_doubled_and_the_order_stays(then: list[str], now: list[str]) -> None:
    merged = preserve.merge_rules(then, now)
    assert preserve.has_rules_in_order(then, merged)
    assert Counter(merged) == Counter(then) | Counter(now)
    new = Counter(now) - Counter(then)
    assert len(merged) == len(then) + sum(new.values())
    assert preserve.build_restore_text(chain_of(*then), chain_of(*merged)) == ""
    text = preserve.build_restore_text(chain_of(*then), chain_of(*now))
    assert (text == "") == preserve.has_rules_in_order(then, now)


@pytest.mark.parametrize("family", ["4", "6"])
def test_an_order_that_another_program_breaks_each_time_is_reported(family: str) -> None:
    class Stubborn(Tools):
        def run(self, argv: list[str]) -> tuple[int, str]:
            done = super().run(argv)
            if argv[0].endswith("-restore"):
                self.now[family] = preserve.parse_iptables_dump(chain_of("b"))
            return done

    tables = Stubborn(chain_of("b"), family=family)
    tool = {"4": "iptables", "6": "ip6tables"}[family]
    assert preserve.restore_iptables(tables.run, {family: chain_of("a", "b")}) == [
        f"{tool}: the rules are not in their old order in chain INPUT of table filter"
    ]
    assert len(tables.given) == preserve.TRIES


class Tools:
    """iptables-save and iptables-restore of one family."""

    def __init__(self, now: str, rc: int = 0, family: str = "4") -> None:
        self.now = {family: preserve.parse_iptables_dump(now)}
        self.rc = rc
        self.given: list[str] = []

    def run(self, argv: list[str]) -> tuple[int, str]:
        family = "6" if argv[0].startswith("ip6") else "4"
        if argv[0].endswith("-restore"):
            assert argv[1] == "--noflush"
            self.given.append(Path(argv[-1]).read_text(encoding="utf-8"))
            if not self.rc:
                self.apply(self.now[family], self.given[-1])
            return self.rc, "line 3 failed"
        if not argv[0].endswith("-save") or family not in self.now:
            return 127, ""
        return 0, "".join(
            f"*{table}\n:{chain} - [0:0]\n" + "".join(one + "\n" for one in rules) + "COMMIT\n"
            for (table, chain), rules in self.now[family].items()
        )

    def apply(self, now: dict[tuple[str, str], list[str]], text: str) -> None:
        """Act like iptables-restore --noflush."""
        table = ""
        for line in text.splitlines():
            if line[0] == "*":
                table = line[1:]
            elif line[0] == ":":
                now.setdefault((table, line[1:].split()[0]), [])
            elif line.startswith("-F "):
                now[(table, line[3:])].clear()
            elif line.startswith("-A "):
                now[(table, line.split()[1])].append(line)


REAL = """\
*raw
-A PREROUTING -s {other} -j DROP
COMMIT
*mangle
-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
COMMIT
*nat
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s {net} ! -o docker0 -j MASQUERADE
COMMIT
*filter
:INPUT DROP [0:0]
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A INPUT -m limit --limit 5/min -j LOG --log-prefix "in: "
-A INPUT -m comment --comment "an odd \\"name\\"" -j ACCEPT
-A INPUT -m limit --limit 5/min -j LOG --log-prefix "in: "
-A FORWARD -j DOCKER-USER
-A FORWARD -o docker0 -j DOCKER
-A DOCKER-USER -s {other} -j DROP
-A DOCKER-USER -j RETURN
COMMIT
"""
# dockerd's rules after firewalld has reloaded
DOCKER = """\
*filter
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -o docker0 -j DOCKER
-A DOCKER ! -i docker0 -o docker0 -j DROP
-A DOCKER-USER -j RETURN
COMMIT
"""


class Network:
    """A separate network namespace with this machine's iptables."""

    def __init__(self, variant: str) -> None:
        self.variant = variant
        self.holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE
        )
        assert self.holder.stdout
        assert self.holder.stdout.readline()

    def run(self, argv: list[str], text: str = "") -> tuple[int, str]:
        tool, dash, verb = argv[0].partition("-")
        inside = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]
        words = [*inside, f"{tool}-{self.variant}{dash}{verb}", *argv[1:]]
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr * bool(done.returncode)


@pytest.fixture(params=["nft", "legacy"])
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    made = Network(request.param)
    yield made
    made.holder.kill()
    made.holder.communicate()


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("iptables-legacy-save"),
    reason="needs root, and both kinds of iptables",
)
def test_the_kernel_gets_the_old_order_back(network: Network) -> None:
    nets = {"iptables": ("203.0.113.66/32", "172.17.0.0/16"), "ip6tables": ("fd9::6", "fd17::/64")}
    for tool, (other, net) in nets.items():
        assert network.run([tool + "-restore"], REAL.format(other=other, net=net)) == (0, "")
    before = preserve.dump_iptables(network.run)
    assert set(before) == {"4", "6"}
    for tool in nets:
        for table in ("raw", "mangle", "nat", "filter"):
            for flag in ("-F", "-X"):
                assert network.run([tool, "-t", table, flag]) == (0, "")
        assert network.run([tool + "-restore", "--noflush"], DOCKER) == (0, "")
    assert preserve.restore_iptables(network.run, before) == []
    after = preserve.dump_iptables(network.run)
    for family, text in after.items():
        wanted, found = (
            preserve.parse_iptables_dump(before[family]),
            preserve.parse_iptables_dump(text),
        )
        wanted[("filter", "DOCKER")] += ["-A DOCKER ! -i docker0 -o docker0 -j DROP"]
        assert {key: rules for key, rules in found.items() if rules} == {
            key: rules for key, rules in wanted.items() if rules
        }
        assert ":INPUT DROP" in text
        assert text.count("--log-prefix") == 2
    assert preserve.restore_iptables(network.run, before) == []
    assert preserve.parse_iptables_dump(after["4"]) == preserve.parse_iptables_dump(
        preserve.dump_iptables(network.run)["4"]
    )


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(preserve, "PLACE", str(tmp_path / "kept"))
    return tmp_path


def test_saved_rules_are_restored(place: Path) -> None:
    tools = Tools(BEFORE)
    others = preserve.dump_iptables(tools.run)
    assert set(others) == {"4"}
    tools.now["4"] = preserve.parse_iptables_dump(FLUSHED)
    assert preserve.restore_iptables(tools.run, others) == []
    assert "DOCKER" in tools.given[0]
    assert list(place.iterdir()) == []
    tools.now["4"], tools.rc = preserve.parse_iptables_dump(FLUSHED), 1
    assert preserve.restore_iptables(tools.run, others) == ["iptables-restore: line 3 failed"]


def test_without_rules_nothing_is_saved() -> None:
    assert preserve.dump_iptables(Tools(FLUSHED).run) == {}
    assert preserve.save_iptables(Tools("").run, {}) == []


def test_the_rollback_restores_tables_readable_by_root_only(place: Path) -> None:
    path = place / "kept4"
    run = Tools("").run
    assert preserve.save_iptables(run, {"4": BEFORE}) == [
        f"test ! -e {path} || iptables-restore {path}"
    ]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert preserve.read_saved_iptables() == {"4": BEFORE}
    preserve.save_iptables(run, {})
    assert not path.exists()
    preserve.remove_saved_iptables()
    assert preserve.read_saved_iptables() == {}


def test_chains_missing_in_the_kernel_are_not_created() -> None:
    """iptables-save prints POSTROUTING for a table that only has PREROUTING (iptables-nft 1.8.9)."""
    real = preserve.map_table_chains([ListedChain("ip", "nat", "PREROUTING", [])])
    assert real == {"ip": {"nat": {"PREROUTING"}}}
    dump = "*nat\n:PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n-A PREROUTING -j X\nCOMMIT\n"
    assert preserve.drop_missing_chains(dump, real["ip"]) == dump.replace(
        ":POSTROUTING ACCEPT [0:0]\n", ""
    )
    assert preserve.drop_missing_chains(dump, {}) == dump


def test_a_node_with_rules_of_the_second_family_only(place: Path) -> None:
    """Each step skips the family without rules."""

    def run(argv: list[str]) -> tuple[int, str]:
        answers = {"ip6tables-save": (0, FLUSHED), "ip6tables-restore": (1, "no")}
        return answers.get(argv[0], (127, ""))

    before = {"6": BEFORE}
    assert preserve.restore_iptables(run, before) == ["ip6tables-restore: no"]
    assert len(preserve.save_iptables(run, before)) == 1
    assert preserve.read_saved_iptables() == before
    preserve.remove_saved_iptables()
    assert list(place.iterdir()) == []


def test_if_nft_opens_the_gate_no_library_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def library(command: str) -> tuple[int, str]:
        raise AssertionError(command)

    monkeypatch.setattr(preserve.firewalld, "run_libnftables", library)
    told: list[list[str]] = []

    def run(argv: list[str]) -> tuple[int, str]:
        told.append(argv)
        return 0, ""

    assert preserve.unblock_new_connections(run) == ""
    assert told == [["nft", preserve.OPEN]]


def test_the_gate_lets_ssh_in_wherever_it_listens(place: Path) -> None:
    seen: list[str] = []

    def run(argv: list[str]) -> tuple[int, str]:
        seen.append(Path(argv[-1]).read_text(encoding="utf-8"))
        return 0, ""

    assert preserve.block_new_connections(run, [22, 2222]) == ""
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

    monkeypatch.setattr(preserve.firewalld, "run_libnftables", library)
    without = Tools("").run
    assert preserve.block_new_connections(without, [22]) == ""
    assert preserve.unblock_new_connections(without) == ""
    assert "tcp dport { 22 } accept" in told[0]
    assert told[1] == preserve.OPEN
    assert "nftables" in preserve.block_new_connections(without, [22])
    answers.append((1, ""))
    assert preserve.unblock_new_connections(without) == "no reason given"
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("rc", [0, 1])
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (preserve.build_unblock_command, preserve.OPEN),
        (preserve.build_unblock_trial, "list tables"),
    ],
)
def test_the_rollback_opens_the_gate_with_tools_of_the_node(
    place: Path, there: bool, rc: int, command: Callable[[], str], words: str
) -> None:
    """It says so if it fails; the Python is the system's, as the guard's is, and no environment leads it astray."""
    tools = place / "bin"
    tools.mkdir()
    log = place / "log"
    script = f'#!/bin/sh\necho "$0 $*" >> {log}\nexit {rc}\n'
    for name in ("nft", "python") if there else ("python",):
        (tools / name).write_text(script, encoding="utf-8")
        (tools / name).chmod(0o755)
    text = command().replace(preserve.find_system_python(), "python")
    done = subprocess.run(["/bin/sh", "-c", text], env={"PATH": str(tools)}, check=False)
    assert done.returncode == rc
    said = log.read_text(encoding="utf-8")
    start = f"{tools}/nft {words}" if there else f"{tools}/python -I -c import nftables"
    assert said.startswith(start)
    assert words in said


@pytest.mark.parametrize(("rc", "said"), [(0, ""), (1, "Operation not permitted")])
def test_the_library_explains_why_the_gate_stays_closed(place: Path, rc: int, said: str) -> None:
    stand_in = (
        f"class Nftables:\n def cmd(self, words):\n  print(words)\n  return {rc}, '', {said!r}\n"
    )
    (place / "nftables.py").write_text(stand_in, encoding="utf-8")
    # -I takes no PYTHONPATH, and this machine may have the real one
    text = preserve.build_unblock_command().replace(" -I ", " ").replace("command -v nft", "false")
    done = subprocess.run(
        ["/bin/sh", "-c", text],
        env={"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (rc, preserve.OPEN, said)

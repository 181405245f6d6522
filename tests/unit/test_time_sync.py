"""time_sync: chrony's settings, their files, and the condition for a synchronized clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh import chrony
from ansible.module_utils.fullmesh import time_sync as fullmesh_time_sync
from ansible.module_utils.fullmesh.tools import chronyc

from fullmesh.roles import time_sync

MAIN = "/etc/chrony.conf"
DROP_INS = ["/etc/chrony/conf.d/50-fullmesh.conf"]
LINES = ["server 10.0.0.11 iburst prefer"]


@pytest.mark.parametrize(
    ("source", "address", "lines", "expected"),
    [
        ("distribution", "10.0.0.12", [], []),
        ("servers", "10.0.0.12", ["server 192.0.2.1 iburst prefer"], ["192.0.2.1"]),
        ("leader", "10.0.0.12", LINES, ["10.0.0.11"]),
        ("leader", "10.0.0.11", ["local stratum 10", "allow 10.0.0.11", "allow 10.0.0.12"], []),
    ],
)
def test_the_configuration_of_chrony(
    source: str, address: str, lines: list[str], expected: list[str]
) -> None:
    servers = ["192.0.2.1"] if source == "servers" else []
    peers = ["10.0.0.12", "10.0.0.11"]
    assert time_sync.render_chrony_lines(source, servers, "10.0.0.11", address, peers) == lines
    assert time_sync.list_expected_sources(source, servers, "10.0.0.11", address) == expected


def test_names_are_not_expected_by_address() -> None:
    assert time_sync.list_expected_sources("servers", ["a.example", "192.0.2.1"], "", "") == []


@pytest.mark.parametrize(
    ("source", "servers", "wait", "codes"),
    [
        ("distribution", [], 60, []),
        ("servers", ["time.example.org", "fd00::1"], 60, []),
        ("servers", [], 60, ["TS-101"]),
        ("leader", ["192.0.2.1"], 60, ["TS-102"]),
        ("servers", ["no name"], 60, ["TS-106"]),
        ("leader", [], 0, ["TS-107"]),
    ],
)
def test_settings_that_cannot_work(
    source: str, servers: list[str], wait: int, codes: list[str]
) -> None:
    assert [fault.code for fault in time_sync.find_time_sync_faults(source, servers, wait)] == codes


def test_a_drop_in_where_the_configuration_reads_it() -> None:
    main = "pool x\nconfdir /etc/chrony/conf.d # y\n"
    files = chrony.build_chrony_files(MAIN, main, DROP_INS, LINES)
    assert files == {MAIN: main, DROP_INS[0]: f"{chrony.HEAD}\n{LINES[0]}\n"}


@pytest.mark.parametrize("main", ["pool x\n", "#confdir /etc/chrony/conf.d\n", "confdir /run/x\n"])
def test_a_block_where_it_does_not(main: str) -> None:
    files = chrony.build_chrony_files(MAIN, main, DROP_INS, LINES)
    assert files == {MAIN: f"{main}{chrony.BEGIN}\n{LINES[0]}\n{chrony.END}\n", DROP_INS[0]: ""}
    assert chrony.build_chrony_files(MAIN, files[MAIN], DROP_INS, LINES) == files
    assert chrony.build_chrony_files(MAIN, files[MAIN], DROP_INS, []) == {
        MAIN: main,
        DROP_INS[0]: "",
    }


OTHERS = """# Use public servers
pool 2.debian.pool.ntp.org iburst
  Server 192.0.2.1
sourcedir /run/chrony-dhcp
driftfile /var/lib/chrony/drift

makestep 1 3
confdir /etc/chrony/conf.d
"""


def test_only_our_sources_are_used_and_the_old_ones_return() -> None:
    files = chrony.build_chrony_files(MAIN, OTHERS, DROP_INS, LINES, only=True)
    told = [line.split() for line in files[MAIN].splitlines()]
    assert not {"pool", "server", "sourcedir"} & {words[0].lower() for words in told if words}
    assert ["makestep", "1", "3"] in told
    assert files[DROP_INS[0]].endswith(LINES[0] + "\n")
    assert chrony.build_chrony_files(MAIN, files[MAIN], DROP_INS, LINES, only=True) == files
    assert chrony.build_chrony_files(MAIN, files[MAIN], DROP_INS, [])[MAIN] == OTHERS


def test_only_our_sources_are_used_without_drop_ins() -> None:
    main = "pool x\n"
    files = chrony.build_chrony_files(MAIN, main, DROP_INS, LINES, only=True)
    assert files[MAIN] == f"{chrony.MUTED}pool x\n{chrony.BEGIN}\n{LINES[0]}\n{chrony.END}\n"
    assert chrony.build_chrony_files(MAIN, files[MAIN], DROP_INS, LINES, only=True) == files
    assert chrony.build_chrony_files(MAIN, files[MAIN], DROP_INS, [])[MAIN] == main


def test_a_clock_without_any_source_is_refused() -> None:
    assert [
        one.code
        for one in time_sync.find_time_sync_faults(
            "distribution", [], 60, disable_other_sources=True
        )
    ] == ["TS-108"]
    assert not time_sync.find_time_sync_faults("leader", [], 60, disable_other_sources=True)


TRACKING = "0A00000B,10.0.0.11,11,1795186826.8,0.000001,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,{}"
SOURCE = "^,{},{},10,6,{},3,0.1,0.2,0.3"


@pytest.mark.parametrize(
    ("leap", "sources", "expected", "why"),
    [
        ("Normal", [SOURCE.format("*", "10.0.0.11", "17")], ["10.0.0.11"], ""),
        ("Normal", [], [], ""),
        ("Not synchronised", [SOURCE.format("?", "10.0.0.11", "1")], ["10.0.0.11"], "10.0.0.11 ?"),
        ("Normal", [SOURCE.format("?", "10.0.0.11", "0")], ["10.0.0.11"], "no answer yet"),
        ("Normal", [SOURCE.format("*", "192.0.2.1", "7")], ["10.0.0.11"], "answering: 192.0.2.1"),
    ],
)
def test_when_a_clock_is_synchronised(
    leap: str, sources: list[str], expected: list[str], why: str
) -> None:
    tracking = chronyc.parse_tracking(TRACKING.format(leap))
    result = chrony.explain_unsynchronised(
        tracking, chronyc.parse_sources("\n".join(sources)), expected
    )
    assert (why in result) if why else (result == "")


def test_a_chronyd_without_an_answer_is_reported() -> None:
    tracking = chronyc.parse_tracking("506 Cannot talk to daemon")
    assert chrony.explain_unsynchronised(tracking, [], []) == "chronyd does not answer"


def test_the_offset_is_seconds() -> None:
    assert chronyc.parse_tracking(TRACKING.format("Normal"))["offset"] == pytest.approx(1e-6)


HOST_MAP = "         0          0 4294967295\n"
MAY_SET_CLOCK = chrony.can_set_clock  # itself: a fixture puts another in its place
ALL = "CapBnd:\t000001ffffffffff\n"


@pytest.mark.parametrize(
    ("status", "uid_map", "bounding", "may"),
    [
        (ALL, HOST_MAP, "cap_chown cap_sys_time", True),
        (ALL, HOST_MAP, "", True),
        ("", "", "", True),
        ("CapBnd:\t00000000a80425fb\n", HOST_MAP, "cap_sys_time", False),
        (ALL, "0 100000 65536\n", "cap_sys_time", False),
        (ALL, HOST_MAP, "cap_chown", False),
    ],
)
def test_clients_that_may_set_the_clock(
    status: str, uid_map: str, bounding: str, may: bool
) -> None:
    assert MAY_SET_CLOCK(status, uid_map, bounding) is may


@pytest.mark.parametrize(
    ("unit", "command"),
    [
        ("ExecStart=!/usr/sbin/chronyd $DAEMON_OPTS", "!/usr/sbin/chronyd $DAEMON_OPTS"),
        (
            "ExecStart=/a\n# x\nExecStart=\nExecStart=/usr/sbin/chronyd -F 2",
            "/usr/sbin/chronyd -F 2",
        ),
        ("ExecStart=!/usr/lib/systemd/scripts/chronyd-starter.sh $DAEMON_OPTS", ""),
        ("", ""),
    ],
)
def test_how_a_unit_starts_chrony(unit: str, command: str) -> None:
    assert chrony.find_chronyd_command(unit) == command


class Machine:
    """Simulate systemctl and chronyc."""

    def __init__(self) -> None:
        self.active: list[str] = []
        self.asked: list[str] = []
        self.tracking = TRACKING.format("Normal")
        self.refuses = ""

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        joined = " ".join(command)
        self.asked.append(joined)
        if self.refuses and self.refuses in joined:
            return 1, "", "no"
        if command[:2] == ["systemctl", "show"]:
            units = command[command.index("--") + 1 :]
            return 0, "\n".join(self.show(unit) for unit in units), ""
        if command[0] == "chronyc":
            return 0, self.tracking if "tracking" in joined else "", ""
        if "restart" in joined:
            self.active.append(command[-1])
        if "disable" in joined:
            self.active.remove(command[-1])
        return 0, "", ""

    def show(self, unit: str) -> str:
        states = ("active", "enabled") if unit in self.active else ("inactive", "disabled")
        return "LoadState=loaded\nActiveState={}\nUnitFileState={}\nMainPID=0\n".format(*states)


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "chrony.conf").write_text(f"confdir {tmp_path}/conf.d\n")
    return {
        "config": f"{tmp_path}/chrony.conf",
        "drop_ins": [f"{tmp_path}/conf.d/50-fullmesh.conf"],
        "lines": LINES,
        "only": False,
        "unit": "chrony.service",
        "unit_drop_in": f"{tmp_path}/unit.d/50-fullmesh.conf",
        "displaced": ["systemd-timesyncd.service"],
        "expected": [],
        "wait_seconds": 0,
    }


@pytest.fixture(autouse=True)
def free_to_set_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fullmesh_time_sync.chrony, "can_set_clock", lambda *_: True)


def test_the_module_displaces_and_starts_once(params: dict[str, Any]) -> None:
    machine = Machine()
    machine.active = ["systemd-timesyncd.service"]
    checked = fullmesh_time_sync.ChronySync(machine, params, True).converge()
    assert (checked["changed"], Path(params["drop_ins"][0]).exists()) == (True, False)
    first = fullmesh_time_sync.ChronySync(machine, params, False).converge()
    assert (first["changed"], first["files"]) == (True, params["drop_ins"])
    assert machine.active == ["chrony.service"]
    asked = len(machine.asked)
    assert fullmesh_time_sync.ChronySync(machine, params, False).converge()["changed"] is False
    assert not [word for word in machine.asked[asked:] if "restart" in word]


def test_without_lines_our_file_is_removed(params: dict[str, Any]) -> None:
    machine = Machine()
    fullmesh_time_sync.ChronySync(machine, params, False).converge()
    result = fullmesh_time_sync.ChronySync(machine, params | {"lines": []}, False).converge()
    assert (result["changed"], result["files"]) == (True, [])
    assert not Path(params["drop_ins"][0]).exists()


def test_a_node_that_may_not_set_the_clock_gets_x(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fullmesh_time_sync.chrony, "can_set_clock", lambda *_: False)
    monkeypatch.setattr(
        fullmesh_time_sync.chrony, "find_chronyd_command", lambda _: "!/usr/sbin/chronyd $OPTIONS"
    )
    machine = Machine()
    fullmesh_time_sync.ChronySync(machine, params, False).converge()
    assert "ExecStart=!/usr/sbin/chronyd $OPTIONS -x" in Path(params["unit_drop_in"]).read_text()
    assert fullmesh_time_sync.ChronySync(machine, params, False).converge()["changed"] is False


def test_a_service_that_does_not_start_is_named(params: dict[str, Any]) -> None:
    machine = Machine()
    machine.refuses = "restart"
    with pytest.raises(fullmesh_time_sync.ChronySyncError, match="TS-103"):
        fullmesh_time_sync.ChronySync(machine, params, False).converge()


def test_a_clock_without_source_is_named(params: dict[str, Any]) -> None:
    machine = Machine()
    machine.tracking = TRACKING.format("Not synchronised")
    with pytest.raises(fullmesh_time_sync.ChronySyncError, match=r"TS-104.*follows no source"):
        fullmesh_time_sync.ChronySync(machine, params, False).converge()

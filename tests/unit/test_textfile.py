"""fullmesh.prom: the metrics of a verification, their file, and the exporter that reads it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import verification_textfile
from ansible.module_utils.fullmesh import node_exporter
from hypothesis import given
from hypothesis import strategies as st
from report_samples import HOSTILE, build_result, hostile, large, make_dropped_link

from fullmesh.filters.observe import verify_cluster
from fullmesh.result import textfile

# A line of a gauge, as in the documentation of the text format ("Exposition formats").
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
HELP = re.compile(rf"# HELP ({NAME}) ((?:[^\\\n]|\\\\|\\n)*)")
TYPE = re.compile(rf"# TYPE ({NAME}) gauge")
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
# no third word, because node_exporter rejects a file with timestamps
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
ONE_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\.)*)"')
BACK = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Labels = frozenset[tuple[str, str]]


def parse_metrics(text: str) -> dict[str, dict[Labels, float]]:
    """Parse a file in which every line follows the format: metric -> labels -> value."""
    found: dict[str, dict[Labels, float]] = {}
    said: list[str] = []
    assert text.endswith("\n")
    for line in text.split("\n")[:-1]:
        if match := HELP.fullmatch(line):
            said.append(match[1])
        elif match := TYPE.fullmatch(line):
            # one HELP, then one TYPE, then all lines of that name
            assert said[-1] == match[1]
            assert match[1] not in found
            found[match[1]] = {}
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == said[-1], "the lines of one metric stand together"
            labels = frozenset(
                (key, re.sub(r"\\.", lambda one: BACK[one[0]], held))
                for key, held in ONE_LABEL.findall(match[2] or "")
            )
            assert labels not in found[match[1]], "each series occurs once"
            found[match[1]][labels] = float(match[3])
    assert len(said) == len(set(said))
    assert set(said) == set(found)
    return found


def series(found: dict[str, dict[Labels, float]], name: str, **labels: str) -> float:
    return found["fullmesh_" + name][frozenset(labels.items())]


def test_a_healthy_cluster_has_all_its_metrics() -> None:
    found = parse_metrics(textfile.render_textfile(build_result(), "el1"))
    assert series(found, "verification_timestamp_seconds") == 1767323055
    assert series(found, "verification_duration_seconds") == 9.5
    assert series(found, "verification_ok") == series(found, "verification_node_ok") == 1
    assert series(found, "cluster_world_size") == 3
    assert len(found["fullmesh_verification_rung_status"]) == 9 * 4
    for check in build_result()["rungs"]:
        held = {
            one: series(found, "verification_rung_status", rung=check["id"], status=one)
            for one in ("passed", "failed", "skipped", "not_run")
        }
        assert [one for one in held if held[one]] == [check["status"]]
    links = found["fullmesh_verification_link_ok"]
    assert set(links.values()) == {1}
    assert {(dict(one)["peer"], dict(one)["direction"]) for one in links} == {
        (peer, way) for peer in ("ubuntu1", "ubuntu2") for way in ("in", "out")
    }
    rtt = series(found, "verification_link_rtt_seconds", peer="ubuntu1", direction="out")
    assert rtt == pytest.approx(0.0001)


def test_rates_are_in_base_units() -> None:
    found = parse_metrics(textfile.render_textfile(build_result(), "el1"))
    rates, name = build_result()["collectives"], "verification_allreduce_bus_bytes_per_second"
    assert series(found, name, backend="gloo") == pytest.approx(rates["bus_gbit_s"] * 1e9 / 8)
    # for the largest message, and the latency of the smallest
    assert series(found, name, backend="nccl") == pytest.approx(5.9e9 / 8)
    name = "verification_allreduce_latency_seconds"
    assert series(found, name, backend="gloo") == pytest.approx(210e-6)
    assert series(found, name, backend="nccl") == pytest.approx(90e-6)


def test_unmeasured_values_are_absent() -> None:
    result = build_result()
    result["collectives"] = {}
    result["links"] = []
    for check in result["rungs"]:
        check["details"] = {}
    names = set(parse_metrics(textfile.render_textfile(result, "el1")))
    assert not [one for one in names if "allreduce" in one or "link" in one]


def test_a_broken_link_is_exported_on_both_nodes() -> None:
    result = make_dropped_link()
    (finding,) = [one for one in result["findings"] if one["severity"] == "error"]
    found = {
        name: parse_metrics(textfile.render_textfile(result, name)) for name in result["nodes"]
    }
    for name, held in found.items():
        assert series(held, "verification_ok") == 0
        assert series(held, "verification_rung_status", rung="L2", status="failed") == 1
        blamed = name == finding["node"]
        assert series(held, "verification_node_ok") == (not blamed)
        assert series(held, "verification_findings", severity="error") == blamed
    name = "verification_link_ok"
    assert series(found["el1"], name, peer="ubuntu1", direction="out") == 0
    assert series(found["ubuntu1"], name, peer="el1", direction="in") == 0
    assert series(found["ubuntu1"], name, peer="el1", direction="out") == 1
    assert 0 not in found["ubuntu2"]["fullmesh_verification_link_ok"].values()


def test_warnings_break_no_verdict() -> None:
    result = make_dropped_link()
    for finding in result["findings"]:
        finding |= {"severity": "warning", "node": "el1"}
    found = parse_metrics(textfile.render_textfile(result, "el1"))
    assert series(found, "verification_findings", severity="warning") == len(result["findings"])
    assert series(found, "verification_node_ok") == 1


def test_a_large_cluster_stays_small_on_each_node() -> None:
    result = large(64, broken=False)
    found = parse_metrics(textfile.render_textfile(result, "gpu-000"))
    assert len(found["fullmesh_verification_link_ok"]) == 2 * 63
    assert sum(map(len, found.values())) < 400


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_label_values_only(text: str) -> None:
    result = hostile(text)
    node = next(iter(result["nodes"]))
    found = parse_metrics(textfile.render_textfile(result, node))
    assert {"fullmesh_verification_ok", "fullmesh_verification_link_ok"} <= found.keys()


@given(st.text())
def test_every_text_survives_as_a_label(text: str) -> None:
    (match,) = ONE_LABEL.findall(textfile.format_labels({"peer": text}))
    shown = re.sub(r"\\.", lambda one: BACK[one[0]], match[1])
    assert shown == text.encode("utf-8", "replace").decode()
    assert "\n" not in match[1]


@pytest.mark.parametrize(
    ("value", "text"), [(True, "1"), (0, "0"), (9.5, "9.5"), (1767323055.25, "1767323055.25")]
)
def test_numbers_are_written_in_prometheus_format(value: float, text: str) -> None:
    assert textfile.format_metric_value(value) == text


def test_the_filter_reads_a_result_and_refuses_anything_else() -> None:
    given_ = verify_cluster.ladder_textfile
    assert given_(build_result(), "el1") == textfile.render_textfile(build_result(), "el1")
    with pytest.raises(
        Exception, match=r"the verification has a different format than expected: .*run"
    ):
        given_({**build_result(), "run": 1}, "el1")


# --- the exporter that reads it ----------------------------------------------------------------

USUAL = "/var/lib/prometheus/node-exporter"
PACKAGED, BY_HAND = "/usr/bin/prometheus-node-exporter", "/usr/local/bin/node_exporter"


SERVICES = {"3", "70", "71"}


def process(
    root: Path, pid: int, program: str, *words: str, inside: str = "", uid: int = 109
) -> None:
    """Make a process in *root* that sees *inside* as its own root."""
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True)
    (folder / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (folder / "exe").symlink_to(program)
    (folder / "cmdline").write_bytes("\0".join((program, *words, "")).encode())
    (folder / "root").symlink_to(inside or root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc/sys").mkdir(parents=True)
    (tmp_path / "proc/2").mkdir()  # a kernel thread has no program
    process(tmp_path, 3, "/usr/lib/systemd/systemd")
    (tmp_path / "srv/text").mkdir(parents=True)
    return tmp_path


def find_default_folder(
    root: Path, packaged: bool = False, named: str = "", help_text: str = ""
) -> node_exporter.TextfileTarget:
    def reads(program: str) -> str:
        assert program == PACKAGED, "only the distribution's program is run"
        return node_exporter.parse_default_folder(help_text)

    return node_exporter.choose_textfile_folder(
        node_exporter.find_exporters(SERVICES, str(root)), packaged, named, USUAL, reads
    )


def test_without_an_exporter_the_usual_folder_is_used(root: Path) -> None:
    assert find_default_folder(root) == {"own": False, "program": "", "folder": USUAL, "fault": ""}


@pytest.mark.parametrize(
    "words",
    [
        ("--collector.textfile.directory=/srv/text",),
        ("--web.listen-address=:9200", "--collector.textfile.directory", "/srv/text/"),
        ("-collector.textfile.directory=/srv/text", "--collector.textfile.directory=/srv/more"),
    ],
)
def test_the_users_own_is_found_with_its_folder(root: Path, words: tuple[str, ...]) -> None:
    process(root, 70, BY_HAND, *words)
    assert find_default_folder(root) == {
        "own": True,
        "program": BY_HAND,
        "folder": "/srv/text",
        "fault": "",
    }


def test_an_exporter_replaced_by_an_update_is_found(root: Path) -> None:
    process(root, 70, BY_HAND + " (deleted)", "--collector.textfile.directory=/srv/text")
    assert find_default_folder(root)["program"] == BY_HAND


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "reads no text files"),
        (("--collector.textfile.directory=relative",), "reads no text files"),
        (
            ("--collector.textfile.directory=/srv/text", "--no-collector.textfile"),
            "reads no text files",
        ),
        (("--collector.textfile.directory=/srv/gone",), "reads text files from /srv/gone"),
    ],
)
def test_the_users_own_that_reads_no_folder_is_named(
    root: Path, words: tuple[str, ...], says: str
) -> None:
    process(root, 70, BY_HAND, *words)
    found = find_default_folder(root)
    assert (found["own"], found["folder"]) == (True, "")
    assert found["fault"].startswith(f"[MT-105] {BY_HAND} ")
    assert says in found["fault"]


def test_a_container_reads_another_folder_of_the_same_name(root: Path, tmp_path: Path) -> None:
    inside = tmp_path / "image"
    (inside / "srv/text").mkdir(parents=True)
    process(
        root,
        70,
        "/bin/node_exporter",
        "--collector.textfile.directory=/srv/text",
        inside=str(inside),
    )
    assert "[MT-105]" in find_default_folder(root)["fault"]
    named = find_default_folder(root, named="/srv/text")
    assert named == {"own": True, "program": "", "folder": "/srv/text", "fault": ""}


@pytest.mark.parametrize(
    ("said", "folder"),
    [
        # the three forms that versions print
        (f'  --collector.textfile.directory="{USUAL}"  \n   Directory', USUAL),
        (f"  --collector.textfile.directory={USUAL} ...  Directory", USUAL),
        ('  --collector.textfile.directory=""  \n', ""),
        ("no such program", ""),
    ],
)
def test_the_distributions_exporter_names_its_folder(root: Path, said: str, folder: str) -> None:
    process(root, 70, PACKAGED)
    found = find_default_folder(root, packaged=True, help_text=said)
    assert (found["own"], found["folder"]) == (False, folder)
    assert bool(found["fault"]) == (not folder)


def test_a_folder_in_the_distributions_arguments_counts_more(root: Path) -> None:
    process(root, 70, PACKAGED, "--collector.textfile.directory=/srv/text")
    assert find_default_folder(root, packaged=True)["folder"] == "/srv/text"
    # another vendor's package with a program of the same name
    assert find_default_folder(root, packaged=False)["own"]


def test_the_distributions_exporter_wins_if_both_run(root: Path) -> None:
    process(root, 70, BY_HAND)
    process(root, 71, PACKAGED, "--collector.textfile.directory=/srv/text")
    assert find_default_folder(root, packaged=True)["program"] == PACKAGED


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    shells = {109: "/usr/sbin/nologin", 1001: "/bin/bash", 1002: "/bin/false", 998: "/bin/sh"}

    def entry(uid: int) -> Any:
        return node_exporter.pwd.struct_passwd((f"u{uid}", "x", uid, uid, "", "/", shells[uid]))

    monkeypatch.setattr(node_exporter.pwd, "getpwuid", entry)


@pytest.mark.parametrize(
    ("pid", "uid", "believed"),
    [
        (70, 109, True),
        (70, 1002, True),
        (70, 998, True),
        (70, 61234, True),  # DynamicUser= has no entry
        (70, 1001, False),
        (72, 109, False),
        (72, 0, False),
    ],
)
def test_only_a_service_of_no_login_account_is_believed(
    root: Path, accounts: None, pid: int, uid: int, believed: bool
) -> None:
    process(root, pid, BY_HAND, "--collector.textfile.directory=/srv/text", uid=uid)
    (found,) = node_exporter.find_exporters(SERVICES, str(root))
    assert found["service"] is believed
    folder = "/srv/text" if believed else USUAL
    assert find_default_folder(root) == {
        "own": believed,
        "program": BY_HAND * believed,
        "folder": folder,
        "fault": "",
    }


def test_a_foreign_listener_is_refused_unless_a_service_runs(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(root, 72, BY_HAND, "--collector.textfile.directory=/srv/text")
    monkeypatch.setattr(
        node_exporter, "is_listening", lambda pid, port: (pid, port) == ("72", 9100)
    )
    fault = find_default_folder(root)["fault"]
    assert fault.startswith(f"[MT-109] {BY_HAND} (process 72) listens on 9100/tcp")
    assert find_default_folder(root, named="/srv/text")["fault"] == ""
    process(root, 71, PACKAGED, "--collector.textfile.directory=/srv/text")
    assert find_default_folder(root, packaged=True) == {
        "own": False,
        "program": PACKAGED,
        "folder": "/srv/text",
        "fault": "",
    }


def test_the_distributions_program_started_by_an_account_is_no_service(root: Path) -> None:
    process(root, 72, PACKAGED, "--collector.textfile.directory=/srv/text", uid=1001)
    seen = node_exporter.find_exporters(SERVICES, str(root))
    assert node_exporter.find_packaged_exporters(seen, packaged=True) == []


def test_systemd_names_the_main_processes() -> None:
    asked: list[list[str]] = []

    def run(argv: list[str]) -> tuple[int, str, str]:
        asked.append(argv)
        return 0, "MainPID=0\n\nMainPID=812\n\nMainPID=71\n", ""

    assert node_exporter.list_main_processes(run) == {"812", "71"}
    assert asked[0][-1] == "*.service"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert node_exporter.check_textfile_folder(str(tmp_path)) == ""
    gone = node_exporter.check_textfile_folder(str(tmp_path / "gone"))
    assert gone.startswith(f"[MT-106] {tmp_path}/gone is not a folder")


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a folder away")
def test_a_folder_that_others_can_change_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    folder.chmod(0o775)
    os.chown(folder, 0, 65534)
    fault = node_exporter.check_textfile_folder(str(folder))
    assert fault.startswith(f"[MT-110] root cannot safely write text files: {folder} belongs to")
    assert f"chmod go-w {folder}" in fault
    os.chown(folder, 65534, 65534)
    assert node_exporter.check_textfile_folder(str(folder)) == ""
    (tmp_path / "link").symlink_to(folder)
    assert node_exporter.check_textfile_folder(str(tmp_path / "link")) == ""
    (folder / "link").symlink_to(tmp_path)
    assert "[MT-110]" in node_exporter.check_textfile_folder(str(folder / "link"))


# --- the module ---------------------------------------------------------------------------------


class EndedError(Exception):
    """Raised at the point where Ansible would end a module."""


class Module:
    """The parts of AnsibleModule that this module uses."""

    def __init__(self, **params: Any) -> None:
        usual = {"state": "looked", "folder": "", "usual": USUAL, "content": "", "wait": 0}
        named = {"package": "node-exporter", "unit": "prometheus-node-exporter.service"}
        self.params = {**usual, **named, **params}
        self.check_mode = bool(params.get("check_mode"))
        self.warned: list[str] = []
        self.answer: dict[str, Any] = {}
        self.run_command_environ_update: dict[str, str] = {}

    def run_command(self, command: list[str], **_: Any) -> tuple[int, str, str]:
        return 1, "", f"{command[0]}: no"

    def warn(self, text: str) -> None:
        self.warned.append(text)

    def fail_json(self, msg: str) -> None:
        raise EndedError(msg)

    def exit_json(self, **answer: Any) -> None:
        self.answer = answer


def record_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **params: Any) -> Module:
    made = Module(**params)
    monkeypatch.setattr(verification_textfile, "AnsibleModule", lambda **_: made)
    node_class = verification_textfile.NodeSystem
    monkeypatch.setattr(
        verification_textfile, "NodeSystem", lambda _, run: node_class(str(tmp_path / "node"), run)
    )
    monkeypatch.setattr(
        verification_textfile.node_exporter, "find_exporters", lambda _: params.get("seen", [])
    )
    verification_textfile.main()
    return made


def test_the_file_is_written_atomically_and_recorded_for_undo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "node" / "text"
    folder.mkdir(parents=True)
    (folder / "foreign.prom").write_text("foreign 1\n")
    steps: list[str] = []
    put = verification_textfile.write_file_atomically
    monkeypatch.setattr(
        verification_textfile, "remember_state", lambda *_, **__: steps.append("remembered")
    )
    monkeypatch.setattr(
        verification_textfile,
        "write_file_atomically",
        lambda *all_: (steps.append("written"), put(*all_)),
    )
    monkeypatch.setattr(
        verification_textfile, "record_written_files", lambda *_, **__: steps.append("noted")
    )
    done = record_commands(
        monkeypatch, tmp_path, state="written", folder=str(folder), content="fullmesh 1\n"
    )
    path = folder / "fullmesh.prom"
    assert done.answer == {"changed": True, "own": True, "program": "", "path": str(path)}
    assert path.read_text() == "fullmesh 1\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert steps == ["remembered", "written", "noted"]
    assert sorted(os.listdir(folder)) == ["foreign.prom", "fullmesh.prom"]


def test_no_exporter_reads_the_temporary_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ansible.module_utils.fullmesh import files  # noqa: PLC0415 (the module's own instance)

    names: list[tuple[str, str]] = []
    rename = os.rename
    monkeypatch.setattr(files.os, "rename", lambda a, b: (names.append((a, b)), rename(a, b)))
    files.write_file_atomically(str(tmp_path / "fullmesh.prom"), "x 1\n", 0o644)
    ((aside, path),) = names
    assert not aside.endswith(".prom")
    assert path.endswith("/fullmesh.prom")
    assert os.path.dirname(aside) == os.path.dirname(path)


def test_check_mode_writes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = record_commands(
        monkeypatch, tmp_path, state="written", folder=str(tmp_path), content="x", check_mode=True
    )
    assert done.answer["changed"]
    assert os.listdir(tmp_path) == []


def test_a_failed_write_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(verification_textfile, "write_file_atomically", full)
    monkeypatch.setattr(verification_textfile, "remember_state", lambda *_, **__: None)
    done = record_commands(
        monkeypatch, tmp_path, state="written", folder=str(tmp_path), content="x"
    )
    assert not done.answer["changed"]
    (warned,) = done.warned
    assert warned.startswith("[MT-108] ")
    assert "No space left on device" in warned


def test_a_missing_folder_is_refused_by_the_role_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = str(tmp_path / "gone")
    with pytest.raises(EndedError, match=r"\[MT-106\]"):
        record_commands(monkeypatch, tmp_path, folder=gone)
    done = record_commands(monkeypatch, tmp_path, state="written", folder=gone, content="x")
    assert done.answer == {"changed": False, "own": True, "program": "", "path": ""}
    assert "[MT-106]" in done.warned[0]
    # the folder of the distribution, which is missing before its package is installed
    assert (
        record_commands(monkeypatch, tmp_path, usual=gone).answer["path"] == f"{gone}/fullmesh.prom"
    )


def test_an_exporter_that_does_not_listen_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(verification_textfile, "PAUSE", 0.01)
    with pytest.raises(
        EndedError, match=r"\[MT-107\] prometheus-node-exporter.service was started"
    ):
        record_commands(monkeypatch, tmp_path, wait=1)


def test_an_exporter_that_listens_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listener = {
        "pid": "1",
        "service": True,
        "program": PACKAGED,
        "folders": [str(tmp_path)],
        "elsewhere": [],
        "quiet": False,
    }
    monkeypatch.setattr(
        verification_textfile,
        "observe_packages",
        lambda _, names: dict.fromkeys(names, "installed"),
    )
    monkeypatch.setattr(verification_textfile.node_exporter, "is_listening", lambda pid: pid == "1")
    done = record_commands(monkeypatch, tmp_path, wait=9, seen=[listener])
    assert done.answer["path"] == f"{tmp_path}/fullmesh.prom"
    assert not done.answer["own"]

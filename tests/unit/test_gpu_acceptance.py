"""GPU acceptance without a GPU: what may leave the machine, verdicts, deadlines, and that it needs torch alone."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu import acceptance, jobs, network, records, steps

from fullmesh.causes.engine import load_causes
from fullmesh.settings import ROOT

SMI = """<gpu id="00000000:1B:00.0"><serial>1652323002291</serial><board_serial>N/A</board_serial>
<uuid>GPU-0a1b2c3d-1111-2222-3333-0123456789ab</uuid><vbios_version>96.00.74.00.01</vbios_version></gpu>"""
# the imports of a step, without the packages of the controller
IMPORTS = """
import sys
sys.path.insert(0, sys.argv[1])
from gpu import jobs, paths, steps
print(paths.find_parts())
import gloo_ladder
from fullmesh.verbs import explain
from fullmesh.explain.records import RankRecords
from fullmesh.hang import ask, recorder
from fullmesh.hang.judge import judge_job
from fullmesh.causes.engine import load_causes
load_causes("VC")
from fullmesh.verify.model import ClusterObservations
for name in ("survey.job", "facts.gpu", "facts.node"):
    steps.import_node_module(name)
"""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("gpu-box-7:12:34 [0] NCCL INFO", "host1:12:34 [0] NCCL INFO"),
        ("gpu-box-7.example.org and gpu-box-70", "host2 and gpu-box-70"),
        ("10.3.4.5<40001> via 10.3.4.6, 10.3.4.5", "address-1<40001> via address-2, address-1"),
        ("fe80::1ff:fe23:4567 on 02:42:ac:11:00:02", "address-1 on mac-1"),
        ("127.0.0.1 ::1 0.0.0.0 192.0.2.1", "127.0.0.1 ::1 0.0.0.0 192.0.2.1"),
        ("driver 580.159.04, vbios 96.00.74.00.01", "driver 580.159.04, vbios 96.00.74.00.01"),
        ("at 12:30:45, c10d::Work, 0000:1b:00.0", "at 12:30:45, c10d::Work, 0000:1b:00.0"),
    ],
)
def test_names_and_addresses_of_the_machine_are_replaced(text: str, left: str) -> None:
    assert records.Scrubber(["gpu-box-7", "gpu-box-7.example.org"]).scrub(text) == left


def test_a_gpu_has_the_same_replacement_in_all_records(tmp_path: Path) -> None:
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    out.mkdir()
    (work / "nvidia-smi.xml").write_text(SMI)
    card = {"serial": "1652323002291", "uuid": "GPU-0a1b2c3d-1111-2222-3333-0123456789ab"}
    (work / "acceptance.json").write_text(json.dumps(card))
    assert records.write_records(work, out, []) == ["acceptance.json", "nvidia-smi.xml"]
    told = json.loads((out / "acceptance.json").read_text())
    smi = (out / "nvidia-smi.xml").read_text()
    assert told == {"serial": "number-1", "uuid": "uuid-1"}
    assert "<serial>number-1<" in smi
    assert "<uuid>uuid-1<" in smi
    assert "N/A" in smi
    assert "96.00.74.00.01" in smi


def test_a_long_record_keeps_its_beginning_and_its_end() -> None:
    text = "begin" + "x" * 5000 + "end"
    left = records.shorten_text(text, 1000)
    assert len(left.encode()) <= 1000
    assert left.startswith("begin")
    assert left.endswith("end")
    assert "bytes left out here" in left
    assert records.shorten_text(text, 6000) == text


def test_more_records_than_may_come_back_are_refused(tmp_path: Path) -> None:
    for number in range(records.MOST_FILES + 1):
        (tmp_path / f"{number}.log").touch()
    with pytest.raises(ValueError, match="9 records, and 8 may come back"):
        records.write_records(tmp_path, tmp_path, [])


def test_the_steps_write_no_more_records_than_may_come_back() -> None:
    source = "".join(
        (ROOT / f"tests/gpu/{name}.py").read_text() for name in ("steps", "acceptance")
    )
    named = set(re.findall(r'"([a-z-]+\.(?:log|jsonl|json|xml))"', source))
    named -= {acceptance.RESULT, "settings.json", steps.RECORDED_SMI.name}
    assert len(named) <= records.MOST_FILES, named


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([records.PASSED, records.PASSED], 0),
        ([records.PASSED, records.FAILED], 1),
        ([records.NOT_RUN, records.PASSED], 1),
    ],
)
def test_exit_status_shows_whether_all_steps_passed(verdicts: list[str], code: int) -> None:
    assert records.get_exit_status(verdicts) == code


@pytest.fixture
def head() -> dict[str, Any]:
    return {"fullmesh": "0"}


def test_steps_that_fail_or_hang_do_not_stop_the_others(
    tmp_path: Path,
    head: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def never_ends(_: steps.StepRun) -> None:
        raise AssertionError  # the child takes the real step, which needs longer than this

    short = {name: steps.GpuStep(never_ends, 0.001) for name in ("nccl", "machine")}
    monkeypatch.setattr(acceptance, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(steps, "STEPS", short)
    assert acceptance.run_all(list(short), tmp_path, "cuda", head) == 1
    told = json.loads((tmp_path / "acceptance.json").read_text())
    assert [one["verdict"] for one in told["steps"]] == [records.FAILED] * 2
    assert told["steps"][0]["wrong"] == ["it did not end within 0 s"]
    assert "failed: machine" in capfd.readouterr().out


def test_without_time_left_a_step_is_skipped(
    tmp_path: Path, head: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "TOTAL_SECONDS", 1.0)
    assert acceptance.run_all(["burn"], tmp_path, "cuda", head) == 1
    told = json.loads((tmp_path / "acceptance.json").read_text())
    assert told["steps"][0]["verdict"] == records.NOT_RUN


def test_a_step_that_raises_is_a_failed_one(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "bin").touch()  # in place of the folder of the simulation
    assert acceptance.run_step("machine", tmp_path, scratch, "cpu") == 0
    told = json.loads((scratch / acceptance.RESULT).read_text())
    assert told["verdict"] == records.FAILED
    assert told["wrong"][0].startswith("FileExistsError")


@pytest.mark.parametrize("device", ["cuda", "cpu", "auto"])
def test_a_machine_without_torch_is_reported(
    device: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(acceptance, "find_python", lambda: "")
    code = acceptance.main(["--out", str(tmp_path / "out"), "--device", device])
    assert code == (0 if device == "auto" else acceptance.CANNOT_RUN)
    assert "torch" in capfd.readouterr().out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_every_hang_is_a_script_with_known_codes(device: str) -> None:
    for name, hang in jobs.list_hangs(device).items():
        compile(jobs.PREAMBLE + hang.script, name, "exec")
        assert {*hang.codes, *hang.dumped} <= {*load_causes("HG"), "nothing"}, name
        assert hang.place() == "" or name in ("asleep", "both")


def test_an_unreadable_dump_is_kept_unchanged(tmp_path: Path) -> None:
    good = [ROOT / f"tests/unit/recorded/hang/late_sleep_{rank}" for rank in jobs.RANKS]
    bad = tmp_path / "dump_1"
    bad.write_bytes(b"\x80no record")
    findings, plain = jobs.judge_dumps([*good, bad])
    assert findings[0]["code"] == "HG-110"
    assert plain["late_sleep_0"]["entries"]
    assert base64.b64decode(plain["dump_1"]["base64"]) == bad.read_bytes()


def test_the_hang_budgets_include_their_waits() -> None:
    needs = jobs.READY_SECONDS / 4 + jobs.HUNG_SECONDS + jobs.AGAIN + steps.DUMP_SECONDS
    assert needs < steps.STEPS["hang_asleep"].seconds
    assert acceptance.TOTAL_SECONDS < 480


def test_the_steps_need_no_package_but_torch() -> None:
    # -S: without site-packages there is the standard library alone
    words = [sys.executable, "-I", "-S", "-c", IMPORTS, str(ROOT / "tests")]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['msgspec', 'yaml']"


def test_a_link_state_request_has_the_kernels_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    class Kernel:
        """A FAKE that refuses."""

        def __init__(self, *_: object) -> None:
            pass

        def __enter__(self) -> Kernel:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def send(self, data: bytes) -> None:
            sent.append(data)

        def recv(self, _: int) -> bytes:
            return bytes(16) + (-95).to_bytes(4, sys.byteorder, signed=True)

    monkeypatch.setattr(network.socket, "socket", Kernel)
    with pytest.raises(OSError, match="a pair of veth: Operation not supported"):
        network.make_cable(1234)
    assert len(sent[0]) == int.from_bytes(sent[0][:4], sys.byteorder)
    assert b"veth" in sent[0]
    assert sent[0].count(b"fm0\0") == 2

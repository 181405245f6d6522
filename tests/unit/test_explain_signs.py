"""explain-log on the end of a log: weak signs of an error count there, and healthy logs give no finding."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import zipfile
from pathlib import Path

import pytest
from test_explain_errors import EXCEPTION, FINISHED, STEP, list_shown_lines
from test_explain_log import HEALTHY, list_heads, run, verdict_of, write

from fullmesh.causes.logs import ExplainOptions
from fullmesh.explain import judge, reader
from fullmesh.explain.overview import Overview
from fullmesh.model.known_defects import KNOWN_DEFECTS, find_known_defects, parse_version

# Lines that only may be errors: they count if the log ends after them
SIGNS = [
    "Could not establish connection to the store",
    "bash: line 4: scontrol: command not found",
    "/opt/run: error while loading shared libraries: libx.so.1",
    "cp: cannot stat 'model.bin': No such file or directory",
    "mpirun was unable to launch the application",
    "NCCL error in: x.cpp:272, an odd failure",
    "library error 12: the queue is full",
    "n1:1:2 [0] NCCL INFO transport.cc:100 -> 3",
    "=   EXIT CODE: 9",
    "    Exit Code:    2",
    "systemd[1]: train.service: Main process exited, code=dumped, status=4/ILL",
    "Normal  Pulling  12s  kubelet  Back-off pulling image",
    "Warning  FailedScheduling  2m  default-scheduler  0/4 nodes are free",
    "42.0 train FAILED 1:0",
    "cublas returned CUBLAS_STATUS_ALLOC_OOPS",
    "Memory access fault by the card on address 0x7f",
    "kernel: watchdog: BUG: soft lockup - CPU#3 stuck for 22s!",
    "kernel: INFO: task python3:4711 blocked for more than 120 seconds.",
    "PE 0: MPICH WARNING: the library suspects a hang",
    "Test NCCL failure common.cu:958 'x'",
    "dial tcp 10.0.0.1:6443: i/o timeout after 3 s",
    "Rank 0 scheduler is dead. Please check the other logs.",
    "EX0002: The wait execution of the register times out.",
    "loss is nan, stopping training",
    "StopIteration",
    "[rank3]: KeyboardInterrupt",
    "SystemExit: 2",
    "upstream connect error or disconnect/reset before headers",
    "torch.cuda.OddError:",
    'docker: Conflict. The container name "/train" is already in use by container "abc".',
    "amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)",
]


@pytest.mark.parametrize("line", SIGNS)
def test_a_possible_error_counts_at_the_end_of_a_log(line: str) -> None:
    assert list_heads(verdict_of(HEALTHY + line + "\n")) == ["LG-701"]
    assert list_shown_lines(HEALTHY + line + "\n") == [line.strip()]
    for better in (STEP, FINISHED, "INFO: Application startup complete.\n"):
        assert list_heads(verdict_of(line + "\n" + better)) == []
    assert list_heads(verdict_of(FINISHED + line + "\n")) == []
    assert list_heads(verdict_of(line + "\n" + "all is well\n" * 4000)) == []
    assert line not in list_shown_lines(line + "\n" + EXCEPTION)


def test_a_sign_is_marked_as_possibly_harmless() -> None:
    (head,) = verdict_of(SIGNS[0] + "\n").heads
    assert "may be harmless" in head.sentence
    (head,) = verdict_of(EXCEPTION).heads
    assert "may be harmless" not in head.sentence


def test_signs_are_found_across_blocks() -> None:
    text = "y" * 300 + "\n" + "z\n" * 30 + SIGNS[1] + "\nz\n"
    for size in (7, 100, 997):
        tally = judge.Tally(ExplainOptions())
        for block in reader.split_blocks(text[at : at + size] for at in range(0, len(text), size)):
            tally.take("log", block)
        (head,) = judge.judge_logs(tally).heads
        assert [(line.line, line.text) for line in head.evidence] == [(32, SIGNS[1])]


# Logs of programs that do not say at their end that all is well
QUIET = {
    "nccl-tests": """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#  Rank  0 Group  0 Pid  4711 on n1 device  0 [0000:1a:00] NVIDIA H100
n1:1:2 [0] NCCL INFO NET/Plugin: Failed to find ncclCollNetPlugin symbol.
n1:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.
n1:1:2 [0] NCCL INFO Failed to open libibverbs.so[.1]
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
           8             2     float     sum      -1    12.23    0.00    0.00      0    11.93    0.00    0.00      0
# Out of bounds values : 0 OK
""",
    "vLLM": """\
INFO 01-01 10:00:00 [config.py:1604] Using max model len 32768
WARNING 01-01 10:00:00 [config.py:1604] Casting torch.bfloat16 to torch.float16. This is not supported on all devices.
INFO 01-01 10:00:09 [custom_all_reduce.py:137] Skipping P2P check and trusting the driver's P2P report.
(EngineCore_0 pid=42) WARNING 01-01 10:00:09 [symm_mem.py:58] SymmMemCommunicator: Device capability not supported
INFO 01-01 10:00:19 [api_server.py:1601] Starting vLLM API server on http://0.0.0.0:8000
""",
    "Ray": """\
2026-01-01 10:00:00,000\tINFO usage_lib.py:447 -- Usage stats collection is disabled.
Local node IP: 10.0.0.1
To terminate the Ray runtime, run
  ray stop
(raylet) [2026-01-01 10:00:00,000 I 12 12] (raylet) main.cc:298: Setting cluster ID to: 6e
(autoscaler +3s) Tip: use `ray status` to view detailed cluster status. To disable these messages, set X=0.
""",
    "kernel": """\
[    0.000000] ACPI BIOS Warning (bug): Optional field has invalid length (20260101/tbfadt-624)
[    0.842110] pcieport 0000:00:01.0: AER: enabled with IRQ 122
[    1.101010] mlx5_core 0000:1a:00.0: firmware version: 28.39.1002
[    2.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15
[    9.000000] mlx5_core 0000:1a:00.0 eth1: Link up
""",
    "pods": """\
NAME        READY   STATUS    RESTARTS   AGE
trainer-0   1/1     Running   0          5m
Normal  Pulled   5m   kubelet  Successfully pulled image "x:1" in 2.1s
Normal  Started  5m   kubelet  Started container trainer
    Exit Code:    0
    Restart Count:  0
""",
    "docker": """\
time="2026-11-26T10:00:00Z" level=info msg="Loading containers: done."
time="2026-11-26T10:00:00Z" level=warning msg="Not using native diff for overlay2: unsupported kernel"
time="2026-11-26T10:00:01Z" level=info msg="ignoring event" container=42 module=libcontainerd exitCode=0
""",
    "Slurm": """\
srun: job 42 queued and waiting for resources
srun: job 42 has been allocated resources
SLURM_JOB_NODELIST=n[1-2] MASTER_ADDR=n1 NCCL_ASYNC_ERROR_HANDLING=1 NCCL_IB_TIMEOUT=22 --exit-on-error --max-errors 5
JobId=42 JobState=RUNNING ExitCode=0:0 TimeLimit=01:00:00
""",
    "Transformers": """\
Some weights of X were not initialized from the model checkpoint and are newly initialized: ['score.weight']
Token indices sequence length is longer than the specified maximum sequence length for this model (601 > 512).
torch_dtype is deprecated! Use dtype instead!
{'eval_loss': 0.31, 'eval_mean_squared_error': 0.12, 'failed': 0, 'error_rate': 0.01}
Saving model checkpoint to out/checkpoint-100
""",
}


@pytest.mark.parametrize("name", QUIET)
def test_a_log_without_a_good_end_raises_no_alarm(name: str) -> None:
    assert list_heads(verdict_of(QUIET[name])) == []


# A log without an error

CALM = """\
torch==2.6.0
NCCL version 2.21.5+cuda12.4
n1:1:2 [0] NCCL INFO comm 0x7f rank 0 nranks 4 cudaDev 0 busId 1a000 - Init COMPLETE
step 7 loss 2.31
"""


def pack(folder: Path, kind: str) -> str:
    """Write the calm log in one of the forms that explain-log reads."""
    data, path = CALM.encode(), folder / f"log.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("rank0.log", data)
    elif kind == "directory":
        path.mkdir()
        (path / "rank0.log").write_bytes(data)
    else:
        packers = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
        forms = {
            "utf-16": CALM.encode("utf-16"),
            "crlf": data.replace(b"\n", b"\r\n"),
            "docker": b"".join(
                json.dumps({"log": line + "\n", "stream": "stdout"}).encode() + b"\n"
                for line in CALM.splitlines()
            ),
            "cri": b"".join(
                f"2026-11-26T10:00:00.000000000Z stdout F {line}\n".encode()
                for line in CALM.splitlines()
            ),
        }
        path.write_bytes(packers[kind](data) if kind in packers else forms.get(kind, data))
    return str(path)


@pytest.mark.parametrize(
    "kind", ["log", "gz", "bz2", "xz", "zip", "directory", "utf-16", "crlf", "docker", "cri"]
)
def test_a_log_without_errors_lists_what_was_read(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = pack(tmp_path, kind)
    code, out, _ = run(["explain-log", path], capsys)
    assert code == 0
    assert "these logs contain no error" in out
    assert "NCCL 2.21.5, torch 2.6.0" in out
    assert "ranks:    0 of 4" in out
    assert "step 7 loss 2.31" in out
    assert "the other ranks (1, 2, 3 of 4)" in out
    _, out, _ = run(["explain-log", "--json", path], capsys)
    read = json.loads(out)["read"]
    assert {"name": "torch", "versions": ["2.6.0"]} in read["programs"]
    assert (read["ranks"], read["world_size"]) == ([0], 4)
    assert read["last"][0]["line"] == 4


def test_what_to_collect_depends_on_the_logs() -> None:
    def steps(*texts: str) -> str:
        return "; ".join(verdict_of(*texts).overview.list_next_steps())

    assert "NCCL_DEBUG=INFO" in steps("hello\n")
    assert "NCCL_DEBUG=INFO" not in steps(CALM)
    assert "journalctl -k" in steps(CALM)
    assert "journalctl -k" not in steps(CALM, "kernel: eth0: link up\n")
    assert "TORCH_DISTRIBUTED_DEBUG" not in steps("jax.distributed initialized\n")
    ranks = [CALM.replace("rank 0", f"rank {rank}") for rank in range(4)]
    assert "logs of" not in steps(*ranks)


def test_what_to_collect_is_shown_only_without_a_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(["explain-log", write(tmp_path, "a.log", EXCEPTION)], capsys)
    assert "collect:" in out
    assert "programs:" not in out
    killed = write(tmp_path, "b.log", "kernel: Out of memory: Killed process 14750 (python3)\n")
    _, out, _ = run(["explain-log", killed], capsys)
    assert "collect:" not in out


def test_records_and_empty_logs_have_no_last_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(["explain-log", write(tmp_path, "a.log", "")], capsys)
    assert (code, "collect:" in out) == (2, False)
    verdict = verdict_of("")
    verdict.overview.recorded = frozenset({0, 1})
    assert "Flight Recorder" not in "".join(verdict.overview.list_next_steps())
    assert verdict.overview.ranks == [0, 1]


def test_the_last_line_is_found_across_blocks() -> None:
    text = CALM + "the last\n \n"
    for size in (7, 100, 997):
        tally = judge.Tally(ExplainOptions())
        for block in reader.split_blocks(text[at : at + size] for at in range(0, len(text), size)):
            tally.take("log", block)
        (last,) = judge.judge_logs(tally).overview.last.values()
        assert (last.line, last.text) == (5, "the last")


@pytest.mark.parametrize(
    ("version", "fixed"),
    [
        ("2.32.3", []),
        ("2.30.7", []),
        ("2.29.3", []),
        ("2.29.2", ["2.29.3"]),
        ("2.28.7", ["2.28.9"]),
        ("2.25.1", ["2.27.3", "2.26.3", "2.26.2", "2.26.2", "2.26.2"]),
        ("2.21.5", ["2.22.3", "2.22.3"]),
        ("2.19.3", ["2.20.3"]),
        ("2.14.3", ["2.18.1", "2.17"]),
        ("2.8.4", ["2.18.1"]),
    ],
)
def test_a_version_has_its_known_defects(version: str, fixed: list[str]) -> None:
    assert [defect.fixed_in for defect, _ in find_known_defects("NCCL", [version])] == fixed
    assert find_known_defects("torch", [version]) == []


def test_a_defect_of_one_kind_of_cpu_is_no_suspicion_on_another() -> None:
    (found,) = find_known_defects("NCCL", ["2.29.2"], "aarch64")
    assert "Arm" in found[0].symptom
    assert find_known_defects("NCCL", ["2.29.2"], "x86_64") == []


def test_versions_that_differ_between_logs_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = (
        "INFO 06-25 [api_server.py:1] vLLM API server version {}\nRuntimeError: the pipe is stuck\n"
    )
    logs = [
        write(tmp_path, f"rank{rank}.log", line.format(version))
        for rank, version in enumerate(("0.8.2", "0.7.2", "0.8.2"))
    ]
    _, out, _ = run(["explain-log", *logs], capsys)
    assert f"vLLM: 0.7.2 in {logs[1]}, 0.8.2 in {logs[0]}" in out
    _, out, _ = run(["explain-log", logs[0], logs[2]], capsys)
    assert "differ:" not in out
    both = write(tmp_path, "both.log", line.format("0.8.2") + line.format("0.7.2"))
    _, out, _ = run(["explain-log", both], capsys)
    assert "differ:" not in out


def test_every_known_defect_has_a_range_and_a_source() -> None:
    for defect in KNOWN_DEFECTS:
        assert parse_version(defect.since) < parse_version(defect.fixed_in)
        assert "#" in defect.source or "release notes" in defect.source
        assert re.fullmatch(r"[a-z].{10,110}[^.]", defect.symptom)


def test_a_known_defect_is_a_suspicion_and_never_a_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "a.log", CALM)
    code, out, _ = run(["explain-log", path], capsys)
    assert code == 0
    assert "suspect:  NCCL 2.21.5: ranks can deadlock" in out
    assert (
        "NCCL 2.21.5: nodes with different CPUs can hang, fixed in 2.22.3 (release notes of 2.22.3)"
        in out
    )
    code, out, _ = run(["explain-log", "--json", path], capsys)
    assert (code, len(json.loads(out)["read"]["defects"])) == (0, 2)
    _, out, _ = run(
        ["explain-log", write(tmp_path, "b.log", CALM.replace("2.21.5", "2.30.7"))], capsys
    )
    assert "suspect:" not in out


@pytest.mark.parametrize(
    ("more", "suspected"),
    [("", True), ("/lib/x86_64-linux-gnu/libc.so.6", False), ("Linux 6.8.0 aarch64", True)],
)
def test_a_log_that_names_its_cpu_has_only_defects_of_that_cpu(more: str, suspected: bool) -> None:
    overview = Overview()
    text = f"NCCL version 2.29.2+cuda13.0\n{more}\n"
    overview.take("rank0.log", reader.Block(text, 0, len(text), 1))
    assert any("Arm CPUs" in one for one in overview.list_defects()) == suspected


# The page


def test_the_page_shows_findings_with_the_lines_around_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = "one <script>\ntwo\nthree\nfour\nfive\n"
    bad = write(tmp_path, "rank0.log", before + EXCEPTION + "after\n")
    good = write(tmp_path, "rank1.log", CALM)
    page = tmp_path / "page.html"
    code, _, _ = run(["explain-log", "--html", str(page), bad, good], capsys)
    text = page.read_text("utf-8")
    assert code == 1
    assert "<h1>ERRORS</h1>" in text
    assert "<strong>8: RuntimeError: x</strong>" in text
    assert "\n6: Traceback" in text
    assert "5: five\n" in text
    assert "\n9: after\n" in text
    assert "4: four" not in text
    assert text.index("rank0.log</th>") < text.index("rank1.log</th>")
    assert "NCCL 2.21.5" in text
    assert "<script" not in text
    run(["explain-log", "--html", str(page), good], capsys)
    assert "<h1>NO ERROR</h1>" in page.read_text("utf-8")


def test_the_page_sorts_logs_by_their_first_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    line = "2026-11-26 10:00:{} ERROR the pipe of rank {} is stuck\n"
    late = write(tmp_path, "a.log", line.format("09,5", 0))
    early = write(tmp_path, "b.log", line.format("08", 1))
    run(["explain-log", "--html", str(page), late, early], capsys)
    text = page.read_text("utf-8")
    assert text.index("b.log</th>") < text.index("a.log</th>")
    assert "<td>2026-11-26 10:00:09.5</td>" in text
    write(tmp_path, "b.log", "ERROR the pipe of rank 1 is stuck\n")
    run(["explain-log", "--html", str(page), late, early], capsys)
    text = page.read_text("utf-8")
    assert text.index("a.log</th>") < text.index("b.log</th>")


def test_lines_around_two_errors_of_one_log_are_shown_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    error = "ERROR the pipe of rank {} is stuck\n"
    far = error.format(0) + "x\n" * 7 + error.format(1)
    log = write(
        tmp_path, "a.log", f"before\n{error.format(0)}between\n{error.format(1)}after\n{far}"
    )
    run(["explain-log", "--html", str(page), log], capsys)
    text = page.read_text("utf-8")
    assert [text.count(f"{line}\n") for line in ("1: before", "3: between", "5: after")] == [1] * 3
    assert "<strong>2: ERROR the pipe" in text
    assert "<strong>4: ERROR the pipe" in text


def test_markup_of_a_log_does_not_reach_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    log = write(tmp_path, "a.log", "<b>x</b>\nRuntimeError: <script>alert(1)</script>\n<i>y</i>\n")
    run(["explain-log", "--html", str(page), log], capsys)
    text = page.read_text("utf-8")
    assert "&lt;script&gt;" in text
    assert "&lt;b&gt;x" in text
    assert all(tag not in text for tag in ("<script", "<b>x", "<i>y"))


def test_a_page_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(tmp_path, "a.log", EXCEPTION)
    code, out, err = run(["explain-log", "--html", str(tmp_path / "no/page.html"), log], capsys)
    assert (code, "HG-185" in err, "LG-701" in out) == (2, True, True)

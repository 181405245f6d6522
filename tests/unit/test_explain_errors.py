"""explain-log gives no false all-clear: errors without a rule are shown, and healthy logs raise no alarm."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from test_explain_log import (
    HEALTHY,
    list_folded,
    list_harmless,
    list_heads,
    run,
    torchrun,
    verdict_of,
    write,
)

from fullmesh.causes.logs import ExplainOptions
from fullmesh.explain import judge, reader, unknown
from fullmesh.verbs import explain as explain_cli

TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n'
EXCEPTION = TRACEBACK + "RuntimeError: x\n"
STEP = "step 100 loss 2.31 lr 1e-4\n"
FINISHED = "Training finished successfully\n"


def list_shown_lines(*texts: str) -> list[str]:
    """The error lines that LG-701 shows."""
    (head,) = (one for one in verdict_of(*texts).heads if one.code == "LG-701")
    return [line.text for line in head.evidence]


# A log, and the line of it that must be shown
UNKNOWN: dict[str, tuple[str, str]] = {
    "exception": (EXCEPTION, "RuntimeError: x"),
    "exception of any name": (TRACEBACK + "queue.Empty\n", "queue.Empty"),
    "exception with a rank": (
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "t.py", line 3, in main\n'
        "[rank3]:     f(x)\n"
        "[rank3]:     ^^^^\n"
        "[rank3]: RuntimeError: the tensors differ\n",
        "[rank3]: RuntimeError: the tensors differ",
    ),
    "exception behind a log's prefix": (
        "2026-11-26 10:00:01 ERROR [core.py:98] Engine died: Traceback (most recent call last):\n"
        '2026-11-26 10:00:01 ERROR [core.py:98]   File "t.py", line 3, in main\n'
        "2026-11-26 10:00:02 ERROR [core.py:98] foreign.Oddity: no luck\n",
        "2026-11-26 10:00:02 ERROR [core.py:98] foreign.Oddity: no luck",
    ),
    "exception that only repeats another one, which is in no log": (
        TRACEBACK
        + "subprocess.CalledProcessError: Command 'ssh n2' returned non-zero exit status 255.\n",
        "subprocess.CalledProcessError: Command 'ssh n2' returned non-zero exit status 255.",
    ),
    "traceback that was cut off": (TRACEBACK, "Traceback (most recent call last):"),
    "Last error:": ("Last error:\nthe device went away\n", "the device went away"),
    "NCCL WARN": (
        "n1:1:2 [0] transport/p2p.cc:1 NCCL WARN Cuda failure 1 'invalid argument'\n",
        "n1:1:2 [0] transport/p2p.cc:1 NCCL WARN Cuda failure 1 'invalid argument'",
    ),
    "level": (
        "2026-11-26 10:00:01 ERROR the pipe is stuck\n",
        "2026-11-26 10:00:01 ERROR the pipe is stuck",
    ),
    "level of glog": (
        "E0710 15:24:06.605366961 2474524 thd.cc:157] socket failed: no such thing\n",
        "E0710 15:24:06.605366961 2474524 thd.cc:157] socket failed: no such thing",
    ),
    "slurmstepd": (
        "slurmstepd: error: the plugin stack is broken\n",
        "slurmstepd: error: the plugin stack is broken",
    ),
    "refused": ("connect to 10.0.0.1: refused\n", "connect to 10.0.0.1: refused"),
    "failed at the start": ("Failed to start the agent\n", "Failed to start the agent"),
    "MPI": (
        "[n1:4711] *** An error occurred in MPI_Allreduce\n",
        "[n1:4711] *** An error occurred in MPI_Allreduce",
    ),
    "timed out": ("the barrier timed out\n", "the barrier timed out"),
    "panic of Go": ("panic: runtime: index out of range\n", "panic: runtime: index out of range"),
    "uncaught C++": (
        "terminate called after throwing an instance of 'std::logic_error'\n",
        "terminate called after throwing an instance of 'std::logic_error'",
    ),
    "traps": (
        "kernel: traps: python3[4711] general protection fault ip:7f sp:7f error:0 in libx.so\n",
        "kernel: traps: python3[4711] general protection fault ip:7f sp:7f error:0 in libx.so",
    ),
    "scheduler of SGLang": (
        "[2026-08-27 10:16:06] Rank 0 scheduler died (exit code: -9)\n",
        "[2026-08-27 10:16:06] Rank 0 scheduler died (exit code: -9)",
    ),
    **{
        name: (line + "\n", line)
        for name, line in {
            "panic of Rust": "thread 'main' panicked at src/main.rs:4:5:",
            "logfmt": 'time="2026-11-26T10:00:00Z" level=error msg="the shim is away"',
            "JSON": '{"ts":1,"level":"error","msg":"the reconciler is stuck"}',
            "MPI_ABORT": "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD",
            "MPI_Abort": "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3",
            "Hydra": "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
            "sanitizer": "==4711==ERROR: AddressSanitizer: heap-use-after-free on address 0x60",
            "kernel": "kernel: Kernel panic - not syncing: Fatal exception",
            "glog": "F1119 08:22:23.602082 1513663 1513663 x.cc:298] The store is away",
            "Open MPI's runtime": "[n1:9] [[4321,0],0] ORTE_ERROR_LOG: Not found in file ess_hnp.c at line 320",
            "glog with a rank": "[rank3]:[E1126 10:00:00.1 Watchdog.cpp:12] The queue is stuck",
        }.items()
    },
    "retries that were given up": (
        "ERROR: giving up after 5 retries: the server is away\n",
        "ERROR: giving up after 5 retries: the server is away",
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_error_without_a_rule_is_shown(case: str) -> None:
    text, line = UNKNOWN[case]
    assert list_heads(verdict_of(text)) == ["LG-701"]
    assert list_shown_lines("all is well\n" + text) == [line]


def test_the_answer_is_a_finding_of_its_own_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path, "a.log", EXCEPTION)
    code, out, _ = run(["explain-log", log], capsys)
    assert code == 1
    assert "nothing wrong" not in out
    assert "1 error line that no rule knows" in out
    code, out, _ = run(["explain-log", "--json", log], capsys)
    (finding,) = json.loads(out)["findings"]
    assert (code, finding["code"], finding["severity"]) == (1, "LG-701", "unknown")
    assert finding["page"] == "docs/causes/unknown.md#lg-701"


@pytest.mark.parametrize(
    "line",
    [
        "Fatal Python error: Segmentation fault",
        "[n1:211  :0:211] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x18)",
        "[p4d-23:90211] *** Process received signal ***\n[p4d-23:90211] Signal: Segmentation fault (11)",
        "srun: error: gpu12: task 3: Segmentation fault (core dumped)",
        "mpirun noticed that process rank 3 with PID 4711 on node gpu12 exited on signal 11 (Segmentation fault).",
        "[2026-01-01 10:00:00,000] [ERROR] [launch.py:325:sigkill_handler] exits with return code = -11",
        "kernel: python3[4711]: segfault at 18 ip 00007f3a sp 00007ffc error 4 in libnccl.so.2[7f3a+1000]",
        "run.sh: line 3:  4711 Segmentation fault      (core dumped) python train.py",
        "run.sh: line 3:  4711 Segmentation fault      python train.py",
        "Segmentation fault (core dumped)",
        "*** SIGSEGV received at time=1764151200 on cpu 3 ***",
    ],
)
def test_a_segmentation_fault_is_known_in_every_wording(line: str) -> None:
    assert list_heads(verdict_of(line + "\n")) == ["LG-307"]


@pytest.mark.parametrize(
    ("line", "code", "where"),
    [
        ("srun: error: gpu12: task 3: Bus error (core dumped)", "LG-306", "rank 3 on gpu12"),
        ("srun: error: gpu12: tasks 3-5: Killed", "LG-305", "rank 3-5 on gpu12"),
        ("srun: error: gpu12: task 3: Aborted (core dumped)", "LG-308", "rank 3 on gpu12"),
        ("Fatal Python error: Aborted", "LG-308", "a process"),
        ("Killed", "LG-305", "a process"),
        ("run.sh: line 3:  4711 Killed                  python train.py", "LG-305", "a process"),
        ("Bus error (core dumped)", "LG-306", "a process"),
    ],
)
def test_other_signals_in_messages_of_srun_are_known(line: str, code: str, where: str) -> None:
    (head,) = verdict_of(line + "\n").heads
    assert (head.code, head.where) == (code, where)


@pytest.mark.parametrize(
    ("text", "launcher"),
    [
        (torchrun(3, "node2", 1, "x"), "torchrun saw rank 3 on node2"),
        (
            "srun: error: compute-0: task 0: Exited with exit code 1\n",
            "srun saw rank 0 on compute-0",
        ),
        (
            "  Process name: [[3911,1],2]\n  Exit code:    1\n",
            "mpirun saw rank 2 end first",
        ),
        (
            "[ERROR] [launch.py:325:sigkill_handler] ['python', 'x'] exits with return code = 1\n",
            "DeepSpeed's launcher saw a process end first",
        ),
        (
            "[rank: 1] Child process with PID 4711 terminated with code 1. Forcefully terminating all others\n",
            "Lightning's launcher saw rank 1",
        ),
        (
            "slurmstepd: error: *** STEP 42.0 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***\n",
            "Slurm reports that the job was ended",
        ),
    ],
)
def test_the_launcher_is_called_by_its_name(text: str, launcher: str) -> None:
    (head,) = verdict_of(text).heads
    assert head.code in ("LG-304", "LG-309")
    assert launcher in head.sentence
    assert ("torchrun" in head.sentence) is launcher.startswith("torchrun")


def test_a_launcher_message_follows_from_the_error_in_the_log() -> None:
    verdict = verdict_of(EXCEPTION + torchrun(3, "node2", 1, "x"))
    assert (list_heads(verdict), list_folded(verdict)) == (["LG-701"], ["LG-304"])
    out = explain_cli.render_verdict(verdict, [])
    assert "RuntimeError: x" in out
    assert "whose cause is not in these logs" not in out


def test_a_system_error_of_nccl_quotes_its_warning() -> None:
    warning = "n1:1:2 [0] transport/p2p.cc:1 NCCL WARN Cuda failure 1 'invalid argument'\n"
    general = (
        "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n"
    )
    verdict = verdict_of(warning + general)
    assert (list_heads(verdict), list_folded(verdict)) == (["LG-701"], ["LG-422"])
    assert list_shown_lines(warning + general) == [warning.strip()]
    assert "whose cause is not in these logs" in explain_cli.render_verdict(verdict_of(general), [])


def test_an_echo_of_another_rank_does_not_deny_a_cause() -> None:
    closed = "n1:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n2<57557>\n"
    alone = explain_cli.render_verdict(verdict_of(closed), [])
    assert "whose cause is not in these logs" in alone
    both = verdict_of(closed, "2026-11-26 10:00:01 ERROR the pipe is stuck\n")
    assert list_heads(both) == ["LG-421", "LG-701"]
    assert "whose cause is not in these logs" not in explain_cli.render_verdict(both, [])
    died = verdict_of(closed, EXCEPTION)
    assert (list_heads(died), list_folded(died)) == (["LG-701"], ["LG-421"])


def test_the_first_of_several_errors_is_named_by_the_times_in_the_lines() -> None:
    late = "2026-11-26 10:00:09,5 [rank0]: RuntimeError: the pipe is stuck\n"
    early = "2026-11-26 10:00:08 [rank1]: RuntimeError: the frobnicator is closed\n"
    (head,) = verdict_of(late, early).heads
    assert "The first one is in rank1.log:1 (rank 1) at 2026-11-26 10:00:08: " in head.sentence
    assert "The first one is in" not in verdict_of(late, early.split(" ", 2)[2]).heads[0].sentence
    assert "The first one is in" not in verdict_of(late).heads[0].sentence
    (head,) = verdict_of(late + early.replace("08", "10")).heads
    assert "rank0.log:1 (rank 0) at 2026-11-26 10:00:09.5" in head.sentence


@pytest.mark.parametrize(
    ("advice", "quoted"),
    [
        ("Please check that every rank opened it.", True),
        ("Hint: open it first", True),
        ("This is usually caused by a closed frobnicator.", True),
        ("For debugging consider passing CUDA_LAUNCH_BLOCKING=1.", False),
        ("RuntimeError: x (run with NCCL_DEBUG=INFO for details, please check)", False),
        ("step 4 of 5", False),
    ],
)
def test_a_programs_message_about_its_error_is_quoted(advice: str, quoted: bool) -> None:
    error = TRACEBACK + "RuntimeError: the frobnicator is closed\n"
    said = f"The program itself says: {advice}"
    assert (said in verdict_of(error + advice + "\n").heads[0].sentence) is quoted
    far = error + "x\n" * 9 + advice + "\n"
    assert said not in verdict_of(far).heads[0].sentence
    assert (said in verdict_of(f"ERROR the pipe is stuck\n{advice}\n").heads[0].sentence) is quoted


def test_an_error_that_the_job_survived_is_not_a_cause() -> None:
    caught = "UserWarning: No CUDA GPUs are available\n"
    assert list_heads(verdict_of(caught)) == ["LG-521"]
    assert list_heads(verdict_of(caught + STEP)) == []
    assert list_heads(verdict_of(caught, STEP)) == ["LG-521"]
    assert list_heads(verdict_of(caught + STEP + "RuntimeError: No CUDA GPUs are available\n")) == [
        "LG-521"
    ]


def test_a_known_cause_needs_no_unknown_errors() -> None:
    out_of_memory = "kernel: Out of memory: Killed process 14750 (python3)\n"
    assert list_heads(verdict_of(EXCEPTION + out_of_memory)) == ["LG-501"]


def test_first_lines_of_each_rank_and_its_last_exception() -> None:
    text = "".join(
        f"[rank{rank}]: RuntimeError: number {number}\n" for number in range(9) for rank in (0, 1)
    )
    assert list_shown_lines(text) == [
        f"[rank{rank}]: RuntimeError: number {number}" for number in (0, 1, 8) for rank in (0, 1)
    ]


def test_the_programs_own_error_is_named_with_its_place() -> None:
    text = TRACEBACK + '  File "/v/lib/python3.12/site-packages/nn.py", line 9, in load\n    x\n'
    (head,) = verdict_of(text + "ValueError: no such layer.\n").heads
    assert head.code == "LG-319"
    assert "ValueError: no such layer. It was raised in t.py:3 in <module>. " in head.sentence
    cut = '  File "/v/lib/python3.12/site-packages/nn.py", line 9, in load\n    x\nKeyError: None\n'
    assert "KeyError: None. It was raised in nn.py:9 in load. " in verdict_of(cut).heads[0].sentence


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: the store timed out",
        "RuntimeError: x",
        "RuntimeError: NCCL error: the shapes must match",
        "torch.distributed.DistBackendError: the shapes must match",
        "ray.exceptions.RayTaskError(ValueError): ray::run() (pid=1, ip=10.0.0.1)",
        "KeyError: Caught KeyError in DataLoader worker process 0.",
    ],
)
def test_an_error_of_the_network_or_of_another_process_is_not_the_programs_own(line: str) -> None:
    assert list_heads(verdict_of(f"{line}\n")) == ["LG-701"]


@pytest.mark.parametrize(
    "line",
    [
        "omegaconf.errors.MissingMandatoryValue: Missing mandatory value: data.path",
        "pyarrow.lib.ArrowInvalid: column x is not sorted",
        "PIL.UnidentifiedImageError: cannot identify image file 'a.png'",
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
        "yaml.scanner.ScannerError: mapping values are not allowed here",
        "Exception: data did not match any variant of untagged enum ModelWrapper at line 250",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore.",
        "RuntimeError: Rank 3, iteration 5: Unexpected result nan",
        "SystemExit: 2",
    ],
)
def test_errors_of_data_and_settings_are_the_programs_own(line: str) -> None:
    (head,) = verdict_of(TRACEBACK + f"{line}\n").heads
    assert head.code == "LG-319"
    assert line.rstrip(".") in head.sentence


def test_an_exception_may_have_another_ending() -> None:
    assert list_heads(verdict_of(f"{STEP}zipfile.LargeZipFile: the files need ZIP64\n")) == [
        "LG-701"
    ]


def test_the_first_error_of_the_program_precedes_what_follows_from_it() -> None:
    first = "2026-11-26 10:00:08 [rank1]: KeyError: 'labels'\n"
    late = "2026-11-26 10:00:09 [rank0]: IndexError: list index out of range\n"
    lost = "2026-11-26 10:00:07 [rank2]: RuntimeError: Broken pipe\n"
    (head,) = verdict_of(late, first, lost).heads
    assert (head.code, head.evidence[0].file, head.fields["rank"]) == ("LG-319", "rank1.log", "1")
    chained = (
        TRACEBACK + "foreign.Oddity: no luck\n\nDuring handling of the above exception, another"
    )
    text = chained + " exception occurred:\n\n" + TRACEBACK + "AttributeError: no x\n"
    (head,) = verdict_of(text).heads
    assert head.code == "LG-701"
    assert "foreign.Oddity: no luck. It was raised in t.py:3" in head.sentence


def test_an_error_that_a_rule_knows_is_not_named_twice() -> None:
    text = TRACEBACK + "ImportError: /v/x.so: undefined symbol: _ZN3c10\n"
    ended = "[Rank 0] the process was aborted\nexits with return code = 1\n"
    assert [head.code for head in verdict_of(text + ended).heads] == ["LG-536"]


def test_a_traceback_that_rich_drew_is_not_an_error_line() -> None:
    text = "╭── Traceback (most recent call last) ──╮\n│ x.py:3 │\n╰──╯\nAssertionError: 64 != 32\n"
    (head,) = verdict_of(text).heads
    assert (head.code, [line.text for line in head.evidence]) == (
        "LG-319",
        ["AssertionError: 64 != 32"],
    )


@pytest.mark.parametrize(
    ("line", "library"),
    [
        ("[rank1]: EI9999: [PID: 1] the call failed", "HCCL"),
        ("transport.cpp:275: nvshmem init failed for transport: UCX", "NVSHMEM"),
        ("[a:1] btl: tcp: the endpoint failed", "Open MPI"),
        ("horovod.common.exceptions.HorovodInternalError: it failed", "Horovod"),
        ("slurmstepd: error: pyxis: couldn't start container", "pyxis"),
    ],
)
def test_a_library_that_explain_log_does_not_know_is_named(line: str, library: str) -> None:
    (head,) = verdict_of(line + "\n").heads
    assert head.code == "LG-701"
    assert library in head.sentence
    assert "which explain-log does not know" in head.sentence


# Lines that mean nothing bad, each in a log that ends well
BENIGN = [
    "wandb: Network error (ConnectionError), entering retry loop.",
    "wandb: ERROR Error while calling W&B API: context deadline exceeded",
    "'(ProtocolError('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer')), '(Request ID: 1)')'"
    " thrown while requesting HEAD https://huggingface.co/x. Retrying in 1s [Retry 1/5].",
    "[W socket.cpp:697] [c10d] The client socket has failed to connect to [node1]:29500 (errno: 111 - Connection"
    " refused).",
    "kernel: [UFW BLOCK] IN=eth1 OUT= MAC=00 SRC=10.77.0.99 DST=10.77.0.11 LEN=60 PROTO=TCP SPT=41000 DPT=22",
    "kernel: TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.",
    "n1:1:2 [0] misc/ibvwrap.cc:72 NCCL WARN dlvsym failed on ibv_query_ece - undefined symbol, version IBVERBS_1.10",
    "n1:1:2 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message with ...",
    "n1:1:2 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
    "INFO 01-01 10:00:00 [shm_broadcast.py:501] No available shared memory broadcast block found in 60 seconds.",
    "E0000 00:00:1723.5 4711 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for"
    " plugin cuDNN when one has already been registered",
    "NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_ASYNC_ERROR_HANDLING=1 --log-level ERROR",
    "PLAY RECAP: node1 : ok=4 changed=0 unreachable=0 failed=0 skipped=1 rescued=0 ignored=0",
    "mean squared error: 0.1234",
    "{'errors': None, 'failed': 0}",
    "12 passed, 0 failed",
    "0 Failed, 0 timed out",
    "/lib/x.py:13: UserWarning: Failed to load image Python extension: 'libjpeg.so: cannot open shared object file'",
    'n1:1:2 [0] NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!',
    "Failed to import flash_attn, falling back to sdpa",
    "2026-11-26 10:00:01 WARNING could not load the tokenizer cache: Error: no such file",
    "Exception ignored in: <function Pool.__del__ at 0x7f>\n" + EXCEPTION.strip(),
    "--- Logging error ---\n"
    + TRACEBACK
    + "TypeError: not all arguments converted during string formatting",
    "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.",
    "2026-11-26 10:00:01 ERROR could not decode image 17",
    "2026-11-26 10:00:01 ERROR upload failed\nTraceback (most recent call last):\n"
    '  File "t.py", line 3, in up\nOSError: busy',
    "n1:1:2 [0] transport/p2p.cc:1 NCCL WARN Cuda failure 'peer access is already enabled'",
    "n1:1:2 [0] transport/net_ib.cc:95 NCCL WARN NET/IB : Got async event : GID change",
    "[1745994234.3] [n1:7:0] ucp_context.c:1774 UCX  WARN  UCP version is incompatible, required: 1.18, actual: 1.12",
    "srun: Job 55 step creation still disabled, retrying (Requested nodes are busy)\nsrun: Step created for StepId=5",
    "n1:1:2 [0] NCCL INFO Using network IB\nn2:1:2 [0] NCCL INFO Using network Socket\n"
    "n1:1:2 [0] NCCL INFO Connected all rings",
    "[2026-08-27 10:11:06 TP0] CustomAllreduce is disabled because this process group spans across nodes.",
    "n1:1:2 [0] NCCL INFO Connected all rings\n[Errno 98] Address already in use",
]


@pytest.mark.parametrize("line", BENIGN)
def test_a_healthy_log_raises_no_alarm(line: str) -> None:
    verdict = verdict_of(HEALTHY + line + "\n" + STEP + FINISHED)
    assert list_heads(verdict) == []


@pytest.mark.parametrize(
    "line",
    [
        "sshd[814]: error: kex_exchange_identification: Connection closed by remote host",
        "sshd[815]: fatal: kex_exchange_identification: read: Connection reset by peer",
        "sshd[816]: Disconnecting authenticating user root 192.0.2.9 port 51022: Too many"
        " authentication failures [preauth]",
        "sshd-session[817]: Unable to negotiate with 192.0.2.9 port 4022: no matching host key type found. Their offer:"
        " ssh-rsa [preauth]",
    ],
)
def test_a_login_that_failed_at_the_nodes_own_sshd_is_no_cause(line: str) -> None:
    assert "LG-328" not in list_heads(verdict_of(line + "\n"))
    as_client = re.sub(r"^\S+: (error: |fatal: )?| \[preauth\]", "", line)
    assert list_heads(verdict_of(as_client + "\n")) == ["LG-328"]


TEARDOWN = (
    "[rank1]:[W1126 10:00:00.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3, addr=[n2]:40000,"
    " remote=[n1]:29500): failed to recv, got 0 bytes\n"
    '[rank1]:[W1126 10:00:00.1 ProcessGroupNCCL.cpp:1662] [PG ID 0 PG GUID 0 Rank 1] Failed to check the "should'
    ' dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: failed to recv, got 0'
    " bytes\n"
)


def test_the_store_that_ends_after_the_job_is_no_failure() -> None:
    verdict = verdict_of(STEP + FINISHED + TEARDOWN)
    assert (list_heads(verdict), list_harmless(verdict)) == ([], ["LG-914"])
    assert list_heads(verdict_of(STEP + TEARDOWN)) == ["LG-215"]
    lost = "RuntimeError: Connection reset by peer\n"
    assert list_heads(verdict_of(STEP + FINISHED + lost)) == ["LG-215"]


REFUSED = (
    "[W socket.cpp:697] [c10d] The client socket has failed to connect to [node1]:29500 (errno: 111 - Connection"
    " refused).\n"
)


def test_a_log_that_ends_while_connecting_is_not_healthy() -> None:
    assert list_heads(verdict_of(STEP + REFUSED * 3)) == ["LG-701"]
    assert list_shown_lines(STEP + REFUSED * 3 + "\n\n") == [REFUSED.strip()]
    assert list_heads(verdict_of(STEP + REFUSED * 3 + "all ranks are here\n")) == []


def test_errors_that_the_job_survived_are_listed_as_harmless() -> None:
    verdict = verdict_of("ERROR could not decode image 17\n" + STEP)
    assert (list_heads(verdict), list_harmless(verdict)) == ([], ["LG-913"])


@pytest.mark.parametrize("after", ["", STEP, "Epoch 3 completed\n", "job 7 failed to complete\n"])
def test_a_bad_end_clears_no_exception(after: str) -> None:
    """Python writes stdout behind a traceback if both go to one file."""
    assert list_heads(verdict_of(STEP + EXCEPTION + after)) == ["LG-701"]


def test_a_good_end_does_not_clear_an_uncaught_exception() -> None:
    assert list_heads(verdict_of(STEP + EXCEPTION + FINISHED)) == ["LG-701"]
    assert list_heads(verdict_of(STEP + "[rank1]: RuntimeError: x\n", FINISHED)) == ["LG-701"]


def test_tracebacks_are_followed_across_blocks() -> None:
    frames = "".join(f'  File "t.py", line {n}, in f\n    f({n})\n' for n in range(40))
    text = "y" * 300 + "\nTraceback (most recent call last):\n" + frames + "odd.Name: the end\n"
    for size in (7, 100, 997):
        tally = judge.Tally(ExplainOptions())
        for block in reader.split_blocks(text[at : at + size] for at in range(0, len(text), size)):
            tally.take("log", block)
        (head,) = judge.judge_logs(tally).heads
        assert [line.text for line in head.evidence] == ["odd.Name: the end"]
        assert head.evidence[0].line == 83


def test_the_errors_of_a_hostile_log_are_bounded() -> None:
    text = "".join(f"[rank{n % 900}]: RuntimeError: number {n}\n" for n in range(20000))
    tally = judge.Tally(ExplainOptions())
    for block in reader.split_blocks(iter([text])):
        tally.take("log", block)
    state = tally.errors.files["log"]
    assert len(state.first) <= unknown.MOST_RANKS
    assert all(len(lines) <= unknown.PER_RANK for lines in state.first.values())
    (head,) = judge.judge_logs(tally).heads
    assert len(head.evidence) == unknown.MOST_SHOWN


# Rules

RDMA = (
    "n1:1:2 [0] transport/net_ib/p2p.cc:688 NCCL WARN NET/IB: Got completion from peer 10.0.0.7<33397> with"
    " status={}({}) opcode=IBV_WC_SEND(0) vendor_err={} localGid {} remoteGids{} hca mlx5_0\n"
)


@pytest.mark.parametrize(
    ("local", "remote", "words"),
    [
        ("::ffff:10.0.0.6", "::ffff:10.0.0.7", ""),
        ("::ffff:10.0.0.6", "::ffff:10.100.0.7", "in different networks"),
        ("::ffff:10.0.0.6", "fe80::4ebb:47ff:fe2c:1", "link-local address fe80::4ebb"),
        ("fe80::1", "fe80::2", ""),
    ],
)
def test_rdma_errors_of_new_nccl_are_read_like_old_ones(
    local: str, remote: str, words: str
) -> None:
    text = RDMA.format("IBV_WC_RETRY_EXC_ERR", 12, 129, local, remote)
    (head,) = verdict_of(text).heads
    assert (head.code, "10.0.0.7" in head.sentence) == ("LG-412", True)
    assert f"used mlx5_0, from {local.removeprefix('::ffff:')} to " in head.sentence
    assert words in head.sentence
    assert ("networks" in head.sentence or "link-local" in head.sentence) is bool(words)
    old = (
        "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.7<3> with status=12 opcode=1 len=1"
        " vendor err 129\n"
    )
    assert list_heads(verdict_of(old)) == ["LG-412"]
    modify = (
        f"n1:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with 61 No data available, on dev a:1, curr state INIT,"
        f" next state RTR, local GID index 3, local GID {local}, remote GID {remote}\n"
    )
    (head,) = verdict_of(modify).heads
    assert head.code == "LG-412"
    assert words in head.sentence


def test_another_completion_is_another_cause() -> None:
    protection = RDMA.format("IBV_WC_LOC_PROT_ERR", 4, 81, "::ffff:10.0.0.6", "::ffff:10.0.0.7")
    assert list_heads(verdict_of(protection)) == ["LG-430"]
    flushed = RDMA.format("IBV_WC_WR_FLUSH_ERR", 5, 249, "::ffff:10.0.0.6", "::ffff:10.0.0.7")
    assert list_heads(verdict_of(flushed)) == ["LG-701"]


def test_a_worker_of_vllm_that_waits_once_is_no_symptom() -> None:
    wait = "INFO [shm_broadcast.py:548] No available shared memory broadcast block found in 60 seconds.\n"
    assert list_heads(verdict_of(wait * 4)) == []
    assert list_heads(verdict_of(wait * 5)) == ["LG-690"]


LIGHTNING = "Initializing distributed: GLOBAL_RANK: {}, MEMBER: {}/4\n"


def test_two_nodes_that_both_start_at_rank_0() -> None:
    low = "".join(LIGHTNING.format(rank, rank + 1) for rank in (0, 1))
    high = "".join(LIGHTNING.format(rank, rank + 1) for rank in (2, 3))
    old = low.replace("Initializing distributed", "initializing ddp")
    assert list_heads(verdict_of(low, low)) == ["LG-326"]
    assert list_heads(verdict_of(low, old)) == ["LG-326"]
    assert "ranks 0, 1 of 4" in verdict_of(low, low).heads[0].sentence
    # a copy of one log, the logs of a whole job, and a job whose ranks met
    assert list_heads(verdict_of(low + high, low + high)) == []
    assert list_heads(verdict_of(low, high)) == []
    met = "n1:1:2 [0] NCCL INFO comm 0x7f rank 0 nranks 4 cudaDev 0\n"
    assert list_heads(verdict_of(low + met, low + met)) == []


def test_a_service_mesh_at_the_store_s_port() -> None:
    store = "[I socket.cpp:725] [c10d] The client socket has connected to [master-0]:{} on [worker-0]:38244.\n"
    mesh = "2022-07-19T18:01:59Z\tdebug\tenvoy upstream\tmembership update for TLS cluster inbound|23456|| added 0\n"
    assert list_heads(verdict_of(store.format(23456), mesh)) == ["LG-327"]
    assert list_heads(verdict_of(store.format(29500), mesh)) == []


def test_interface_names_of_a_head_count_only_if_the_network_fails() -> None:
    copied = "Overwriting environment variable NCCL_IB_HCA from 'a' to 'b'\n"
    general = (
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
    )
    assert list_heads(verdict_of(copied)) == []
    verdict = verdict_of(copied + general)
    assert (list_heads(verdict), list_folded(verdict)) == (["LG-692"], ["LG-422"])


# What programs printed, cut to the decisive lines -> the code that comes first
PRINTED: list[tuple[str, str]] = [
    (
        "LG-117",
        "[rank1]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:1] Received data size"
        " doesn't match expected size. Is there a distributed collective mismatch in your code?",
    ),
    (
        "LG-216",
        "RuntimeError: use_libuv was requested but PyTorch was built without libuv support, run with USE_LIBUV=0 to"
        " disable it.",
    ),
    ("LG-325", "RuntimeError: No backend type associated with device type cuda"),
    (
        "LG-429",
        "n1:1:2 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 169.254.3.1<43369> failed : Software"
        " caused connection abort",
    ),
    (
        "LG-431",
        "n1:1:2 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address errno 14",
    ),
    (
        "LG-432",
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to bind NVLink SHARP (NVLS)"
        " Multicast memory of size 2097152 : CUDA error 1 'invalid argument'",
    ),
    ("LG-434", "n1:1:2 [0] NCCL WARN NET/OFI No eligible providers were found"),
    (
        "LG-435",
        "n1:1:2 [0] configure_ep:1 NCCL WARN NET/OFI Couldn't set FI_OPT_CUDA_API_PERMITTED. RC: -92, ERROR: Protocol"
        " not available",
    ),
    (
        "LG-437",
        "[n:0:1 unique id 1] ERROR x: device mlx5_2 port 2 is not valid (port is used by SM)",
    ),
    ("LG-515", "  self._start_tstate_lock\nRuntimeError: can't start new thread"),
    ("LG-515", "libgomp: Thread creation failed: Resource temporarily unavailable"),
    ("LG-515", "OpenBLAS blas_thread_init: pthread_create failed for thread 12 of 64"),
    ("LG-515", "-bash: fork: retry: No child processes"),
    (
        "LG-516",
        "jaxlib.XlaRuntimeError: INTERNAL: CUDA error: CUDA_ERROR_CONTAINED: Invalid access of peer GPU memory over"
        " nvlink or a hardware error",
    ),
    (
        "LG-691",
        "RuntimeError: DP Coordinator process failed to report ZMQ addresses during startup.",
    ),
    (
        "LG-693",
        "global_state_accessor.cc:356: This node has an IP address of 10.19.4.7, while we can not find the matched"
        " Raylet address. This maybe come from when you connect the Ray cluster with a different IP address.",
    ),
    ("LG-721", "[rank0]: EJ0003: [PID: 159] Failed to bind the IP port."),
    (
        "LG-722",
        "[rank1]: EI0006: [PID: 12] Getting socket times out. Reason: Remote Rank did not send the data in time.",
    ),
    ("LG-723", "transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA"),
    (
        "LG-724",
        "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\nshould not happen.",
    ),
    (
        "LG-725",
        "horovod.runner.common.util.network.NoValidAddressesFound: Unable to connect to the horovodrun driver service"
        " on any of the following addresses: {'lo': [('127.0.0.1', 23411)]}.",
    ),
    (
        "LG-726",
        "slurmstepd: error: pyxis: failed to import docker image\nsrun: error: n1: task 0: Exited with exit code 1",
    ),
    (
        "LG-206",
        "[c10d] The client socket has failed to connect to [n1.internal]:50745 (errno: 22 - Invalid argument).",
    ),
    ("LG-319", "train.py: error: unrecognized arguments: --steps"),
    (
        "LG-328",
        "Unable to negotiate with 192.0.2.1 port 22: no matching host key type found. Their offer: ssh-rsa",
    ),
    ("LG-328", "pdsh@n1: n2: ssh exited with exit code 255"),
    (
        "LG-330",
        "Error: crun: executable file `--model` not found in $PATH: No such file or directory",
    ),
    ("LG-330", "bash: line 1: /opt/conda/bin/torchrun: No such file or directory"),
    (
        "LG-330",
        "[proxy:0:0@n1] HYDU_create_process (lib/utils/launch.c:73): execvp error on file python (No such file)",
    ),
    ("LG-330", "/usr/bin/python3: No module named torch.distributed.run"),
    (
        "LG-331",
        "Warning  UnexpectedAdmissionError  9s  kubelet  Allocate failed due to no healthy devices present",
    ),
    ("LG-332", "docker: no matching manifest for linux/arm64/v8 in the manifest list entries."),
    (
        "LG-332",
        'Error response from daemon: Get "https://registry-1.docker.io/v2/": net/http: request canceled',
    ),
    ("LG-336", "_pickle.UnpicklingError: invalid load key, 'v'."),
    ("LG-339", "FATAL:   while extracting /home/u/x.sif: root filesystem extraction failed"),
    (
        "LG-340",
        "docker: permission denied while trying to connect to the Docker daemon socket at unix:///run/docker.sock",
    ),
    ("LG-341", "fatal: Can not use gres/gpu without gres.conf"),
    ("LG-341", "[slurm@n1] Reason=gres/gpu count reported lower than configured (0 < 8)"),
    (
        "LG-524",
        "container init: failed to fulfil mount request: open /run/nvidia-persistenced/socket: no such file",
    ),
    ("LG-543", "zmq.error.ZMQError: Cannot assign requested address addr='tcp://192.0.2.9:57707'"),
    (
        "LG-413",
        "[1.1] [n1:1:0]  ib_iface.c:100 UCX  ERROR ibv_create_srq() failed: Cannot allocate memory",
    ),
    (
        "LG-427",
        "[1.1] [n1:1:0]  ib_md.c:294 UCX  ERROR ibv_reg_dmabuf_mr(address=0x7f, length=16) failed: Unknown error 524",
    ),
    (
        "LG-501",
        "(raylet) node_manager.cc:3277: 2 Workers (tasks / actors) killed due to memory pressure (OOM)",
    ),
    (
        "LG-505",
        "Warning  Evicted  1s  kubelet  Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.",
    ),
    ("LG-509", "RuntimeError: XPU out of memory. Tried to allocate 2.00 GiB"),
    (
        "LG-513",
        "NVRM: API mismatch: the client has the version 550.54.15, but this kernel module has the version 535.161.07.",
    ),
    ("LG-519", "RuntimeError: Address already in use (os error 98)"),
    ("LG-519", "listen tcp 0.0.0.0:8000: bind: address already in use"),
    (
        "LG-519",
        "docker: Error response from daemon: Bind for 0.0.0.0:8000 failed: port is already allocated.",
    ),
    ("LG-521", "Unable to open /dev/kfd read-write: Permission denied"),
    (
        "LG-524",
        "Error response from daemon: failed to discover GPU vendor from CDI: no known GPU vendor found",
    ),
    ("LG-526", "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found"),
    ("LG-529", "OSError: You are trying to access a gated repo."),
    ("LG-529", "botocore.exceptions.NoCredentialsError: Unable to locate credentials"),
    (
        "LG-530",
        "UCX  ERROR mlx5dv_devx_obj_create(QP) failed, syndrome 0x65b500: Operation not permitted",
    ),
    ("LG-531", "RuntimeError: CUDA error: an illegal instruction was encountered"),
    ("LG-532", "c++: fatal error: Killed signal terminated program cc1plus"),
    (
        "LG-536",
        "ImportError: /opt/x/deep_ep_cpp.so: undefined symbol: nvshmem_selected_device_transport",
    ),
    (
        "LG-537",
        "subprocess.CalledProcessError: Command '['which', 'c++']' returned non-zero exit status 1.",
    ),
    ("LG-514", "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'"),
    ("LG-541", "collect2: error: ld returned 1 exit status"),
    ("LG-544", "RuntimeError: FlashAttention only supports Ampere GPUs or newer."),
    ("LG-732", "srun: error: cannot find mpi plugin for mpi/pmix"),
    (
        "LG-732",
        "error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:197: pmi/pmix: can not load PMIx library",
    ),
]


WORDINGS = [
    (code, text)
    for code, texts in yaml.safe_load(
        (Path(__file__).parent / "data/printed_lines.yml").read_text("utf-8")
    ).items()
    for text in texts
]


@pytest.mark.parametrize(("code", "text"), WORDINGS)
def test_other_wordings_of_a_cause_name_it(code: str, text: str) -> None:
    assert list_heads(verdict_of(text + "\n"))[0] == code


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (
            "pydantic.ValidationError: 1 validation error for VllmConfig\n  Value error, 40 heads must be divisible",
            "Value error, 40 heads",
        ),
        (
            "[rank0]: RuntimeError: Error(s) in loading state_dict for Net:\n[rank0]:  size mismatch for a.weight",
            "for Net: size mismatch for a.weight",
        ),
        (
            "terminate called after throwing an instance of 'c10::Error'\n  what():  no such device 8",
            "'c10::Error' no such device 8",
        ),
    ],
)
def test_a_message_in_the_next_line_is_quoted(text: str, quoted: str) -> None:
    assert quoted in verdict_of(text + "\n").heads[0].sentence


def test_the_programs_own_error_precedes_the_ranks_that_then_miss() -> None:
    own = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "t.py", line 3, in f\n[rank1]: KeyError: 1\n'
    joined = "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined.\n"
    assert list_heads(verdict_of(own, joined)) == ["LG-319"]


@pytest.mark.parametrize(("code", "text"), PRINTED, ids=[code for code, _ in PRINTED])
def test_a_line_that_a_program_printed_has_its_cause(code: str, text: str) -> None:
    assert list_heads(verdict_of(text + "\n"))[0] == code

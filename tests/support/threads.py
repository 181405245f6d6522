"""Score explain-log on public threads, in two halves: ``python tests/support/threads.py [--held-out]``.

A thread (tests/unit/data/threads) belongs to the half for writing rules if it was the source of a
page before the split (``known``), or if its address selects it. The other half is only scored.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
from fullmesh.causes.logs import ExplainOptions, LogFinding, Severity
from fullmesh.explain.judge import Tally, judge_logs
from fullmesh.explain.reader import split_blocks

DATA = Path(__file__).resolve().parents[1] / "unit/data/threads"
THREADS, HEALTHY = DATA / "threads.yml", DATA / "healthy.yml"
RIGHT, SYMPTOM, WRONG, SILENT = "right", "symptom", "wrong", "silent"
# what a thread ended with -> the codes whose page names it
CAUSES: dict[str, tuple[str, ...]] = {
    "amd-gpu-code": ("LG-514", "LG-544"),
    "architecture": ("LG-538",),
    "build-failed": ("LG-541",),
    "cache-permission": ("LG-345", "LG-535"),
    "code-defect": (),
    "compile-cache": ("LG-535",),
    "compiler": ("LG-537",),
    "compiler-old": ("LG-537", "LG-541"),
    "container-gpus": ("LG-523", "LG-524"),
    "container-lost-gpus": ("LG-523",),
    "container-network": ("LG-410", "LG-424"),
    "container-toolkit": ("LG-513", "LG-524"),
    "cuda-toolkit": ("LG-536", "LG-537", "LG-541", "LG-687"),
    "cumem-host": ("LG-457",),
    "cxi-queue": (),
    "deepspeed-login": ("LG-686",),
    "deepspeed-pdsh": ("LG-695",),
    "different-collectives": ("LG-416", "LG-417"),
    "disk": ("LG-505",),
    "dmabuf": ("LG-427",),
    "download": ("LG-529",),
    "driver": ("LG-510",),
    "driver-build": ("LG-541",),
    "driver-library": ("LG-510", "LG-513"),
    "driver-reboot": ("LG-513",),
    "efa-device": ("LG-434",),
    "efa-libfabric": ("LG-435",),
    "empty-address": ("LG-311",),
    "enroot-directory": ("LG-730",),
    "enroot-hook": ("LG-730",),
    "enroot-mount": ("LG-730",),
    "enroot-namespaces": ("LG-729",),
    "environment": ("LG-311",),
    "etcd": (),
    "extension-arch": ("LG-514",),
    "extension-build": ("LG-536",),
    "fabric-manager": ("LG-512", "LG-542"),
    "gfx-override": ("LG-514",),
    "gid": ("LG-412", "LG-429", "LG-736", "LG-737"),
    "gid-index": ("LG-736", "LG-737"),
    "gloo-device": ("LG-118",),
    "gpu-hardware": ("LG-506",),
    "gpu-hidden": ("LG-521",),
    "gpu-ipc": ("LG-460",),
    "gpu-kernel-crash": ("LG-531",),
    "gpu-memory": ("LG-509",),
    "gpu-permission": ("LG-521", "LG-524"),
    "gpu-too-new": ("LG-514",),
    "gpu-too-old": ("LG-514",),
    "gpu-unknown": ("LG-544",),
    "graph-file": ("LG-447",),
    "hccl-port": ("LG-721",),
    "hidden-gpus": ("LG-312", "LG-441"),
    "hip-defect": (),
    "image": ("LG-332",),
    "imex": ("LG-445",),
    "incomplete-file": ("LG-336",),
    "interface": ("LG-101", "LG-108", "LG-410", "LG-424"),
    "ipc-namespaces": ("LG-731",),
    "jax-heartbeat": (),
    "jax-late-start": ("LG-613",),
    "jax-port": ("LG-611",),
    "kernel-cma": (),
    "launcher-argument": ("LG-323",),
    "library-missing": ("LG-526",),
    "library-old": ("LG-526", "LG-536"),
    "library-permission": ("LG-345", "LG-526"),
    "limits": ("LG-515", "LG-615"),
    "link-flaps": ("LG-443",),
    "link-local": ("LG-429",),
    "loopback": ("LG-106", "LG-109"),
    "master-address": ("LG-202", "LG-205"),
    "master-pod": (),
    "memlock": ("LG-413",),
    "memory": ("LG-305", "LG-501", "LG-532"),
    "mixed-cuda-libraries": ("LG-526", "LG-536"),
    "mpi-daemons": ("LG-728",),
    "mpi-names": ("LG-528", "LG-728"),
    "mpi-slots": ("LG-733",),
    "mpi-ssh": ("LG-328", "LG-728"),
    "name": ("LG-109", "LG-206"),
    "nccl-build": ("LG-536",),
    "nccl-defect": ("LG-459",),
    "nccl-old": ("LG-458",),
    "nccl-setting": (),
    "nccl-versions": ("LG-406", "LG-423"),
    "network-plugin": ("LG-440",),
    "nixl-ucx": ("LG-735", "LG-738"),
    "no-interface": ("LG-108", "LG-406"),
    "no-nvswitch": ("LG-542",),
    "no-peer-access": ("LG-520",),
    "nodes-alone": ("LG-315", "LG-326"),
    "nofile": ("LG-504",),
    "nvlink-sharp": ("LG-432",),
    "nvshmem-build": (),
    "nvshmem-nics": ("LG-737",),
    "oneccl-provider": ("LG-744",),
    "own-error": ("LG-319",),
    "pcie": ("LG-534",),
    "peermem": ("LG-431", "LG-727"),
    "plugins-differ": ("LG-438",),
    "pmi": ("LG-732",),
    "pml-ucx": ("LG-745",),
    "pod-gpu": ("LG-331",),
    "pod-runtime": ("LG-521", "LG-524"),
    "port-in-use": ("LG-213", "LG-519"),
    "ports-shut": ("LG-102", "LG-104", "LG-402", "LG-404", "LG-601"),
    "probe": ("LG-333",),
    "program-missing": ("LG-330",),
    "proxy": ("LG-317",),
    "ptrace": ("LG-539",),
    "ptxas-old": ("LG-514", "LG-537", "LG-687"),
    "rank-behind": ("LG-456",),
    "rank-missing": ("LG-201", "LG-302", "LG-611"),
    "ray-address": ("LG-684",),
    "ray-gang-defect": (),
    "ray-gpus": ("LG-684",),
    "ray-head-loopback": ("LG-601",),
    "ray-ports": (),
    "ray-version": ("LG-604",),
    "rdma": ("LG-412", "LG-737"),
    "rdma-absent": ("LG-530", "LG-736"),
    "rdma-device": ("LG-439",),
    "rdma-foreign-nic": ("LG-461", "LG-736", "LG-737"),
    "rdma-libraries": (),
    "rdma-mkeys": (),
    "rdma-mtu": ("LG-444",),
    "rdma-plugin": ("LG-530", "LG-736"),
    "same-gpu": ("LG-411", "LG-462"),
    "same-host-name": ("LG-453",),
    "security-group": ("LG-419", "LG-426"),
    "serving-memory": ("LG-606",),
    "shared-cache": ("LG-345", "LG-527", "LG-535"),
    "shared-files": ("LG-336", "LG-342", "LG-344"),
    "shm": ("LG-306", "LG-414"),
    "slow-preparation": ("LG-454",),
    "slow-rank": ("LG-212",),
    "slow-start": ("LG-202",),
    "slurm-binding": ("LG-743",),
    "slurm-busy": ("LG-734",),
    "slurm-controller": ("LG-329", "LG-338"),
    "slurm-environment": ("LG-743",),
    "slurm-gres": ("LG-522",),
    "slurm-options": ("LG-743",),
    "slurm-prolog": ("LG-337",),
    "slurm-step": ("LG-734",),
    "stale-ranks": ("LG-316",),
    "storage": ("LG-527",),
    "sysv-memory": ("LG-518",),
    "timeout-too-short": ("LG-454", "LG-456"),
    "too-few-gpus": ("LG-312",),
    "too-many-peers": ("LG-446",),
    "two-nccl": ("LG-428",),
    "ucx-transport": ("LG-739",),
    "ucx-version": ("LG-735",),
    "uneven-batches": ("LG-416", "LG-456"),
    "unused-parameters": ("LG-324",),
    "vgpu-memory": (),
    "vllm-gpus": ("LG-607", "LG-684", "LG-697"),
}


@dataclass(frozen=True)
class Thread:
    """One thread.

    Attributes:
        address: where it is.
        cause: what it ended with.
        lines: what the programs had printed.
        known: whether it was a page's source before the halves were made.
        root: words of the line that states the cause itself. A finding that quotes them in its sentence is right.
    """

    address: str
    cause: str
    lines: tuple[str, ...]
    known: bool = False
    root: str = ""

    @property
    def held_out(self) -> bool:
        """Whether rules may not be written from it."""
        number = int(hashlib.sha256(self.address.encode()).hexdigest(), 16)
        return not self.known and number % 2 == 1


@dataclass(frozen=True)
class Answer:
    """The answer of explain-log about a thread.

    Attributes:
        verdict: right when the first finding names the cause, symptom when it says that the cause is not in the log,
            wrong when it names another one, silent when it found nothing.
        wrong: causes it named that the thread did not end with.
    """

    thread: Thread
    verdict: str
    codes: tuple[str, ...]
    wrong: tuple[str, ...]


def read_threads() -> list[Thread]:
    """All threads."""
    return [
        Thread(
            row["thread"],
            row["cause"],
            tuple(row["lines"]),
            row.get("known", False),
            row.get("root", ""),
        )
        for row in yaml.safe_load(THREADS.read_text("utf-8"))
    ]


def find_heads(lines: Sequence[str]) -> list[LogFinding]:
    """Ask explain-log about a log."""
    tally = Tally(ExplainOptions())
    for block in split_blocks(iter(["\n".join(lines) + "\n"])):
        tally.take("log", block)
    return judge_logs(tally).heads


def answer_thread(thread: Thread) -> Answer:
    """Ask explain-log about a thread."""
    heads = find_heads(thread.lines)
    codes = CAUSES[thread.cause]
    quoting = {h.code for h in heads if thread.root and thread.root in h.sentence}
    # an error of the program's own is named by its words only
    right = quoting if thread.cause == "own-error" else quoting.union(codes)
    wrong = tuple(
        h.code for h in heads if h.cause.severity is Severity.CAUSE and h.code not in right
    )
    if not heads:
        verdict = SILENT
    elif heads[0].code in right:
        verdict = RIGHT
    else:
        verdict = WRONG if wrong else SYMPTOM
    return Answer(thread, verdict, tuple(h.code for h in heads), wrong)


def score_threads(threads: Iterable[Thread], *, held_out: bool) -> list[Answer]:
    """The answers about one half."""
    return [answer_thread(thread) for thread in threads if thread.held_out is held_out]


def count_verdicts(answers: Sequence[Answer]) -> Counter[str]:
    """How often each verdict was given."""
    return Counter(one.verdict for one in answers)


def main() -> None:
    """Print a half's score and what it missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--held-out", action="store_true")
    held_out = parser.parse_args().held_out
    answers = score_threads(read_threads(), held_out=held_out)
    for one in answers:
        if one.verdict != RIGHT or one.wrong:
            codes = " ".join(one.codes) or "-"
            sys.stdout.write(
                f"{one.verdict:8}{one.thread.cause:22}{one.thread.address:48}{codes}\n"
            )
    counts = ", ".join(
        f"{count} {verdict}" for verdict, count in count_verdicts(answers).most_common()
    )
    named = sum(len(one.wrong) for one in answers)
    sys.stdout.write(f"{len(answers)} threads: {counts}; {named} causes named wrongly\n")


if __name__ == "__main__":
    main()

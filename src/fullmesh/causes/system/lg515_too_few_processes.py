"""The limit of processes or threads is reached

A process could not start another thread or process ({detail}). The limit of the account (ulimit
-u), of the container (pids) or of the unit (TasksMax) is reached.

**Place:** the node of this log, in the job's account, unit or container

**Prove:** in the job's environment, compare `ps -eLf | wc -l` with `ulimit -u` and `cat
/sys/fs/cgroup/pids.max`

**Fix:** Raise ulimit -u, TasksMax in the unit or --pids-limit of the container, or set
OMP_NUM_THREADS=1.

**Source:** vllm-project/vllm#6295 (errno EAGAIN from clone(2))
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-515",
    __doc__,
    examples=(
        (
            "E0710 15:24:06.605366961 2474524 thd.cc:157] pthread_create failed: Resource "
            "temporarily unavailable"
        ),
        "RuntimeError: can't start new thread",
        "bash: fork: retry: Resource temporarily unavailable",
    ),
    patterns=(
        Pattern(
            "pthread_create",
            r"(?P<detail>pthread_create)\W.{0,80}(?:[Rr]esource temporarily unavailable|failed)",
        ),
        Pattern("start new thread", r"(?P<detail>can't start new thread)"),
        Pattern(
            "fork: ",
            r"(?P<detail>fork): (?:retry: )?(?:Resource temporarily unavailable|No child processes)",
        ),
        Pattern(
            "hread creation failed",
            r"(?P<detail>(?:libgomp|NCCL WARN):? Thread creation failed)",
        ),
        Pattern(
            "Resource temporarily unavailable",
            r"what\(\):\s{1,4}(?P<detail>(?:thread: )?Resource temporarily unavailable)",
        ),
        Pattern(
            "unable to allocate necessary resources for OMP",
            r"(?P<detail>OMP: Error #34: System unable to allocate)",
        ),
        Pattern(
            "[Errno 11] Resource temporarily unavailable",
            r"(?:OS|BlockingIO)Error: (?P<detail>\[Errno 11\] Resource temporarily unavailable)",
        ),
        Pattern("ThreadPoolBuildError", r"(?P<detail>ThreadPoolBuildError)"),
        Pattern("fork rejected by pids", r"(?P<detail>fork rejected by pids controller)"),
        Pattern("annot fork", r"(?P<detail>[Cc]annot fork)"),
        # Go and Rust
        Pattern("create new OS thread", r"(?P<detail>failed to create new OS thread)"),
        Pattern("failed to spawn thread", r"(?P<detail>failed to spawn thread)"),
        Pattern("can't create thread", r"(?P<detail>can't create thread)"),
        Pattern(
            "unable to create native thread", r"(?P<detail>unable to create (?:new )?native thread)"
        ),
        Pattern("fork/exec ", r"(?P<detail>fork/exec \S{1,120}): resource temporarily unavailable"),
    ),
    weight=90,
)

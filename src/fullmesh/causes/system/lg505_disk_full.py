"""A disk or a quota is full

A disk or quota is full ({detail}).

**Place:** the node of this log

**Prove:** run `df -h`, `df -i` and `quota -s`

**Fix:** Free space, or write checkpoints and logs to another disk. A parallel file system can be
full on one of its servers only (Lustre: lfs df).

**Source:** errno 28 and 122, awslabs/awsome-distributed-ai#1225
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-505",
    __doc__,
    examples=("OSError: [Errno 28] No space left on device",),
    patterns=(
        Pattern(
            "No space left on device",
            (
                r"\A(?!.*(?:SemLock|shm_open)\()"
                r".*\[Errno 28\] (?P<detail>No space left on device)(?!.{0,80}/dev/shm)"
            ),
            before=4,
        ),
        # torch and safetensors write a checkpoint without the errno
        Pattern(
            "unexpected pos ",
            r"inline_container\.cc.{1,40}(?P<detail>unexpected pos \d{1,20} vs \d{1,20})",
        ),
        Pattern(
            "PytorchStreamWriter failed writing",
            r"(?P<detail>PytorchStreamWriter failed writing file [^:]{1,120}: file write failed)",
        ),
        Pattern("iostream error", r"(?P<detail>basic_ios::clear: iostream error)"),
        # Rust
        Pattern(
            "No space left on device (os error",
            r"(?P<detail>No space left on device) \(os error 28\)",
        ),
        Pattern("kind: StorageFull", r"(?P<detail>kind: StorageFull)"),
        Pattern(
            "low on resource: ephemeral-storage",
            r"(?P<detail>node was low on resource: ephemeral-storage)",
        ),
        Pattern(
            "local storage usage exceeds", r"(?P<detail>ephemeral local storage usage exceeds)"
        ),
        Pattern("Disk quota exceeded", r"(?P<detail>Disk quota exceeded)"),
        # commands, Docker and Go programs
        Pattern(
            "o space left on device",
            (
                r"\A(?!.*(?:/dev/shm|shared memory|\bshm\b|</torch_|SemLock|inotify|fsnotify|file watch|cgroup"
                r"|semget|semaphore|namespace|unshare|NCCL WARN|\[Errno 28\]))"
                r"[^\n]*: (?P<detail>[Nn]o space left on device)(?! \(os)"
            ),
        ),
        Pattern("database or disk is full", r"(?P<detail>database or disk is full)"),
        Pattern(
            "No usable temporary directory", r"(?P<detail>No usable temporary directory found)"
        ),
    ),
    yields=True,  # many programs end another message with the errno
    weight=87,
    recorded=(
        RecordedLog(
            "disk",
            "OSError: [Errno 28] No space left on device",
        ),
    ),
)

"""The memory of the node ran out

A process got no more memory, or was ended because the node's memory ran out ({detail}).

**Place:** the node of this log

**Prove:** on that node, run `free -h` and `journalctl -k --since -1d -g oom`

**Fix:** Give the container or job more memory, load the model on fewer ranks of a node at a time,
or use fewer DataLoader workers.

**Source:** read: Ray's memory monitor, torch's DefaultCPUAllocator and DataLoader, errno ENOMEM
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import AS_LAST, RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-532",
    __doc__,
    examples=(
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."),
    ),
    patterns=(
        Pattern(
            "due to the node running low on memory",
            r"(?P<detail>killed due to the node running low on memory)",
        ),
        Pattern(
            "address the out of memory issue",
            r"(?P<detail>documentation on how to address the out of memory issue)",
        ),
        Pattern("can't allocate memory", r"(?P<detail>DefaultCPUAllocator: can't allocate memory)"),
        Pattern(
            "[Errno 12] Cannot allocate memory", r"(?P<detail>\[Errno 12\] Cannot allocate memory)"
        ),
        Pattern(
            "is killed by signal: Killed",
            r"(?P<detail>DataLoader worker \(pid[^)]{1,20}\) is killed by signal: Killed)",
        ),
        Pattern("Failed to malloc", AS_LAST + r"(?P<detail>Failed to malloc \d{1,20} bytes)"),
        Pattern(
            "MemoryError",
            r"(?:^|[\s:])(?P<detail>(?:numpy\.[\w.]{1,40}_Array)?MemoryError)(?::|\s*$)",
        ),
        Pattern(
            "unable to mmap ",
            r"(?P<detail>unable to mmap \d{1,20} bytes from file .{1,120}: Cannot allocate memory)",
        ),
        Pattern("low on resource: memory", r"(?P<detail>node was low on resource: memory)"),
        Pattern(
            "fatal error: Killed signal terminated",
            r"fatal error: (?P<detail>Killed signal) terminated program",
        ),
        Pattern("std::bad_alloc", r"(?P<detail>std::bad_alloc)(?!: out_of_memory)"),
        Pattern("fork: Cannot allocate memory", r"(?P<detail>fork: Cannot allocate memory)"),
        # other languages and libraries
        *(
            Pattern(needle, rf"(?P<detail>{words})")
            for needle, words in (
                ("Memory allocation still failed", "Memory allocation still failed"),
                ("malloc of size ", r"malloc of size \d{1,20} failed"),
                ("memory allocation of ", r"memory allocation of \d{1,20} bytes failed"),
                ("not enough memory: you tried", "not enough memory: you tried to allocate"),
                ("paging file is too small", "paging file is too small"),
                ("java.lang.OutOfMemoryError", r"java\.lang\.OutOfMemoryError: [\w ]{3,60}"),
                ("fatal error: runtime: out of memory", "runtime: out of memory"),
            )
        ),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    weight=90,
)

"""NCCL or NVSHMEM: processes of a node cannot reach each other's files

Two processes are taken for neighbours on one node, but they share no /dev/shm, network namespace
or process ids ({detail}). They are in different containers, or two nodes have the same host name.

**Place:** the containers of this node

**Prove:** for both processes: ls -l /proc/PID/ns (compare the containers' options --ipc, --network
and --pid)

**Fix:** Start the containers of a node with --ipc=host --network=host, or run all ranks of a node
in one container. Otherwise set a unique NCCL_HOSTID in each container, and give each
node a host name of its own.

**Source:** read: NCCL's misc/ipcsocket.cc, misc/shmutils.cc and its guide's chapter on containers
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-453",
    __doc__,
    examples=(
        (
            "n:1:2 [0] misc/ipcsocket.cc:5 NCCL WARN UDS: Sending data over socket "
            "/tmp/nccl-socket-0-abc failed : Connection refused (111)"
        ),
    ),
    patterns=(
        Pattern("UDS: ", r"NCCL WARN (?P<detail>UDS: (?:Sending|Receiving) data over socket)"),
        Pattern(
            "Error while attaching to shared memory segment",
            (
                r"(?P<detail>Error while attaching to shared memory segment \S{1,60}) (?!\(size 0\)).{0,60}No such "
                r"file"
            ),
        ),
        # NVSHMEM
        Pattern(
            "IPC failure: Sending data",
            r"(?P<detail>IPC failure: Sending data over socket failed: [\w ]{3,40})",
        ),
    ),
    weight=82,
)

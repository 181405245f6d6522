"""A rank has not entered a collective: it waits for a peer that does not answer

The main thread waits at a socket in its own code: a server does not answer a request, a connection
attempt gets no answer, the peer does not read, or no client connects. The finding names the address
and port, and the process there if it is on the same node.

**Prove:** ss -tnpo && cat /proc/PID/syscall

**Fix:** Check the server at that address. Give every request a timeout
(`socket.create_connection(..., timeout=30)`, `requests.get(..., timeout=30)`).

**Source:** real processes that hang in each system call (tests/unit/test_hang_wait.py)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_silent_peers(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that wait for a peer's answer."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.SOCKET,
        LateMessage(
            "waits for {what}{at}",
            "wait for {what}{at}",
            "the peer answers, or a timeout ends the wait",
            "check the server at that address, and set a timeout for the request at that line",
        ),
    )


CAUSE = HangCause(
    "HG-117",
    __doc__,
    find=find_silent_peers,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)

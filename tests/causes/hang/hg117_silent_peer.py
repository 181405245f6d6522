"""Cases of HG-117."""

from __future__ import annotations

from hang_jobs import MAIN
from hang_records import waits

from causes.job_faults import JobFault

JOB_CHANGES = {
    "a server that does not answer": (
        ["HG-117"],
        "late_data",
        waits("recvfrom", "socket", "data from 10.0.0.9:443"),
    ),
}
JOB_FAULTS = (
    JobFault(
        "silent_peer",
        "a server that does not answer",
        MAIN
        + """\
if rank == 1:
    import socket
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
go()
if rank == 1:
    client.recv(1)
dist.all_reduce(grads)
""",
        "HG-117",
        (1,),
        "client.recv(1)",
        expected=("data from 127.0.0.1:",),
    ),
)

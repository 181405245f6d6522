# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Let root and the job's own account query a rank's state.

Runs in every Python process of a job.

Installed as ``sitecustomize.py`` in a separate folder, which Fullmesh's launchers put first into PYTHONPATH. Another
sitecustomize still runs. One thread waits on an abstract Unix socket with the process number in its name (unix(7)): no
file, no port, nothing to clean up, and the kernel identifies the client.

It must never affect the job. It does not import torch, since an import may wait for a lock of the hung main thread. It
reads no source file, since that may be on a hung NFS. All its errors are ignored.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from types import FrameType, TracebackType
    from typing import Any

    from fullmesh.observed.hang import (
        Frame,
        PythonThread,
        RankGroup,
        RdmaPortState,
        UncaughtException,
    )

# The rank variables of torchrun, Open MPI and Slurm.
TOLD = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
NAME = "\0fullmesh-hang-"
OFF = "FULLMESH_HANG"
THREAD = "fullmesh-hang"
BACKLOG = 4
SECONDS = 2.0  # for a client that sends a query and does not read
DEEPEST = 60  # reported calls of a thread
# NCCL has a record of its own. The other one is Gloo's (torch 2.7 and newer).
RECORDS = ("_dump_nccl_trace_json", "_dump_fr_trace_json")
CREDENTIALS = 12  # struct ucred: pid, uid, gid
EVERY_UID, NOBODY = b"4294967295", 65534
RDMA = "/sys/class/infiniband"
MOST_GIDS, MOST_PORTS = 256, 32
# Packets that were sent again or came out of order, by the names of mlx5 and of soft-RoCE.
RDMA_ERRORS = (
    "local_ack_timeout_err",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "completer_retry_err",
    "out_of_seq_request",
    "rcvd_seq_err",
    "rcvd_rnr_err",
    "retry_exceeded_err",
)
LARGEST = (1 << 63) - 1
raised: UncaughtException | None = None
rdma_at_start: dict[str, RdmaPortState] = {}


def build_frame(file: str, line: int, name: str) -> Frame:
    """Build a call."""
    return {"file": file, "line": line, "name": name}


def read_stack(one: FrameType | None) -> list[Frame]:
    """Return a thread's calls, the innermost first."""
    found: list[Frame] = []
    while one is not None and len(found) < DEEPEST:
        found.append(build_frame(one.f_code.co_filename, one.f_lineno, one.f_code.co_name))
        one = one.f_back
    return found


def list_thread_stacks() -> list[PythonThread]:
    """Return the stacks of all other threads, the main one first."""
    import threading  # noqa: PLC0415 (a process that is never asked pays for nothing)

    names = {one.ident: one.name for one in threading.enumerate()}
    main, own = threading.main_thread().ident, threading.get_ident()
    frames = sys._current_frames()
    order = sorted((one for one in frames if one != own), key=lambda one: (one != main, one))
    return [{"name": names.get(one, ""), "frames": read_stack(frames[one])} for one in order]


def count_full_collections() -> int:
    """Return how often Python's garbage collector has searched all objects."""
    import gc  # noqa: PLC0415 (as above)

    return int(gc.get_stats()[-1]["collections"])


def read_sysfs(path: str) -> str:
    """Return the text of a file in sysfs, or "" if it is missing or has no value."""
    try:
        with open(path) as stream:
            return stream.read().strip()
    except (OSError, ValueError):
        return ""


def list_sysfs(path: str) -> list[str]:
    """Return the names in a folder of sysfs, numbers in their order, or [] if it is missing."""
    try:
        return sorted(os.listdir(path), key=lambda name: (len(name), name))
    except OSError:
        return []


def read_rdma_port(folder: str) -> RdmaPortState:
    """Return the RoCE v2 entries of a port's GID table, and its error counters."""
    gids, errors = {}, {}
    for index in list_sysfs(f"{folder}/gids")[:MOST_GIDS]:
        gid = read_sysfs(f"{folder}/gids/{index}")
        # the type of an empty entry cannot be read
        if gid.strip(":0") and "v2" in read_sysfs(f"{folder}/gid_attrs/types/{index}"):
            gids[index] = gid
    for name in RDMA_ERRORS:
        text = read_sysfs(f"{folder}/hw_counters/{name}")
        if text.isdecimal():
            errors[name] = min(int(text), LARGEST)
    return {"gids": gids, "errors": errors}


def read_rdma_ports() -> dict[str, RdmaPortState]:
    """Return the state of all RDMA ports by their names: ``mlx5_0:1``."""
    names = [
        (card, port) for card in list_sysfs(RDMA) for port in list_sysfs(f"{RDMA}/{card}/ports")
    ]
    return {
        f"{card}:{port}": read_rdma_port(f"{RDMA}/{card}/ports/{port}")
        for card, port in names[:MOST_PORTS]
    }


def list_process_groups(distributed: Any) -> list[RankGroup]:
    """Return the process groups that this rank created, even if it is not a member."""
    world = distributed._world
    return [
        {"name": name, "desc": one.group_desc, "ranks": sorted(world.pg_group_ranks[one])}
        for one, name in list(world.pg_names.items())
    ]


def collect_rank_state() -> tuple[dict[str, Any], bytes]:
    """Return the inside state: a header, and torch's own records as lines of JSON, or b""."""
    header: dict[str, Any] = {"rank": -1, "world": 0, "groups": [], "raised": raised, "why": ""}
    header["threads"] = list_thread_stacks()
    header["full_collections"] = count_full_collections()
    header["rdma"] = rdma_at_start
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    recorder = sys.modules.get("torch._C._distributed_c10d")
    if distributed is None or recorder is None:
        return {**header, "why": "torch.distributed is not imported"}, b""
    try:
        default = distributed._world.default_pg
        if default is None:
            return {**header, "why": "no process group was made"}, b""
        header.update(
            rank=default.rank(), world=default.size(), groups=list_process_groups(distributed)
        )
        header["torch"] = str(getattr(sys.modules.get("torch"), "__version__", ""))
        dumps = [getattr(recorder, name) for name in RECORDS if hasattr(recorder, name)]
        why = "" if dumps else "this torch does not have a record"
        return {**header, "why": why}, b"\n".join(bytes(dump(True, False)) for dump in dumps)
    except Exception as exc:
        return {**header, "why": f"torch's record cannot be read: {exc!r}"}, b""


def is_overflow_uid(uid: int) -> bool:
    """Return whether this is the number for accounts that this user namespace does not map.

    In a rootless container that is every other account of the host (user_namespaces(7)).
    """
    try:
        with open("/proc/self/uid_map", "rb") as stream:
            if stream.read().split()[2:] == [EVERY_UID]:
                return False  # every account is mapped
        with open("/proc/sys/kernel/overflowuid", "rb") as stream:
            return int(stream.read()) == uid
    except (OSError, ValueError):
        return uid == NOBODY


def is_allowed_peer(connection: socket.socket) -> bool:
    """Return whether the client is root or this account (socket(7), SO_PEERCRED)."""
    import socket  # noqa: PLC0415 (as above)

    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS)
    uid = int.from_bytes(raw[4:8], sys.byteorder)
    return uid in (0, os.geteuid()) and not is_overflow_uid(uid)


def answer_connection(connection: socket.socket) -> None:
    """Answer a client."""
    import json  # noqa: PLC0415 (as above)

    connection.settimeout(SECONDS)
    if is_allowed_peer(connection):
        header, record = collect_rank_state()
        connection.sendall(json.dumps(header).encode() + b"\n" + record)


def serve_requests(listener: socket.socket) -> None:
    """Read the RDMA ports once, and wait for clients for as long as the process lives."""
    rdma_at_start.update(read_rdma_ports())
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # closed: this is a fork
        try:
            answer_connection(connection)
        except Exception:  # noqa: S110 (the client sees the missing answer, and the job must not notice)
            pass
        finally:
            connection.close()


def start_hook() -> None:
    """Open the socket and start the thread."""
    import socket  # noqa: PLC0415 (no process but a rank pays for it)
    import threading  # noqa: PLC0415 (as above)

    listener = socket.socket(socket.AF_UNIX)  # closed by exec (PEP 446)
    listener.bind(NAME + str(os.getpid()))
    listener.listen(BACKLOG)
    # a worker of a DataLoader would hold it open without answering
    os.register_at_fork(after_in_child=listener.close)
    threading.Thread(target=serve_requests, args=(listener,), daemon=True, name=THREAD).start()
    before = sys.excepthook

    def passed(
        kind: type[BaseException], value: BaseException, trace: TracebackType | None
    ) -> None:
        global raised  # noqa: PLW0603 (sys.excepthook has no place of its own)
        frames, at = [], trace
        while at is not None:
            code = at.tb_frame.f_code
            frames.append(build_frame(code.co_filename, at.tb_lineno, code.co_name))
            at = at.tb_next
        # text only: the exception itself would keep its tensors alive
        raised = {"text": f"{kind.__name__}: {value}"[:1000], "frames": frames[::-1][:DEEPEST]}
        before(kind, value, trace)

    sys.excepthook = passed


def run_hidden_sitecustomize() -> None:
    """Run the sitecustomize that this one hides, as Python would have."""
    from importlib.machinery import PathFinder  # noqa: PLC0415 (as above)

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.abspath(one) != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec  # noqa: PLC0415 (as above)

    module = sys.modules["sitecustomize"] = module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if any(os.environ.get(name) for name in TOLD) and os.environ.get(OFF) != "0":
        try:  # noqa: SIM105 (importing contextlib costs more than all of this)
            start_hook()
        except Exception:  # noqa: S110 (a job without this is a job all the same)
            pass
    run_hidden_sitecustomize()

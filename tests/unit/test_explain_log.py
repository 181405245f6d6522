"""explain-log: recorded messages of real jobs, what they mean, and what no log may do to the tool."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fullmesh import cli, codes
from fullmesh.causes.engine import load_causes
from fullmesh.causes.gloo.patterns import swap_port_bytes
from fullmesh.causes.logs import MOST_LINES, ExplainOptions, Severity
from fullmesh.causes.pages import fill_template, format_page_link, render_cause_section
from fullmesh.explain import judge, pages, reader
from fullmesh.explain.unpack import UnreadableLogError
from fullmesh.observed.ports import PortRange
from fullmesh.printed import CONTROL, clean_and_shorten
from fullmesh.result import findings
from fullmesh.settings import ROOT
from fullmesh.verbs import explain as explain_cli

RANGE = PortRange(50000, 54095)


def verdict_of(*texts: str, options: ExplainOptions | None = None) -> judge.LogVerdict:
    """The verdict over some logs, named rank0.log, rank1.log and so on."""
    tally = judge.Tally(options or ExplainOptions())
    for number, text in enumerate(texts):
        for block in reader.split_blocks(iter([text])):
            tally.take(f"rank{number}.log", block)
    return judge.judge_logs(tally)


def heads(verdict: judge.LogVerdict) -> list[str]:
    """The codes of the heads in order."""
    return [head.code for head in verdict.heads]


def folded(verdict: judge.LogVerdict) -> list[str]:
    """The codes of what follows from the heads."""
    return sorted(child.code for head in verdict.heads for child in head.follows)


def harmless(verdict: judge.LogVerdict) -> list[str]:
    """The codes of the harmless warnings."""
    return [finding.code for finding in verdict.harmless]


def c10d_timeout(host: str, port: int) -> str:
    return (
        "[E socket.cpp:957] [c10d] The client socket has timed out after 600000ms while"
        f" trying to connect to ({host}, {port})."
    )


def torchrun(rank: int, host: str, exitcode: int, traceback: str) -> str:
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "============================================================\n"
        "train.py FAILED\n------------------------------------------------------------\n"
        "Failures:\n  <NO_OTHER_FAILURES>\n"
        "------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
        f"  time      : 2025-05-21_15:43:03\n  host      : {host}\n  rank      : {rank} (local_rank: 0)\n"
        f"  exitcode  : {exitcode} (pid: 14750)\n  error_file: <N/A>\n  traceback : {traceback}\n"
        "============================================================\n"
    )


GLOO = (
    "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/"
)
SIGKILL = "Signal 9 (SIGKILL) received by PID 14750"
WATCHDOG = (
    "[rank{0}]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog"
    " caught collective operation timeout:"
    " WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=5056, NumelOut=5056, Timeout(ms)=600000)"
    " ran for 600026 milliseconds before"
    " timing out."
)

# recorded text -> the codes of the heads in order, of what is folded under them, of the harmless
RECORDED: dict[str, tuple[str, list[str], list[str], list[str]]] = {
    "ray status without a head": (
        "[2026-11-24 21:20:23,656 W 1636 1636] rpc_client.h:153: Failed to connect to GCS at address"
        " 10.78.7.11:6379 within 5 seconds.\n"
        "[2026-11-24 21:20:58,679 W 1636 1636] gcs_client.cc:210: Failed to get cluster ID from GCS server:"
        " TimedOut: Timed out while waiting for GCS to become available.\n"
        "Traceback (most recent call last):\n"
        '  File "python/ray/includes/common.pxi", line 144, in ray._raylet.check_status_timeout_as_rpc_error\n'
        "ray.exceptions.RpcError: Timed out while waiting for GCS to become available.",
        ["LG-601"],
        ["LG-602"],
        [],
    ),
    "ray without ports for its workers": (
        "(raylet) [2022-08-23 15:13:15,557 E 223585 223585] core_worker.cc:137: Failed to register worker"
        " a20a041a81c6dc5a5709d7e342bd95bec33fd5b2b181fcce5a4d9221 to Raylet. Invalid: Invalid: No available"
        " ports. Please specify a wider port range using --min-worker-port and --max-worker-port.",
        ["LG-603"],
        [],
        [],
    ),
    "ray of two versions": (
        "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.11.2\n"
        "This process on node 10.78.7.12 was started with:\n    Ray: 2.59.0\n    Python: 3.11.2\n",
        ["LG-604"],
        [],
        [],
    ),
    "ray without its client": (
        "ValueError: Ray Client requires pip package `ray[client]`. If you installed the minimal Ray (e.g. `pip install"
        " ray`), please reinstall by executing `pip install ray[client]`.",
        ["LG-605"],
        [],
        [],
    ),
    "ray with a small /dev/shm": (
        "2026-11-24 21:22:10,098	WARNING services.py:2248 -- WARNING: The object store is using /tmp/ray instead of"
        " /dev/shm because /dev/shm has only 65536000 bytes available. This will harm performance!",
        [],
        [],
        ["LG-960"],
    ),
    "jax without a coordinator": (
        "F1124 21:44:42.621657   32641 client.h:80] Terminating process because the JAX distributed service detected"
        " fatal errors. This most likely indicates that another task died; see the other task logs for more details."
        " Disable Python buffering, i.e. `python -u`, to be sure to see all the previous output. absl::Status:"
        " DEADLINE_EXCEEDED: Deadline Exceeded\n\nRPC: /xla.coordination.CoordinationService/RegisterTask\n"
        "*** Check failure stack trace: ***\n"
        "    @     0x7f46c8c40634  absl::lts_20260107::log_internal::LogMessage::SendToLog()",
        ["LG-611"],
        [],
        [],
    ),
    "seed 1: no error": (
        "[rank1]:[E528 08:52:46.164 ProcessGroupGloo.cpp:145] Gloo connectFullMesh failed with"
        " [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
        ["LG-101"],
        [],
        [],
    ),
    "seed 2: clients": (
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined.",
        ["LG-201"],
        [],
        [],
    ),
    "seed 3: rank": (
        "ued37c44e4ea65b:6861:6861 [7] init.cc:981 NCCL WARN Invalid rank requested : 7/4\n"
        "ued37c44e4ea65b:6859:6859 [5] init.cc:981 NCCL WARN Invalid rank requested : 5/4\n"
        "ued37c44e4ea65b:6860:6860 [6] NCCL INFO NET/IB : No device found.",
        ["LG-401"],
        [],
        ["LG-903"],
    ),
    "seed 4: plugin": (
        "gpu:1:1 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\n"
        "gpu:1:1 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 :"
        " libnccl-net.so: cannot open shared"
        " object file: No such file or directory",
        [],
        [],
        ["LG-901"],
    ),
    "seed 5: pattern 4": (
        (
            "node1:2374:2645 [0] graph/search.cc:1127 NCCL WARN Could not find a path for"
            " pattern 4, falling back to simple order"
        ),
        [],
        [],
        ["LG-902"],
    ),
    # aws-ofi-nccl: "Selected Provider is efa", in newer versions "Selected provider is efa, fabric is ..."
    "seed 5: pattern 4 beside EFA": (
        "ip-10-0-1-11:2374:2645 [0] NCCL INFO NET/OFI Selected Provider is efa\n"
        "ip-10-0-1-11:2374:2645 [0] graph/search.cc:1127 NCCL WARN Could not find a path for"
        " pattern 4, falling back to simple order",
        ["LG-426"],
        [],
        [],
    ),
    "pattern 4 beside EFA, later wording, and the watchdog": (
        "[1,0]<stdout>:ip-10-0-1-11:2374:2645 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4"
        " nics)\n"
        "[1,0]<stdout>:ip-10-0-1-11:2374:2645 [0] NCCL INFO Could not find a path for pattern 4, falling back to"
        " simple order\n" + WATCHDOG.format(0, 1, "ALLREDUCE"),
        ["LG-426"],
        ["LG-415"],
        [],
    ),
    "pattern 4 beside EFA, and what EFA itself says": (
        "n:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa (found 1 nics)\n"
        "n:1:2 [0] NCCL WARN Could not find a path for pattern 4, falling back to simple order\n"
        "n:1:2 [0] NCCL WARN NET/OFI Request completed with error. RC: 4. Error: 4126 (Unresponsive receiver)",
        ["LG-419"],
        ["LG-426"],
        [],
    ),
    "pattern 4 beside EFA, and a program that fails by itself": (
        "n:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa\n"
        "n:1:2 [0] NCCL WARN Could not find a path for pattern 4, falling back to simple order\n"
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        ["LG-509"],
        ["LG-426"],
        [],
    ),
    "pattern 4 beside EFA that carries traffic": (
        "n:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa\n"
        "n:1:2 [0] NCCL WARN Could not find a path for pattern 4, falling back to simple order\n"
        "n:1:2 [0] NCCL INFO Channel 00/0 : 0[170] -> 8[170] [send] via NET/AWS Libfabric/0\n"
        "n:1:2 [0] NCCL INFO Connected all rings\n",
        [],
        [],
        ["LG-902"],
    ),
    "pattern 4 beside another provider": (
        "n:1:2 [0] NCCL INFO NET/OFI Selected Provider is tcp;ofi_rxm\n"
        "n:1:2 [0] NCCL WARN Could not find a path for pattern 4, falling back to simple order\n",
        [],
        [],
        ["LG-902"],
    ),
    "EFA alone": ("n:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa", [], [], []),
    "clients, cut off": (
        "[rank0]: RuntimeError: Timed out after 1801 seconds waiting for clients",
        ["LG-201"],
        [],
        [],
    ),
    "clients, cut off after the full stop": (
        "2026-11-20 08:52:46,164 torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients.",
        ["LG-201"],
        [],
        [],
    ),
    "a backend that torch has not": (
        '[rank0]:   File "/srv/jobs/train.py", line 12, in main\n'
        '[rank0]:     dist.init_process_group("hccl")\n'
        '[rank0]:     raise AssertionError(f"Unknown c10d backend type {backend_str.upper()}")\n'
        "[rank0]: AssertionError: Unknown c10d backend type HCCL\n" + torchrun(0, "node1", 1, "x"),
        ["LG-322"],
        ["LG-304"],
        [],
    ),
    "torch's wheels have no MPI": (
        "RuntimeError: Distributed package doesn't have MPI built in. MPI is only included if you build PyTorch from "
        "source on a host that has MPI installed.",
        ["LG-322"],
        [],
        [],
    ),
    "a second init": (
        '[rank0]:   File "/srv/jobs/train.py", line 12, in main\n'
        '[rank0]:     dist.init_process_group("nccl")\n'
        "[rank0]: ValueError: trying to initialize the default process group twice!\n"
        + torchrun(0, "node1", 1, "x"),
        ["LG-321"],
        ["LG-304"],
        [],
    ),
    "a second init, before torch 2": (
        "RuntimeError: trying to initialize the default process group twice!",
        ["LG-321"],
        [],
        [],
    ),
    "its source line in a traceback": (
        '    raise ValueError("trying to initialize the default process group twice!")',
        [],
        [],
        [],
    ),
    "a thread of Gloo's at the end": (
        "terminate called without an active exception\n"
        "W1122 07:11:51.899000 6276 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 6306"
        " closing signal SIGTERM\n"
        "E1122 07:11:51.965000 6276 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -6)"
        " local_rank: 0 (pid: 6305) of binary: /opt/fullmesh/venvs/3e2e9377516239e8/bin/python\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
        "Root Cause (first observed failure):\n"
        "[0]:\n  time      : 2026-11-22_07:11:51\n  host      : gpu-el1.lab.example\n"
        "  rank      : 0 (local_rank: 0)\n  exitcode  : -6 (pid: 6305)  (SIGABRT)\n  error_file: <N/A>\n"
        "  traceback : Signal 6 (SIGABRT) received by PID 6305\n",
        ["LG-320"],
        ["LG-308", "LG-310"],
        [],
    ),
    "an error ends the program, and a thread of Gloo's the process": (
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/srv/jobs/train.py", line 9, in <module>\n'
        "[rank0]: ValueError: no such split: valid\n"
        "terminate called without an active exception\n"
        "  host      : gpu-el1.lab.example\n  rank      : 0 (local_rank: 0)\n"
        "  exitcode  : -6 (pid: 6305)  (SIGABRT)\n  error_file: <N/A>\n"
        "  traceback : Signal 6 (SIGABRT) received by PID 6305\n",
        ["LG-319"],
        ["LG-308", "LG-320"],
        [],
    ),
    "gloo reject": (
        GLOO
        + "pair.cc:172] timed out connecting: SO_ERROR: No route to host, remote=[10.77.0.11]:10653$1",
        ["LG-102"],
        [],
        [],
    ),
    "gloo refused, and the passive side": (
        GLOO
        + "pair.cc:172] timed out connecting: SO_ERROR: Connection refused, remote=[10.77.0.11]:10653$0\n"
        + GLOO
        + "pair.h:311] Connect timeout [none]",
        ["LG-103"],
        ["LG-105"],
        [],
    ),
    "gloo drop": (
        GLOO
        + "pair.cc:172] timed out connecting: SO_ERROR: Connection timed out, remote=[fd78::11]:10653$0",
        ["LG-104"],
        [],
        [],
    ),
    "gloo passive only": (GLOO + "pair.h:311] Connect timeout [none]", ["LG-105"], [], []),
    "gloo loopback after a warning": (
        "[W ProcessGroupGloo.cpp:717] Warning: Unable to resolve hostname to a (local)"
        " address. Using the loopback address as"
        " fallback.\n"
        + GLOO
        + "pair.cc:172] timed out connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:26526$1",
        ["LG-109"],
        ["LG-106"],
        [],
    ),
    "gloo loopback, other errno": (
        GLOO
        + "pair.cc:172] timed out connecting: SO_ERROR: Connection timed out, remote=[127.0.1.1]:26526$1",
        ["LG-106"],
        [],
        [],
    ),
    "gloo families": (
        "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:285] ss1.ss_family =="
        " ss2.ss_family. 2 vs 10",
        ["LG-107"],
        [],
        [],
    ),
    "gloo interface absent on one node": (
        "[rank1]: RuntimeError: [enforce fail at .../device.cc:84] ifa != nullptr. Unable to find address for: eth9\n"
        "[rank0]: torch.distributed.DistStoreError: wait timeout after 10000ms, keys: /default_pg/0//cpu//0/1",
        ["LG-108"],
        ["LG-210"],
        [],
    ),
    "ports: bind": (
        (
            "[enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/socket.cc:95] rv !="
            " -1. bind: Address already in use"
        ),
        ["LG-110"],
        [],
        [],
    ),
    "ports: connect": (
        "[enforce fail at .../socket.cc:142] connect: Cannot assign requested address\n"
        "Timed out after 11 seconds waiting for clients. 4/8 clients joined.",
        ["LG-110"],
        ["LG-201"],
        [],
    ),
    "ports: reserved": (
        "[W socket.cpp:697] [c10d] The client socket has failed to connect to [node2]:29500"
        " (errno: 99 - Cannot assign"
        " requested address).",
        ["LG-110"],
        [],
        [],
    ),
    "gloo self": ("[enforce fail at device.cc:312] Cannot connect to self", ["LG-111"], [], []),
    "gloo peer died": (
        (
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection"
            " closed by peer [10.77.0.12]:3519"
        ),
        ["LG-112"],
        [],
        [],
    ),
    "gloo mtu": (
        "RuntimeError: [.../unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete",
        ["LG-113"],
        [],
        [],
    ),
    "gloo network unreachable": (
        GLOO
        + "pair.cc:172] timed out connecting: SO_ERROR: Network is unreachable, remote=[10.77.0.11]:10653$0",
        ["LG-114"],
        [],
        [],
    ),
    "store port blocked": (c10d_timeout("node1", 29500), ["LG-202"], [], []),
    "store port blocked, old wording": (
        (
            "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to"
            " connect to 192.0.0.1:1234."
        ),
        ["LG-202"],
        [],
        [],
    ),
    "store port rejected": (
        "[W socket.cpp:697] [c10d] The client socket has failed to connect to"
        " 215.85.0.0:22671 (errno: 113 - No route to host).\n"
        "[E socket.cpp:957] The client socket has failed to connect to any network address of (fd78::11, 29500).",
        ["LG-202"],
        ["LG-205"],
        [],
    ),
    "hidden port": (c10d_timeout("node-h7", 40685), ["LG-203"], [], []),
    "localhost": (
        c10d_timeout("localhost", 29500)
        + "\nTimed out after 11 seconds waiting for clients. 1/2 clients joined.",
        ["LG-204"],
        ["LG-201"],
        [],
    ),
    "store refused, rank 0's view only beside": (
        "[W socket.cpp:697] [c10d] The client socket has failed to connect to [node1]:29500"
        " (errno: 111 - Connection refused).\n"
        "Timed out after 11 seconds waiting for clients. 1/2 clients joined.",
        ["LG-205"],
        ["LG-201"],
        [],
    ),
    "name": (
        "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node1, 29500) cannot be"
        " retrieved (gai error: -3 - Temporary"
        " failure in name resolution).\n[W socket.cpp:601] [c10d] The IPv4 network addresses"
        " of (node1, 29500) cannot be"
        " retrieved (gai error: -3 - Temporary failure in name resolution).\n"
        + c10d_timeout("node1", 29500),
        ["LG-206"],
        ["LG-202"],
        ["LG-905"],
    ),
    "missing key": (
        "wait timeout after 10000ms, keys: /default_pg/0//cpu//0/2",
        ["LG-210"],
        [],
        [],
    ),
    "other key": (
        "DistStoreError: wait timeout after 600000ms, keys: /default_pg/0/store_based_barrier_key:1/last_worker",
        ["LG-211"],
        [],
        [],
    ),
    "nccl id": (
        "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d"
        " key-value store by key '0', but"
        " store->get('0') got error: Connection reset by peer",
        ["LG-212"],
        [],
        [],
    ),
    "port taken": (
        "DistNetworkError: The server socket has failed to listen on any local network"
        " address. port: 29500, useIpv6: false,"
        " code: -98, name: EADDRINUSE, message: address already in use",
        ["LG-213"],
        [],
        [],
    ),
    "port taken, old": (
        (
            "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500"
            " (errno: 98 - Address already in use)."
        ),
        ["LG-213"],
        [],
        [],
    ),
    "foreign service": (
        "RuntimeError: Ping failed, invalid value returned from server. Expected: 16938, Got: 759714643",
        ["LG-214"],
        [],
        [],
    ),
    "store lost": (
        "[W TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3, addr=[n2]:4,"
        " remote=[n1]:29500): failed to recv, got 0"
        " bytes",
        ["LG-215"],
        [],
        [],
    ),
    "rendezvous": (
        "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to"
        " connect to 192.0.0.1:1234.\n"
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection"
        " to the C10d store has failed. See"
        " inner exception for details.",
        ["LG-202"],
        ["LG-301"],
        [],
    ),
    "rendezvous timeout": (
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        ["LG-302"],
        [],
        [],
    ),
    "rendezvous closed": (
        "torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
        ["LG-303"],
        [],
        [],
    ),
    "torchrun alone": (torchrun(1, "node2", 1, "To enable traceback see: x"), ["LG-304"], [], []),
    "oom": (
        "[rank0]: RuntimeError: [x/pair.cc:547] Connection closed by peer [10.77.0.12]:3519\n"
        + torchrun(1, "node2", -9, SIGKILL)
        + "kernel: Out of memory: Killed process 14750 (python3) total-vm:81920000kB",
        ["LG-501"],
        ["LG-112", "LG-305"],
        [],
    ),
    "sigbus": (torchrun(1, "node2", -7, "Signal 7 (SIGBUS) received by PID 1"), ["LG-306"], [], []),
    "sigsegv": (
        torchrun(1, "node2", -11, "Signal 11 (SIGSEGV) received by PID 1"),
        ["LG-307"],
        [],
        [],
    ),
    "sigabrt after the watchdog": (
        WATCHDOG.format(0, 5, "ALLREDUCE")
        + "\n"
        + torchrun(0, "node1", -6, "Signal 6 (SIGABRT) received by PID 1"),
        ["LG-415", "LG-308"],
        [],
        [],
    ),
    "stopped from outside": (
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 2410413 closing signal SIGHUP\n"
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4242 got signal: 1",
        ["LG-309"],
        ["LG-310"],
        [],
    ),
    "env": (
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous:"
            " environment variable RANK expected, but not set"
        ),
        ["LG-311"],
        [],
        [],
    ),
    "gpus": ("RuntimeError: CUDA error: invalid device ordinal", ["LG-312"], [], []),
    "gpus, Lightning": (
        (
            "lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu:"
            " [0, 1]\n But your machine only has: [0]"
        ),
        ["LG-312"],
        [],
        [],
    ),
    "clock": (
        "As part of the sync operation the node(s) 'node2_4711_0' have been removed from the"
        " rendezvous 'job1' since they had no"
        " heartbeat.",
        ["LG-314"],
        [],
        [],
    ),
    "barrier": (
        "RuntimeError: Timed out initializing process group in store based barrier on rank:"
        " 0, for key: store_based_barrier_key:1"
        " (world_size=4, worker_count=6, timeout=0:30:00)",
        ["LG-316"],
        [],
        [],
    ),
    "proxy": (
        "requests.exceptions.ProxyError: HTTPConnectionPool(host='10.77.0.11', port=8000): Max retries exceeded\n"
        + torchrun(1, "node2", 1, "x"),
        ["LG-317"],
        ["LG-304"],
        [],
    ),
    "monitored barrier": (
        "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 30000 ms",
        ["LG-318"],
        [],
        [],
    ),
    "own code": (
        "[rank1]: ModuleNotFoundError: No module named 'transformers'\n"
        + torchrun(1, "node2", 1, "x"),
        ["LG-319"],
        ["LG-304"],
        [],
    ),
    "nccl reject": (
        "node5:240:240 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to"
        " 10.0.0.4<56849> returned 113(No route to"
        " host) errno 115(Operation now in progress)\n"
        "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, unhandled system error",
        ["LG-402"],
        ["LG-422"],
        [],
    ),
    "nccl refused": (
        "node1:1:2 [0] misc/socket.cc:560 NCCL WARN socketPollConnect: connect to"
        " 10.0.0.4<51849> returned Connection refused,"
        " exceeded error retry count after 35 attempts",
        ["LG-403"],
        [],
        [],
    ),
    "nccl drop, old": (
        "node1:1:2 [0] include/socket.h:403 NCCL WARN Connect to 172.18.40.42<42333> failed : Connection timed out",
        ["LG-404"],
        [],
        [],
    ),
    "nccl last retry": (
        "zgiot:1183664:1184669 [0] NCCL INFO socketPollConnect: connect returned No route to"
        " host, retrying (34/34) after sleep"
        " for 3400 msec",
        ["LG-402"],
        [],
        [],
    ),
    "nccl retries that helped": (
        (
            "zgiot:1:2 [0] NCCL INFO socketPollConnect: connect returned Connection refused,"
            " retrying (2/34) after sleep for 200 msec"
        ),
        [],
        [],
        [],
    ),
    "nccl abort": (
        "ubuntu:39964:40075 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to"
        " 10.0.0.2<45763> failed : Software"
        " caused connection abort\nubuntu:1:2 [0] misc/socket.cc:49 NCCL WARN"
        " socketProgress: Connection closed by remote peer"
        " node1<57557>",
        ["LG-405"],
        ["LG-421"],
        [],
    ),
    "nccl no interface": (
        "node1:1:1 [0] bootstrap.cc:94 NCCL WARN Bootstrap : no socket interface found",
        ["LG-406"],
        [],
        [],
    ),
    "nccl no interface, before 2.28": (
        "ncclInternalError: Internal check failed.\nLast error:\nncclSocketInit: connecting"
        " to address  with family 59936 is"
        " neither AF_INET(2) nor AF_INET6(10)",
        ["LG-406"],
        [],
        [],
    ),
    "nccl duplicate rank": (
        "n:1:2 [0] bootstrap.cc:348 NCCL WARN Bootstrap Root : rank 1 of 4 ranks has already checked in",
        ["LG-407"],
        [],
        [],
    ),
    "nccl world size": (
        "n:1:2 [0] bootstrap.cc:335 NCCL WARN Bootstrap Root : mismatch in rank count from procs 4 : 3",
        ["LG-408"],
        [],
        [],
    ),
    "nccl truncated": (
        "n:1:2 [0] bootstrap.cc:133 NCCL WARN Bootstrap : Message truncated : received 1024 bytes instead of 256",
        ["LG-409"],
        [],
        [],
    ),
    "nccl docker0": (
        "node1:12:12 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\n"
        "node2:1:2 [0] socket.cc:1 NCCL WARN socketPollConnect: Connect to 172.17.0.1<51849>"
        " returned 111(Connection refused)",
        ["LG-410"],
        ["LG-403"],
        [],
    ),
    "nccl docker0 in a job that works": (
        "node1:12:12 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>",
        [],
        [],
        [],
    ),
    "duplicate gpu": (
        (
            "smc-gpu-03:29880:30398 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 2"
            " and rank 0 both on CUDA device 1000"
        ),
        ["LG-411"],
        [],
        [],
    ),
    "roce": (
        (
            "NET/IB : Got completion from peer 7.6.13.83<36315> with status=12 opcode=32698"
            " len=32696 vendor err 129 (Send)"
        ),
        ["LG-412"],
        [],
        [],
    ),
    "memlock": (
        "n:1:2 [0] misc/ibvwrap.cc:160 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
        ["LG-413"],
        [],
        [],
    ),
    "shm": (
        "n:1:2 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend"
        " /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space"
        " left on device (28)\nn:1:2 [0] misc/shmutils.cc:132 NCCL WARN Error while creating shared memory segment"
        " /dev/shm/nccl-WU88OE (size 9637888), error: No space left on device (28)",
        ["LG-414"],
        [],
        [],
    ),
    "collectives differ": (
        WATCHDOG.format(7, 80078, "BROADCAST") + "\n" + WATCHDOG.format(3, 80078, "ALLREDUCE"),
        ["LG-416"],
        ["LG-415"],
        [],
    ),
    "efa security group": (
        "n:1:2 [0] NCCL WARN NET/OFI Request completed with error. RC: 4. Error: 4126 (Unresponsive receiver)",
        ["LG-419"],
        [],
        [],
    ),
    "efa without plugin": (
        (
            "n:1:2 [0] NCCL INFO FI_PROVIDER set by environment to efa\nn:1:2 [0] NCCL INFO"
            " NET/Plugin: Could not find: libnccl-net.so."
        ),
        ["LG-420"],
        [],
        [],
    ),
    "nccl wrong type": (
        "user:16899:16961 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3",
        ["LG-425"],
        [],
        [],
    ),
    "nccl stray": (
        "n:1:2 [0] NCCL INFO socketFinalizeAccept: socket connected with magic mismatch, discarding",
        [],
        [],
        ["LG-904"],
    ),
    "slurm oom": (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks have been OOM Killed.",
        ["LG-501"],
        [],
        [],
    ),
    "conntrack": (
        "kernel: nf_conntrack: nf_conntrack: table full, dropping packet\n"
        + GLOO
        + "pair.cc:172] timed out connecting: SO_ERROR: Connection timed out, remote=[10.77.0.11]:10653$0",
        ["LG-502"],
        ["LG-104"],
        [],
    ),
    "neighbours": ("kernel: neighbour: arp_cache: neighbor table overflow!", ["LG-503"], [], []),
    "nofile": (
        "OSError: [Errno 24] Too many open files: '/dev/null'\n"
        "Timed out after 11 seconds waiting for clients. 9/16 clients joined.",
        ["LG-504"],
        ["LG-201"],
        [],
    ),
    "disk": ("OSError: [Errno 28] No space left on device", ["LG-505"], [], []),
    "xid": (
        "kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.",
        ["LG-506"],
        [],
        [],
    ),
    "selinux": (
        'audit: type=1400 audit(1.1:2): avc:  denied  { name_bind } for  pid=1 comm="python3" src=29500',
        ["LG-507"],
        [],
        [],
    ),
    "firewall log": (
        "kernel: filter_IN_public_REJECT: IN=eth1 OUT= MAC=00 SRC=10.77.0.12 DST=10.77.0.11"
        " LEN=60 PROTO=TCP SPT=41000 DPT=50123"
        " WINDOW=64240\n"
        + GLOO
        + "pair.cc:172] timed out connecting: SO_ERROR: No route to host, remote=[10.77.0.11]:10653$1",
        ["LG-508"],
        ["LG-102"],
        [],
    ),
    "firewall log of a stranger": (
        "kernel: [UFW BLOCK] IN=eth0 OUT= MAC=00 SRC=203.0.113.9 DST=10.77.0.11 LEN=60 PROTO=TCP SPT=41000 DPT=23",
        [],
        [],
        [],
    ),
    "cuda oom": (
        (
            "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
            " GPU 0 has a total capacity of 79 GiB"
        ),
        ["LG-509"],
        [],
        [],
    ),
    "driver": (
        "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
        ["LG-510"],
        [],
        [],
    ),
    "martian": (
        "kernel: IPv4: martian source 10.77.0.11 from 10.77.0.12, on dev eth1",
        ["LG-511"],
        [],
        [],
    ),
    "store reset while reading": (
        "torch.distributed.DistNetworkError: Connection reset by peer",
        ["LG-215"],
        [],
        [],
    ),
    "spawn": (
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
        ["LG-305"],
        [],
        [],
    ),
    "Lightning's child": (
        "[rank: 1] Child process with PID 4711 terminated with code 1. Forcefully"
        " terminating all other processes to avoid"
        " zombies 🧟",
        ["LG-304"],
        [],
        [],
    ),
    "Lightning's child killed": (
        "[rank: 1] Child process with PID 4711 terminated with code -9. Forcefully terminating all other processes",
        ["LG-305"],
        [],
        [],
    ),
    "slurm task": (
        "srun: error: node2: task 1: Exited with exit code 1\nslurmstepd: error: *** JOB 7 ON node1 CANCELLED AT"
        " 2025-01-01T00:00:00 DUE TO TIME LIMIT ***",
        ["LG-309"],
        ["LG-304"],
        [],
    ),
    "slurm oom per task": ("srun: error: node2: task 1: Out Of Memory", ["LG-501"], [], []),
    "docker inspect of a good container": ('"OOMKilled": false,', [], [], []),
    "cuda oom that was handled": ("CUDA out of memory, trying batch size 8", [], [], []),
    "cuda oom in nccl": (
        "n:1:2 [0] include/alloc.h:187 NCCL WARN Cuda failure 2 'out of memory'",
        ["LG-509"],
        [],
        [],
    ),
    "roce, queue pair": (
        "n:1:2 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
        ["LG-412"],
        [],
        [],
    ),
    "no IPv6": (
        "[W socket.cpp:558] [c10d] The client socket cannot be initialized to connect to"
        " [node1]:29501 (errno: 97 - Address"
        " family not supported by protocol).",
        [],
        [],
        ["LG-912"],
    ),
    "nccl stray, old": (
        "n:1:2 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong magic 0 != 4f3a",
        [],
        [],
        ["LG-904"],
    ),
    "fingerprints": (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running"
        " collective: CollectiveFingerPrint("
        "SequenceNumber=3, OpType=ALLREDUCE), but Rank 1 is running collective:"
        " CollectiveFingerPrint(OpType=REDUCE).",
        ["LG-417"],
        [],
        [],
    ),
    "old rendezvous": (
        "RuntimeError: connect() timed out. Original timeout was 60000 ms.",
        ["LG-301"],
        [],
        [],
    ),
    "a whole torchrun failure": (
        c10d_timeout("node-h7", 40685)
        + (
            "\ntorch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The"
            " connection to the C10d store has failed.\n"
        )
        + "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 1 closing signal SIGTERM\n"
        + torchrun(1, "node2", 1, "x"),
        ["LG-203"],
        ["LG-301", "LG-304", "LG-310"],
        [],
    ),
    "reverse lookup": (
        "[W socket.cpp:764] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
        [],
        [],
        ["LG-906"],
    ),
    # from here on: what public threads showed (tests/unit/data/threads), and what is like it and means nothing
    "an old launcher's argument": (
        "usage: train.py [-h] [--local_rank LOCAL_RANK]\ntrain.py: error: unrecognized arguments: --local-rank=0\n"
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 2) local_rank: 0 (pid: 622423) of"
        " binary: /usr/bin/python3",
        ["LG-323"],
        ["LG-304"],
        [],
    ),
    "another unknown argument": (
        "train.py: error: unrecognized arguments: --ranks=0",
        ["LG-701"],
        [],
        [],
    ),
    "parameters without a gradient": (
        "[rank1]: RuntimeError: Expected to have finished reduction in the prior iteration before starting a new"
        " one. This error indicates that your module has parameters that were not used in producing loss.",
        ["LG-324"],
        [],
        [],
    ),
    "no DMA-BUF": (
        "node1:1:2 [0] misc/ibvwrap.cc:288 NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation not"
        " supported",
        ["LG-427"],
        [],
        [],
    ),
    "an older NCCL in the path": (
        "[rank0]: ImportError: /venv/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: undefined symbol:"
        " ncclCommRegister\n" + torchrun(0, "node1", 1, "<N/A>"),
        ["LG-428"],
        ["LG-304"],
        [],
    ),
    "no fabric manager": (
        "RuntimeError: cuda runtime error (802) : system not yet initialized at"
        " /opt/conda/conda-bld/pytorch_1579022034529/work/aten/src/THC/THCGeneral.cpp:50",
        ["LG-512"],
        [],
        [],
    ),
    "the driver was updated under the module": (
        "Failed to initialize NVML: Driver/library version mismatch",
        ["LG-513"],
        [],
        [],
    ),
    "torch without code for the GPU": (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        ["LG-514"],
        [],
        [],
    ),
    "a host name that leads to loopback, old Gloo": (
        "terminate called after throwing an instance of 'gloo::IoException'\n  what():"
        "  [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:724] connect [127.0.1.1]:3210: Connection refused",
        ["LG-106"],
        [],
        [],
    ),
    "an unknown master, old torch": (
        "ValueError: host not found: Name or service not known",
        ["LG-206"],
        [],
        [],
    ),
    "a traceback cut before the variable's line": (
        '  File "/env/lib/python3.8/site-packages/torch/distributed/rendezvous.py", line 166, in'
        ' _env_rendezvous_handler\n    raise _env_error("MASTER_ADDR")',
        ["LG-311"],
        [],
        [],
    ),
    "too many at the barrier": (
        "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1"
        " (world_size=4, worker_count=8, timeout=0:30:00)",
        ["LG-316"],
        [],
        [],
    ),
    "not all at the barrier yet": (
        "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1"
        " (world_size=4, worker_count=3, timeout=0:30:00)",
        [],
        [],
        [],
    ),
    "sockets over bridges of containers": (
        "INFO NET/Socket : Using [0]bond0:192.168.1.161<0> [1]br-05ab815fa14e:172.19.0.1<0>"
        " [2]veth6163fba:fe80::b878:6cff:fe52:abe2%veth6163fba<0>\n"
        "ncclSystemError: System call (socket, malloc, munmap, etc) failed.",
        ["LG-410"],
        ["LG-422"],
        [],
    ),
    "sockets over a link-local address alone": (
        "n:1:2 [0] NCCL INFO NET/Socket : Using [0]eth1:10.77.0.11<0> [1]ib1:fe80::966d:ae03:a2:8cf0%ib1<0>\n"
        "n:1:2 [0] NCCL WARN Connect to fe80::966d:ae03:a2:8cf0%ib1<17943> failed : Connection timed out",
        ["LG-410"],
        ["LG-404", "LG-429"],
        [],
    ),
    "bridges of containers that do no harm": (
        "n:1:2 [0] NCCL INFO NET/Socket : Using [0]eth1:10.77.0.11<0> [1]br-05ab815fa14e:172.19.0.1<0>",
        [],
        [],
        [],
    ),
    "no interface at all, old NCCL": (
        "node1:3171:3171 [0] include/socket.h:311 WARN Socket creation failed : Address family not supported by"
        " protocol",
        ["LG-406"],
        [],
        [],
    ),
    "rank 0 came too late, old spelling": (
        "RuntimeError: [3] is setting up NCCL communicator and retreiving ncclUniqueId from [0] via c10d key-value"
        " store by key '1', but store->get('1') got error: Socket Timeout",
        ["LG-212"],
        [],
        [],
    ),
    "a barrier of JAX": (
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: sync0. Timed out"
        " task names:\n/job:jax_worker/replica:0/task:3",
        ["LG-611"],
        [],
        [],
    ),
    "somaxconn": ("[W] listen backlog: somaxconn is 1", [], [], ["LG-907"]),
    "somaxconn is fine": ("[I] listen backlog: somaxconn is 4096", [], [], []),
    "not destroyed": (
        "[rank0]:[W830 18:43:46 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group"
        " has NOT been destroyed before we"
        " destruct ProcessGroupNCCL.",
        [],
        [],
        ["LG-910"],
    ),
    "barrier's device": (
        "[rank0]:[W1 ProcessGroupNCCL.cpp:4715] using GPU 0 as device used by this process"
        " is currently unknown. This can"
        " potentially cause a hang if this rank to GPU mapping is incorrect.",
        [],
        [],
        ["LG-911"],
    ),
}

HEALTHY = """\
*****************************************
Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being \
overloaded, please further tune the variable for optimal performance in your application as needed.
*****************************************
node1:47853:47853 [0] NCCL INFO Bootstrap : Using eth1:10.77.0.11<0>
node1:47853:47853 [0] NCCL INFO NET/Socket : Using [0]eth1:10.77.0.11<0>
NCCL version 2.20.5+cuda12.4
node1:47853:47853 [0] NCCL INFO comm 0x7f132405ad20 rank 0 nranks 2 cudaDev 0 busId 1a000 - Init COMPLETE
Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2
[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1
Epoch 1:  50%|#####     | 10/20 [00:29<00:29, 2.83s/it]\rEpoch 1: 100%|##########| 20/20 [00:58<00:00, 2.83s/it]
INFO: 5 clients joined the meeting, rank 3 of 4, timed out 0 times, ImportError: handled
INFO: the health check has been waiting for clients. It timed out after 3 seconds waiting for clients to reconnect
"""


@pytest.mark.parametrize("case", RECORDED, ids=str)
def test_recorded_messages(case: str) -> None:
    text, wanted, below, quiet = RECORDED[case]
    verdict = verdict_of(text)
    assert heads(verdict) == wanted
    assert folded(verdict) == sorted(below)
    assert harmless(verdict) == quiet


@pytest.mark.parametrize("case", RECORDED, ids=str)
def test_recorded_messages_in_colours_and_windows_line_ends(case: str) -> None:
    text, wanted, _, quiet = RECORDED[case]
    coloured = "\r\n".join(f"\x1b[36mstderr\x1b[0m {line}\x1b[K" for line in text.split("\n"))
    if "rank      :" in text or text.startswith("[1]"):
        return  # torchrun's block and a prefix at the line's start are never coloured
    verdict = verdict_of(coloured)
    assert (heads(verdict), harmless(verdict)) == (wanted, quiet)


def test_a_healthy_log_gives_nothing() -> None:
    verdict = verdict_of(HEALTHY, HEALTHY.replace("node1", "node2").replace("0.11", "0.12"))
    assert not verdict.bad
    assert not verdict.harmless


def test_every_look_is_its_own_cause() -> None:
    """What the pages show as an example is found, and as nothing else."""
    for code, cause in judge.CAUSES.items():
        for look in cause.looks:
            tally = judge.Tally(ExplainOptions())
            for block in reader.split_blocks(iter([look])):
                tally.take("x", block)
            assert {key[0] for key in tally.findings} == {code}, look


def test_only_a_cause_explains_a_cause() -> None:
    for code, cause in judge.CAUSES.items():
        if cause.severity != Severity.CAUSE:
            explained = [judge.CAUSES[c] for one in cause.explains for c in one.codes]
            assert all(one.severity != Severity.CAUSE for one in explained), code


# Several logs at once


def test_the_error_stands_in_the_other_log() -> None:
    passive = "[rank0]: " + GLOO + "pair.h:311] Connect timeout [none]"
    active = (
        "[rank1]: "
        + GLOO
        + "pair.cc:172] timed out connecting: SO_ERROR: No route to host, remote=[10.77.0.11]:10653$1"
    )
    verdict = verdict_of(passive, active, options=ExplainOptions(RANGE))
    assert heads(verdict) == ["LG-102"]
    head = verdict.heads[0]
    assert head.evidence[0].file == "rank1.log"
    assert head.evidence[0].rank == "1"
    assert "port 40233 (Gloo prints it byte-swapped, as 10653)" in head.sentence
    assert "Port 40233 lies OUTSIDE the data range 50000-54095" in head.sentence
    assert "10.77.0.11" in head.where
    assert [child.code for child in head.follows] == ["LG-105"]


@pytest.mark.parametrize(("port", "word"), [(50001, "in the data range"), (40233, "OUTSIDE")])
def test_the_port_is_swapped_and_judged(port: int, word: str) -> None:
    text = (
        GLOO + "pair.cc:172] timed out connecting: SO_ERROR: Connection refused, "
        f"remote=[10.77.0.11]:{swap_port_bytes(port)}$1"
    )
    assert word in verdict_of(text, options=ExplainOptions(RANGE)).heads[0].sentence
    assert "data range" not in verdict_of(text).heads[0].sentence


def test_swapping_is_its_own_inverse() -> None:
    assert swap_port_bytes(10653) == 40233
    assert all(swap_port_bytes(swap_port_bytes(port)) == port for port in range(0, 65536, 7))


def test_a_port_inside_the_range_that_is_no_ephemeral_one_elsewhere() -> None:
    text = c10d_timeout("node1", 62001)
    assert heads(verdict_of(text)) == ["LG-202"]
    assert heads(verdict_of(text, options=ExplainOptions(PortRange(62000, 63000)))) == ["LG-203"]


def test_the_missing_rank_is_named_with_its_node() -> None:
    waiting = "[rank0]: wait timeout after 10000ms, keys: /default_pg/0//cpu//0/1"
    told = "node2:1:2 [0] NCCL INFO comm 0x7f132405ad20 rank 1 nranks 2 cudaDev 0 busId 1a000"
    assert "None of the given logs is of rank 1" in verdict_of(waiting).heads[0].sentence
    assert "Rank 1 runs on node2" in verdict_of(waiting, told).heads[0].sentence
    assert verdict_of(waiting).heads[0].where == "rank 1"


def test_a_crash_explains_only_its_own_rank() -> None:
    missing = "wait timeout after 10000ms, keys: /default_pg/0//cpu//0/{}"
    killed = torchrun(1, "node2", -9, SIGKILL)
    assert heads(verdict_of(missing.format(1), killed)) == ["LG-305"]
    assert heads(verdict_of(missing.format(2), killed)) == ["LG-305", "LG-210"]


def test_a_killed_rank_is_one_finding_with_rank_and_host() -> None:
    line = (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9)"
        " local_rank: 3 (pid: 812917) of binary: x\n"
    )
    verdict = verdict_of(line + torchrun(3, "node2", -9, SIGKILL))
    assert heads(verdict) == ["LG-305"]
    assert verdict.heads[0].where == "rank 3 on node2"


def test_two_failures_in_one_block_are_told_apart() -> None:
    block = torchrun(0, "node1", 1, "x") + torchrun(5, "node2", -9, SIGKILL)
    verdict = verdict_of(block)
    assert heads(verdict) == ["LG-305"]
    assert verdict.heads[0].where == "rank 5 on node2"
    assert verdict.heads[0].follows[0].where == "rank 0 on node1"


def test_the_errno_is_told_with_the_right_address() -> None:
    text = RECORDED["store port rejected"][0]
    head = verdict_of(text).heads[0]
    assert "fd78::11:29500" in head.sentence
    assert "rejected (errno 113" in head.sentence
    assert "215.85" not in head.sentence
    assert "not to be trusted" in head.follows[0].sentence


def test_the_hidden_port_is_found_with_its_reason() -> None:
    text = c10d_timeout("10.77.0.11", 51000)
    head = verdict_of(text, options=ExplainOptions(RANGE)).heads[0]
    assert head.code == "LG-203"
    assert "in the data range" in head.sentence


@pytest.mark.parametrize("short", ["clients, cut off", "clients, cut off after the full stop"])
def test_a_line_without_its_numbers_is_the_same_finding(short: str) -> None:
    """torchrun's error file repeats rank 0's line, cut off."""
    cut = RECORDED[short][0]
    assert "(came: ?)" in verdict_of(cut).heads[0].sentence
    for texts in ((cut, CLIENTS), (CLIENTS, cut)):
        (head,) = verdict_of(*texts).heads
        assert "waited 1801 s" in head.sentence
        assert "(came: 1 of 2)" in head.sentence
        assert head.count == 2


def test_efa_that_is_silent_after_pattern_4_names_the_security_group() -> None:
    efa, pattern = RECORDED["seed 5: pattern 4 beside EFA"][0].split("\n")
    (head,) = verdict_of(pattern, efa).heads
    assert "security group" in head.where
    assert "from and to the group itself" in head.fix
    assert {line.file for line in head.evidence} == {"rank0.log", "rank1.log"}


def test_two_master_ports() -> None:
    verdict = verdict_of(c10d_timeout("node1", 29500), c10d_timeout("node1", 29501))
    assert heads(verdict) == ["LG-209"]
    assert folded(verdict) == ["LG-202", "LG-202"]


def test_nodes_that_train_alone() -> None:
    alone = "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/1\n"
    assert heads(verdict_of(alone, alone)) == ["LG-315"]
    assert heads(verdict_of(alone)) == []


def test_different_nccl_versions() -> None:
    verdict = verdict_of(
        "NCCL version 2.20.5+cuda12.4\n",
        "NCCL version 2.23.4+cuda12.4\nMessage truncated : received 1024 bytes instead of 256",
    )
    assert heads(verdict) == ["LG-423"]
    assert folded(verdict) == ["LG-409"]


def test_different_kinds_of_addresses() -> None:
    verdict = verdict_of(
        "node1:1:1 [0] NCCL INFO Bootstrap : Using eth1:10.77.0.11<0>\n",
        "node2:1:1 [0] NCCL INFO Bootstrap : Using eth1:fd78::12<0>\n"
        "node2:1:2 [0] NCCL WARN socketPollConnect: Connect to 10.77.0.11<51849> returned 110(Connection timed out)",
    )
    assert heads(verdict) == ["LG-424"]
    assert folded(verdict) == ["LG-404"]


def test_the_rank_that_is_behind() -> None:
    behind = verdict_of(
        WATCHDOG.format(0, 96120, "ALLREDUCE"), WATCHDOG.format(7, 64088, "ALLREDUCE")
    )
    assert "Rank 7 is at number 64088, others at 96120" in behind.heads[0].sentence
    size = "node1:1:2 [0] NCCL INFO comm 0x7f rank 0 nranks 3 cudaDev 0\n"
    silent = verdict_of(
        size + WATCHDOG.format(0, 5, "ALLREDUCE"), WATCHDOG.format(2, 5, "ALLREDUCE")
    )
    assert "Rank 1 logged no timeout" in silent.heads[0].sentence


def test_causes_come_before_symptoms_and_mechanisms_before_guesses() -> None:
    text = "\n".join(
        RECORDED[case][0]
        for case in ("other key", "seed 2: clients", "disk", "seed 3: rank", "gloo peer died")
    )
    assert heads(verdict_of(text)) == ["LG-401", "LG-505"]
    assert folded(verdict_of(text)) == ["LG-112", "LG-201", "LG-211"]


# Reading


def test_line_numbers_hold_across_blocks() -> None:
    filler = "x" * 99 + "\n"
    text = filler * 2000 + RECORDED["seed 3: rank"][0]
    tally = judge.Tally(ExplainOptions())
    for block in reader.split_blocks(
        text[start : start + 997] for start in range(0, len(text), 997)
    ):
        tally.take("log", block)
    assert judge.judge_logs(tally).heads[0].evidence[0].line == 2001


@pytest.mark.parametrize("before", [0, 100, 65500, 65536 - 1040, 65536 - 20, 200000])
def test_a_message_in_an_endless_line(before: int) -> None:
    text = "y" * before + " " + RECORDED["seed 2: clients"][0] + " " + "z" * 100000
    tally = judge.Tally(ExplainOptions())
    for block in reader.split_blocks(
        text[start : start + 4096] for start in range(0, len(text), 4096)
    ):
        tally.take("log", block)
    (head,) = judge.judge_logs(tally).heads
    assert (head.code, head.count, head.evidence[0].line) == ("LG-201", 1, 1)
    assert len(head.evidence[0].text) <= 300


def read_bytes(data: bytes, tmp_path: Path) -> tuple[judge.LogVerdict, reader.Log]:
    path = tmp_path / "log"
    path.write_bytes(data)
    log, tally = reader.Log("log"), judge.Tally(ExplainOptions())
    for block in reader.read_log_blocks(log, path, time.monotonic() + 60):
        tally.take("log", block)
    return judge.judge_logs(tally), log


CLIENTS = RECORDED["seed 2: clients"][0]


@pytest.mark.parametrize(
    "data",
    [
        CLIENTS.encode("utf-16"),
        gzip.compress(CLIENTS.encode()),
        gzip.compress(b"nothing\n") + gzip.compress(CLIENTS.encode()),
        b"\xff\xfe\x80 caf\xe9 \xf0\x9f" + b"\n\0\0\n" + CLIENTS.encode() + b"\xe2\x82",
        b"\xef\xbb\xbf" + CLIENTS.replace("clients joined", "clients\x1b[0m joined").encode(),
        (CLIENTS + "\r" + CLIENTS + "\r").encode(),
    ],
    ids=["utf-16", "gzip", "two gzips", "mixed", "mark and colour", "carriage returns"],
)
def test_odd_encodings(data: bytes, tmp_path: Path) -> None:
    if data.startswith(b"\xff\xfe\x80"):
        data = data[2:]  # two bytes that would be UTF-16's mark
    verdict, _ = read_bytes(data, tmp_path)
    assert heads(verdict) == ["LG-201"]


def test_a_truncated_archive_gives_what_it_has(tmp_path: Path) -> None:
    packed = gzip.compress((CLIENTS + "\n").encode() + random.Random(1).randbytes(200000))  # noqa: S311 (bytes, no secret)
    verdict, log = read_bytes(packed[:100000], tmp_path)
    assert heads(verdict) == ["LG-201"]
    assert "truncated" in log.note
    _, damaged = read_bytes(packed[:5000] + b"\0" * 5000 + packed[10000:], tmp_path)
    assert "damaged" in damaged.note


def test_an_empty_log_is_named(tmp_path: Path) -> None:
    verdict, log = read_bytes(b"", tmp_path)
    assert not verdict.bad
    assert log.note == "it is empty"


def test_the_deadline_ends_a_pipe_that_nobody_feeds(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    holder = os.open(pipe, os.O_RDWR)
    try:
        os.write(holder, CLIENTS.encode() + b"\n")
        log, tally = reader.Log("pipe"), judge.Tally(ExplainOptions())
        for block in reader.read_log_blocks(log, pipe, time.monotonic() + 0.3):
            tally.take("pipe", block)
    finally:
        os.close(holder)
    assert heads(judge.judge_logs(tally)) == ["LG-201"]
    assert "deadline" in log.note


def lots(size: int) -> Iterator[str]:
    """A synthetic log: progress, noise, colours, and now and then an error."""
    noise = "".join(
        f"\x1b[32m[rank{n % 8}]\x1b[0m: step {n} loss 0.{n} Connect to peers, errno 0, rank {n % 8} returned ok\n"
        for n in range(600)
    )
    sent = 0
    while sent < size:
        yield noise
        sent += len(noise)
        yield (
            WATCHDOG.format(sent % 8, sent, "ALLREDUCE")
            + "\n"
            + CLIENTS.replace("1801", str(sent))
            + "\n"
        )


@pytest.mark.rest
def test_memory_is_bounded_whatever_the_size() -> None:
    tally = judge.Tally(ExplainOptions())
    for block in reader.split_blocks(lots(1_000_000)):
        tally.take("log", block)  # compiles the patterns
    tally = judge.Tally(ExplainOptions())
    tracemalloc.start()
    try:
        for block in reader.split_blocks(lots(50_000_000)):
            tally.take("log", block)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000
    assert heads(judge.judge_logs(tally)) == ["LG-201"]


def test_findings_of_a_hostile_log_are_bounded() -> None:
    text = "\n".join(
        f"SO_ERROR: No route to host, remote=[10.{n >> 16}.{n >> 8 & 255}.{n & 255}]:10653$1"
        for n in range(5000)
    )
    verdict = verdict_of(text)
    assert len(verdict.heads) <= judge.MOST_KEYS
    assert all(len(head.evidence) <= MOST_LINES for head in verdict.heads)


# The command line


def run(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main(argv)
    out, err = capsys.readouterr()
    return code, out, err


def write(tmp_path: Path, name: str, text: str) -> str:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return str(tmp_path / name)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path, "good.log", HEALTHY)
    quiet = write(tmp_path, "quiet.log", RECORDED["seed 4: plugin"][0])
    bad = write(tmp_path, "bad.log", CLIENTS)
    code, out, _ = run(["explain-log", good], capsys)
    assert (code, "nothing wrong found" in out) == (0, True)
    code, out, _ = run(["explain-log", quiet], capsys)
    assert code == 0
    assert "Harmless" in out
    assert "[LG-901]" in out
    code, out, _ = run(["explain-log", good, bad], capsys)
    assert code == 1
    assert out.startswith("1. [LG-201]")
    assert f"{bad}:1: " in out
    assert "page:     ./fullmesh explain LG-201" in out


def test_usage_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path, "good.log", HEALTHY)
    code, _, err = run(["explain-log", str(tmp_path / "none.log")], capsys)
    assert (code, "[CL-110]" in err) == (2, True)
    code, _, err = run(["explain-log", good, "--data-ports", "5-x"], capsys)
    assert (code, "[CL-111]" in err) == (2, True)
    code, _, err = run(["explain", "LG-10"], capsys)
    assert (code, "[CL-109]" in err, "LG-101" in err) == (2, True, True)


def test_an_unreadable_log_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = write(tmp_path, "bad.log", CLIENTS)
    code, out, err = run(["explain-log", str(tmp_path / "none.log"), bad], capsys)
    assert (code, "[LG-201]" in out, "[CL-110]" in err) == (1, True, True)


def test_a_directory_stands_for_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "attempt_0/1").mkdir(parents=True)
    write(tmp_path, "attempt_0/1/stderr.log", CLIENTS)
    code, out, _ = run(["explain-log", str(tmp_path)], capsys)
    assert code == 1
    assert "attempt_0/1/stderr.log:1" in out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = write(tmp_path, "a.log", RECORDED["gloo refused, and the passive side"][0])
    code, out, _ = run(["explain-log", "--json", both], capsys)
    data = json.loads(out)
    assert (code, data["schema"]) == (1, explain_cli.SCHEMA)
    (finding,) = data["findings"]
    assert finding["code"] == "LG-103"
    assert finding["severity"] == "cause"
    assert finding["evidence"][0]["line"] == 1
    assert [child["code"] for child in finding["follows"]] == ["LG-105"]
    assert data["logs"][0]["bytes"] > 0


def test_stdin_and_names_relative_to_the_user(tmp_path: Path) -> None:
    write(tmp_path, "mine.log", "nothing\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "fullmesh", "explain-log", "-", "mine.log"],
        cwd=tmp_path,
        env=env,
        input=CLIENTS.encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert b"stdin:1" in done.stdout
    assert b"2 logs read" in done.stdout


HOSTILE = st.lists(
    st.one_of(
        st.sampled_from([look for cause in judge.CAUSES.values() for look in cause.looks]).map(
            str.encode
        ),
        st.sampled_from(
            [pattern.needle for cause in judge.CAUSES.values() for pattern in cause.patterns]
        ).map(str.encode),
        st.binary(max_size=200),
        st.sampled_from(
            [
                b"\n",
                b"\r",
                b"\0",
                b"\x1b[31m",
                b"\x1b]0;title\x07",
                b"\xff\xfe",
                b"\x9b2J",
                b"9" * 400,
                b"\xe2\x80\xae",
                b"[",
            ]
        ),
        st.integers(1, 90000).map(lambda size: b"x" * size),
    ),
    max_size=12,
).map(b"".join)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=HOSTILE, cut=st.integers(1, 5000), packed=st.booleans())
def test_no_log_crashes_it_or_reaches_the_terminal(data: bytes, cut: int, packed: bool) -> None:
    raw = gzip.compress(data)[:-1] if packed else data
    log = reader.Log("log")
    chunks = iter([raw[start : start + cut] for start in range(0, len(raw), cut)])
    tally = judge.Tally(ExplainOptions(RANGE))
    with contextlib.suppress(UnreadableLogError):  # bytes may look like an archive that is refused
        for block in reader.split_blocks(reader.decode_log(reader.unpack_log(chunks, log))):
            tally.take("log", block)
    verdict = judge.judge_logs(tally)
    out = explain_cli.render_verdict(verdict, [log])
    assert not CONTROL.search(out.replace("\n", ""))
    json.loads(explain_cli.verdict_to_json(verdict, [log]))


def test_values_from_a_log_cannot_command_the_terminal() -> None:
    text = "environment variable RANK\x9b expected, but not set\n" + c10d_timeout(
        "a\x9b2Jb\u202e", 29500
    )
    out = explain_cli.render_verdict(verdict_of(text), [])
    assert not CONTROL.search(out.replace("\n", ""))
    assert "\\x9b" in out


def test_values_from_a_log_do_not_become_commands() -> None:
    head = verdict_of(c10d_timeout("x;reboot", 29500)).heads[0]
    assert "x;reboot" in head.sentence
    assert "reboot" not in head.prove + head.fix
    assert "on HOST while the job starts" in head.prove


def test_clean_cuts_in_the_middle() -> None:
    assert clean_and_shorten("a" * 1000).count("a") < 240
    assert clean_and_shorten("a\x07b") == "a\\x07b"


def test_two_readers_do_not_share_state() -> None:
    results: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: results.append(heads(verdict_of(CLIENTS))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [["LG-201"]] * 4


# Pages


def test_every_page_that_a_finding_names_is_made() -> None:
    made = pages.render_pages()
    named = [
        *(format_page_link(code) for group in ("LG", "HG") for code in load_causes(group)),
        *(
            findings.get_code_page(code)
            for group in ("DG", "EC", "VC")
            for code in load_causes(group)
        ),
    ]
    for path, _, anchor in (one.partition("#") for one in named):
        assert f'<a id="{anchor}"></a>' in made[path]
    assert [
        code for code in codes.collect_codes() if f"| {code} |" not in made["docs/errors.md"]
    ] == []


def test_every_cause_has_a_whole_page() -> None:
    for code, cause in judge.CAUSES.items():
        text = "\n".join(render_cause_section(cause))
        for heading in ("Lines:", "Check:", "Fix:", "Source:"):
            assert heading in text, code
        assert cause.looks or not cause.patterns
        assert "{" not in fill_template(cause.page.why)


def test_every_needle_stands_in_what_its_regex_matches() -> None:
    """A pattern whose needle is not in its examples would never be tried."""
    for cause in judge.CAUSES.values():
        for look in cause.looks:
            assert any(pattern.needle in look for pattern in cause.patterns)


def test_explain_without_a_code_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    result, out, _ = run(["explain"], capsys)
    assert (result, len(out.splitlines())) == (0, len(codes.collect_codes()))
    assert "\nCL-109  a code that does not exist\n" in out


@pytest.mark.parametrize("code", codes.collect_codes())
def test_explain_knows_every_code(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    result, out, _ = run(["explain", code.lower()], capsys)
    assert result == 0
    assert code in out
    assert (ROOT / out.rsplit("More: ", 1)[1].strip()).exists()


def test_every_command_and_code_in_the_advice_exists() -> None:
    known = codes.collect_codes()
    parser = cli.build_parser()
    verbs = next(iter(parser._subparsers._group_actions)).choices  # type: ignore[union-attr]
    for cause in judge.CAUSES.values():
        text = f"{cause.page.why} {cause.page.where} {cause.page.prove} {cause.page.fix}"
        assert {
            found for found in codes.CODE.findall(text) if found[:2] in codes.PREFIXES
        } <= known.keys()
        for part in text.split("./fullmesh ")[1:]:
            assert part.split(" ", 1)[0] in verbs


def test_a_job_that_was_killed_while_it_waited_has_one_cause() -> None:
    text = (
        "[external/gloo/gloo/transport/tcp/debug_logger.cc:25] ERROR failed to connect, willRetry=0, retry=4,"
        " retryLimit=3, rank=0, size=2, local=[127.0.0.1]:41163, remote=[127.0.1.1]:44486$0, error=SO_ERROR:"
        " Connection refused, remote=[127.0.1.1]:44486$0\nKilled\n"
    )
    assert (heads(verdict_of(text)), folded(verdict_of(text))) == (["LG-106"], ["LG-305"])
    assert heads(verdict_of("Killed\n")) == ["LG-305"]

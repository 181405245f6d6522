# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Collect the kernel's data about a rank: connections, control groups, its log, the launching process."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import time
from typing import TYPE_CHECKING

import fullmesh_hang_border as hang_border
import fullmesh_sockets as sockets
import fullmesh_watch_look as watch_look
from fullmesh_foreign_text import parse_decimal, parse_tool_json
from fullmesh_hang_border import ForeignProcessError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from fullmesh.observed.hang import (
        CgroupLimits,
        KernelLine,
        Launcher,
        NodeCpu,
        RankConnection,
        RankGpu,
        RankPaging,
    )

MOST = 16  # reported connections of a rank
ALL_BUT_LISTENING = 0xFFF & ~(1 << sockets.LISTEN)
# linux/inet_diag.h, linux/sock_diag.h: sizes and numbers of the request and the answer
SOCK_DIAG, BY_FAMILY, DUMP, DONE, ERROR, INFO = 4, 20, 0x301, 3, 2, 2
HEADER = struct.Struct("=IHHII")
ENDS = struct.Struct("!HH16s16s")
QUEUES = struct.Struct("=IIII")  # rqueue, wqueue, uid, inode
ENDS_AT, QUEUES_AT, ATTRIBUTES_AT = 4, 56, 72
ZERO_WINDOW = 4  # idiag_timer: the window probe is armed
# struct tcp_info, linux/tcp.h
RETRANSMITS_AT, RESENT_AT, SEGS_OUT_AT = 2, 100, 136
PAIR = 2
PER_NODE = ("--nproc-per-node", "--nproc_per_node")
NODE_RANK = ("--node-rank", "--node_rank")
NO_LIMIT = 1 << 62  # version 1 writes the largest number of pages instead of "max"
KILLS = ("memory.events", "memory.oom_control")
LOG = "/dev/kmsg"
OLDEST, LINES, RECORDS = 86400.0, 8, 50000
# mm/oom_kill.c, kernel/hung_task.c, and NVIDIA's driver
TOLD = (
    ("oom", re.compile(r"Killed process (?P<pid>[0-9]+) \((?P<name>[^)]*)\)")),
    ("hung", re.compile(r"task (?P<name>.+):(?P<pid>[0-9]+) blocked for more than")),
    ("xid", re.compile(r"NVRM: Xid \(")),
)
SECOND = 1_000_000_000  # nanoseconds
MAJFLT = 9  # of /proc/PID/stat, counted behind the name (proc(5), field 12)
SMI_SECONDS = 3.0  # a hung driver does not answer
CARDS = ("index", "uuid", "utilization.gpu", "power.draw")
# the driver of a GPU that lacks one of these refuses the whole query
SPEEDS = (
    "clocks.sm",
    "clocks.max.sm",
    "clocks_throttle_reasons.active",
    "pcie.link.width.current",
    "pcie.link.width.max",
)
HOLDERS = ("pid", "gpu_uuid", "used_gpu_memory")
MIB = 1 << 20
THROTTLE_REASONS = re.compile(r"0x[0-9a-fA-F]{1,16}")
STEAL, CPU_FIELDS = 7, 8  # of /proc/stat (proc(5)). Those behind are contained in others
IP_SECONDS = 2.0
DARK_SHOWN = 4


# --- connections --------------------------------------------------------------------------------------


def dump_connections(family: int) -> Iterator[bytes]:
    """Yield every connection of this network namespace from sock_diag(7).

    Raises:
        OSError: this kernel does not support it.
    """
    request = struct.pack(
        "=BBBBI", family, socket.IPPROTO_TCP, 1 << (INFO - 1), 0, ALL_BUT_LISTENING
    )
    request += bytes(48)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as kernel:
        kernel.settimeout(2)
        kernel.send(HEADER.pack(HEADER.size + len(request), BY_FAMILY, DUMP, 1, 0) + request)
        while True:
            data, at = kernel.recv(1 << 18), 0
            while at < len(data):
                length, kind, *_ = HEADER.unpack_from(data, at)
                if kind == DONE:
                    return
                if kind == ERROR:
                    raise OSError(-struct.unpack_from("=i", data, at + HEADER.size)[0], "sock_diag")
                yield data[at + HEADER.size : at + length]
                at += (length + 3) & ~3


def format_address(family: int, raw: bytes) -> str:
    """Format an address. An IPv4 address in IPv6 form becomes IPv4."""
    shown = socket.inet_ntop(family, raw[:4] if family == socket.AF_INET else raw)
    return shown[7:] if shown.startswith("::ffff:") and "." in shown else shown


def parse_connection(family: int, raw: bytes) -> tuple[str, RankConnection]:
    """Parse one connection into its inode and data."""
    port, peer_port, here, there = ENDS.unpack_from(raw, ENDS_AT)
    waiting, unacked, _, inode = QUEUES.unpack_from(raw, QUEUES_AT)
    info, at = b"", ATTRIBUTES_AT
    while at + 4 <= len(raw):
        length, kind = struct.unpack_from("=HH", raw, at)
        if kind == INFO:
            info = raw[at + 4 : at + length]
        at += max(4, (length + 3) & ~3)
    info = info.ljust(SEGS_OUT_AT + 8, b"\0")
    out, into = struct.unpack_from("=II", info, SEGS_OUT_AT)
    return str(inode), {
        "here": format_address(family, here),
        "port": port,
        "peer": format_address(family, there),
        "peer_port": peer_port,
        "unacked": unacked,
        "unread": waiting,
        "retransmits": info[RETRANSMITS_AT],
        "zero_window": raw[2] == ZERO_WINDOW,
        "segments_out": out,
        "segments_in": into,
        "resent": struct.unpack_from("=I", info, RESENT_AT)[0],
    }


# Node programs cannot import tools/ip.py, so this one calls ip(8) itself.
def read_interfaces() -> list[dict[str, Any]]:
    """Return this network namespace's interfaces from iproute2, or []."""
    try:
        done = subprocess.run(
            ["ip", "-j", "address", "show"],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=IP_SECONDS,
        )
        found = parse_tool_json(done.stdout.decode("utf-8", "replace") or "[]")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    return found if isinstance(found, list) else []


def mark_dark_connections(found: Iterable[RankConnection]) -> None:
    """Mark connections whose interface at this end is down or has no carrier."""
    held: dict[str, str] = {}
    dark: list[str] = []
    for nic in read_interfaces():
        name, flags = nic.get("ifname", ""), nic.get("flags", [])
        if "NO-CARRIER" in flags or "UP" not in flags:
            dark.append(name)
        held.update({one["local"]: name for one in nic.get("addr_info", []) if "local" in one})
    for one in found if held else ():
        here = held.get(one["here"])
        if here is None:
            one["gone"] = dark[:DARK_SHOWN]
        elif here in dark:
            one["dark"] = here


def read_connections() -> dict[str, RankConnection]:
    """Return inode -> connection for this network namespace, without connections to loopback.

    Raises:
        OSError: this kernel does not support it.
    """
    found = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        for raw in dump_connections(family):
            inode, one = parse_connection(family, raw)
            if not one["peer"].startswith("127.") and one["peer"] != "::1":
                found[inode] = one
    if found:
        mark_dark_connections(found.values())
    return found


def select_connections(pid: int, known: dict[str, RankConnection]) -> list[RankConnection]:
    """Return the connections of a process, stalled ones first."""
    own = [known[inode] for inode in sockets.list_socket_inodes(pid) if inode in known]
    own.sort(key=lambda one: (-one["retransmits"], -one["unacked"], one["port"]))
    return own[:MOST]


def is_in_other_network(pid: int) -> bool:
    """Return whether a process is in another network namespace, whose sockets are not visible here."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    except OSError:
        return False


# --- control groups -------------------------------------------------------------------------------------


def find_cgroup_mounts() -> dict[str, str]:
    """Return controller -> mount point of its control groups. Version 2's single hierarchy is "" (cgroups(7))."""
    found = {}
    for line in watch_look.read_proc_bytes("/proc/mounts").decode("utf-8", "replace").splitlines():
        _, place, kind, options, *_ = line.split(" ")
        if kind == "cgroup2":
            found[""] = place
        elif kind == "cgroup":
            found.update(dict.fromkeys(set(options.split(",")) & {"cpu", "memory"}, place))
    return found


def find_limiting_cgroups(pid: int, controller: str) -> list[str]:
    """Return the folders of the control groups that may limit a process, its own first."""
    mounted = find_cgroup_mounts()
    for line in (
        watch_look.read_proc_bytes(f"/proc/{pid}/cgroup").decode("utf-8", "replace").splitlines()
    ):
        number, controllers, path = line.split(":", 2)
        own = controller in controllers.split(",")
        root = mounted.get(controller) if own else mounted.get("") if number == "0" else None
        if root is None or (number == "0" and controller in mounted):
            continue
        folder, found = os.path.normpath(root + path), []
        while folder.startswith(root) and folder not in found:
            found.append(folder)
            folder = os.path.dirname(folder)
        return found
    return []


def read_cgroup_counter(path: str, name: str) -> int:
    """Return a counter from a file of ``name number`` lines, or 0."""
    for line in watch_look.read_proc_bytes(path).decode("ascii", "replace").splitlines():
        words = line.split()
        if len(words) == PAIR and words[0] == name:
            return parse_decimal(words[1]) or 0
    return 0


def read_cgroup_number(path: str) -> int:
    """Return the number in a file, or 0 if it is missing or means no limit."""
    text = watch_look.read_proc_bytes(path).strip().decode("ascii", "replace")
    return parse_decimal(text, NO_LIMIT - 1) or 0


def read_cpu_limit(folder: str) -> float:
    """Return the number of CPUs that a group may use, 0 without a limit."""
    words = watch_look.read_proc_bytes(folder + "/cpu.max").decode("ascii", "replace").split()
    if len(words) == PAIR:
        share, of = (parse_decimal(word) or 0 for word in words)
        return share / of if of else 0.0
    quota, period = (
        read_cgroup_number(folder + "/cpu.cfs_quota_us"),
        read_cgroup_number(folder + "/cpu.cfs_period_us"),
    )
    return quota / period if quota and period else 0.0  # version 1


def read_cgroup_limits(pid: int) -> CgroupLimits:
    """Return the limits of a process: the tightest of its groups."""
    found: CgroupLimits = {
        "cpus": 0.0,
        "periods": 0,
        "throttled": 0,
        "memory": 0,
        "memory_max": 0,
        "oom_kills": 0,
    }
    for folder in find_limiting_cgroups(pid, "cpu"):
        cpus = read_cpu_limit(folder)
        if cpus and (not found["cpus"] or cpus < found["cpus"]):
            found["cpus"] = round(cpus, 4)
            found["periods"] = read_cgroup_counter(folder + "/cpu.stat", "nr_periods")
            found["throttled"] = read_cgroup_counter(folder + "/cpu.stat", "nr_throttled")
    for folder in find_limiting_cgroups(pid, "memory"):
        most = read_cgroup_number(folder + "/memory.max") or read_cgroup_number(
            folder + "/memory.limit_in_bytes"
        )
        if most and (not found["memory_max"] or most < found["memory_max"]):
            used = read_cgroup_number(folder + "/memory.current") or read_cgroup_number(
                folder + "/memory.usage_in_bytes"
            )
            kills = [read_cgroup_counter(f"{folder}/{name}", "oom_kill") for name in KILLS]
            found["memory_max"], found["memory"], found["oom_kills"] = most, used, max(kills)
    return found


def read_paging(pid: int) -> RankPaging:
    """Return a process's bytes in swap, and the number of pages that it waited for."""
    status = watch_look.read_proc_bytes(
        f"/proc/{pid}/status"
    )  # a process names itself, in any bytes
    swapped = re.search(rb"^VmSwap:\s+(\d+) kB", status, re.M)
    words = watch_look.read_proc_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return {
        "swapped": int(swapped.group(1)) * 1024 if swapped else 0,
        "from_disk": int(words[MAJFLT]) if len(words) > MAJFLT else 0,
    }


def read_node_cpu() -> NodeCpu:
    """Return the node's CPU time since its start, and the part that its hypervisor gave to other machines."""
    words = watch_look.read_proc_bytes("/proc/stat").split(b"\n", 1)[0].split()[1:]
    ticks = [parse_decimal(word.decode("ascii", "replace")) or 0 for word in words[:CPU_FIELDS]]
    return {"ticks": sum(ticks), "stolen": ticks[STEAL] if len(ticks) > STEAL else 0}


# --- GPUs -------------------------------------------------------------------------------------------------


def parse_smi_number(text: str, unknown: int) -> int:
    """Parse a number of nvidia-smi. Unknown values are in brackets (``[N/A]``)."""
    try:
        return int(float(text))
    except ValueError:
        return unknown


def parse_throttle_reasons(text: str) -> int:
    """Parse the bits of nvidia-smi's reasons for reduced clocks (``0x0000000000000004``), 0 if unknown."""
    return int(text, 16) if THROTTLE_REASONS.fullmatch(text) else 0


def query_smi(query: str, names: tuple[str, ...]) -> list[list[str]]:
    """Return the rows of one nvidia-smi query.

    Raises:
        OSError: it failed, with the reason.
    """
    words = ["nvidia-smi", f"--query-{query}={','.join(names)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SMI_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"nvidia-smi does not answer within {SMI_SECONDS:.0f} s") from None
    text = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        raise OSError(f"nvidia-smi: {(text.splitlines() or ['no words'])[0][:150]}")
    rows = [[one.strip() for one in line.split(",")] for line in text.splitlines()]
    return [row for row in rows if len(row) == len(names)]


def read_process_gpus() -> dict[int, list[RankGpu]] | None:
    """Return process -> the GPUs on which it has memory.

    None on a node without nvidia-smi.

    Raises:
        OSError: nvidia-smi or its driver does not answer.
    """
    if not shutil.which("nvidia-smi"):
        return None
    try:
        rows = query_smi("gpu", CARDS + SPEEDS)
    except OSError:
        rows = query_smi("gpu", CARDS)
    gpu_rows = {row[1]: row for row in rows}
    found: dict[int, list[RankGpu]] = {}
    holders = query_smi("compute-apps", HOLDERS)
    for pid, uuid, memory in holders:
        gpu_row = gpu_rows.get(uuid)
        number = parse_decimal(pid)
        if gpu_row is None or number is None:
            continue
        one: RankGpu = {
            "index": parse_smi_number(gpu_row[0], -1),
            "uuid": uuid,
            "busy": parse_smi_number(gpu_row[2], -1),
            "watts": parse_smi_number(gpu_row[3], -1),
            "memory": parse_smi_number(memory, 0) * MIB,
        }
        numbers = [parse_decimal(row[0]) for row in holders if row[1] == uuid]
        one["others"] = [other for other in numbers if other and other != number][:MOST]
        if len(gpu_row) > len(CARDS):
            clock, clock_most, reasons, lanes, lanes_most = gpu_row[len(CARDS) :]
            one["clock"], one["clock_most"] = (
                parse_smi_number(text, -1) for text in (clock, clock_most)
            )
            one["lanes"], one["lanes_most"] = (
                parse_smi_number(text, -1) for text in (lanes, lanes_most)
            )
            one["slowed_by"] = parse_throttle_reasons(reasons)
        found.setdefault(number, []).append(one)
    return found


# --- the kernel's log -----------------------------------------------------------------------------------


def read_kernel_log() -> Iterator[tuple[float, str]]:
    """Yield the kernel's log: seconds since its start, text (dev-kmsg in the kernel's documentation)."""
    with contextlib.suppress(OSError):
        handle = os.open(LOG, os.O_RDONLY | os.O_NONBLOCK)
        try:
            for _ in range(RECORDS):
                try:
                    raw = os.read(handle, 8192)
                except BrokenPipeError:
                    continue  # that entry was overwritten, and the next read returns the oldest one left
                head, _, text = raw.partition(b";")
                yield (
                    int(head.split(b",")[2]) / 1e6,
                    text.split(b"\n")[0].decode("utf-8", "replace"),
                )
        finally:
            os.close(handle)


def find_kernel_events() -> list[KernelLine]:
    """Return the kernel's messages of the last day about memory, hung tasks and GPUs, the newest last."""
    now, started = time.time_ns(), time.clock_gettime(time.CLOCK_MONOTONIC)
    found: list[KernelLine] = []
    for seconds, text in read_kernel_log():
        for kind, pattern in TOLD:
            match = pattern.search(text)
            if not match or started - seconds > OLDEST:
                continue
            at = now - int((started - seconds) * SECOND)
            fields = match.groupdict()
            pid, name = parse_decimal(fields.get("pid")) or 0, fields.get("name", "")
            found.append({"kind": kind, "at_ns": at, "pid": pid, "name": name, "text": text[:300]})
    return found[-LINES:]


# --- launcher of a process -------------------------------------------------------------------------------


def read_launcher(pid: int) -> Launcher | None:
    """Return the torchrun in a process's command line, and the ranks that it started, or None.

    Raises:
        ForeignProcessError: it claims more ranks than any job has.
    """
    words = watch_look.read_argv(pid)
    if not any(
        os.path.basename(word) == "torchrun" or word == "torch.distributed.run"
        for word in words[:4]
    ):
        return None
    count, number = (
        parse_decimal(watch_look.find_option(words, names)) for names in (PER_NODE, NODE_RANK)
    )
    for value, names in ((count, PER_NODE), (number, NODE_RANK)):
        if value is not None and value > hang_border.MOST_RANKS:
            raise ForeignProcessError(f"{names[0]} is {value}, more than {hang_border.MOST_RANKS}")
    sure = (
        count is not None
        and number is not None
        and bool(watch_look.find_option(words, watch_look.ADDRESS))
    )
    master = f"{watch_look.find_option(words, watch_look.ADDRESS)}:{watch_look.find_option(words, watch_look.PORT)}"
    return {
        "pid": pid,
        "job": watch_look.find_option(words, ("--rdzv-id", "--rdzv_id"))[
            : hang_border.LONGEST_NAME
        ],
        "master": master[: hang_border.LONGEST_NAME] if sure else "",
        "first": (number or 0) * (count or 0) if sure else -1,
        "count": count or 0,
    }

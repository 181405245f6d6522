# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Check this node for `fullmesh-check`: GPUs, driver, interfaces, limits, clock, disks, drift from the manifest.

Each function is one check. It runs in a process of its own, which may hang. It only reads.
It calls tools itself, because node programs cannot import the readers of ``tools/``.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import re
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

import fullmesh_fingerprint as fingerprint
from fullmesh_foreign_text import parse_decimal, parse_tool_json

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from typing import Any

PCI, NET, RDMA = "/sys/bus/pci/devices", "/sys/class/net", "/sys/class/infiniband"
NVIDIA, GPU_CLASS, SWITCH_CLASS = "0x10de", "0x03", "0x0680"
MODULE = "/sys/module/nvidia/version"
LIBRARIES = (
    "/usr/lib/*-linux-gnu/libnvidia-ml.so.*.*",
    "/usr/lib64/libnvidia-ml.so.*.*",
)
VERSION = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)?)$")
NODES, MANIFEST = "/etc/fullmesh/nodes.json", "/var/lib/fullmesh/manifest.json"
ENVIRONMENT = "/etc/fullmesh/env"
OWN_ADDRESS = re.compile(r"^FULLMESH_ADDRESS=['\"]?([0-9a-fA-F.:]{2,45})", re.M)
COMMAND_SECONDS = 1.3  # of a program outside of a check
COMMAND_RESERVE = 0.2  # of the time of all checks, to read the answer of a program
# a scheduler's prolog has no path, or a user's
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
GONE = b"\xff" * 4  # a read of a device that does not answer
SMI = ("index", "pci.bus_id", "ecc.errors.uncorrected.volatile.total")
# not among the fields of --query-gpu
ROWS = ("gpu_bus_id", "remapped_rows.failure", "remapped_rows.pending")
KERNEL_LOG = "/dev/kmsg"
MOST_MESSAGES, LOG_BYTES, MOST_REPORTS = 1 << 17, 1 << 13, 4
# NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, ...  nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, ...
# Newer drivers report 79 as text: NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
DRIVER_REPORT = re.compile(
    r"NVRM: Xid \([0-9a-zA-Z:.]{1,30}\): (?P<xid>[0-9]{1,6})\b|SXid \([0-9a-zA-Z:.]{1,30}\): [0-9]{1,6}, Fatal"
    r"|NVRM: [^,]{0,80}fallen off the bus"
)
# NVIDIA's Xid catalog: jobs on this GPU fail until a reset or a restart (a test compares fullmesh.verify.xids)
STOPPING_XIDS = frozenset(
    (46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, *range(144, 151))
).union((156, 158, 171, 172))
XID_SECONDS = 900.0  # an earlier report may be older than a reset of the GPU
FOLDERS = ("/", "/tmp", "/var", "/dev/shm")  # noqa: S108 (their free space is read, nothing is written)
LEAST_SHARE, LEAST_BYTES = 0.01, 256 << 20  # of free space: a folder with less than both is full
USED_SHARE = 0.95  # of a limit of the kernel
LEAST_MEMORY = 512 << 20
MOST_OFFSET = 0.5  # seconds
TIMEX_BYTES, TIME_ERROR = 256, 5  # adjtimex(2)
TIME_SERVICES = frozenset(("chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys"))
NETWORK = re.compile(r"^(?:nfs|cifs|smb|ceph|lustre|gpfs|beegfs|fuse\.|9p$|afs$)")
UNANSWERED = (errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN)
MOST_MOUNTS, MOST_DRIFT = 16, 8
ESCAPED = re.compile(r"\\([0-7]{3})")  # a blank in a path of /proc/mounts


class HealthFinding(NamedTuple):
    """A reason why a node is not fit for jobs.

    Attributes:
        peers: the other ends, if it is about links.
    """

    code: str
    text: str
    fix: str
    peers: tuple[str, ...] = ()


class NoCheckError(Exception):
    """A check does not apply to this node, or could not be made. ``skipped`` tells both apart."""

    def __init__(self, why: str, *, skipped: bool = False) -> None:
        """Save the reason."""
        super().__init__(why)
        self.skipped = skipped


class ProgramLimit:
    """The time that programs get. Each check has a process, and so a limit, of its own."""

    end = 0.0  # of the checks, 0 outside of them

    def count_seconds(self) -> float:
        """Return the seconds that a program may run now."""
        return max(0.1, self.end - time.monotonic()) if self.end else COMMAND_SECONDS


limit = ProgramLimit()


def read_bytes(path: str, most: int = 1 << 20) -> bytes:
    """Return the beginning of a file, or b""."""
    try:
        with open(path, "rb") as stream:
            return stream.read(most)
    except OSError:
        return b""


def read_text(path: str) -> str:
    """Return a short file, stripped, or ""."""
    return read_bytes(path).decode("utf-8", "replace").strip()


def clean_text(text: str) -> str:
    """Return a text in one line without control characters."""
    return "".join(one if one.isprintable() else "?" for one in text)


def limit_programs(end: float) -> None:
    """Let the programs of this check run until a moment before the end of all checks (monotonic clock)."""
    limit.end = end - COMMAND_RESERVE


def run_tool(*command: str, more_path: str = "", seconds: float = 0.0) -> tuple[int, str]:
    """Run a program. Its status is -1 if it is missing.

    Args:
        command: the program and its arguments.
        more_path: further folders of programs.
        seconds: its time limit, 0 for that of a check.

    Raises:
        NoCheckError: it does not answer in time.
    """
    seconds = seconds or limit.count_seconds()
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            env={**os.environ, "PATH": PATH + more_path, "LC_ALL": "C"},
        )
    except OSError:
        return -1, ""
    except subprocess.TimeoutExpired:
        raise NoCheckError(f"{command[0]} gave no answer in {seconds:.1f} s") from None
    return done.returncode, done.stdout[: 1 << 20].decode("utf-8", "replace").strip()


# --- GPUs ---------------------------------------------------------------------------------------------


def list_nvidia_devices(kind: str) -> list[str]:
    """Return the PCI devices of NVIDIA of a class, such as GPUs."""
    return [
        here
        for here in sorted(glob.glob(f"{PCI}/*"))
        if read_text(here + "/vendor") == NVIDIA and read_text(here + "/class").startswith(kind)
    ]


def list_earlier_gpus() -> list[str]:
    """Return the PCI addresses of the GPUs that the last run of Fullmesh saw, [] if they are not known."""
    try:
        found = parse_tool_json(read_text(MANIFEST) or "{}")["gpus"]
    except (ValueError, KeyError, TypeError):
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def check_gpus() -> Iterator[HealthFinding]:
    """Check the GPUs on the bus, their driver and their PCIe links."""
    gpus = list_nvidia_devices(GPU_CLASS)
    loaded = read_text(MODULE)
    if not gpus and not loaded and not list_earlier_gpus():
        raise NoCheckError("this node has no NVIDIA GPU", skipped=True)
    for here in gpus:
        yield from check_gpu_device(here)
    before, now = list_earlier_gpus(), {os.path.basename(here) for here in gpus}
    # with MIG, or torch for CPUs, a node can have more ranks than GPUs
    if len(now) < min(len(before), count_own_ranks()):
        gone = ", ".join(one for one in before if one not in now)
        text = f"{len(now)} of {len(before)} GPUs are on the PCI bus, without {gone}"
        yield HealthFinding(
            "HC-101", text, "restart the node. If that does not help, check the GPU"
        )
    installed = {
        found.group(1)
        for pattern in LIBRARIES
        for path in glob.glob(pattern)
        for found in [VERSION.search(path)]
        if found
    }
    if loaded and installed and loaded not in installed:
        text = f"driver {loaded} is loaded, and {', '.join(sorted(installed))} is installed"
        yield HealthFinding("HC-104", text, "restart the node, which loads the installed driver")
    if list_nvidia_devices(SWITCH_CLASS):
        name = "nvidia-fabricmanager.service"
        state = run_tool("systemctl", "is-active", name)[1]
        if state in ("inactive", "failed", "activating"):
            text = f"the node has NVSwitches, and {name} is {state}"
            yield HealthFinding("HC-106", text, f"systemctl restart {name}")


def check_gpu_device(here: str) -> Iterator[HealthFinding]:
    """Check one GPU on the bus."""
    name = os.path.basename(here)
    if read_bytes(here + "/config", 4) == GONE:
        text = f"GPU {name} does not answer on the PCI bus"
        yield HealthFinding(
            "HC-102", text, "restart the node. If that does not help, replace the GPU"
        )
        return
    above = os.path.dirname(os.path.realpath(here))
    width, most, slot = (
        parse_decimal(read_text(path)) or 0
        for path in (
            here + "/current_link_width",
            here + "/max_link_width",
            above + "/max_link_width",
        )
    )
    most = min(most, slot) if slot else most
    if 0 < width < most:
        text = f"GPU {name} has {width} of {most} PCIe lanes"
        yield HealthFinding("HC-105", text, "reseat the GPU or its riser, and restart the node")


def query_smi(option: str, fields: tuple[str, ...]) -> tuple[int, str, list[list[str]]]:
    """Query a field of each GPU from nvidia-smi. Return its status, its output and the rows of its table.

    Raises:
        NoCheckError: the driver is not loaded, nvidia-smi is missing or does not know a field, or gives no answer.
    """
    if not read_text(MODULE):
        raise NoCheckError("the NVIDIA driver is not loaded", skipped=True)
    query = f"--query-{option}={','.join(fields)}"
    status, text = run_tool("nvidia-smi", query, "--format=csv,noheader,nounits")
    if status < 0 or "not a valid field" in text or "not recognized" in text:
        raise NoCheckError("nvidia-smi is missing, or older than these fields", skipped=True)
    rows = [[word.strip() for word in row.split(",")] for row in text.splitlines()]
    return status, text, [row for row in rows if len(row) == len(fields)]


def shorten_bus(address: str) -> str:
    """Return a PCI address of nvidia-smi as the kernel writes it: 00000000:1B:00.0 is 0000:1b:00.0."""
    return address.lower()[-len("0000:1b:00.0") :]


def check_smi() -> Iterator[HealthFinding]:
    """Check that the driver answers for every GPU, and the memory errors that it counts."""
    status, text, rows = query_smi("gpu", SMI)
    first = (text.splitlines() or ["no output"])[0][:150]
    if "version mismatch" in text:
        yield HealthFinding("HC-104", f"nvidia-smi: {first}", "restart the node")
        return
    if status:
        yield HealthFinding("HC-102", f"nvidia-smi: {first}", "read dmesg, and restart the node")
        return
    on_bus = [os.path.basename(here) for here in list_nvidia_devices(GPU_CLASS)]
    shown = [shorten_bus(row[1]) for row in rows]
    if len(shown) < min(len(on_bus), count_own_ranks()):
        missing = ", ".join(one for one in on_bus if one not in shown)
        seen = f"the driver shows {len(shown)} of {len(on_bus)} GPUs, without {missing}"
        yield HealthFinding("HC-102", seen, "read dmesg, and restart the node")
    for number, bus, count in rows:
        errors = parse_decimal(count) or 0
        if errors:
            seen = f"GPU {shorten_bus(bus)} counts {errors} uncorrectable memory errors since its start"
            yield HealthFinding("HC-103", seen, f"nvidia-smi --gpu-reset -i {number}")


def check_remapping() -> Iterator[HealthFinding]:
    """Check the memory rows that GPUs replace. If nvidia-smi fails, `check_smi` reports it."""
    status, _, rows = query_smi("remapped-rows", ROWS)
    if status:
        raise NoCheckError("nvidia-smi failed", skipped=True)
    for bus, *values in rows:
        failed = [
            name for name, value in zip(("failed", "is pending"), values) if value in ("1", "Yes")
        ]
        if failed:
            seen = f"GPU {shorten_bus(bus)}: a row remapping of its memory {' and '.join(failed)}"
            yield HealthFinding("HC-103", seen, "reset the GPU. If it failed, replace the GPU")


def list_driver_reports() -> Iterator[tuple[float, str]]:
    """Yield the errors of GPUs and NVSwitches in the kernel log that end all jobs: seconds since each, and its line."""
    now = time.monotonic()
    with contextlib.suppress(BlockingIOError), open_kernel_log() as log:
        for _ in range(MOST_MESSAGES):
            try:
                data = log.read(LOG_BYTES)
            except BrokenPipeError:  # the kernel has replaced messages meanwhile
                continue
            if not data:
                return
            for line in data.decode("utf-8", "replace").splitlines():
                head, _, text = line.partition(";")
                when = parse_decimal(head.split(",")[2]) if head.count(",") > 1 else None
                found = DRIVER_REPORT.search(text)
                if found is None or when is None:
                    continue
                number = parse_decimal(found.group("xid") or "")
                if number is None or number in STOPPING_XIDS:
                    yield now - when / 1e6, text


def open_kernel_log() -> io.FileIO:
    """Open the kernel log without waiting at its end.

    Raises:
        NoCheckError: this account may not read it.
    """
    try:
        return open(
            os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0
        )
    except OSError as error:
        raise NoCheckError(f"{KERNEL_LOG}: {error.strerror}", skipped=True) from None


def check_xids() -> Iterator[HealthFinding]:
    """Check that the driver reported no error of a GPU or NVSwitch that ends all jobs."""
    if not read_text(MODULE):
        raise NoCheckError("the NVIDIA driver is not loaded", skipped=True)
    if run_tool("systemd-detect-virt", "--container")[0] == 0:
        raise NoCheckError("the kernel log of a container is that of its host", skipped=True)
    last = {text: seconds for seconds, text in list_driver_reports() if seconds < XID_SECONDS}
    for text, seconds in list(last.items())[-MOST_REPORTS:]:
        seen = f"the driver reported {seconds / 60:.0f} min ago: {text[:150]}"
        yield HealthFinding("HC-108", seen, "./fullmesh explain VC-113 on the controller")


# --- the network --------------------------------------------------------------------------------------


def read_plan() -> dict[str, Any]:
    """Return the nodes of the plan on this node, or {}."""
    try:
        found = parse_tool_json(read_text(NODES) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read_own_address() -> str:
    """Return the cluster address of this node from its environment file, or "". An interface may have lost it."""
    found = OWN_ADDRESS.search(read_text(ENVIRONMENT))
    return found.group(1) if found else ""


def find_own_entry() -> dict[str, Any] | None:
    """Return this node in the plan, by its own address, its host name or an address of its interfaces."""
    nodes = read_plan().get("nodes")
    known = [one for one in nodes if isinstance(one, dict)] if isinstance(nodes, list) else []
    own, name = read_own_address(), os.uname()[1]
    for one in known:
        if own and one.get("address") == own:
            return one
    by_name = [one for one in known if name in (one.get("name"), *(one.get("names") or []))]
    if by_name:
        return by_name[0]
    held = {address for _, address in list_addresses()}
    return next((one for one in known if one.get("address") in held), None)


def count_own_ranks() -> int:
    """Return the number of ranks of this node in the plan, 0 if it is not known."""
    return parse_decimal(str((find_own_entry() or {}).get("local_ranks"))) or 0


def list_interfaces() -> list[dict[str, Any]]:
    """Return the interfaces with their addresses from iproute2.

    Raises:
        NoCheckError: it is missing, or fails.
    """
    status, text = run_tool("ip", "-j", "address", "show")
    try:
        found = parse_tool_json(text) if status == 0 else None
    except ValueError:
        found = None
    if found is None:
        raise NoCheckError(f"ip address failed: {text[:100] or 'iproute2 is missing'}")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def list_addresses() -> list[tuple[str, str]]:
    """Return the interface of each address of this node."""
    return [
        (str(one.get("ifname", "")), str(held.get("local", "")))
        for one in list_interfaces()
        for held in one.get("addr_info") or []
    ]


def find_earlier_interface(address: str) -> str:
    """Return the interface that had an address at the last run of Fullmesh, or ""."""
    try:
        owned = parse_tool_json(read_text(MANIFEST) or "{}")["owned"]["addresses"]
        names = [one["interface"] for one in owned if one["address"].split("/")[0] == address]
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
    return os.path.basename(str(names[0])) if names else ""


def check_interfaces() -> Iterator[HealthFinding]:
    """Check the interface of the cluster address, and RDMA on it."""
    own = find_own_entry()
    if own is None:
        raise NoCheckError(f"{NODES} does not name this node", skipped=True)
    address = str(own.get("address", ""))
    held = [interface for interface, one in list_addresses() if one == address]
    # network managers remove the address from an interface without a link
    name = held[0] if held else find_earlier_interface(address)
    down = (
        read_text(f"{NET}/{name}/carrier") == "0" or read_text(f"{NET}/{name}/operstate") == "down"
    )
    if down:
        text = f"{name} of the cluster address {address} is down, or has no carrier"
        yield HealthFinding("HC-111", text, f"check the cable and the switch: ip link show {name}")
    if not held:
        if not down:
            text = f"no interface has the cluster address {address}"
            yield HealthFinding("HC-112", text, "check the network configuration: ip address")
        return
    if read_text(f"{NET}/{name}/duplex") == "half":
        text = f"{name} runs at half duplex"
        yield HealthFinding("HC-113", text, f"ethtool -s {name} autoneg on, on both ends")
    for device in sorted(glob.glob(f"{RDMA}/*")):
        state = read_text(f"{device}/ports/1/state")
        if os.path.isdir(f"{device}/device/net/{name}") and state and "ACTIVE" not in state:
            text = f"RDMA device {os.path.basename(device)} on {name} is in state {state}"
            yield HealthFinding("HC-114", text, "check the cable and the subnet manager: ibstat")


# --- limits, clock and disks --------------------------------------------------------------------------


def check_limits() -> Iterator[HealthFinding]:
    """Check that the kernel still has files, threads and memory for a job."""
    words = read_text("/proc/sys/fs/file-nr").split()
    threads = read_text("/proc/loadavg").split()[3:4]
    used = {
        "open files (fs.file-max)": (words[0:1], words[2:3]),
        "threads (kernel.threads-max)": (
            [one.rpartition("/")[2] for one in threads],
            [read_text("/proc/sys/kernel/threads-max")],
        ),
        "threads (kernel.pid_max)": (
            [one.rpartition("/")[2] for one in threads],
            [read_text("/proc/sys/kernel/pid_max")],
        ),
    }
    for what, (now, most) in used.items():
        count, limit = (parse_decimal(one[0]) if one else None for one in (now, most))
        if count and limit and count > USED_SHARE * limit:
            text = f"{count} of {limit} {what} are used"
            yield HealthFinding("HC-121", text, "end the processes that use them, or raise it")
    found = re.search(r"^MemAvailable:\s+(\d+) kB", read_text("/proc/meminfo"), re.M)
    if found and int(found.group(1)) << 10 < LEAST_MEMORY:
        text = f"{int(found.group(1)) >> 10} MiB of memory are available"
        yield HealthFinding("HC-122", text, "end the processes of earlier jobs: ps aux --sort -rss")


def check_clock() -> Iterator[HealthFinding]:
    """Check that the clock is synchronized, from chrony or the kernel."""
    fix = "check the time servers: chronyc sources, timedatectl"
    status, text = run_tool("chronyc", "-n", "-c", "tracking")
    words = text.split(",")
    if status == 0 and len(words) > 5:  # noqa: PLR2004 (chronyc(1): the offset is the fifth)
        try:
            offset = abs(float(words[4]))
        except ValueError:
            raise NoCheckError("chronyc's answer cannot be read") from None
        if offset > MOST_OFFSET:
            yield HealthFinding("HC-132", f"the clock is off by {offset:.3f} s (chronyc)", fix)
        if words[-1] == "Not synchronised":
            yield HealthFinding("HC-131", "the clock is not synchronized (chronyc)", fix)
        return
    if not has_time_service():
        raise NoCheckError("no time service runs here", skipped=True)
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    if state == TIME_ERROR:
        yield HealthFinding("HC-131", "the clock is not synchronized (adjtimex)", fix)


def has_time_service() -> bool:
    """Return whether a time service runs here. One in a container has its own PID namespace and another clock."""
    for path in glob.glob("/proc/[0-9]*/comm"):
        if read_text(path) in TIME_SERVICES:
            with contextlib.suppress(OSError):
                own = os.readlink("/proc/self/ns/pid")
                if os.readlink(os.path.dirname(path) + "/ns/pid") == own:
                    return True
    return False


def list_mounts() -> list[tuple[str, str, str]]:
    """Return source, folder and type of every mount."""
    found = []
    for line in read_text("/proc/self/mounts").splitlines():
        words = [
            ESCAPED.sub(lambda one: chr(int(one.group(1), 8)), word) for word in line.split(" ")
        ]
        if len(words) > 2:  # noqa: PLR2004 (source, folder, type)
            found.append((words[0], words[1], words[2]))
    return found


def list_network_mounts() -> list[tuple[str, str, str]]:
    """Return the mounts whose server may not answer."""
    return [one for one in list_mounts() if NETWORK.match(one[2])][:MOST_MOUNTS]


def check_disks() -> Iterator[HealthFinding]:
    """Check free space and write access of the local file systems that every job needs."""
    mounts = {folder: kind for _, folder, kind in list_mounts()}
    for folder in FOLDERS:
        above = folder
        while above not in mounts and above != "/":
            above = os.path.dirname(above)
        if NETWORK.match(mounts.get(above, "")) or not os.path.isdir(folder):
            continue
        seen = os.statvfs(folder)
        free, size = seen.f_bavail * seen.f_frsize, seen.f_blocks * seen.f_frsize
        if size and free < min(LEAST_SHARE * size, LEAST_BYTES):
            text = f"{folder} has {free >> 20} MiB left of {size >> 20} MiB"
            yield HealthFinding("HC-141", text, f"remove files: du -xh {folder} | sort -h | tail")
        if seen.f_files and seen.f_favail < LEAST_SHARE * seen.f_files:
            text = f"{folder} has {seen.f_favail} of {seen.f_files} files (inodes) left"
            yield HealthFinding("HC-141", text, f"remove files below {folder}")
        if folder != "/" and seen.f_flag & os.ST_RDONLY:
            text = f"{folder} is mounted read-only"
            yield HealthFinding(
                "HC-142",
                text,
                "check dmesg: the kernel may remount a file system read-only after a disk error",
            )


def check_mount(folder: str, described: str) -> Iterator[HealthFinding]:
    """Check that the server of a mount answers. If it does not, this process hangs."""
    try:
        os.statvfs(folder)
    except OSError as error:
        if error.errno in UNANSWERED:
            text = f"{described} fails: {error.strerror}"
            yield HealthFinding("HC-143", text, f"mount {folder} again, or check its server")


# --- drift --------------------------------------------------------------------------------------------


def check_drift() -> Iterator[HealthFinding]:
    """Compare files, sysctls, addresses and services with the manifest of the last run."""
    if os.geteuid():
        raise NoCheckError("only root can read every file of the manifest", skipped=True)
    try:
        manifest = parse_tool_json(read_text(MANIFEST) or "null")
        then = {} if manifest is None else manifest["state"]
        kinds = {
            kind: dict(then.get(kind, {})) for kind in ("file", "sysctl", "address", "service")
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NoCheckError(f"{MANIFEST} cannot be read") from None
    if manifest is None:
        raise NoCheckError("this node has no manifest of Fullmesh", skipped=True)
    units = sorted(name for name in kinds["service"] if isinstance(kinds["service"][name], dict))
    active = run_tool("systemctl", "is-active", *units)[1].splitlines() if units else []
    held = {f"{name} {address}" for name, address in list_addresses()}
    now: dict[str, dict[str, Any]] = {
        "file": {path: fingerprint.fingerprint_path(path) for path in kinds["file"]},
        "sysctl": {key: fingerprint.read_sysctl_value(key) for key in kinds["sysctl"]},
        "address": {one: one.rpartition("/")[0] in held for one in kinds["address"]},
    }
    if len(active) == len(units):
        now["service"] = {
            name: {**kinds["service"][name], "active": state == "active"}
            for name, state in zip(units, active)
        }
    found = fingerprint.describe_differences({kind: kinds[kind] for kind in now}, now)
    if found:
        rest = f", and {len(found) - MOST_DRIFT} more" if len(found) > MOST_DRIFT else ""
        text = "the node differs from its manifest: " + "; ".join(found[:MOST_DRIFT]) + rest
        yield HealthFinding("HC-151", text, "./fullmesh apply -i INVENTORY on the controller")

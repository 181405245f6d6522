"""Survey the conditions of a job on a node.

They are environment, limits, memory, clock, GPUs, RDMA, kernel messages and running jobs.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import struct
import time
from typing import TYPE_CHECKING

from ..facts.accelerators import LOADED, list_amd_gpus
from ..facts.gpu import is_in_container, list_nvidia_devices, observe_fabric_manager
from ..files import SPACE, split_lines, split_words
from ..tools import nvidia_smi
from . import flow_control, nccl_conf, pci_paths
from .filters import run_tool
from .job_start_program import VARIABLES
from .net import (
    describe_left_out,
    find_pid_owner,
    find_priority_accounts,
    parse_whole_number,
    read_command_line,
    read_kernel_file,
    read_process_age,
    select_fair_share,
)

if TYPE_CHECKING:
    from ..schema.gpu import GpuCard, PciDevices
    from ..schema.survey import (
        FilesystemSpace,
        Gid,
        GpuSurvey,
        JobEnvironment,
        JobProcess,
        JobVariable,
        KernelEvent,
        RdmaPort,
        SelinuxDenial,
        SelinuxSurvey,
        SurveyClock,
    )

WINDOW = 900.0  # seconds of the log to read (older messages concern other jobs)
VALUE_MOST = 500
JOBS_MOST = 64
ENVIRONMENT_MOST = 131072
RANKS_HAVE = ("MASTER_ADDR", "RANK", "WORLD_SIZE")
EVENTS_MOST = 20
AUDIT_TAIL = 262144
DRIVER, DEVICES = "/proc/driver/nvidia/gpus", "/dev"
MISSING = 127  # of a shell, for a command that is not there
STA_UNSYNC = 0x40  # adjtimex(2)
NAMES = re.compile(VARIABLES)
ASSIGNED = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$", re.ASCII)
SECRET = re.compile(r"//[^/@\s]*@", re.ASCII)
# Later files win: systemd sets the first for services, PAM and the shell add theirs, Fullmesh's launchers read the
# last.
SYSTEMD = ("/etc/systemd/system.conf", "/etc/systemd/system.conf.d")
FILES = ("/etc/environment", "/etc/profile.d", "/etc/fullmesh/env")
EVENTS = (
    (
        "neighbour table",
        re.compile(r"neighbou?r(ing)?:? .*table overflow|neighbour table overflow", re.I),
    ),
    ("conntrack", re.compile(r"nf_conntrack: .*table full")),
    (
        "out of memory",
        re.compile(r"Out of memory: Killed process|oom-kill:|Memory cgroup out of memory"),
    ),
    ("segfault", re.compile(r"segfault at|general protection fault")),
    ("gpu", re.compile(r"NVRM: Xid|NVRM: .*fallen off the bus|nvidia-nvswitch\S*: SXid", re.ASCII)),
    ("syn flooding", re.compile(r"possible SYN flooding")),
    ("link", re.compile(r"(NIC Link is Down|Link is Down|link is not ready)")),
)


def redact_value(value: str) -> str:
    """Return a value without secrets, cut to a limited length."""
    return SECRET.sub("//...@", value)[:VALUE_MOST]


def strip_quotes(text: str) -> str:
    """Remove one pair of quotes, and a trailing comment of a shell line."""
    text = text.strip(SPACE)
    if len(text) > 1 and text[0] in "'\"" and text[0] in text[1:]:
        return text[1 : text.index(text[0], 1)]
    # cut first, because a process of any account may have 131,000 characters here
    return re.split(r"\s#|;", text[:VALUE_MOST], flags=re.ASCII)[0].strip(SPACE)


def parse_assignments(text: str) -> dict[str, str]:
    """Parse NAME=value lines, with or without export, for names that matter to a job."""
    found = {}
    for line in split_lines(text):
        match = ASSIGNED.match(line)
        if match and NAMES.match(match.group(1)):
            found[match.group(1)] = redact_value(strip_quotes(match.group(2)))
    return found


def parse_systemd_defaults(text: str) -> dict[str, str]:
    """Parse DefaultEnvironment= lines of a system.conf."""
    found = {}
    for line in split_lines(text):
        if line.strip(SPACE).startswith("DefaultEnvironment="):
            for word in re.findall(r"\"[^\"]*\"|'[^']*'|\S+", line.split("=", 1)[1], re.ASCII):
                found.update(parse_assignments(word.strip("\"'")))
    return found


def list_config_files(path: str, ending: str) -> list[str]:
    """Return a file, or the files of a folder in the order in which they are read."""
    if not os.path.isdir(path):
        return [path]
    try:
        return [os.path.join(path, n) for n in sorted(os.listdir(path)) if n.endswith(ending)][:100]
    except OSError:
        return []


def survey_environment() -> JobEnvironment:
    """Return the environment that a job would get, with the file of each value."""
    sources = []
    for place in SYSTEMD:
        sources += [
            (p, parse_systemd_defaults(read_kernel_file(p)))
            for p in list_config_files(place, ".conf")
        ]
    for place in FILES:
        sources += [
            (p, parse_assignments(read_kernel_file(p))) for p in list_config_files(place, ".sh")
        ]
    values: dict[str, JobVariable] = {}
    for path, held in sources:
        for name, value in held.items():
            values[name] = {"value": value, "source": path}
    mine = {n: redact_value(v) for n, v in os.environ.items() if NAMES.match(n)}
    for name, value in mine.items():
        values.setdefault(name, {"value": value, "source": "the login's environment"})
    plain = {name: one["value"] for name, one in values.items()}
    for path, said in nccl_conf.read_nccl_settings(plain):
        held = {name: redact_value(value) for name, value in said.items()}
        sources.append((path, held))
        for name, value in held.items():
            values.setdefault(name, {"value": value, "source": path})
    found: JobEnvironment = {
        "values": values,
        "files": {path: held for path, held in sources if held},
    }
    if absent := nccl_conf.find_unreadable_conf(plain):
        found["unread"] = absent
    return found


def survey_limits() -> dict[str, int]:
    """Return the limits of a process started by this login. -1 is no limit."""
    found = {}
    for name, what in (
        ("nofile", resource.RLIMIT_NOFILE),
        ("memlock", resource.RLIMIT_MEMLOCK),
        ("nproc", resource.RLIMIT_NPROC),
        ("stack", resource.RLIMIT_STACK),
    ):
        soft, hard = resource.getrlimit(what)
        found[name], found[name + "_hard"] = soft, hard
    return found


def measure_disk_space(path: str) -> FilesystemSpace:
    """Return size and free bytes of a file system, zeros if there is none."""
    try:
        stat = os.statvfs(path)
    except OSError:
        return {"size": 0, "free": 0}
    return {"size": stat.f_blocks * stat.f_frsize, "free": stat.f_bavail * stat.f_frsize}


def survey_clock() -> SurveyClock:
    """Return the kernel's state of its clock, adjtimex(2)."""
    buffer = ctypes.create_string_buffer(512)
    state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    status = struct.unpack_from("i", buffer.raw, 40)[0]
    return {"now": time.time(), "synchronised": state >= 0 and not status & STA_UNSYNC}


def list_pci_devices() -> PciDevices:
    """Return the devices on the PCI bus, with or without a driver.

    Empty in a container, which sees its host's bus.
    """
    return {"gpus": [], "switches": 0} if is_in_container() else list_nvidia_devices()


def has_driver_gpus() -> bool:
    """Return whether the driver has GPUs for this node.

    In a container, /proc is its host's, but device files are its own.
    """
    here = any(re.match(r"nvidia\d+$", name, re.ASCII) for name in os.listdir(DEVICES))
    return os.path.isdir(DRIVER) and (here or not is_in_container())


def add_nvlinks(gpus: list[GpuCard]) -> None:
    """Count each GPU's NVLinks, if it has any."""
    for row in nvidia_smi.parse_nvlinks(run_tool(nvidia_smi.SHOW_NVLINKS)[1]):
        links = len(row["speeds"]) + row["down"]
        if row["gpu"] < len(gpus) and links:
            gpus[row["gpu"]]["links"] = links
            gpus[row["gpu"]]["links_down"] = row["down"]
            gpus[row["gpu"]]["link_gb_s"] = round(sum(row["speeds"]), 1)


def is_fully_linked(topology: dict[str, dict[str, str]]) -> bool:
    """Return whether ``nvidia-smi topo -m`` has NVLinks (``NV18``) between every two GPUs."""
    gpus = {name: ways for name, ways in topology.items() if name.startswith("GPU")}
    pairs = [ways.get(other, "") for name, ways in gpus.items() for other in gpus if other != name]
    return bool(pairs) and all(way.startswith("NV") for way in pairs)


def survey_gpus() -> tuple[GpuSurvey, str]:
    """Return the GPUs with the NVIDIA driver's data, or why it is unknown. No driver is a valid answer."""
    code, text = run_tool(nvidia_smi.SHOW_ALL)
    bus = list_pci_devices()
    seen: GpuSurvey = {
        "present": False,
        "cards": [],
        "pci": bus["gpus"],
        "amd": [] if is_in_container() else list_amd_gpus(),
        "switches": bus["switches"],
    }
    if seen["pci"] and pci_paths.is_physical_machine():
        seen["paths"], seen["direct"] = (
            pci_paths.survey_pci_paths(),
            pci_paths.find_gpu_direct_mode(),
        )
    if code == 0 and text:
        # the jobs themselves report their GPUs
        report = nvidia_smi.parse_smi(text)
        seen["driver"], seen["cuda"], seen["cards"] = (
            report["driver"],
            report["cuda"],
            report["cards"],
        )
        seen["present"] = True
        add_nvlinks(seen["cards"])
        if seen["pci"] and (seen["switches"] or any(gpu.get("fabric") for gpu in seen["cards"])):
            seen["fabric_manager"] = observe_fabric_manager()
        if any("links" in gpu for gpu in seen["cards"]):
            seen["linked"] = is_fully_linked(
                nvidia_smi.parse_topology(run_tool(nvidia_smi.SHOW_TOPOLOGY)[1])
            )
        return seen, ""
    words = [line.strip(SPACE) for line in split_lines(text) if line.strip(SPACE)]
    if code not in (0, MISSING) and (seen["pci"] or has_driver_gpus()):
        seen["said"], seen["loaded"] = (
            redact_value(words[0]) if words else "",
            read_kernel_file(LOADED),
        )
    if not has_driver_gpus():
        return seen, ""
    why = "nvidia-smi failed although the driver is loaded"
    seen["present"] = seen["failed"] = True
    return seen, why


PCIE_LINK = ("current_link_width", "max_link_width", "current_link_speed", "max_link_speed")


def list_gids(port: str) -> list[Gid]:
    """Return the entries of a port's GID table that are not empty.

    Reading the type of an empty one is an error (EINVAL).
    """
    folder = port + "/gids"
    found: list[Gid] = []
    for index in (
        sorted(os.listdir(folder), key=parse_whole_number)[:256] if os.path.isdir(folder) else []
    ):
        gid = read_kernel_file(f"{folder}/{index}")
        kind = (
            read_kernel_file(f"{port}/gid_attrs/types/{index}")
            if gid.replace(":", "").strip("0")
            else ""
        )
        if kind:
            found.append({"index": parse_whole_number(index), "type": kind, "gid": gid})
    return found


def survey_rdma(base: str = "/sys/class/infiniband") -> list[RdmaPort]:
    """Return the RDMA ports with their states, the types of their GIDs, their firmware and PCIe link."""
    found: list[RdmaPort] = []
    devices = sorted(os.listdir(base))[:32] if os.path.isdir(base) else []
    for device in devices:
        ports = f"{base}/{device}/ports"
        for port in sorted(os.listdir(ports))[:8] if os.path.isdir(ports) else []:
            here = f"{ports}/{port}"
            held = list_gids(here)
            found.append(
                {
                    "device": device,
                    "port": parse_whole_number(port),
                    "state": read_kernel_file(here + "/state").split(":")[-1].strip(SPACE),
                    "physical": read_kernel_file(here + "/phys_state").split(":")[-1].strip(SPACE),
                    "layer": read_kernel_file(here + "/link_layer"),
                    "rate": read_kernel_file(here + "/rate"),
                    "vendor": read_kernel_file(f"{base}/{device}/device/vendor"),
                    "gids": held,
                }
            )
            describe_rdma_card(found[-1], f"{base}/{device}")
            flow = flow_control.survey_flow_control(f"{base}/{device}", here)
            if flow:
                found[-1]["flow_control"] = flow
    return found


def describe_rdma_card(port: RdmaPort, folder: str) -> None:
    """Add the firmware, the board and the PCIe link of a port's NIC, if the driver shows them."""
    firmware, board = (read_kernel_file(f"{folder}/{name}") for name in ("fw_ver", "board_id"))
    if firmware:
        port["firmware"] = firmware
    if board:
        port["board"] = board
    pcie = {name: read_kernel_file(f"{folder}/device/{name}") for name in PCIE_LINK}
    if all(pcie.values()):
        port["pcie"] = pcie


def parse_kernel_log(lines: list[str], uptime: float) -> list[KernelEvent]:
    """Return recent kernel events that explain failures, from lines such as ``6,1234,5678901,-;text``."""
    found: list[KernelEvent] = []
    for line in lines:
        head, _, text = line.partition(";")
        stamp = head.split(",")[2:3]
        age = uptime - parse_whole_number(stamp[0]) / 1e6 if stamp else WINDOW + 1
        if age > WINDOW:
            continue
        for kind, pattern in EVENTS:
            if pattern.search(text):
                found.append({"kind": kind, "age": round(age, 1), "text": text.strip(SPACE)[:300]})
    return found[-EVENTS_MOST:]


def survey_kernel_log() -> tuple[list[KernelEvent], str]:
    """Return recent kernel messages, or why they are unknown (in a container they are the host's)."""
    if is_in_container():
        return [], "in a container the kernel's messages are the host's"
    lines: list[str] = []
    try:
        handle = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError as exc:
        return [], f"reading the kernel's messages: {exc.strerror}"
    try:
        while len(lines) < 20000:  # noqa: PLR2004 (the ring is smaller)
            try:
                # one record with its key lines (the lab's look-alike is a file with an end)
                record = os.read(handle, 8192).decode("utf-8", "replace")
                if not record:
                    break
                lines += split_lines(record)
            except OSError as exc:
                if exc.errno == errno.EPIPE:  # the ring was overwritten during the read
                    continue
                break
    finally:
        os.close(handle)
    return parse_kernel_log(lines, float(split_words(read_kernel_file("/proc/uptime"))[0])), ""


def parse_audit_denials(text: str, now: float) -> list[SelinuxDenial]:
    """Return recent denials from an audit log."""
    found: list[SelinuxDenial] = []
    for line in split_lines(text):
        match = re.search(r"type=AVC msg=audit\((\d+)\.\d+:\d+\).*?denied", line, re.ASCII)
        if match and now - int(match.group(1)) <= WINDOW:
            who = re.search(r'comm="([^"]*)"', line)
            name = who.group(1) if who else ""
            found.append({"command": name, "age": now - int(match.group(1)), "text": line[:400]})
    return found[-EVENTS_MOST:]


def survey_selinux() -> tuple[SelinuxSurvey, str]:
    """Return SELinux's mode and recent denials. An empty mode means that the kernel has no SELinux."""
    enforcing = read_kernel_file("/sys/fs/selinux/enforce")
    mode = {"1": "enforcing", "0": "permissive"}.get(enforcing, "")
    if not mode:
        return {"mode": "", "denials": []}, ""
    path = "/var/log/audit/audit.log"
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.path.getsize(path) - AUDIT_TAIL))
            text = stream.read().decode("utf-8", "replace")
    except OSError as exc:
        return {"mode": mode, "denials": []}, f"reading the audit log: {exc.strerror}"
    return {"mode": mode, "denials": parse_audit_denials(text, time.time())}, ""


def read_job(pid: int) -> JobProcess | None:
    """Return a training process, or None if it is another program or has ended."""
    env = {}
    for line in read_environment_text(pid).split("\0"):
        env.update(parse_assignments(line))
    if "RANK" not in env or "WORLD_SIZE" not in env:
        return None
    return {
        "pid": pid,
        "command": read_command_line(pid),
        "age": read_process_age(pid),
        "environment": env,
    }


def read_environment_text(pid: int) -> str:
    """Return the environment of a process from the kernel."""
    return read_kernel_file(f"/proc/{pid}/environ", ENVIRONMENT_MOST)


def survey_jobs() -> tuple[list[JobProcess], str]:
    """Return the running training processes with their real environment, and a sentence about those left out."""
    seen: list[tuple[int, int]] = []
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        text = read_environment_text(pid)
        if pid != os.getpid() and all(f"{name}=" in text for name in RANKS_HAVE):
            seen.append((find_pid_owner(pid), pid))
    kept, left = select_fair_share(seen, JOBS_MOST, find_priority_accounts())
    found = (read_job(pid) for pid in kept)
    return [one for one in found if one], describe_left_out(left, "ranks")

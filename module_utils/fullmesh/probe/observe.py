"""Observe the properties of a node that matter to a distributed job: addresses, names, limits, settings, versions."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from ..facts.nccl import NcclError, find_nccl_endpoint, find_nccl_library
from ..facts.sockets import run_ip
from ..foreign_text import parse_decimal, parse_foreign_json
from ..survey.lookup import observe_names
from ..tools import ip

if TYPE_CHECKING:
    from ..schema.ladder import (
        HealthSpan,
        HealthState,
        JobVersions,
        LadderFacts,
        LadderNodeParams,
        NcclListener,
        PlannedNic,
    )

# written by node_programs/fullmesh_health_history.py
HEALTH = "/var/lib/fullmesh/health/history.json"
MOST_SPANS, MOST_CODES = 10, 4
VERSIONS = """
import json, os, platform, re
cuda = build = ""
try:
    from importlib.metadata import PackageNotFoundError, distributions, version
    found = {d.metadata["Name"]: d.version for d in distributions()
             if (d.metadata["Name"] or "").startswith("nvidia-nccl")}
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = ""
    for held in distributions():
        if held.metadata["Name"] == "torch":
            text = open(str(held.locate_file("torch/version.py"))).read()
            made = dict(re.findall(r"^(cuda|hip|xpu)\\b.*= (?:['\\x22]([\\w.]+)|None)", text, re.M))
            cuda = made.get("cuda", "")
            kinds = [kind for kind in ("cuda", "hip", "xpu") if made.get(kind)]
            build = kinds[0] if kinds else "cpu" if "cuda" in made else ""
except ImportError:
    torch, found = "", {}
except OSError:
    pass
print(json.dumps({"python": platform.python_version(), "torch": torch,
                  "torch_nccl": " ".join(sorted(found.values())), "torch_cuda": cuda,
                  "torch_build": build}))
"""


def read_proc_text(path: str) -> str:
    """Return a short file of /proc or /sys, or "" if it is missing or unreadable."""
    try:
        with open(path) as stream:
            return stream.read().strip()
    except OSError:
        return ""


def observe_interface(name: str) -> PlannedNic:
    """Describe an interface."""
    base = os.path.join("/sys/class/net", name)
    if not name or not os.path.isdir(base):
        return {"name": name, "exists": False, "up": False, "mtu": 0, "speed": 0}
    mtu, speed = read_proc_text(base + "/mtu"), read_proc_text(base + "/speed")
    # A veth or bridge reports "unknown" or "up". Only carrier shows that a cable is plugged in.
    return {
        "name": name,
        "exists": True,
        "up": read_proc_text(base + "/carrier") == "1",
        "mtu": int(mtu or 0),
        "speed": parse_decimal(speed) or 0,
    }


def observe_limits() -> dict[str, int]:
    """Return the limits of a job that is started like this call."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {"nofile": soft, "nofile_hard": hard, "memlock": locked}


def observe_versions(python: str) -> dict[str, str]:
    """Return the versions in the jobs' environment, without importing torch (which takes seconds)."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", VERSIONS],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
        )
        said = parse_foreign_json(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    return said if isinstance(said, dict) else {}


def observe_software(interface: str, torch: dict[str, str]) -> dict[str, str]:
    """Return software versions and settings that may differ between nodes, "" for unknown ones."""
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    driver = os.path.realpath("/sys/class/net/" + interface + "/device/driver")
    driver = os.path.basename(driver) if interface and os.path.isdir(driver) else ""
    version = read_proc_text("/sys/module/" + driver + "/version") if driver else ""
    locale = ""
    for path in ("/etc/locale.conf", "/etc/default/locale"):
        for line in read_proc_text(path).splitlines():
            if line.startswith("LANG=") and not locale:
                locale = line[5:].strip("\"' ")
    zone = os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    # names of one zone (a machine without the file has UTC, localtime(5))
    utc = zone in (
        "",
        "Etc/UTC",
        "Etc/UCT",
        "UCT",
        "Universal",
        "Etc/Universal",
        "Zulu",
        "Etc/Zulu",
    )
    return {
        "glibc": (libc or "").split(" ")[-1],
        "nic_driver": (driver + " " + version).strip(),
        "locale": locale,
        "time_zone": "UTC" if utc else zone,
        "machine": os.uname().machine,
        **torch,
    }


def choose_job_python(want: LadderNodeParams) -> str:
    """Return the jobs' interpreter. A diagnosis of a node that Fullmesh did not configure uses python3."""
    python = want["python"]
    return python if os.path.exists(python) or not want["survey"] else "python3"


def observe_nccl(interface: str, family: int) -> NcclListener:
    """Let the system's NCCL choose address and port with the settings that jobs get."""
    begun = time.monotonic()
    env = {
        "NCCL_SOCKET_IFNAME": "=" + interface,
        "NCCL_SOCKET_FAMILY": "AF_INET6" if family == socket.AF_INET6 else "AF_INET",
    }
    seen: NcclListener = {
        "version": "",
        "path": "",
        "address": "",
        "port": 0,
        "reason": "",
        "error": "",
    }
    try:
        library = find_nccl_library()
        seen["version"], seen["path"] = library["version"], library["path"]
        where = find_nccl_endpoint("", env)
        seen["family"] = where["family"]
        seen["address"], seen["port"] = where["address"], where["port"]
    except NcclError as exc:
        seen["reason"], seen["error"] = exc.reason, str(exc)
    seen["seconds"] = round(time.monotonic() - begun, 3)
    return seen


def observe_health() -> list[HealthSpan]:
    """Return the last verdicts of fullmesh-check, [] if this account cannot read them or none is recorded."""
    words: dict[str, HealthState] = {"True": "fit", "False": "not fit", "None": "not checked"}
    try:
        return [
            {
                "state": words[str(span["fit"])],
                "first": int(span["first"]),
                "last": int(span["last"]),
                "codes": [str(code)[:20] for code in span["codes"]][:MOST_CODES],
            }
            for span in parse_foreign_json(read_proc_text(HEALTH))["spans"][-MOST_SPANS:]
        ]
    except (ValueError, KeyError, TypeError):
        return []


def observe_node(want: LadderNodeParams) -> LadderFacts:
    """Observe the node once."""
    begun = time.monotonic()
    address = want["address"]
    addresses = {
        one.split("/")[0]: name
        for name, held in ip.parse_addresses(run_ip(*ip.SHOW_ADDRESSES[1:])).items()
        for one in held
    }
    interface = addresses.get(address, "")
    # A diagnosis resolves names separately (survey/names.py).
    said = observe_versions(choose_job_python(want))
    versions: JobVersions = {
        "python": said.get("python", ""),
        "torch": said.get("torch", ""),
        "torch_nccl": said.get("torch_nccl", ""),
    }
    torch = {key: said.get(key, "") for key in ("torch_cuda", "torch_build")}
    facts: LadderFacts = {
        "addresses": addresses,
        "interface": observe_interface(interface or want["interface"]),
        "limits": observe_limits(),
        "sysctls": {
            "port_range": read_proc_text("/proc/sys/net/ipv4/ip_local_port_range"),
            "reserved_ports": read_proc_text("/proc/sys/net/ipv4/ip_local_reserved_ports"),
            "somaxconn": read_proc_text("/proc/sys/net/core/somaxconn"),
        },
        "versions": versions,
        "software": observe_software(interface or want["interface"], torch),
        "system_python": sys.version.split()[0],
        "kernel": os.uname().release,
        "cpus": os.cpu_count() or 0,
        "load": os.getloadavg()[0],
        # containers of one machine share its CPUs and its boot
        "boot": read_proc_text("/proc/sys/kernel/random/boot_id"),
        "clock": time.time(),
    }
    health = observe_health()
    if health:
        facts["health"] = health
    if not want["beside"]:
        facts["names"] = observe_names(want["hosts"], address)
    facts["seconds"] = round(time.monotonic() - begun, 3)
    return facts

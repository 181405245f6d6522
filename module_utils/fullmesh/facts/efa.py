"""Collect a node's EFA setup: the device, its driver, libfabric, and the plugin for NCCL."""

from __future__ import annotations

import glob
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..schema.survey import EfaPci, EfaSurvey, EfaVerbs, Libfabric, NcclPlugin

# PCI ids of Amazon's EFA devices: vendor 1d0f, devices efa0 to efa3 (drivers/infiniband/hw/efa/efa_main.c)
VENDOR, DEVICE = "0x1d0f", "0xefa"
SECONDS = 10.0
# paths of Amazon's installer (lib on Debian, lib64 on EL, with the plugin since 1.39), and of plugins that users build
FI_INFO = ("/opt/amazon/efa/bin/fi_info", "/usr/bin/fi_info", "/usr/local/bin/fi_info")
PLUGIN_PATHS = (
    "/opt/amazon/ofi-nccl/lib",
    "/opt/amazon/ofi-nccl/lib64",
    "/opt/amazon/ofi-nccl/lib/*-linux-gnu",
    "/opt/aws-ofi-nccl/lib",
    "/opt/aws-ofi-nccl/install/lib",
)
# files with a job's variables (the last one wins)
ENVIRONMENT_FILES = ("/etc/environment", "/etc/fullmesh/env")
LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
# NCCL's own words (plugin_open.cc): this value means "no plugin at all"
NONE = "none"


def read_device_file(path: str) -> str:
    """Return a short file, or "" if it is missing or unreadable."""
    try:
        with open(path) as stream:
            return stream.read().strip()
    except (OSError, ValueError):
        return ""


def run_with_environment(
    command: list[str], env: dict[str, str], seconds: float
) -> tuple[int, str]:
    """Return exit status and output (at most 8000 characters), with status -1 if it cannot run or does not end."""
    try:
        done = subprocess.run(
            command,
            check=False,
            env=dict(env, LC_ALL="C"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return -1, f"no answer within {seconds:g} s"
    except OSError as error:
        return -1, str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")[:8000]


def parse_environment_file(text: str) -> dict[str, str]:
    """Parse ``NAME=value`` lines, with or without ``export`` and quotes."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        name = name[len("export ") :].strip() if name.startswith("export ") else name.strip()
        if equals and name.isidentifier():
            found[name] = value.strip().strip("\"'")
    return found


def read_environment_files(paths: Sequence[str] = ENVIRONMENT_FILES) -> dict[str, str]:
    """Return the variables that a job gets from these files."""
    found: dict[str, str] = {}
    for path in paths:
        try:
            with open(path, errors="replace") as stream:
                found.update(parse_environment_file(stream.read(65536)))
        except OSError:
            continue
    return found


def list_efa_devices(root: str) -> list[EfaPci]:
    """Return the EFA devices on the bus, each with its driver or ""."""
    found: list[EfaPci] = []
    for base in sorted(glob.glob(root + "/sys/bus/pci/devices/*")):
        if read_device_file(base + "/vendor") == VENDOR and read_device_file(
            base + "/device"
        ).startswith(DEVICE):
            driver = os.path.basename(os.path.realpath(base + "/driver"))
            has = os.path.exists(base + "/driver")
            found.append({"slot": os.path.basename(base), "driver": driver if has else ""})
    return found


def list_verbs_devices(root: str) -> list[EfaVerbs]:
    """Return the RDMA devices of the efa driver, with the state of their port."""
    found: list[EfaVerbs] = []
    for base in sorted(glob.glob(root + "/sys/class/infiniband/*")):
        driver = os.path.basename(os.path.realpath(base + "/device/driver"))
        if driver == "efa":
            state = read_device_file(base + "/ports/1/state").partition(":")[2].strip()
            found.append({"name": os.path.basename(base), "state": state})
    return found


def parse_fi_info(text: str) -> list[dict[str, str]]:
    """Parse ``fi_info -p efa``: one indented block for each interface."""
    found: list[dict[str, str]] = []
    for line in text.splitlines():
        key, colon, value = line.strip().partition(":")
        if key == "provider" and colon:
            found.append({"provider": value.strip()})
        elif found and colon and key in ("fabric", "domain", "version", "type", "protocol"):
            found[-1][key] = value.strip()
    return found


def observe_libfabric(root: str, env: dict[str, str]) -> Libfabric:
    """Query fi_info for its version and for the provider efa."""
    paths = [os.path.join(part, "fi_info") for part in env.get("PATH", "").split(":") if part]
    path = next((one for one in [*FI_INFO, *paths] if os.access(root + one, os.X_OK)), "")
    seen: Libfabric = {"fi_info": path, "version": "", "domains": [], "rc": 0, "said": ""}
    if not path:
        return seen
    _code, text = run_with_environment([root + path, "--version"], env, SECONDS)
    match = re.search(r"libfabric:\s*(\S+)", text)
    seen["version"] = match.group(1) if match else ""
    code, text = run_with_environment([root + path, "-p", "efa", "-t", "FI_EP_RDM"], env, SECONDS)
    blocks = [one for one in parse_fi_info(text) if one["provider"].startswith("efa")]
    seen["rc"] = code
    seen["domains"] = sorted({one.get("domain", "") for one in blocks} - {""})
    seen["said"] = "" if blocks else text.strip()[-300:]
    return seen


def list_plugin_names(wanted: str) -> list[str]:
    """Return the files that NCCL tries for a value of NCCL_NET_PLUGIN (plugin_open.cc), which may be a list."""
    if wanted == NONE:
        return []
    names = []
    for one in [part.strip() for part in wanted.split(",")] if wanted else [""]:
        names += ["libnccl-net.so"] if not one else [one, "libnccl-net-" + one + ".so"]
    return names


def read_linker_cache(root: str) -> list[str]:
    """Return the libraries that the dynamic linker knows."""
    del root  # the cache is the running system's
    command = next(
        (one for one in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if os.path.exists(one)), ""
    )
    if not command:
        return []
    return [
        line.rpartition("=> ")[2].strip()
        for line in run_with_environment([command, "-p"], dict(os.environ), SECONDS)[1].splitlines()
        if "=> " in line and "libnccl-net" in line
    ]


def find_nccl_plugin(root: str, env: dict[str, str], cache: list[str]) -> NcclPlugin:
    """Find the plugin of a job's NCCL. ``elsewhere`` is one that NCCL does not find."""
    names = list_plugin_names(env.get("NCCL_NET_PLUGIN", ""))
    searched = [part for part in env.get("LD_LIBRARY_PATH", "").split(":") if part]
    for name in names:
        places = [name] if name.startswith("/") else [os.path.join(one, name) for one in searched]
        places += [one for one in cache if os.path.basename(one) == name]
        for place in places:
            if os.path.exists(root + place):
                return {"path": place, "elsewhere": ""}
    known = [
        hit[len(root) :]
        for pattern in PLUGIN_PATHS
        for hit in sorted(glob.glob(root + pattern + "/libnccl-net*.so"))
    ]
    return {"path": "", "elsewhere": known[0] if known else ""}


def observe_nccl_plugin(root: str, env: dict[str, str], cache: list[str]) -> NcclPlugin:
    """Find the plugin and load it in a child process, since only this detects a missing libfabric."""
    seen: NcclPlugin = {**find_nccl_plugin(root, env, cache), "error": ""}
    if not seen["path"]:
        return seen
    code, text = run_with_environment(
        [sys.executable, "-I", "-c", LOAD, root + seen["path"]], env, SECONDS
    )
    if code:
        lines = [line for line in text.strip().splitlines() if line]
        seen["error"] = lines[-1][-300:] if lines else f"exit status {code}"
    return seen


def observe_efa(environment: dict[str, str] | None = None, root: str = "") -> EfaSurvey:
    """Survey everything that EFA needs on this node.

    ``environment`` are a job's variables (LD_LIBRARY_PATH, NCCL_NET_PLUGIN, FI_PROVIDER …), in addition to this
    process's own. ``root`` is another root directory, for tests.
    """
    env = dict(os.environ)
    given = {str(key): str(value) for key, value in (environment or {}).items()}
    env.update(given)
    cache = read_linker_cache(root)
    kept = ("NCCL_NET_PLUGIN", "NCCL_NET", "FI_PROVIDER", "LD_LIBRARY_PATH")
    asset = read_device_file(root + "/sys/class/dmi/id/board_asset_tag")
    pci, verbs = list_efa_devices(root), list_verbs_devices(root)
    seen: EfaSurvey = {
        "vendor": read_device_file(root + "/sys/class/dmi/id/sys_vendor"),
        # Nitro instances have their id here, readable for all users
        "instance": asset if asset.startswith("i-") else "",
        "pci": pci,
        "verbs": verbs,
        "driver_version": read_device_file(root + "/sys/module/efa/version"),
        "libfabric": {},
        "plugin": find_nccl_plugin(root, env, cache),
        "environment": {key: given[key] for key in kept if key in given},
    }
    if pci or verbs:  # the rest starts programs, which print nothing without a device
        seen["libfabric"] = observe_libfabric(root, env)
        seen["plugin"] = observe_nccl_plugin(root, env, cache)
    return seen

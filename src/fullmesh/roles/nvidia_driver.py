"""The NVIDIA driver: which packages a node needs, and why it must not be touched now. Pure functions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from fullmesh.faults import Fault
from fullmesh.observed.family import PackageFamily
from fullmesh.observed.gpu import GpuFacts
from fullmesh.plain import parse_switch

CODES: dict[str, str] = {
    "ND-101": "nvidia_driver_branch is missing or no branch",
    "ND-102": "this system has no driver of the kind that is asked for",
    "ND-103": "the packages of the driver cannot be installed",
    "ND-104": "Secure Boot would refuse the driver's modules",
    "ND-105": "a job computes on the GPUs, so the driver stays as it is",
    "ND-106": "no compiler or no kernel headers to build the driver's modules",
    "ND-107": "no NVIDIA GPU on the node",
    "ND-108": "the node is a container: its kernel is another machine's",
    "ND-109": "a node did not come back from its reboot",
    "ND-110": "a node before this one did not come back, so this one was not rebooted",
    "ND-111": "the driver is installed and does not work",
    "ND-112": "the driver takes effect at the next reboot (note)",
    "ND-113": "the driver's packages that were here before cannot be given back; nothing was undone",
}
BRANCH = re.compile(r"[1-9][0-9]{2}")
AUTO, PRECOMPILED, DKMS = "auto", "precompiled", "dkms"
NO_FABRIC = ("", "N/A")


class HoldPatterns(TypedDict):
    """What upgrades that nobody asked for leave alone.

    Attributes:
        family, kernel: regular expressions of names, of the driver and of the kernel that it needs, for
            unattended-upgrades.
        locks: the packages of dnf's list of locks, where that holds the driver.
    """

    family: list[str]
    kernel: list[str]
    locks: list[str]


class DriverOffers(TypedDict):
    """What a platform has (roles/nvidia_driver/vars); names may contain ``BRANCH``, ``KERNEL`` and ``FLAVOUR``.

    Attributes:
        packages: kind -> ``open`` or ``closed`` -> names.
        probes: packages whose presence shows the driver, where names cannot be asked for; empty: the names themselves.
        signed: kinds whose modules are signed by a key that the firmware knows.
        build: what DKMS needs.
        fabric: packages of the fabric manager; fabric_service and persistence: units.
        family: regular expressions of the names of all packages that a driver has, whatever its branch.
        stream: the module of dnf whose streams are branches; "" where there is none.
    """

    packages: dict[str, dict[str, list[str]]]
    probes: list[str]
    signed: list[str]
    build: list[str]
    fabric: list[str]
    fabric_service: str
    persistence: str
    hold: HoldPatterns
    family: list[str]
    stream: str


class DriverPlan(TypedDict):
    """What the role does on a node.

    Attributes:
        faults: coded sentences; where there are any, nothing else counts.
        install: packages of the driver; build: those that its modules are built with; empty when they are there.
        fabric_packages: of the fabric manager; fabric_missing: those of them that are not here; services: units to
            start.
        reboot: why the node has to be rebooted, or "".
        hold: names that unattended-upgrades leaves alone; locks: packages of what holds the driver under dnf.
        leave: the stream of another branch, which dnf would not leave by itself; "" where there is none.
    """

    faults: list[str]
    install: list[str]
    fabric_packages: list[str]
    fabric_missing: list[str]
    build: list[str]
    services: list[str]
    reboot: str
    hold: list[str]
    locks: list[str]
    leave: str


@dataclass(frozen=True)
class DriverSettings:
    """What is asked for.

    Attributes:
        branch: ``580``.
        kind: ``precompiled`` or ``dkms``.
        open: the open kernel modules, which Blackwell needs and Turing and later can have.
        fabric: ``auto``, ``always`` or ``never``.
        packages: names in place of ours, empty for ours.
        key_enrolled: the key that signs the modules is known to the firmware.
        persistence: the daemon that keeps the driver's state runs.
        hold: unattended upgrades leave the driver alone.
    """

    branch: str
    kind: str = PRECOMPILED
    open: bool = True
    fabric: str = "auto"
    packages: tuple[str, ...] = ()
    key_enrolled: bool = False
    persistence: bool = True
    hold: bool = True


def choose_driver_kind(options: Mapping[str, Any], offers: DriverOffers) -> str:
    """What ``auto`` stands for: modules that are built and signed, where the system has them for what is asked."""
    kind = str(options["nvidia_driver_kind"])
    if kind != AUTO:
        return kind
    which = "open" if options["nvidia_driver_open"] else "closed"
    ready = offers["packages"].get(PRECOMPILED, {}).get(which)
    return PRECOMPILED if ready or options["nvidia_driver_packages"] else DKMS


def read_driver_settings(options: Mapping[str, Any], offers: DriverOffers) -> DriverSettings:
    """Read the role's settings, on a system that has *offers*."""
    return DriverSettings(
        branch=str(options["nvidia_driver_branch"]),
        kind=choose_driver_kind(options, offers),
        open=parse_switch(options["nvidia_driver_open"]) is True,
        fabric=str(options["nvidia_driver_fabric_manager"]),
        packages=tuple(str(name) for name in options["nvidia_driver_packages"]),
        key_enrolled=parse_switch(options["nvidia_driver_key_enrolled"]) is True,
        persistence=parse_switch(options["nvidia_driver_persistence"]) is True,
        hold=parse_switch(options["nvidia_driver_hold"]) is True,
    )


def list_driver_packages(asked: DriverSettings, offers: DriverOffers) -> list[str]:
    """The packages, with ``KERNEL`` and ``FLAVOUR`` still in them; empty where there is no such driver."""
    table = offers["packages"].get(asked.kind, {}).get("open" if asked.open else "closed", [])
    return [name.replace("BRANCH", asked.branch) for name in asked.packages or table]


def list_probe_packages(asked: DriverSettings, offers: DriverOffers) -> list[str]:
    """The packages whose presence shows that the driver is installed: groups and streams cannot be asked for."""
    given = offers["probes"] or list_driver_packages(asked, offers)
    return [name.replace("BRANCH", asked.branch) for name in given]


def find_driver_faults(asked: DriverSettings, offers: DriverOffers) -> list[Fault]:
    """What is wrong with the settings."""
    found = []
    if not BRANCH.fullmatch(asked.branch):
        found.append(
            Fault(
                "ND-101",
                f"nvidia_driver_branch is {asked.branch!r}",
                "Give the driver branch as its number, like '580' (docs.nvidia.com lists which GPUs it supports)",
            )
        )
    if not list_driver_packages(asked, offers):
        kinds = [
            f"{kind}, nvidia_driver_open: {'true' if which == 'open' else 'false'}"
            for kind, held in offers["packages"].items()
            for which, listed in held.items()
            if listed
        ]
        what = f"{asked.kind} with {'open' if asked.open else 'closed'} modules"
        step = f"Choose from: {'; '.join(kinds)}; or name the packages in nvidia_driver_packages"
        found.append(Fault("ND-102", f"no driver is packaged for this system as {what}", step))
    return found


def parse_driver_branch(version: str) -> str:
    """``580`` of ``3:580.95.05-1.el9`` and ``580.95.05-0ubuntu1``."""
    return version.rpartition(":")[2].partition(".")[0]


def is_driver_installed(asked: DriverSettings, packages: Mapping[str, str]) -> bool:
    """Whether the packages are there, those that carry a version of the driver in the asked branch."""
    drivers = [v for name, v in packages.items() if not name.startswith(("linux-", "kernel-"))]
    return (
        bool(packages)
        and all(packages.values())
        and {parse_driver_branch(v) for v in drivers} <= {asked.branch}
    )


def needs_fabric(asked: DriverSettings, gpu: GpuFacts) -> bool:
    """NVSwitches are on the bus, or the GPUs say that they wait for a fabric."""
    if asked.fabric != "auto":
        return asked.fabric == "always"
    waiting = any(card.get("fabric", "") not in NO_FABRIC for card in gpu["smi"]["cards"])
    return bool(gpu["pci"]["switches"]) or waiting


def find_secure_boot_faults(
    asked: DriverSettings, offers: DriverOffers, gpu: GpuFacts
) -> list[Fault]:
    """Whether the firmware would refuse the modules."""
    signed = asked.kind in offers["signed"]
    if not gpu["secure_boot"] or signed or asked.key_enrolled:
        return []
    return [
        Fault(
            "ND-104",
            f"Secure Boot is on and {asked.kind} modules are not signed by a key that the firmware knows",
            "Enrol the key that signs them (mokutil --import, then at the console) and set nvidia_driver_key_enrolled; "
            "or turn Secure Boot off"
            + (
                "; or set nvidia_driver_kind: precompiled"
                if PRECOMPILED in offers["signed"]
                else ""
            ),
        )
    ]


def find_install_faults(
    asked: DriverSettings, offers: DriverOffers, gpu: GpuFacts, packages: Mapping[str, str]
) -> list[Fault]:
    """Why this node's driver must not be touched; empty when it may, or need not."""
    if gpu["container"]:
        step = "Install the driver on the machine that runs it, and leave nvidia_driver_manage off here"
        return [Fault("ND-108", "the node is a container, its kernel another machine's", step)]
    if not gpu["pci"]["gpus"]:
        step = "Set nvidia_driver_manage only for nodes with a GPU; lspci -d 10de: shows what is on the bus"
        return [Fault("ND-107", "no NVIDIA GPU is on the PCI bus", step)]
    if is_driver_installed(asked, packages):
        return []
    return find_secure_boot_faults(asked, offers, gpu) + find_gpu_job_faults(gpu)


def find_gpu_job_faults(gpu: GpuFacts) -> list[Fault]:
    """Whether a job computes on the GPUs."""
    jobs = gpu["smi"]["processes"]
    shown = ", ".join(f"{job['name']} (pid {job['pid']})" for job in jobs[:5])
    step = "Wait for it or end it; another driver under a running job breaks it (version mismatch)"
    return [Fault("ND-105", f"{shown} computes on the GPUs", step)] if jobs else []


def find_build_faults(asked: DriverSettings, gpu: GpuFacts) -> list[Fault]:
    """Whether modules can be built, asked once the packages for it had their chance."""
    tools = gpu["tools"]
    if asked.kind != DKMS or (tools["compiler"] and tools["headers"]):
        return []
    lacking = [
        *([] if tools["compiler"] else ["a compiler"]),
        *([] if tools["headers"] else [f"the headers of kernel {gpu['kernel']}"]),
    ]
    return [
        Fault(
            "ND-106",
            f"{' and '.join(lacking)} to build the modules is missing",
            "Bring the kernel up to one whose headers the repositories have and reboot into it, "
            "or set nvidia_driver_kind: precompiled",
        )
    ]


def explain_reboot(asked: DriverSettings, gpu: GpuFacts) -> str:
    """Why the node must be rebooted before the driver works; empty when it need not."""
    if gpu["nouveau"]:
        return "nouveau holds the GPUs"
    if gpu["loaded"] and parse_driver_branch(gpu["loaded"]) != asked.branch:
        return f"the loaded driver is {gpu['loaded']}"
    if not gpu["loaded"]:
        return "the driver's module is not loaded"
    return ""


def list_hold_patterns(asked: DriverSettings, offers: DriverOffers) -> list[str]:
    """What unattended upgrades must leave alone; with modules that are built already the kernel that they are of."""
    hold = offers["hold"]
    return [*hold["family"], *(hold["kernel"] if asked.kind == PRECOMPILED else [])]


def find_blocking_stream(
    install: Sequence[str], offers: DriverOffers, family: PackageFamily
) -> str:
    """The enabled stream that is in the way: dnf installs nothing of another one (dnf.modularity(7))."""
    name = offers["stream"]
    enabled = family["streams"].get(name, "")
    wanted = [one.partition(":")[2] for one in install if one.startswith(f"@{name}:")]
    return f"{name}:{enabled}" if enabled and wanted and enabled not in wanted else ""


def list_missing_packages(wanted: Sequence[str], family: PackageFamily) -> list[str]:
    """Those of *wanted*, names or patterns of names, that are not here in any version."""
    here = family["locks"].keys() or {name.partition(":")[0] for name in family["versions"]}
    return [name for name in wanted if not fnmatch.filter(here, name)]


def find_undo_faults(gpu: GpuFacts, family: PackageFamily) -> list[Fault]:
    """Why the driver's packages must not be given back now."""
    return find_gpu_job_faults(gpu) if family["install"] or family["remove"] else []


def plan_driver(
    asked: DriverSettings,
    offers: DriverOffers,
    gpu: GpuFacts,
    packages: Mapping[str, str],
    family: PackageFamily,
) -> DriverPlan:
    """What the role does on a node; *packages*: the version of each package that was probed, empty where it is not."""
    release = gpu["kernel"]

    def full(listed: Sequence[str]) -> list[str]:
        flavour = release.rsplit("-", 1)[-1]
        return [
            name.replace("BRANCH", asked.branch)
            .replace("KERNEL", release)
            .replace("FLAVOUR", flavour)
            for name in listed
        ]

    there = is_driver_installed(asked, packages)
    install = [] if there else full(list_driver_packages(asked, offers))
    fabric = needs_fabric(asked, gpu)
    persistence = [offers["persistence"]] if asked.persistence else []
    return {
        "faults": [str(fault) for fault in find_install_faults(asked, offers, gpu, packages)],
        "install": install,
        "fabric_packages": full(offers["fabric"]) if fabric else [],
        "fabric_missing": list_missing_packages(full(offers["fabric"]), family) if fabric else [],
        "build": full(offers["build"]) if asked.kind == DKMS and not there else [],
        "services": persistence + ([offers["fabric_service"]] if fabric else []),
        "reboot": explain_reboot(asked, gpu),
        "hold": full(list_hold_patterns(asked, offers)) if asked.hold else [],
        "locks": offers["hold"]["locks"] if asked.hold else [],
        "leave": find_blocking_stream(install, offers, family),
    }

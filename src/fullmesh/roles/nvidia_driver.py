"""Choose the packages of the NVIDIA driver, and find reasons not to change it now. Pure functions."""

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
    "ND-101": "nvidia_driver_branch is missing or not a branch",
    "ND-102": "This system has no driver of the requested kind",
    "ND-103": "The packages of the driver cannot be installed",
    "ND-104": "Secure Boot would reject the driver's modules",
    "ND-105": "A job uses the GPUs, so the driver stays unchanged",
    "ND-106": "The node lacks a compiler or kernel headers to build the driver's modules",
    "ND-107": "The node has no NVIDIA GPU",
    "ND-108": "The node is a container, which uses another machine's kernel",
    "ND-109": "A node did not come back from its reboot",
    "ND-110": "A node before this one did not come back, so this one was not rebooted",
    "ND-111": "The driver is installed but does not work",
    "ND-112": "The driver takes effect at the next reboot (note)",
    "ND-113": "The previous packages of the driver cannot be restored. Nothing was undone",
}
BRANCH = re.compile(r"[1-9][0-9]{2}")
AUTO, PRECOMPILED, DKMS = "auto", "precompiled", "dkms"
NO_FABRIC = ("", "N/A")


class HoldPatterns(TypedDict):
    """The packages that unattended upgrades must leave alone.

    Attributes:
        family, kernel: regular expressions for names of packages of the driver, and of the kernel that it needs, for
            unattended-upgrades.
        locks: the packages for dnf's versionlock, if that holds the driver.
    """

    family: list[str]
    kernel: list[str]
    locks: list[str]


class DriverOffers(TypedDict):
    """The drivers that a platform offers (roles/nvidia_driver/vars). Names contain ``BRANCH``, ``KERNEL``, ``FLAVOUR``.

    Attributes:
        packages: kind -> ``open`` or ``closed`` -> names.
        probes: packages that show whether the driver is installed, if names cannot be queried. Empty: the names.
        signed: kinds whose modules are signed with a key that the firmware knows.
        build: the packages that DKMS needs.
        fabric: packages of the fabric manager.
        fabric_service, persistence: units.
        family: regular expressions for the names of all packages of a driver, of any branch.
        stream: the dnf module whose streams are branches, or "".
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
    """The actions of the role on a node.

    Attributes:
        faults: coded sentences. If there are any, the other fields do not count.
        install: packages of the driver to install.
        build: packages to build its modules, empty if installed.
        fabric_packages: packages of the fabric manager.
        fabric_missing: those that are not installed.
        services: units to start.
        reboot: the reason why the node has to be rebooted, or "".
        hold: names that unattended-upgrades leaves alone.
        locks: packages to lock under dnf.
        leave: the enabled stream of another branch, which dnf does not leave by itself, or "".
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
    """The user's choice of a driver.

    Attributes:
        branch: ``580``.
        kind: ``precompiled`` or ``dkms``.
        open: use the open kernel modules. Blackwell needs them, Turing and later support them.
        fabric: ``auto``, ``always`` or ``never``.
        packages: names that replace the default ones, or empty.
        key_enrolled: the firmware knows the key that signs the modules.
        persistence: run the daemon that keeps the driver's state.
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
    """Resolve ``auto``: signed modules if the system offers them for this choice, else DKMS."""
    kind = str(options["nvidia_driver_kind"])
    if kind != AUTO:
        return kind
    which = "open" if options["nvidia_driver_open"] else "closed"
    ready = offers["packages"].get(PRECOMPILED, {}).get(which)
    return PRECOMPILED if ready or options["nvidia_driver_packages"] else DKMS


def read_driver_settings(options: Mapping[str, Any], offers: DriverOffers) -> DriverSettings:
    """Read the role's settings on a system with *offers*."""
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
    """List the packages, still with ``KERNEL`` and ``FLAVOUR``. Empty if there is no such driver."""
    table = offers["packages"].get(asked.kind, {}).get("open" if asked.open else "closed", [])
    return [name.replace("BRANCH", asked.branch) for name in asked.packages or table]


def list_probe_packages(asked: DriverSettings, offers: DriverOffers) -> list[str]:
    """List the packages that show whether the driver is installed.

    dnf groups and module streams cannot be queried, so probe packages stand for them.
    """
    given = offers["probes"] or list_driver_packages(asked, offers)
    return [name.replace("BRANCH", asked.branch) for name in given]


def find_driver_faults(asked: DriverSettings, offers: DriverOffers) -> list[Fault]:
    """Return the faults in the settings."""
    found = []
    if not BRANCH.fullmatch(asked.branch):
        found.append(
            Fault(
                "ND-101",
                f"nvidia_driver_branch is {asked.branch!r}",
                "Use the number of the driver branch, such as '580' (docs.nvidia.com lists which GPUs it supports)",
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
        step = "Name the packages in nvidia_driver_packages"
        if kinds:
            step = (
                f"Choose one of: {', '.join(kinds)}. Or name the packages in nvidia_driver_packages"
            )
        found.append(Fault("ND-102", f"This system has no packages of the driver as {what}", step))
    return found


def parse_driver_branch(version: str) -> str:
    """Return ``580`` from ``3:580.95.05-1.el9`` and ``580.95.05-0ubuntu1``."""
    return version.rpartition(":")[2].partition(".")[0]


def is_driver_installed(asked: DriverSettings, packages: Mapping[str, str]) -> bool:
    """Return whether the packages are installed, with all driver versions in the requested branch."""
    drivers = [v for name, v in packages.items() if not name.startswith(("linux-", "kernel-"))]
    return (
        bool(packages)
        and all(packages.values())
        and {parse_driver_branch(v) for v in drivers} <= {asked.branch}
    )


def needs_fabric(asked: DriverSettings, gpu: GpuFacts) -> bool:
    """Return whether the node needs the fabric manager: it has NVSwitches, or its GPUs wait for a fabric."""
    if asked.fabric != "auto":
        return asked.fabric == "always"
    waiting = any(card.get("fabric", "") not in NO_FABRIC for card in gpu["smi"]["cards"])
    return bool(gpu["pci"]["switches"]) or waiting


def find_secure_boot_faults(
    asked: DriverSettings, offers: DriverOffers, gpu: GpuFacts
) -> list[Fault]:
    """Return a fault if the firmware would reject the modules."""
    signed = asked.kind in offers["signed"]
    if not gpu["secure_boot"] or signed or asked.key_enrolled:
        return []
    return [
        Fault(
            "ND-104",
            f"Secure Boot is on, but the firmware does not know the key that signs {asked.kind} modules",
            "Enrol that key (mokutil --import, then at the console) and set nvidia_driver_key_enrolled, "
            "or turn Secure Boot off"
            + (
                ", or set nvidia_driver_kind: precompiled"
                if PRECOMPILED in offers["signed"]
                else ""
            ),
        )
    ]


def find_install_faults(
    asked: DriverSettings, offers: DriverOffers, gpu: GpuFacts, packages: Mapping[str, str]
) -> list[Fault]:
    """Return why the driver of this node must not be changed. Empty if it may, or need not."""
    if gpu["container"]:
        step = "Install the driver on its host, and set nvidia_driver_manage: false for this node"
        return [
            Fault("ND-108", "The node is a container, which uses another machine's kernel", step)
        ]
    if not gpu["pci"]["gpus"]:
        step = "Set nvidia_driver_manage only for nodes with a GPU (lspci -d 10de: lists the GPUs)"
        return [Fault("ND-107", "No NVIDIA GPU is on the PCI bus", step)]
    if is_driver_installed(asked, packages):
        return []
    return find_secure_boot_faults(asked, offers, gpu) + find_gpu_job_faults(gpu)


def find_gpu_job_faults(gpu: GpuFacts) -> list[Fault]:
    """Return a fault if a job uses the GPUs."""
    jobs = gpu["smi"]["processes"]
    shown = ", ".join(f"{job['name']} (pid {job['pid']})" for job in jobs[:5])
    step = "Wait for it or end it, because a new driver breaks a running job (version mismatch)"
    return [Fault("ND-105", f"{shown} uses the GPUs", step)] if jobs else []


def find_build_faults(asked: DriverSettings, gpu: GpuFacts) -> list[Fault]:
    """Return a fault if modules cannot be built, after the packages for that were installed."""
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
            "Update to a kernel whose headers are in the repositories and reboot into it, "
            "or set nvidia_driver_kind: precompiled",
        )
    ]


def explain_reboot(asked: DriverSettings, gpu: GpuFacts) -> str:
    """Return why the node must be rebooted before the driver works, or ""."""
    if gpu["nouveau"]:
        return "nouveau holds the GPUs"
    if gpu["loaded"] and parse_driver_branch(gpu["loaded"]) != asked.branch:
        return f"the loaded driver is {gpu['loaded']}"
    if not gpu["loaded"]:
        return "the driver's module is not loaded"
    return ""


def list_hold_patterns(asked: DriverSettings, offers: DriverOffers) -> list[str]:
    """List the packages that unattended upgrades must leave alone. Prebuilt modules include their kernel."""
    hold = offers["hold"]
    return [*hold["family"], *(hold["kernel"] if asked.kind == PRECOMPILED else [])]


def find_blocking_stream(
    install: Sequence[str], offers: DriverOffers, family: PackageFamily
) -> str:
    """Return the enabled stream of another branch. dnf installs nothing from a second stream (dnf.modularity(7))."""
    name = offers["stream"]
    enabled = family["streams"].get(name, "")
    wanted = [one.partition(":")[2] for one in install if one.startswith(f"@{name}:")]
    return f"{name}:{enabled}" if enabled and wanted and enabled not in wanted else ""


def list_missing_packages(wanted: Sequence[str], family: PackageFamily) -> list[str]:
    """List the names or patterns in *wanted* that no installed package matches."""
    here = family["locks"].keys() or {name.partition(":")[0] for name in family["versions"]}
    return [name for name in wanted if not fnmatch.filter(here, name)]


def find_undo_faults(gpu: GpuFacts, family: PackageFamily) -> list[Fault]:
    """Return why the driver's packages must not be restored now."""
    return find_gpu_job_faults(gpu) if family["install"] or family["remove"] else []


def plan_driver(
    asked: DriverSettings,
    offers: DriverOffers,
    gpu: GpuFacts,
    packages: Mapping[str, str],
    family: PackageFamily,
) -> DriverPlan:
    """Plan the actions of the role on a node. *packages*: the version of each probed package, or ""."""
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

"""Typed changes of what lab nodes keep for their next boot, one for each way in which a rule of it fires."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from causes.changes import Break, change_sysctl, combine, get_survey, set_survey_part
from record_files import RECORDED, load_record
from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from fullmesh.observed.next_boot import KeptKernel, KeptUnit, NextBoot

RESERVED = "net.ipv4.ip_local_reserved_ports"


@cache
def recorded(name: str) -> NextBoot:
    said = load_record(RECORDED / f"ladder/{name}.json")
    held: NextBoot = said["facts"]["survey"]["next_boot"]
    return held


def with_boots(world: World) -> None:
    """Let both nodes report the next boot's state, and the running state that it is compared with."""
    for name in (EL, UB):
        get_survey(world, name)["next_boot"] = copy.deepcopy(recorded(name))
        for key, kept in recorded(name)["settings"].items():
            if kept["source"]:
                get_survey(world, name)["sysctls"][key] = kept["value"]


def boot(world: World, name: str = UB) -> NextBoot:
    return get_survey(world, name)["next_boot"]


def unit(name: str, node: str = UB, **fields: Any) -> Break:
    """A unit is otherwise, or is there at all."""

    def change(world: World) -> None:
        units = boot(world, node)["units"]
        found = next((one for one in units if one["name"] == name), None)
        if found is None:
            found = KeptUnit(
                name=name, load="loaded", active="inactive", file="enabled", stale=False
            )
            units.append(found)
        found.update(fields)  # type: ignore[typeddict-item]

    return change


def set_boot_part(part: str, value: Any, *, node: str = UB) -> Break:
    def change(world: World) -> None:
        boot(world, node)[part] = value  # type: ignore[literal-required]

    return change


def machine(change: Break) -> Break:
    """No container, whose /dev/shm is the host's business."""
    return combine(set_boot_part("container", value=False), set_boot_part("mounts", []), change)


def at_boot(key: str, value: str, source: str = "/etc/sysctl.d/99-x.conf") -> Break:
    def change(world: World) -> None:
        boot(world)["settings"][key] = {"value": value, "source": source}

    return change


def kernel(**fields: Any) -> Break:
    held = KeptKernel(
        running="6.8.0-45-generic",
        arguments=["BOOT_IMAGE=/vmlinuz-6.8.0-45-generic", "ro", "iommu=pt", "quiet"],
        next="6.8.0-45-generic",
        next_arguments=["ro", "iommu=pt"],
        source="/boot/grub/grub.cfg",
        driver=True,
        driver_next=True,
    )
    return machine(set_boot_part("kernel", {**held, **fields}))


def route(*, known: bool, protocol: str = "boot") -> Break:
    one = {
        "to": "10.9.0.0/16",
        "via": "10.78.5.1",
        "card": "eth1",
        "protocol": protocol,
        "kept": known,
    }
    return set_boot_part("routes", [one])


def mounted(point: str, kind: str = "nfs4", size: int = 0, *more: dict[str, Any]) -> Break:
    now = [{"point": point, "kind": kind, "what": "store:/data", "size": size}, *more]
    return set_boot_part("mounts", now)


def line(point: str, *, waits: bool, there: bool, size: int = 0) -> Break:
    one = {"point": point, "kind": "nfs4", "what": "store:/data", "size": size}
    return set_boot_part(
        "mounts_kept", [{**one, "source": "/etc/fstab", "waits": waits, "mounted": there}]
    )


def selinux(mode: str) -> Break:
    return set_survey_part("selinux", {"mode": mode, "denials": []})


TABLES = {"source": "/etc/nftables.conf", "tables": ["inet wall"], "drops": True}


AUTO = {"point": "/home", "kind": "autofs", "what": "auto.home", "size": 0}


# What is no finding.
HARMLESS: dict[str, Break] = {
    "written with other blanks": combine(
        change_sysctl("net.ipv4.ip_local_port_range", "50000\t54095"),
        at_boot("net.ipv4.ip_local_port_range", "50000 54095"),
    ),
    "the same ports in another order": combine(
        change_sysctl(RESERVED, "1-2,5"), at_boot(RESERVED, "5,1,2")
    ),
    "tuned sets it later": combine(
        at_boot("net.core.somaxconn", "128"), set_boot_part("tuned", ["net.core.somaxconn"])
    ),
    "no file sets it, and the kernel's own value depends on the machine": at_boot(
        "net.core.somaxconn", "", ""
    ),
    "one ssh stands in for another": combine(
        unit("ssh.service", file="disabled", active="active"), unit("ssh.socket", file="enabled")
    ),
    "a service that is off now": unit("chrony.service", file="disabled", active="inactive"),
    "no ufw.conf says yes": unit("ufw.service"),
    "a file of nft that stops nothing": combine(
        unit("nftables.service", file="enabled"),
        set_boot_part("tables", {**TABLES, "drops": False}),
    ),
    "nftables is not started at boot": combine(
        unit("nftables.service", file="disabled"), set_boot_part("tables", TABLES)
    ),
    "a leased address": set_boot_part("address", {"card": "eth1", "leased": True, "kept": False}),
    "a route that a file has": route(known=True),
    "an automounter's": mounted("/home/me", "nfs4", 0, AUTO),
    "a container's /dev/shm": mounted("/dev/shm", "tmpfs", 1 << 36),  # noqa: S108
    "a mount of fstab": combine(mounted("/data"), line("/data", waits=True, there=True)),
    "a line with nofail": line("/data", waits=False, there=False),
    "the kernel's arguments force the mode": combine(
        selinux("permissive"),
        kernel(arguments=["enforcing=0"], next_arguments=["enforcing=0"]),
        set_boot_part("selinux_kept", "enforcing"),
    ),
    "an argument that no job feels": kernel(next_arguments=["ro", "iommu=pt", "splash"]),
    "a kernel without GPUs": kernel(next="6.8.0-50-generic", driver=False, driver_next=False),
    "a service that does not run, from an older file": unit(
        "chrony.service", stale=True, active="inactive"
    ),
}

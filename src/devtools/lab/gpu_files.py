"""What a kernel would show of the GPUs that a lab's node plays, in files: a STAND-IN for /sys, /proc and /dev/kmsg.

The PCI tree is made after Linux' documents (sysfs-bus-pci, sysfs-class-infiniband, the PCI Express specification for
ACS), not recorded on a machine: each GPU has a switch of its own below a root port, with an RDMA card beside it where
the play has some. With ``machine=1`` the node passes for a machine: systemd-detect-virt denies the container, and
/dev/kmsg holds the play's messages and nothing of this host's.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

PLACE = "/run/lab-gpus"
TREE = f"{PLACE}/tree"
HALF = 2
# PCI_EXT_CAP_ID_ACS in version 1, the last of its list; then what it can, and what is on.
ACS = "head -c 256 /dev/zero; printf '\\015\\000\\001\\000\\037\\000\\{control:03o}\\000'; head -c 3832 /dev/zero"
OPEN = "NVIDIA UNIX Open Kernel Module for x86_64"
CLOSED = "NVIDIA UNIX x86_64 Kernel Module"
STAND_IN = "# STAND-IN, of ./fullmesh lab gpus"
UNIT = f"{STAND_IN}\n[Service]\nExecStart=/bin/sleep infinity"
GPU, SWITCH, CARD = "0x030200", "0x068000", "0x020700"


@dataclass(frozen=True)
class Gpu:
    """A GPU on the bus.

    Attributes:
        at: its number.
        bus: its address.
        numa: the processor that it is on, -1 where the firmware does not say.
        xid: what the driver reported of it: ``79, GPU has fallen off the bus.``; empty for nothing.
    """

    at: int
    bus: str
    numa: int
    xid: str = ""


@dataclass(frozen=True)
class Box:
    """The machine that a node plays.

    Attributes:
        gpus: on the bus.
        device: their PCI device id.
        driver: its version.
        shown: how many GPUs the driver shows.
        machine: the node passes for a machine, and no container.
        open: the driver's modules are the open ones.
        acs: the ACS control register of the ports below each switch.
        iommu: the type of the devices' IOMMU group; empty for none.
        switches: NVSwitches on the bus.
        rdma: how many RDMA cards are beside the GPUs, each with an active port.
        rdma_numa: their processor; None for that of the GPU beside each.
        fm: the fabric manager: ``active``, ``inactive`` (installed and not running) or ``absent``.
        fm_version: its version.
        sxid: what an NVSwitch reported: ``24007, Fatal, Link 44 ...``; empty for nothing.
    """

    gpus: Sequence[Gpu]
    device: str
    driver: str
    shown: int
    machine: bool = False
    open: bool = True
    acs: int = 0
    iommu: str = "identity"
    switches: int = 0
    rdma: int = 0
    rdma_numa: int | None = None
    fm: str = "absent"
    fm_version: str = ""
    sxid: str = ""


def box(values: Mapping[str, str]) -> Box:
    """The machine of a play: its lines, the last one of a key counts, so ``values`` is a dict of them."""
    count = int(values["pci"])

    def own(at: int, key: str, usual: str) -> str:
        return values.get(f"{at}.{key}", values.get(f"*.{key}", usual))

    return Box(
        gpus=[
            Gpu(
                at,
                values[f"{at}.bus"],
                int(own(at, "numa", str(at * HALF // count))),
                own(at, "xid", ""),
            )
            for at in range(count)
        ],
        device=values["*.device"],
        driver=values["driver"],
        shown=int(values["gpus"]),
        machine=values.get("machine", "0") == "1",
        open=values.get("open", "1") == "1",
        acs=int(values.get("acs", "0"), 0),
        iommu=values.get("iommu", "identity"),
        switches=int(values.get("switches", "0")),
        rdma=int(values.get("rdma", "0")),
        rdma_numa=int(values["rdma_numa"]) if "rdma_numa" in values else None,
        fm=values.get("fm", "absent"),
        fm_version=values.get("fm_version", values["driver"]),
        sxid=values.get("sxid", ""),
    )


def write(path: str, text: str) -> str:
    """A line of shell that writes a file below a folder that is there."""
    return f"printf '%s\\n' {shlex.quote(text)} > {path}"


def device(folder: str, vendor: str, kind: str, more: Mapping[str, str]) -> Iterator[str]:
    """A device's folder, and its name on the bus."""
    yield f"mkdir -p {folder}"
    for name, text in {"vendor": vendor, "class": kind, **more}.items():
        yield write(f"{folder}/{name}", text)
    yield f"ln -s {folder} {PLACE}/pci/{folder.rpartition('/')[2]}"


def beside(folder: str, numa: int, group: str) -> Iterator[str]:
    """The processor of a device, and its IOMMU group."""
    yield write(f"{folder}/numa_node", str(numa))
    if group:
        yield f"mkdir {folder}/iommu_group"
        yield write(f"{folder}/iommu_group/type", group)


def slot(one: Gpu, held: Box) -> Iterator[str]:
    """A GPU below a switch of its own, and the RDMA card beside it."""
    switch = f"{TREE}/pci0000:2{one.at}/0000:2{one.at}:01.0/0000:3{one.at}:00.0"
    ports = [f"{switch}/0000:a{one.at}:00.0", f"{switch}/0000:a{one.at}:01.0"]
    for port in ports:
        yield f"mkdir -p {port}"
        yield f"{{ {ACS.format(control=held.acs)}; }} > {port}/config"
    gpu = f"{ports[0]}/{one.bus}"
    yield from device(gpu, "0x10de", GPU, {"device": held.device})
    yield f"ln -s {PLACE}/drivers/nvidia {gpu}/driver"
    yield from beside(gpu, one.numa, held.iommu)
    if one.at < held.rdma:
        numa = one.numa if held.rdma_numa is None else held.rdma_numa
        card = f"{ports[1]}/0000:7{one.at}:00.0"
        yield from device(card, "0x15b3", CARD, {"device": "0x1021"})
        yield from beside(card, numa, held.iommu)
        yield from port_of(one.at, card)


def port_of(at: int, card: str) -> Iterator[str]:
    """A ConnectX-7 with a port that is up, as /sys/class/infiniband shows it.

    Its link layer is not known, so Fullmesh does not try RDMA on it: the stand-in has no library of devices.
    """
    here = f"{PLACE}/class/infiniband/mlx5_{at}"
    port = f"{here}/ports/1"
    yield f"mkdir -p {port}/gids {port}/gid_attrs/types; ln -s {card} {here}/device"
    for name, text in {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "link_layer": "Unspecified",
        "rate": "400 Gb/sec (4X NDR)",
        "gids/0": f"fe80:0000:0000:0000:0200:00ff:fe00:00{at:02x}",
        "gid_attrs/types/0": "IB/RoCE v1",
    }.items():
        yield write(f"{port}/{name}", text)


def driver(held: Box) -> Iterator[str]:
    """What the driver's module leaves in /sys/module, /proc/driver and /dev."""
    kind = OPEN if held.open else CLOSED
    yield write(f"{PLACE}/module/nvidia/version", held.driver)
    yield write(f"{PLACE}/driver/nvidia/version", f"NVRM version: {kind}  {held.driver} (stand-in)")
    for one in held.gpus[: held.shown]:
        yield f"mkdir {PLACE}/driver/nvidia/gpus/{one.bus}; : > /dev/nvidia{one.at}"
    yield ": > /dev/nvidiactl"


def messages(held: Box) -> list[str]:
    """What the driver wrote into the kernel's log, by its own forms."""
    lines = [
        f"NVRM: Xid (PCI:{one.bus.rpartition('.')[0]}): {one.xid}" for one in held.gpus if one.xid
    ]
    return lines + (
        [f"nvidia-nvswitch0: SXid (PCI:0000:c8:00.0): {held.sxid}"] if held.sxid else []
    )


def machine(held: Box) -> Iterator[str]:
    """A node that passes for a machine, with a kernel's log of its own."""
    yield program(f"{PLACE}/detect-virt", "echo none\nexit 1")
    yield f"mount --bind {PLACE}/detect-virt /usr/bin/systemd-detect-virt"
    yield f": > {PLACE}/kmsg"
    for at, line in enumerate(messages(held)):
        yield f"printf '4,{at},%s0000,-;%s\\n' \"$now\" {shlex.quote(line)} >> {PLACE}/kmsg"
    yield f"mount --bind {PLACE}/kmsg /dev/kmsg"


def program(path: str, text: str) -> str:
    """A line of shell that writes a script."""
    return f"{write(path, '#!/bin/sh' + chr(10) + STAND_IN + chr(10) + text)}; chmod 0755 {path}"


def manager(held: Box) -> Iterator[str]:
    """A fabric manager: a program that knows its version, and a unit."""
    if held.fm == "absent":
        return
    yield program(
        "/usr/bin/nv-fabricmanager", f"echo 'Fabric Manager version is : {held.fm_version}'"
    )
    yield write("/run/systemd/system/nvidia-fabricmanager.service", UNIT)
    yield "systemctl daemon-reload"
    if held.fm == "active":
        yield "systemctl start nvidia-fabricmanager.service"


def steps(held: Box) -> list[str]:
    """The steps that put all of it into a node, which has nothing of an earlier play any more."""
    lines = [
        "set -eu",
        "now=$(sed 's/\\.\\([0-9]*\\) .*/\\1/' /proc/uptime)",  # in hundredths; the log counts microseconds
        f"mkdir -p {TREE} {PLACE}/pci {PLACE}/kept {PLACE}/module/nvidia {PLACE}/driver/nvidia/gpus",
        f"mkdir -p {PLACE}/drivers/nvidia",
        f"mount --bind /sys/module {PLACE}/kept",
        # by mounts: names of network cards lead to their devices by links that climb out of this folder
        f"for one in $(ls /sys/class); do mkdir -p {PLACE}/class/$one; "
        f"mount --bind /sys/class/$one {PLACE}/class/$one; done",
        f'for one in /sys/module/*; do ln -s "{PLACE}/kept/${{one##*/}}" "{PLACE}/module/${{one##*/}}"; done',
    ]
    for one in held.gpus:
        lines += slot(one, held)
    for at in range(held.switches):
        lines += device(
            f"{TREE}/pci0000:c8/0000:c8:0{at}.0", "0x10de", SWITCH, {"device": "0x22a3"}
        )
    lines += driver(held)
    lines += [
        f"mount --bind {PLACE}/pci /sys/bus/pci/devices",
        f"mount --bind {PLACE}/module /sys/module",
        f"mount --bind {PLACE}/driver /proc/driver",
        f"mount --rbind {PLACE}/class /sys/class",
    ]
    lines += manager(held)
    lines += machine(held) if held.machine else []
    return [*lines, "ldconfig"]


def script(held: Box) -> str:
    """The steps as one script of a shell."""
    return "\n".join([*steps(held), ""])

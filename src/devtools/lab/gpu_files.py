"""Files that a kernel shows for the simulated GPUs of a lab node: a STAND-IN for /sys, /proc and /dev/kmsg.

The PCI tree follows Linux' documents (sysfs-bus-pci, sysfs-class-infiniband) and the PCI Express specification (ACS).
It was not recorded on a machine. Each GPU has its own switch below a root port. If the play has RDMA devices, the
switch has one too. With ``machine=1`` the node looks like a machine: systemd-detect-virt reports no container, and
/dev/kmsg has only the play's messages.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

PLACE = "/run/lab-gpus"
TREE = f"{PLACE}/tree"
HALF = 2
# PCI_EXT_CAP_ID_ACS in version 1, the last one of the list. Then come its capabilities and its control register.
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
        numa: its NUMA node, -1 if the firmware does not report one.
        xid: the error that the driver reported: ``79, GPU has fallen off the bus.``; empty if there is none.
    """

    at: int
    bus: str
    numa: int
    xid: str = ""


@dataclass(frozen=True)
class Box:
    """The machine that a node simulates.

    Attributes:
        gpus: on the bus.
        device: their PCI device id.
        driver: its version.
        shown: number of GPUs that the driver shows.
        machine: the node looks like a machine, not like a container.
        open: the driver's modules are the open ones.
        acs: the ACS control register of the ports below each switch.
        iommu: the type of the devices' IOMMU group; empty if there is none.
        switches: NVSwitches on the bus.
        rdma: number of RDMA devices, each on the switch of a GPU and with an active port.
        rdma_numa: their NUMA node; None for the one of the GPU on the same switch.
        fm: the fabric manager: ``active``, ``inactive`` (installed and not running) or ``absent``.
        fm_version: its version.
        sxid: the error that an NVSwitch reported: ``24007, Fatal, Link 44 ...``; empty if there is none.
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
    """Build the machine from the values of a play."""
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
    """Return a shell command that writes a file to an existing folder."""
    return f"printf '%s\\n' {shlex.quote(text)} > {path}"


def device(folder: str, vendor: str, kind: str, more: Mapping[str, str]) -> Iterator[str]:
    """Yield the commands that make a device's folder and its name on the bus."""
    yield f"mkdir -p {folder}"
    for name, text in {"vendor": vendor, "class": kind, **more}.items():
        yield write(f"{folder}/{name}", text)
    yield f"ln -s {folder} {PLACE}/pci/{folder.rpartition('/')[2]}"


def describe_location(folder: str, numa: int, group: str) -> Iterator[str]:
    """Yield the commands that write a device's NUMA node and its IOMMU group."""
    yield write(f"{folder}/numa_node", str(numa))
    if group:
        yield f"mkdir {folder}/iommu_group"
        yield write(f"{folder}/iommu_group/type", group)


def slot(one: Gpu, held: Box) -> Iterator[str]:
    """Yield the commands for a GPU below its own switch, and for the RDMA device on that switch."""
    switch = f"{TREE}/pci0000:2{one.at}/0000:2{one.at}:01.0/0000:3{one.at}:00.0"
    ports = [f"{switch}/0000:a{one.at}:00.0", f"{switch}/0000:a{one.at}:01.0"]
    for port in ports:
        yield f"mkdir -p {port}"
        yield f"{{ {ACS.format(control=held.acs)}; }} > {port}/config"
    gpu = f"{ports[0]}/{one.bus}"
    yield from device(gpu, "0x10de", GPU, {"device": held.device})
    yield f"ln -s {PLACE}/drivers/nvidia {gpu}/driver"
    yield from describe_location(gpu, one.numa, held.iommu)
    if one.at < held.rdma:
        numa = one.numa if held.rdma_numa is None else held.rdma_numa
        rdma = f"{ports[1]}/0000:7{one.at}:00.0"
        yield from device(rdma, "0x15b3", CARD, {"device": "0x1021"})
        yield from describe_location(rdma, numa, held.iommu)
        yield from make_rdma_port(one.at, rdma)


def make_rdma_port(at: int, device_folder: str) -> Iterator[str]:
    """Yield the commands for a ConnectX-7 with an active port, as /sys/class/infiniband shows it.

    Its link layer is unspecified, so Fullmesh does not try RDMA on it: the stand-in has no RDMA library.
    """
    here = f"{PLACE}/class/infiniband/mlx5_{at}"
    port = f"{here}/ports/1"
    yield f"mkdir -p {port}/gids {port}/gid_attrs/types; ln -s {device_folder} {here}/device"
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
    """Yield the commands for the files of the driver's module in /sys/module, /proc/driver and /dev."""
    kind = OPEN if held.open else CLOSED
    yield write(f"{PLACE}/module/nvidia/version", held.driver)
    yield write(f"{PLACE}/driver/nvidia/version", f"NVRM version: {kind}  {held.driver} (stand-in)")
    for one in held.gpus[: held.shown]:
        yield f"mkdir {PLACE}/driver/nvidia/gpus/{one.bus}; : > /dev/nvidia{one.at}"
    yield ": > /dev/nvidiactl"


def messages(held: Box) -> list[str]:
    """Return the messages of the driver in the kernel log, in the driver's own format."""
    lines = [
        f"NVRM: Xid (PCI:{one.bus.rpartition('.')[0]}): {one.xid}" for one in held.gpus if one.xid
    ]
    return lines + (
        [f"nvidia-nvswitch0: SXid (PCI:0000:c8:00.0): {held.sxid}"] if held.sxid else []
    )


def machine(held: Box) -> Iterator[str]:
    """Yield the commands that make a node look like a machine, with its own kernel log."""
    yield program(f"{PLACE}/detect-virt", "echo none\nexit 1")
    yield f"mount --bind {PLACE}/detect-virt /usr/bin/systemd-detect-virt"
    yield f": > {PLACE}/kmsg"
    for at, line in enumerate(messages(held)):
        yield f"printf '4,{at},%s0000,-;%s\\n' \"$now\" {shlex.quote(line)} >> {PLACE}/kmsg"
    yield f"mount --bind {PLACE}/kmsg /dev/kmsg"


def program(path: str, text: str) -> str:
    """Return a shell command that writes a script."""
    return f"{write(path, '#!/bin/sh' + chr(10) + STAND_IN + chr(10) + text)}; chmod 0755 {path}"


def manager(held: Box) -> Iterator[str]:
    """Yield the commands for a fabric manager: a program that prints its version, and a unit."""
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
    """Return the steps that write all files. The node must have no files of an earlier play."""
    lines = [
        "set -eu",
        "now=$(sed 's/\\.\\([0-9]*\\) .*/\\1/' /proc/uptime)",  # in hundredths; the log counts microseconds
        f"mkdir -p {TREE} {PLACE}/pci {PLACE}/kept {PLACE}/module/nvidia {PLACE}/driver/nvidia/gpus",
        f"mkdir -p {PLACE}/drivers/nvidia",
        f"mount --bind /sys/module {PLACE}/kept",
        # Bind mounts, because the links of network interfaces to their devices lead out of this folder.
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
    """Return the steps as one shell script."""
    return "\n".join([*steps(held), ""])

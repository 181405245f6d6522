"""GPUs and RDMA for the recorded nodes (records.py), made by the readers themselves.

The lab has no GPU and no RDMA device. The survey's readers make them from recorded nvidia-smi
output (``recorded/gpu``) and from files in the form of the kernel's
Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from ansible.module_utils.fullmesh.facts import accelerators
from ansible.module_utils.fullmesh.facts import gpu as fullmesh_gpu
from ansible.module_utils.fullmesh.survey import job
from record_files import RECORDED
from records import EL1, UBUNTU1

from fullmesh.verify.model import ClusterObservations

XID = "4,71,995000000,-;NVRM: Xid (PCI:0000:44:00): 79, pid=1234, GPU has fallen off the bus."


@dataclass(frozen=True)
class Machine:
    """The hardware of a node.

    Attributes:
        smi: the output of nvidia-smi, "" if it is not installed.
        code: its exit status.
        bus: the number of GPUs on the PCI bus.
        container: whether the node is one.
        device: whether the driver has device files here.
        nvlink: the output of ``nvidia-smi nvlink -s``.
        topology: the output of ``nvidia-smi topo -m``.
        switches: the number of NVSwitches on the PCI bus.
        manager: systemd's state of the fabric manager, and the version that the program prints.
        amd: GPUs of AMD's on the PCI bus: the errors of each that ECC could not correct.
    """

    smi: str = ""
    code: int = 0
    bus: int = 0
    container: bool = False
    device: bool = False
    nvlink: str = ""
    topology: str = ""
    switches: int = 0
    manager: tuple[str, str] = ("inactive", "")
    amd: tuple[int, ...] = ()


def smi(name: str = "a10g", count: int = 1, **change: str) -> str:
    """Return recorded output of nvidia-smi with *count* GPUs. *change* replaces the text of a tag."""
    text = (RECORDED / f"gpu/{name}.xml").read_text()
    for tag, value in change.items():
        before, found, rest = text.partition(f"<{tag}>")
        assert found, tag
        text = f"{before}<{tag}>{value}{rest[rest.index(f'</{tag}>') :]}"
    first, last = text.index("<gpu "), text.rindex("</gpu>") + len("</gpu>")
    return text[:first] + text[first:last] * count + text[last:]


def nvlink(up: int, down: int) -> str:
    """Return ``nvidia-smi nvlink -s`` of a GPU, as it printed it over the lab's simulated NVML."""
    active = [f"\t Link {at}: 26.562 GB/s" for at in range(up)]
    dead = [f"\t Link {at}: <inactive>" for at in range(up, up + down)]
    return "\n".join(["GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)", *active, *dead, ""])


def bus(folder: Path, count: int, switches: int = 0) -> str:
    """Make a PCI bus with GPUs of NVIDIA, NVSwitches and another device."""
    for at in range(switches):
        device = folder / f"0000:c{at}:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x068000\n")
    for at in range(count + 1):
        device = folder / f"0000:0{at}:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n" if at < count else "0x1af4\n")
        (device / "class").write_text("0x030200\n")
        (device / "device").write_text("0x2237\n")
    return str(folder)


def amd_bus(folder: Path, errors: tuple[int, ...]) -> str:
    """Make a PCI bus with GPUs of AMD's: an MI300X, with files as in the kernel's AMDGPU RAS Support."""
    (folder / "amdgpu").mkdir(parents=True)
    for at, uncorrectable in enumerate(errors):
        device = folder / f"0000:{at + 1}5:00.0"
        (device / "ras").mkdir(parents=True)
        (device / "driver").symlink_to(folder / "amdgpu")
        files = {"vendor": "0x1002", "class": "0x120000", "device": "0x74a1"}
        files |= {
            "ras/umc_err_count": f"ue: {uncorrectable}\nce: 9",
            "ras/features": "feature mask: 0x1",
        }
        files |= {"ras/gfx_err_count": "ue: 0\nce: 0\nde: 0", "product_name": "AMD Instinct MI300X"}
        for name, text in files.items():
            (device / name).write_text(text + "\n")
    return str(folder)


def gpus_of(machine: Machine, folder: Path) -> Any:
    """Return the GPUs of a machine as the survey's reader reports them."""
    devices, driver = folder / "dev", folder / "driver"
    for path in (devices, *([driver] if machine.smi or machine.code not in (0, 127) else [])):
        path.mkdir(parents=True)
    if machine.device:
        (devices / "nvidia0").touch()
    on_bus = fullmesh_gpu.list_nvidia_devices(bus(folder / "pci", machine.bus, machine.switches))
    amd = accelerators.list_amd_gpus(amd_bus(folder / "amd", machine.amd))
    code = machine.code if machine.smi or machine.code else 127

    def run(argv: list[str]) -> tuple[int, str]:
        more = {"nvlink": machine.nvlink, "topo": machine.topology}
        return (0, more[argv[1]]) if argv[1] in more else (code, machine.smi)

    def ask_manager(argv: list[str]) -> tuple[int, str]:
        active, version = machine.manager
        return (0, active + "\n") if argv[0] == "systemctl" else (0 if version else 127, version)

    with (
        mock.patch.object(job, "run_tool", run),
        mock.patch.object(fullmesh_gpu, "run_command", ask_manager),
        mock.patch.object(job, "is_in_container", return_value=machine.container),
        mock.patch.object(job, "list_nvidia_devices", return_value=on_bus),
        mock.patch.object(job, "list_amd_gpus", return_value=amd),
        mock.patch.multiple(job, DRIVER=str(driver), DEVICES=str(devices)),
    ):
        return job.survey_gpus()[0]


def survey(seen: ClusterObservations, name: str) -> dict[str, Any]:
    """Return the recorded survey of a node from the module's answer."""
    found: dict[str, Any] = seen.nodes[name]["node"]["facts"]["survey"]
    return found


def give(seen: ClusterObservations, folder: Path, **machines: Machine) -> None:
    """Give the nodes their GPUs, and the matching answers."""
    for name, machine in machines.items():
        found = survey(seen, name)
        assert "gpus" in found  # the place is the module's, not the test's
        found["gpus"] = gpus_of(machine, folder / name)


def torch_for(seen: ClusterObservations, build: str, cuda: str, *names: str) -> None:
    """Let the torch of nodes be built for another device."""
    for name in names or (EL1, UBUNTU1):
        held = seen.nodes[name]["node"]["facts"]["software"]
        assert {"torch_build", "torch_cuda"} <= held.keys()
        held.update(torch_build=build, torch_cuda=cuda)


def without_gpus(seen: ClusterObservations, why: str) -> None:
    """Let every rank report that it has no GPU."""
    for name, node in seen.plan["nodes"].items():
        for rank in node["ranks"]:
            for event in seen.nodes[name]["gloo"]["ranks"][str(rank)]["events"]:
                if event["step"] == "gpus" and event["state"] == "ok":
                    event["data"] = {"applicable": False, "why": why}


def rdma(folder: Path, state: str = "4: ACTIVE", rate: str = "400 Gb/sec (4X NDR)") -> Any:
    """Return the survey of one RDMA device with an active and a dead port."""
    for number, words, speed in (("1", state, rate), ("2", "1: DOWN", "10 Gb/sec (4X SDR)")):
        port = folder / "mlx5_0/ports" / number
        port.mkdir(parents=True)
        (port / "state").write_text(words + "\n")
        (port / "phys_state").write_text("5: LinkUp\n")
        (port / "link_layer").write_text("InfiniBand\n")
        (port / "rate").write_text(speed + "\n")
    return job.survey_rdma(str(folder))

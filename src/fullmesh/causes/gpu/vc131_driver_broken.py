"""NVIDIA's driver or nvidia-smi does not work on a node

nvidia-smi fails, and so does every CUDA program. The driver's libraries and its kernel module have
different versions (after an update), the module is not loaded, a GPU is no longer on the bus, or no
GPU could be initialized.

**Prove:** nvidia-smi || cat /proc/driver/nvidia/version && dmesg | grep -i nvrm

**Fix:** Reboot after an update. If the module is missing, check Secure Boot, DKMS and nouveau. If a
GPU is missing, see Xid 79. Role nvidia_driver keeps driver and libraries together.

**Source:** NVML API reference, nvmlReturn_t
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding
from fullmesh.verify.cards import list_gpu_nodes
from fullmesh.verify.model import ClusterObservations

MISMATCH, LOST, SILENT, EMPTY = (
    "version mismatch",
    "is lost",
    "couldn't communicate",
    "No devices were found",
)


def find_silent_driver(seen: ClusterObservations) -> Iterator[Finding]:
    """Find a driver whose nvidia-smi does not work."""
    for node, box in list_gpu_nodes(seen):
        held = box.gpus
        said, loaded = held.get("said", ""), held.get("loaded", "") or "unknown"
        check = ""
        if "said" not in held:
            continue
        if MISMATCH in said:
            why = f"the libraries of NVIDIA's driver on {node} have a different version than its kernel module"
            why += f" ({loaded}), because they were updated while it was loaded"
            fix = "reboot it, or end all programs on the GPUs and run modprobe -r nvidia_uvm nvidia_drm nvidia_modeset "
            fix += "nvidia && modprobe nvidia. Role nvidia_driver keeps the packages at one version"
        elif LOST in said:
            why = f"a GPU of {node} fell off the bus: {said}"
            check = "dmesg | grep -i xid (79 means the same)"
            fix = "switch it off and on, then reseat or replace the GPU"
        elif SILENT in said:
            why = f"NVIDIA's driver is installed on {node}, but its kernel module is not loaded"
            check = "dmesg | grep -i -E 'nvrm|nvidia'; dkms status; mokutil --sb-state; lsmod | grep nouveau"
            fix = "modprobe nvidia. If that fails, install the module for this kernel (role nvidia_driver)"
        elif EMPTY in said:
            why = f"NVIDIA's driver on {node} could start none of its GPUs"
            check = "dmesg | grep -i nvrm (RmInitAdapter failed)"
            fix = "reconnect the power cables, or install a driver for these GPUs"
        else:
            why = f"nvidia-smi does not work on {node}: {said or 'it prints nothing'}"
            check = "nvidia-smi && dmesg | grep -i nvrm"
            fix = "install the driver again (role nvidia_driver), then reboot"
        yield Finding(
            "VC-131",
            "L1",
            why,
            node=node,
            seen=said or "no answer",
            expected="nvidia-smi lists the GPUs",
            fix=f"on {node}: {fix}",
            check=f"on {node}: {check}" if check else "",
        )


CAUSE = Cause(
    "VC-131",
    __doc__,
    find=find_silent_driver,
    weight=430,
    explains=(Explains(("VC-719", "VC-711"), has_same_node),),
    cases=(
        CauseCase(
            "gpu-driver",
            "nvmlInit says that driver and libraries are of different versions",
            by=RECORDED,
        ),
    ),
)

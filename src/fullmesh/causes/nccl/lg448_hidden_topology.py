"""NCCL: the PCI topology of the node is hidden or incomplete

NCCL could not read where a device is connected ({detail}). A virtual machine or a container without
/sys hides the PCI topology, or NCCL is older than the machine (2.15 is the first for Hopper GPUs,
2.25 for Blackwell).

**Place:** the container or virtual machine of this log

**Prove:** in the job's own environment, run `ls /sys/class/pci_bus` and `nvidia-smi topo -m`

**Fix:** Mount /sys into the container. In a virtual machine, set NCCL_TOPO_FILE to the provider's
file for this machine type, or use a newer NCCL.

**Source:** NVIDIA/nccl#573, NVIDIA/nccl-tests#41, mila-iqia/milabench#183
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-448",
    __doc__,
    examples=(
        (
            "n:1:2 [0] graph/xml.cc:332 NCCL WARN Could not find real path of "
            "/sys/class/pci_bus/0000:0d/../../0000:0d:00.0"
        ),
    ),
    patterns=(
        Pattern(
            "Could not find real path of", r"(?P<detail>Could not find real path of /sys\S{0,100})"
        ),
        Pattern(
            "could not find CPU close to GPU",
            r"(?P<detail>could not find CPU close to GPU \d{1,4})",
        ),
        Pattern(
            "Failed to find reverse path", r"(?P<detail>Failed to find reverse path from remNode)"
        ),
    ),
    weight=80,
)

"""The kernel of the next boot has no NVIDIA module (warning)

An upgrade installed a new kernel, but the driver's module exists for the running kernel only. After
the reboot, nvidia-smi cannot communicate with the driver, and torch finds no GPU.

**Prove:** dkms status && ls /lib/modules/*/updates/dkms/nvidia.ko* /lib/modules/*/extra/nvidia*

**Fix:** dkms autoinstall -k KERNEL, or install the precompiled modules for that kernel. The setting
nvidia_driver_hold keeps kernel and driver together.

**Source:** dkms(8)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.next_boot.kept_state import get_next_boot, make_boot_warning
from fullmesh.observed.next_boot import KeptKernel
from fullmesh.result.findings import WARNING, Finding, join_names

# Arguments of the kernel that affect jobs: interface names, address families, IOMMU and PCI, SELinux, memory, drivers.
ARGUMENTS = (
    "net.ifnames=", "biosdevname=", "ipv6.disable=", "iommu", "intel_iommu=", "amd_iommu=", "pci=", "pcie_",
    "selinux=", "enforcing=", "hugepage", "default_hugepagesz=", "transparent_hugepage=", "numa", "isolcpus=",
    "nohz_full=", "cgroup", "systemd.unified_cgroup_hierarchy=", "nvidia", "nouveau", "modprobe.blacklist=",
    "rd.driver.blacklist=", "module_blacklist=", "nokaslr",
)  # fmt: skip


def rule_boot_kernel(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a next kernel that lacks the driver or has other arguments than the running one."""
    for name in evidence.nodes:
        held = get_next_boot(evidence, name).get("kernel")
        if not held:
            continue
        if held["driver"] and not held["driver_next"]:
            yield make_boot_warning(
                "DG-269",
                f"the kernel that {name} boots next, {held['next']}, has no NVIDIA module",
                name,
                seen=f"{held['running']} runs and has one, /lib/modules/{held['next']} has none",
                expected="nvidia.ko for the next kernel as well",
                fix=f"on {name}: dkms autoinstall -k {held['next']}, or the precompiled modules of that kernel, or boot"
                f" {held['running']} again",
            )
        gone, come = compare_boot_arguments(held)
        if gone or come:
            yield make_boot_warning(
                "DG-169",
                f"the next boot of {name} changes arguments of the kernel: {join_names([*gone, *come])}",
                name,
                seen=f"runs with {join_names(gone) if gone else 'none of these'}",
                expected=f"{held['source']} has {join_names(come) if come else 'none of these'}",
                fix=f"on {name}: grubby --update-kernel=ALL --args/--remove-args (EL), or /etc/default/grub and"
                " update-grub, or reboot now to test it",
            )


def compare_boot_arguments(held: KeptKernel) -> tuple[list[str], list[str]]:
    """Return the arguments that the next boot removes, and those that it adds."""

    def felt(arguments: Sequence[str]) -> list[str]:
        return [one for one in arguments if one.startswith(ARGUMENTS)]

    now, later = felt(held["arguments"]), felt(held["next_arguments"])
    return [one for one in now if one not in later], [one for one in later if one not in now]


CAUSE = Cause(
    "DG-269",
    __doc__,
    find=rule_boot_kernel,
    needs=("next_boot",),
    severity=WARNING,
    weight=20,
    cases=(CauseCase("boot-driver", "no nvidia.ko for the next kernel", by=RECORDED),),
)

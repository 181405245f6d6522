"""A node has GPUs and a torch that is built for CPUs

The CPU build of torch, the default of role torch_runtime, trains without the GPUs and prints no
warning. Fullmesh also searches the PCI bus, so it finds GPUs without a driver.

**Prove:** lspci -d 10de: && /opt/fullmesh/venv/bin/python -c 'import torch;
print(torch.version.cuda)'

**Fix:** Set torch_runtime_accelerator: cuda in the inventory, then ansible-playbook site.yml -i
INVENTORY --tags packages.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.cards import describe_gpus, get_torch_build, has_gpus
from fullmesh.verify.model import ClusterObservations


def rule_torch_build(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that torch is built for GPUs on nodes that have some."""
    idle = [
        n for n in seen.plan["nodes"] if has_gpus(seen, n) and get_torch_build(seen, n) == "cpu"
    ]
    if idle:
        yield Finding(
            "VC-717",
            "L7",
            f"there are GPUs on {join_names(idle)} ({describe_gpus(seen, idle[0])}) and torch there is built for CPUs: "
            "no job can use them",
            node=idle[0],
            peer=join_names(idle[1:]),
            seen=f"torch {seen.facts(idle[0]).get('versions', {}).get('torch', '')}",
            expected="torch built for CUDA",
            fix=f"torch_runtime_accelerator: cuda for {join_names(idle)} in the inventory. "
            f"Then {seen.apply('packages')}",
        )


CAUSE = Cause(
    "VC-717",
    __doc__,
    find=rule_torch_build,
    weight=380,
    explains=(Explains(("VC-711",), has_same_node),),
)

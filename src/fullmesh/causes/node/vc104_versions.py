"""The versions of torch, Python or NCCL differ between the nodes

Different versions of torch, Python or NCCL cause 'message truncated', pickle errors or wrong
results.

**Prove:** python -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'

**Fix:** ansible-playbook site.yml -i INVENTORY --tags packages.

**Source:** nccl#1328
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import PAIR, get_versions


def rule_equal_versions(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that all nodes have one version of torch, Python and NCCL.

    A mixture fails with 'message truncated', or does not fail visibly.
    """
    table = {name: get_versions(seen, name) for name in seen.plan["nodes"]}
    for what in ("torch", "python", "nccl (system)", "nccl (torch's own)"):
        held = {name: row[what] for name, row in table.items() if row[what]}
        if len(set(held.values())) < PAIR:
            continue
        usual = Counter(held.values()).most_common(1)[0][0]
        odd = [name for name, value in held.items() if value != usual]
        rest = [name for name, value in held.items() if value == usual]
        yield Finding(
            "VC-104",
            "L1",
            f"{what} is {held[odd[0]]} on {join_names(odd)} and {usual} on {join_names(rest)}",
            node=odd[0],
            peer=join_names(rest),
            seen=held[odd[0]],
            expected=usual,
            fix=seen.apply("packages"),
        )


CAUSE = Cause(
    "VC-104",
    __doc__,
    find=rule_equal_versions,
    cases=(CauseCase("torch-version", "another version in the metadata of the venv's torch"),),
)

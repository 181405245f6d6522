"""The number, model or driver of the GPUs differs (warning)

A job starts the planned number of ranks on every node. On a node with too few GPUs, ranks fail with
`invalid device ordinal`. A slower model slows down the whole job.

**Prove:** nvidia-smi -L; lspci -d 10de:; lspci -d 1002:

**Fix:** Find the missing GPU (dmesg | grep -E 'NVRM|amdgpu'). Install one driver branch on all
nodes: role nvidia_driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.cards import (
    describe_amd_gpus,
    describe_gpus,
    get_gpu_survey,
    has_gpus,
    has_hidden_gpus,
    list_gpus,
)
from fullmesh.verify.model import ClusterObservations


def rule_same_gpus(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that all nodes have the same number of GPUs of one model, with one driver."""
    table = {}
    for name in seen.plan["nodes"]:
        held = get_gpu_survey(seen, name)
        shown = describe_amd_gpus(seen, name) or "none"
        if has_gpus(seen, name):
            shown = describe_gpus(seen, name)
        if "present" in held and not held.get("failed") and not has_hidden_gpus(held):
            driver = f", driver {held.get('driver') or 'none'}" if list_gpus(seen, name) else ""
            table[name] = shown + driver
    if len(set(table.values())) < 2:  # noqa: PLR2004 (two that differ)
        return
    usual = Counter(table.values()).most_common(1)[0][0]
    usual = max(table.values()) if usual == "none" else usual
    odd = [name for name, row in table.items() if row != usual]
    yield Finding(
        "VC-111",
        "L1",
        f"the GPUs of {join_names(odd)} are {table[odd[0]]}, and those of the others are {usual}",
        node=odd[0],
        peer=join_names([name for name in table if name not in odd]),
        seen=table[odd[0]],
        expected=usual,
        check=f"on {odd[0]}: nvidia-smi -L; lspci -d 10de:; lspci -d 1002:; dmesg | grep -E 'NVRM|amdgpu'",
        fix="install one driver branch on all nodes (role nvidia_driver), or replace the missing GPU",
        severity=WARNING,
    )


CAUSE = Cause("VC-111", __doc__, find=rule_same_gpus, severity=WARNING)

"""The NVIDIA driver reported an error, Xid (a warning if jobs continue)

The driver reports a GPU's errors as Xid and an NVSwitch's as SXid. Some are errors of a program,
some need a reset, and some a new GPU: XIDS.

**Prove:** dmesg | grep -i -E 'nvrm|sxid'

**Fix:** Apply the fix that the finding names for its number. Reports older than 15 min are left
out.

**Source:** NVIDIA, Xid catalog, and Fabric Manager User Guide
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify import xids
from fullmesh.verify.model import ClusterObservations


def rule_xid_errors(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the driver reported no error of a GPU or an NVSwitch in the last minutes."""
    for name in seen.plan["nodes"]:
        events = [e for e in seen.survey(name).get("kernel_log", []) if e["kind"] == "gpu"]
        said = {report: e["text"] for e in events if (report := xids.parse_xid(e["text"]))}
        if not said:
            continue
        worst, *others = xids.sort_xids(list(said))
        other_names = join_names(
            list(dict.fromkeys(one.name for one in others if one.name != worst.name))
        )
        yield Finding(
            "VC-113",
            "L1",
            f"the driver of {name} reported {worst.name}{' of ' * bool(worst.bus)}{worst.bus}: {worst.meaning.words}"
            + (f" (with {other_names})" if other_names else ""),
            node=name,
            seen=said[worst],
            expected="no Xid in the last quarter of an hour",
            fix=f"on {name}: {worst.meaning.cure}",
            severity=ERROR if worst.meaning.stops else WARNING,
        )


CAUSE = Cause(
    "VC-113",
    (__doc__ or "").replace("XIDS", xids.describe_all_xids()),
    find=rule_xid_errors,
    cases=(
        CauseCase("gpu-xid", "NVRM: Xid 79 in the kernel's log", by=RECORDED),
        CauseCase(
            "gpu-program",
            "NVRM: Xid 31 in the kernel's log: an error of a program",
            by=RECORDED,
            severity="warning",
        ),
    ),
)

"""Variables override NCCL's own choices (warning)

NCCL chooses algorithm, protocol and channels for the hardware that it finds and for each message
size. A fixed value replaces that choice for every job and every size.

**Prove:** env | grep NCCL_ (a job with NCCL_DEBUG=INFO prints `set by environment`)

**Fix:** Unset the variable, unless a measurement on these nodes shows that it helps.

**Source:** NCCL documentation, Environment Variables: debug and tuning ones are not for production
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.cards import OURS, has_gpus
from fullmesh.verify.model import ClusterObservations

# NCCL derives these from the hardware. A value that helps on one machine can slow down the next one.
TUNED = (
    *("NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_NTHREADS"),
    *("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_NET_GDR_LEVEL"),
)


def rule_nccl_tuning(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that no setting overrides NCCL's own choices."""
    for name in seen.plan["nodes"]:
        values = seen.survey(name).get("environment", {}).get("values", {})
        held = {one: values[one] for one in TUNED if one in values}
        if held and has_gpus(seen, name):
            words = [f"{one}={row['value']} ({row['source']})" for one, row in held.items()]
            places = {
                "cluster_env_extra in the inventory"
                if row["source"] == OURS
                else f"{row['source']} on {name}"
                for row in held.values()
            }
            yield Finding(
                "VC-144",
                "L1",
                f"every job on {name} gets {join_names(words)}, which overrides NCCL's own choice",
                node=name,
                seen=join_names(list(held)),
                expected="not set",
                fix=f"remove them from {join_names(sorted(places))}, and measure with and without: "
                f"./fullmesh verify -i {seen.inventory}",
                severity=WARNING,
            )


CAUSE = Cause("VC-144", __doc__, find=rule_nccl_tuning, severity=WARNING)

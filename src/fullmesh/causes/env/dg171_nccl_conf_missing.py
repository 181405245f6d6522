"""NCCL_CONF_FILE names no file, so NCCL reads ~/.nccl.conf no more (warning)

NCCL reads the file of NCCL_CONF_FILE in place of ~/.nccl.conf, not beside it, and a file that it cannot open it
passes over in silence: what the account's file said (a card, an algorithm) holds no more. /etc/nccl.conf is read all
the same. NCCL expands no ~ and no variable in the name.

**Prove:** env | grep NCCL_CONF_FILE; ls -l $NCCL_CONF_FILE; NCCL_DEBUG=INFO shows the settings that NCCL has

**Fix:** Write the file, or take the variable out.

**Source:** NCCL, misc/param.cc, initEnvFunc
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import WARNING, Finding


def rule_nccl_config_file(evidence: ClusterEvidence) -> Iterator[Finding]:
    """The file that NCCL is told to read is there; without it NCCL reads the account's own no more either."""
    for name in evidence.nodes:
        absent = evidence.survey(name).get("environment", {}).get("unread", "")
        if not absent:
            continue
        _, source = evidence.variable(name, "NCCL_CONF_FILE") or ("", "the environment")
        yield Finding(
            "DG-171",
            "L1",
            f"NCCL_CONF_FILE on {name} names {absent}, which is no file: NCCL says nothing and reads neither it nor"
            " ~/.nccl.conf",
            node=name,
            seen=f"NCCL_CONF_FILE={absent} from {source}",
            expected="a file, or no NCCL_CONF_FILE",
            fix=f"on {name}: write {absent}, or take NCCL_CONF_FILE out of {source}",
            severity=WARNING,
        )


CAUSE = Cause(
    "DG-171",
    __doc__,
    find=rule_nccl_config_file,
    needs=("environment",),
    severity=WARNING,
    weight=240,
    cases=(CauseCase("nccl-conf-gone", "NCCL_CONF_FILE=/etc/nccl/gone.conf in /etc/environment"),),
)

"""NCCL_CONF_FILE names a file that does not exist, so NCCL ignores ~/.nccl.conf as well (warning)

If NCCL_CONF_FILE is set, NCCL reads that file instead of ~/.nccl.conf. If it cannot open the file,
it prints no error, and settings in ~/.nccl.conf (such as an interface or an algorithm) have no
effect. NCCL still reads /etc/nccl.conf. It does not expand ~ or variables in the name.

**Prove:** ls -l "$NCCL_CONF_FILE" (NCCL_DEBUG=INFO prints the settings that a job uses)

**Fix:** Create the file, or unset the variable.

**Source:** NCCL, misc/param.cc, initEnvFunc
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import WARNING, Finding


def rule_nccl_config_file(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose NCCL_CONF_FILE does not exist. NCCL then ignores the account's own file, too."""
    for name in evidence.nodes:
        absent = evidence.survey(name).get("environment", {}).get("unread", "")
        if not absent:
            continue
        _, source = evidence.variable(name, "NCCL_CONF_FILE") or ("", "the environment")
        yield Finding(
            "DG-171",
            "L1",
            f"NCCL_CONF_FILE on {name} names {absent}, which does not exist: NCCL prints no error and also ignores"
            " ~/.nccl.conf",
            node=name,
            seen=f"NCCL_CONF_FILE={absent} from {source}",
            expected="an existing file, or no NCCL_CONF_FILE",
            fix=f"on {name}: create {absent}, or remove NCCL_CONF_FILE from {source}",
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

"""The unit of jobs does not start a job

`systemctl start fullmesh-job@NAME` fails: a command of `ExecStartPre=` or `ExecCondition=` fails, systemd cannot
apply a setting, or the unit forbids something that a job needs. Fullmesh starts the unit with a script that only makes
the first steps of a job. If jobs run as the unit, the ranks of `verify` start as the unit too.

**Prove:** systemctl start fullmesh-job@NAME; systemctl status fullmesh-job@NAME; journalctl -n 30 -u fullmesh-job@NAME

**Fix:** Correct the command or the setting that the message names. `systemctl cat fullmesh-job@` shows its file. Then
run systemctl daemon-reload.

**Source:** systemd.service(5), systemd.exec(5) (Process Exit Codes)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.model import ClusterObservations


def rule_unit_starts(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the unit of jobs starts a script."""
    for name in seen.plan["nodes"]:
        survey = seen.survey(name)
        error = survey.get("unit_start", {}).get("error", "")
        if not error:
            continue
        drop_ins = join_names(survey.get("job_unit", {}).get("drop_ins", []))
        yield Finding(
            "VC-325",
            "L1",
            f"the unit fullmesh-job@ does not start a job on {name}: {error}",
            node=name,
            seen=error + (f" ({drop_ins})" if drop_ins else ""),
            expected="a unit that starts a script",
            check=f"on {name}: journalctl -n 30 -u 'fullmesh-job@*'; systemctl cat fullmesh-job@",
            fix=f"on {name}: correct {drop_ins or 'the unit'}, then systemctl daemon-reload",
        )


CAUSE = Cause(
    "VC-325",
    __doc__,
    find=rule_unit_starts,
    weight=265,
    cases=(CauseCase("job-unit-refuses", "ExecStartPre=/bin/false in a drop-in of fullmesh-job@"),),
)

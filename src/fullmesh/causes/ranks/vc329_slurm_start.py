"""A job that Slurm starts differs from a login

Slurm gives its tasks limits of its own: those of the login that runs srun, or those of slurmd. Its TaskProlog sets
variables. Fullmesh starts a job with srun on each node that runs slurmd, which only makes the first steps of a job, and
reports what a login on the node does not have. If another job uses the node, this is not found out.

**Prove:** srun -w NODE sh -c 'ulimit -a; env'; scontrol show config | grep -E 'TaskProlog|PropagateResourceLimits'

**Fix:** Correct the TaskProlog, or set the limits in slurmd's unit (`LimitMEMLOCK=infinity`) and
`PropagateResourceLimitsExcept=MEMLOCK` in slurm.conf.

**Source:** slurm.conf(5), srun(1)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.ranks.vc321_overridden_plan import has_same_effect
from fullmesh.observed.survey import JobSlurmStart, StartStep
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.cards import OURS
from fullmesh.verify.job_start import OF_THE_PLAN, SHOWN, get_job_start
from fullmesh.verify.model import ClusterObservations

DESCRIBED = {
    "use": "{subject} is closed",
    "device": "{subject} is closed",
    "preload": "{subject} is not preloaded ({error})",
    "load": "{subject} is not loaded ({error})",
    "value": "{subject} {error}",
    "name": "{subject} has no effect",
    "source": "{subject} cannot be read ({error})",
    "write": "{subject} cannot be written ({error})",
    "cache": "{subject} cannot be written ({error})",
    "resolve": "{subject} is not resolved ({error})",
    "bind": "port {subject} cannot be bound ({error})",
    "path": "{subject} names {error}, which is missing",
    "python": "Python does not start with {error}",
    "login": "{error}",
    "launch": "{subject} {error}",
    "limit": "the limit {subject} is {error}",
    "import": "{subject}: {error}",
    "slow": "{subject} is slow",
}
HARMLESS = ("name", "cache", "preload")


def list_own_steps(seen: ClusterObservations, name: str, start: JobSlurmStart) -> list[StartStep]:
    """Return the steps that fail in a job of Slurm and not in a login."""
    login = get_job_start(seen, name)
    known = {(one["step"], one["subject"]) for one in login["steps"]} if login else set()
    return [one for one in start["steps"] if (one["step"], one["subject"]) not in known]


def list_own_variables(
    seen: ClusterObservations, name: str, start: JobSlurmStart
) -> dict[str, tuple[str, str]]:
    """Return the variables of the plan that differ in a job of Slurm and not in a login, with both values."""
    login = get_job_start(seen, name)
    if login is None:
        return {}
    return {
        key: (start["task"][key], login["file"][key])
        for key in OF_THE_PLAN
        if key in start["task"]
        and key in login["file"]
        and start["task"][key] != login["login"].get(key)
        and not has_same_effect(seen, name, key, (start["task"][key], login["file"][key]))
    }


def rule_slurm_start(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that a job of Slurm has what a login has."""
    for name in seen.plan["nodes"]:
        start = seen.survey(name).get("slurm_start")
        if not start:
            continue
        steps, variables = (
            list_own_steps(seen, name, start),
            list_own_variables(seen, name, start),
        )
        words = [start["error"]] if start["error"] else []
        words += [f"{key}={value}" for key, (value, _) in variables.items()]
        words += [DESCRIBED[one["step"]].format(**one) for one in steps]
        if not words:
            continue
        sources = [one["source"] for one in steps] + [
            start["sources"].get(key, "") for key in variables
        ]
        place = next((one for one in sources if one), "")
        if not place and any(one["step"] == "limit" for one in steps):
            place = "the limits of slurmd and of the login that runs srun"
        place = place or " or ".join(filter(None, ("the unit of slurmd", start["prolog"])))
        harmless = steps and not start["error"] and not variables
        yield Finding(
            "VC-329",
            "L1",
            f"a job that srun starts on {name} fails: {start['error']}"
            if start["error"]
            else f"a job that srun starts on {name} differs from a login: {join_names(words, SHOWN)}",
            node=name,
            seen="; ".join(words[:SHOWN]) + f" ({place})",
            expected=", ".join(
                f"{key}={planned} ({OURS})" for key, (_, planned) in variables.items()
            )
            or "what a login has",
            check=f"srun -w {shlex.quote(name)} sh -c 'ulimit -a; env'; on {name}: systemctl cat slurmd",
            fix=f"on {name}: correct {place}",
            severity=WARNING
            if harmless and all(one["step"] in HARMLESS for one in steps)
            else ERROR,
        )


CAUSE = Cause(
    "VC-329",
    __doc__,
    find=rule_slurm_start,
    weight=262,
    cases=(CauseCase("job-task-prolog", "GLOO_SOCKET_IFNAME=eth0 from TaskProlog", by=RECORDED),),
)

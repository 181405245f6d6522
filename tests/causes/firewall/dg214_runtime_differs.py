"""Cases of DG-214."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, get_survey
from causes.faults import DATA, JOB, TUNED, VICTIM, WHOLE, Fault, make_step

CHANGES = {
    "runtime": Change(
        UB,
        lambda w: get_survey(w)["firewalld"]["zones"]["fullmesh"]["runtime"]["ports"].append(
            "7/tcp"
        ),
    ),
}
FAULTS = (
    Fault(
        "runtime-differs",
        TUNED,
        make_step(
            VICTIM,
            f"{JOB} --permanent --add-port=8080/tcp",
            f"{JOB} --permanent --remove-port=8080/tcp",
        ),
    ),
    Fault(
        "runtime-differs",
        TUNED,
        make_step(
            VICTIM,
            f"{JOB} --remove-rich-rule={DATA}",
            f"{JOB} --add-rich-rule={DATA}",
        ),
        "shut",
        severity="error",
        expect={"port": WHOLE},
    ),
)

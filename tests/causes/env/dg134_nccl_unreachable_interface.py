"""Cases of DG-134."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, combine, get_survey, set_variable
from causes.faults import TUNED, VICTIM, Fault, make_step, set_job_variable

CHANGES = {
    "nccl interface": Change(
        UB,
        combine(
            set_variable("NCCL_SOCKET_IFNAME", "docker"),
            lambda w: get_survey(w)["interfaces"].append(
                {
                    **get_survey(w)["interfaces"][-1],
                    "name": "docker0",
                    "index": 99,
                    "addresses": ["172.17.0.1/16"],
                }
            ),
        ),
    ),
}
FAULTS = (
    Fault(
        "nccl-interface",
        TUNED,
        make_step(
            VICTIM,
            "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up",
            "ip link del docker0",
        )
        + set_job_variable("NCCL_SOCKET_IFNAME=docker0"),
    ),
)

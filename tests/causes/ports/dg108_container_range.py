"""Cases of DG-108."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Break, Change, set_survey_part
from causes.faults import TUNED, Fault, run_service


def run_job_in_namespace(command: str) -> Break:
    space = {"pid": 5, "commands": [command], "port_range": "32768 60999"}
    return set_survey_part("namespaces", [space])


CHANGES = {
    "container": Change(UB, run_job_in_namespace("/usr/bin/torchrun train.py")),
}
RECORDED = {"netns": UB}
FAULTS = (
    Fault(
        "netns-range",
        TUNED,
        run_service(
            "unshare -n bash -c 'ip link add d0 type veth peer name d1 && ip link set d0 up"
            " && touch /run/fault.ready && exec -a torchrun sleep 900'"
        ),
    ),
)

"""Cases of VC-113."""

from __future__ import annotations

from ansible.module_utils.fullmesh.survey import job
from gpu_samples import XID, survey
from records import UBUNTU1
from records import UBUNTU1 as UB

from causes.changes import Change, make_events, set_survey_part
from causes.faults import make_gpu_fault
from fullmesh.verify.model import ClusterObservations


def add_xid(seen: ClusterObservations) -> None:
    survey(seen, UBUNTU1)["kernel_log"] = job.parse_kernel_log([XID], 1000.0)


VERIFICATION = {
    "xid": add_xid,
}
CHANGES = {
    "xid": Change(
        UB, set_survey_part("kernel_log", make_events("gpu", "NVRM: Xid (PCI:0000:01:00): 79"))
    ),
}
FAULTS = (
    make_gpu_fault("xid", "3.xid=79, pid=4711, GPU has fallen off the bus."),
    make_gpu_fault("program", "3.xid=31, pid=812, name=python, Ch 0000000b, MMU Fault"),
)

"""Cases of VC-113."""

from __future__ import annotations

from ansible.module_utils.fullmesh.survey import job
from gpu_samples import XID, survey
from records import UBUNTU1
from records import UBUNTU1 as UB

from causes.changes import Change, event, put
from causes.faults import gpu
from fullmesh.verify.model import ClusterObservations


def xid(seen: ClusterObservations) -> None:
    survey(seen, UBUNTU1)["kernel_log"] = job.parse_kernel_log([XID], 1000.0)


VERIFICATION = {
    "xid": xid,
}
CHANGES = {
    "xid": Change(UB, put("kernel_log", event("gpu", "NVRM: Xid (PCI:0000:01:00): 79"))),
}
FAULTS = (
    gpu("xid", "3.xid=79, pid=4711, GPU has fallen off the bus."),
    gpu("program", "3.xid=31, pid=812, name=python, Ch 0000000b, MMU Fault"),
)

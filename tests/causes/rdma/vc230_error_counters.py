"""Cases of VC-230."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change
from causes.rdma import set_results

CHANGES = {
    "RDMA counters": Change(UB, set_results(counters={"rxe1:1 out_of_seq_request": 3})),
    "discarded packets": Change(UB, set_results(counters={"ens2f0np0 rx_prio3_discards": 3})),
}

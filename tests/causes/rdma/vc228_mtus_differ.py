"""Cases of VC-228."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change
from causes.rdma import make_try, set_results

CHANGES = {
    "RDMA MTUs": Change(UB, set_results((UB, make_try(UB, 2, mtu=1024)))),
}

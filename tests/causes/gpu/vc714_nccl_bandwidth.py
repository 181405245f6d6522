"""Cases of VC-714."""

from __future__ import annotations

from verify_changes import IB, get_step_report, infiniband

VERIFICATION = {
    "nccl slow": lambda s: get_step_report(s, "nccl_sizes")["sizes"][-1].update(bus_gbit_s=1.9),
    "slow for infiniband": infiniband(IB, 1.9),
}

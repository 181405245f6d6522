"""Cases of VC-714."""

from __future__ import annotations

from verify_changes import IB, infiniband, told

VERIFICATION = {
    "nccl slow": lambda s: told(s, "nccl_sizes")["sizes"][-1].update(bus_gbit_s=1.9),
    "slow for infiniband": infiniband(IB, 1.9),
}

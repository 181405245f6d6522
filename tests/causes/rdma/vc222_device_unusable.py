"""Cases of VC-222."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.rdma import expect_warning, make_try, set_results

CHANGES = {
    f"RDMA device, {step}": expect_warning(
        UB, set_results((EL, make_try(EL, 1, peer={"step": step, "error": error, "count": 0})))
    )
    for step, error in (
        ("library", "ENOENT"),
        ("device", "ENODEV"),
        ("open", "EACCES"),
        ("port_down", "DOWN"),
        ("mr", "ENOMEM"),
        ("cq", "ENOMEM"),
        ("qp", "ENOMEM"),
        ("crashed", "SIGSEGV"),
        ("hung", "SIGALRM"),
    )
}
ABSENT = {"step": "library", "error": "ENOENT", "count": 0}
CHANGES["RDMA devices, one library"] = expect_warning(
    UB, set_results(*((EL, make_try(EL, rail, peer=ABSENT)) for rail in (1, 2)))
)

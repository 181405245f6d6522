"""Cases of VC-715."""

from __future__ import annotations

from verify_changes import get_step_report, nccl_tests, stopped

BAD_TESTS = "# Out of bounds values : 50 FAILED\n# Avg bus bandwidth    : 0.4\n"


VERIFICATION = {
    "nccl-tests fail": lambda s: get_step_report(s, "nccl_tests").update(nccl_tests(BAD_TESTS)),
    "nccl-tests break off": lambda s: get_step_report(s, "nccl_tests").update(
        nccl_tests("Test NCCL failure", 3)
    ),
    "nccl-tests hang": stopped("nccl_tests", "failed", text="TimeoutExpired"),
}

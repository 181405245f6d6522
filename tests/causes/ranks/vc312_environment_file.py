"""Cases of VC-312."""

from __future__ import annotations

from verify_changes import stopped

VERIFICATION = {
    "line of the environment": stopped(
        "import", "failed", text="EnvironmentFileError: env, NCCL_NET: No closing quotation"
    ),
}

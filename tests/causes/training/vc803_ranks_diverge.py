"""Cases of VC-803."""

from __future__ import annotations

from verify_changes import wrong

VERIFICATION = {
    "other loss": wrong("gpu_ddp", check="ranks"),
}

"""Cases of VC-805."""

from __future__ import annotations

from verify_changes import wrong

VERIFICATION = {
    "amp": wrong("gpu_amp", check="amp"),
}

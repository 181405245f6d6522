"""Cases of VC-716."""

from __future__ import annotations

from verify_changes import slow_gpus

VERIFICATION = {
    "slow gpus": slow_gpus,
}

"""Cases of HG-135."""

from __future__ import annotations

from hang_records import without

JOB_CHANGES = {
    "SIGTERM alone": (["HG-135"], "killed", without(1, exit_code=-15)),
}

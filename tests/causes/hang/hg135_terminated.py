"""Cases of HG-135."""

from __future__ import annotations

from hang_records import remove_rank

JOB_CHANGES = {
    "SIGTERM alone": (["HG-135"], "killed", remove_rank(1, exit_code=-15)),
}

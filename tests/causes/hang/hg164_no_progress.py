"""Cases of HG-164."""

from __future__ import annotations

from hang_records import again, both

JOB_CHANGES = {
    "all sleep": (["HG-164"], "long_step", again),
    "a send and a receive that do not fit": (["HG-164"], "send", both),
}

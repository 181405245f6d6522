"""Cases of HG-162."""

from __future__ import annotations

JOBS = {
    "healthy": [("HG-162", (0, 1), "")],
    "healthy_4": [("HG-162", (0, 1, 2, 3), "")],
    "long_step": [("HG-162", (0, 1), "")],
}

"""Cases of VC-720."""

from __future__ import annotations

from verify_changes import TCP, infiniband

VERIFICATION = {
    "tcp beside infiniband": infiniband(TCP, 1.9),
    "fast tcp beside infiniband": infiniband(TCP),
}

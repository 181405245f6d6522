"""Cases of VC-123."""

from __future__ import annotations

from records import UBUNTU1

VERIFICATION = {
    "other host name": lambda s: s.plan["nodes"][UBUNTU1].update(hostname="gpu7"),
}

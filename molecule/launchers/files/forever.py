"""A job that never ends: it reports that it runs, then sleeps."""

from __future__ import annotations

import time
from pathlib import Path

Path("/srv/out/running").touch()
while True:
    time.sleep(1)

"""A job that would run for ever: it says that it runs, then sleeps."""

import time
from pathlib import Path

Path("/root/running").touch()
while True:
    time.sleep(1)

"""The interpreters of this machine, for what has to run with those that nodes have."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def interpreter(version: str) -> str:
    """An interpreter of that version on this machine; '' where there is none.

    A pyenv shim exists for versions that are not switched on: only running it tells.
    """
    places = [f"python{version}", *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for place in places:
        found = shutil.which(str(place))
        ask = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = found and subprocess.run(
            [found, "-Ic", ask], capture_output=True, text=True, check=False
        )
        if found and done and done.stdout.strip() == version:
            return found
    return ""

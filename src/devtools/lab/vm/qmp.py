"""QEMU's machine protocol: JSON lines on a unix socket (docs/interop/qmp-spec of QEMU)."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from typing import Any

from devtools.lab.errors import StepError

SECONDS = 30.0


def execute(path: Path, command: str) -> dict[str, Any]:
    """Run one command without arguments and return its answer.

    Raises:
        StepError: QEMU does not answer or refuses; with its message.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(SECONDS)
            channel.connect(str(path))
            with channel.makefile("rw", encoding="utf-8") as stream:
                stream.readline()  # the greeting
                for word in ("qmp_capabilities", command):
                    stream.write(json.dumps({"execute": word}) + "\n")
                    stream.flush()
                    answer = _answer(stream, command)
    except OSError as error:
        raise StepError(f"QEMU does not answer on {path}: {error}") from error
    if "error" in answer:
        raise StepError(f"QEMU refuses {command}: {answer['error'].get('desc', answer)}")
    return answer


def _answer(stream: Any, command: str) -> dict[str, Any]:
    """Return the next line that is not an event."""
    for line in stream:
        found: dict[str, Any] = {}
        with contextlib.suppress(ValueError):
            found = json.loads(line)
        if "return" in found or "error" in found:
            return found
    raise StepError(f"QEMU hung up before it answered {command}")

"""Parse a lock of wheels, and select the lines for a Python and machine (PEP 508).

Used on both sides.

Markers are evaluated by ``packaging``, which ansible-core requires. Only controllers do so.
"""

from __future__ import annotations

import re


def parse_logical_lines(text: str) -> list[str]:
    """Return the lines of a requirements file with continuations joined, without comments and blank lines."""
    joined = re.sub(r"\\\s*\n", " ", text)
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]


def make_marker_environment(python: str, machine: str) -> dict[str, str]:
    """Return the marker environment of a node with CPython *python* (``3.12``) on Linux."""
    return {
        "extra": "",
        "implementation_name": "cpython",
        "implementation_version": python + ".0",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": python + ".0",
        "python_version": python,
        "sys_platform": "linux",
    }


def is_marker_met(marker: str, python: str, machine: str) -> bool:
    """Return whether a marker applies to a Python and machine. An empty marker always applies."""
    if not marker:
        return True
    # only for locks with markers, and a node's own Python need not have it
    from packaging.markers import Marker  # noqa: PLC0415

    return bool(Marker(marker).evaluate(make_marker_environment(python, machine)))


def filter_lock_lines(text: str, python: str, machine: str) -> list[str]:
    """Return the lines of a lock for a Python and machine, without their markers.

    ``pip download`` evaluates markers for its own Python, even with --python-version (pypa/pip#11664), so a controller
    would leave out packages that a node needs.
    """
    found = []
    for line in parse_logical_lines(text):
        pin, dashes, hashes = line.partition("--hash")
        name, _, marker = (part.strip() for part in pin.partition(";"))
        if is_marker_met(marker, python, machine):
            found.append((name + " " + dashes + hashes).strip())
    return found

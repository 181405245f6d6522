"""The lines of a lock of wheels, and which of them a Python and machine need (PEP 508); read on both sides.

Markers are judged by ``packaging``, which ansible-core brings: only controllers ask.
"""

from __future__ import annotations

import re


def parse_logical_lines(text: str) -> list[str]:
    """The lines of a requirements file, continuations joined, comments and blanks left out."""
    joined = re.sub(r"\\\s*\n", " ", text)
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]


def make_marker_environment(python: str, machine: str) -> dict[str, str]:
    """What markers ask for, on a node with CPython *python* (``3.12``) on Linux."""
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
    """Whether a line with this marker is meant for a Python and machine; one without is for all."""
    if not marker:
        return True
    # only where a lock has markers, and a node's own Python need not have it
    from packaging.markers import Marker  # noqa: PLC0415

    return bool(Marker(marker).evaluate(make_marker_environment(python, machine)))


def filter_lock_lines(text: str, python: str, machine: str) -> list[str]:
    """The lines of a lock that are meant for a Python and machine, without their markers.

    ``pip download`` judges markers by the Python that runs it, whatever --python-version says (pypa/pip#11664): a
    controller would leave out what a node needs.
    """
    found = []
    for line in parse_logical_lines(text):
        pin, dashes, hashes = line.partition("--hash")
        name, _, marker = (part.strip() for part in pin.partition(";"))
        if is_marker_met(marker, python, machine):
            found.append((name + " " + dashes + hashes).strip())
    return found

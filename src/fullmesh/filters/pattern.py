"""Host patterns of plays that only some hosts are in, mostly none."""

from __future__ import annotations

from collections.abc import Iterable

# Matches nobody, without the warning that Ansible has for names that it does not know.
NOBODY = "all:!all"


def build_host_pattern(hosts: Iterable[str]) -> str:
    """The pattern of exactly these hosts: a play that nobody is in costs nothing."""
    return ",".join(hosts) or NOBODY

"""Build host patterns for plays with only some hosts, mostly none."""

from __future__ import annotations

from collections.abc import Iterable

# Matches no host, without Ansible's warning about unknown names.
NO_HOSTS = "all:!all"


def build_host_pattern(hosts: Iterable[str]) -> str:
    """Build the pattern of exactly these hosts. A play without hosts costs nothing."""
    return ",".join(hosts) or NO_HOSTS

"""Check the settings of role node_health."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal
from fullmesh.roles.monitoring_tools import FOLDER

CODES: dict[str, str] = {"NH-101": "A setting of the role node_health cannot work"}
LEVELS = ("node", "links")
LONGEST = 24 * 60  # minutes


def find_node_health_faults(
    interval_minutes: Any, levels: Any, textfile_dir: Any, webhook_url: Any
) -> list[Fault]:
    """Return a fault for every setting that cannot work."""
    found = []
    if not parse_decimal(str(interval_minutes), LONGEST):
        text = f"node_health_interval_minutes is {interval_minutes!r}, not a number from 1 to {LONGEST}"
        found.append(Fault("NH-101", text, "Write it like 5"))
    if not isinstance(levels, list) or not levels or not all(one in LEVELS for one in levels):
        text = f"node_health_levels is {levels!r}"
        found.append(Fault("NH-101", text, "Write [node], [links] or [node, links]"))
    if textfile_dir and not (isinstance(textfile_dir, str) and FOLDER.fullmatch(textfile_dir)):
        text = f"node_health_textfile_dir is {textfile_dir!r}, not a plain absolute path"
        found.append(Fault("NH-101", text, "Write it like /var/lib/prometheus/node-exporter"))
    if webhook_url and not is_web_address(webhook_url):
        # the address can be a secret, so it is not printed
        text = "node_health_webhook_url is not an http or https address with a host"
        found.append(Fault("NH-101", text, "Write it like https://hooks.example.org/fullmesh"))
    return found


def is_web_address(value: object) -> bool:
    """Return whether a value is an address that a node can send a request to."""
    try:
        parts = urlsplit(str(value))
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and str(value).isprintable()

"""Convert Ansible's values to plain data: Ansible tags values (ansible-core 2.19) and evaluates some only when read."""

from __future__ import annotations

import json
from typing import Any

TRUE, FALSE = ("true", "yes", "1", "on"), ("false", "no", "0", "off")


def parse_switch(value: object) -> bool | None:
    """Parse a boolean of an inventory, or return None. From ``-e`` and INI files it arrives as text."""
    text = str(value).lower()
    return text in TRUE if text in TRUE + FALSE else None


def to_json_value(value: Any) -> Any:
    """Convert a value to JSON types. Other types become text."""
    return json.loads(json.dumps(value, default=str))

"""Plain data of what Ansible hands out: it tags values (ansible-core 2.19) and evaluates some only when read."""

from __future__ import annotations

import json
from typing import Any

TRUE, FALSE = ("true", "yes", "1", "on"), ("false", "no", "0", "off")


def parse_switch(value: object) -> bool | None:
    """A switch of an inventory, which arrives as text from ``-e`` and INI files; None for what is none."""
    text = str(value).lower()
    return text in TRUE if text in TRUE + FALSE else None


def to_json_value(value: Any) -> Any:
    """The value as JSON has it; whatever JSON does not know becomes its text."""
    return json.loads(json.dumps(value, default=str))

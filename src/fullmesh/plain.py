"""Plain data of what Ansible hands out: it tags values (ansible-core 2.19) and evaluates some only when read."""

from __future__ import annotations

import json
from typing import Any


def plain(value: Any) -> Any:
    """The value as JSON has it; whatever JSON does not know becomes its text."""
    return json.loads(json.dumps(value, default=str))

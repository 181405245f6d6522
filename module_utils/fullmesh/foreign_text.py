# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Parse text that Fullmesh did not write: the answer of a node, of another account's process, of a program.

Such text can be hostile. Each function here returns a bounded value or raises ForeignTextError, a ValueError, and
nothing else: one bad answer never ends the question to all others.

Runs on nodes as well (node_programs/fullmesh_foreign_text.py is a link to it): standard library only.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

MOST_BYTES = 16 << 20
MOST_DEPTH = 64
MOST_VALUES = 2_000_000
# Limits for a program that queries the node's kernel or root's services: a firewall can have a million entries.
TOOL_BYTES, TOOL_VALUES = 256 << 20, 32_000_000
# The largest number of a kernel's counter has 20 digits.
MOST_DIGITS = 20
LARGEST_NUMBER = (1 << 64) - 1
JSON_STRING = re.compile(r'"[^"]*(?:"|\Z)')  # once the escapes are gone
HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
DECIMAL = re.compile(r"-?[0-9]{1,20}", re.ASCII)


class ForeignTextError(ValueError):
    """A foreign text is damaged, or is larger than Fullmesh accepts."""


class ForeignLimitError(ForeignTextError):
    """A foreign text is larger than Fullmesh accepts: in bytes, levels, values or digits."""


def parse_decimal(text: object, most: int = LARGEST_NUMBER, least: int = 0) -> int | None:
    """Return the decimal number in a foreign text, or None if it is none or outside of the limits.

    Only ASCII digits count: ``str.isdigit`` also accepts characters that ``int`` refuses.
    """
    if not isinstance(text, str) or not DECIMAL.fullmatch(text):
        return None
    number = int(text)
    return number if least <= number <= most else None


def parse_json_number(text: str) -> int:
    """Return a whole number of a JSON text.

    Raises:
        ForeignLimitError: it is larger than any kernel counter.
    """
    if len(text) <= MOST_DIGITS + 1:
        number = int(text)
        if abs(number) <= LARGEST_NUMBER:
            return number
    raise ForeignLimitError(f"it has a number of {len(text)} digits: {text[:MOST_DIGITS]}...")


def count_json_values(text: str, most: int) -> int:
    """Return an upper bound of the number of values in a JSON text, before it is parsed."""
    signs = ("[", "{", ",")
    found = sum(map(text.count, signs))
    if found >= most:
        # a sign in a string is not a value
        text = JSON_STRING.sub("", text.replace("\\\\", "").replace('\\"', ""))
        found = sum(map(text.count, signs))
    return found + 1


def exceeds_depth(value: object, most: int) -> bool:
    """Report whether lists and mappings are nested more than *most* times."""
    level = [value]
    for _ in range(most):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
        level = [one for one in inner if isinstance(one, (dict, list))]
        if not level:
            return False
    return True


def parse_foreign_json(
    data: bytes | str,
    *,
    most_bytes: int = MOST_BYTES,
    most_depth: int = MOST_DEPTH,
    most_values: int = MOST_VALUES,
) -> Any:
    """Parse a foreign JSON text.

    Bytes that are not UTF-8, and halves of surrogate pairs, become question marks or U+FFFD, so that the result can be
    printed and written.

    Raises:
        ForeignLimitError: it has too many bytes, levels, values or digits.
        ForeignTextError: it is not JSON.
    """
    if len(data) > most_bytes:
        raise ForeignLimitError(f"it has {len(data)} bytes, more than {most_bytes}")
    if isinstance(data, str):
        data = data.encode("utf-8", "replace")
    text = data.decode("utf-8", "replace")
    count = count_json_values(text, most_values)
    if count > most_values:
        raise ForeignLimitError(f"it has up to {count} values, more than {most_values}")
    try:
        found = json.loads(text, parse_int=parse_json_number)
    except RecursionError:
        raise ForeignLimitError(f"it is nested more than {most_depth} times") from None
    except ForeignTextError:
        raise
    except ValueError as error:
        raise ForeignTextError(f"it is cut off or damaged: {error}") from None
    if exceeds_depth(found, most_depth):
        raise ForeignLimitError(f"it is nested more than {most_depth} times")
    if HALF_PAIR.search(text):
        whole = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
        found = json.loads(whole)
    return found


def list_objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, [] for any other value."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def parse_tool_json(text: str) -> Any:
    """Parse JSON from a program on the node: ``ip -j``, ``nft -j``, ``busctl``.

    Raises:
        ForeignTextError: it is not JSON, or exceeds the limits.
    """
    return parse_foreign_json(text, most_bytes=TOOL_BYTES, most_values=TOOL_VALUES)

"""Clean all output of the command line, so that no text of a node or log controls a terminal.

Standard library only: Ansible's own process imports this.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from datetime import UTC, datetime
from typing import Any, TextIO

# characters that a terminal interprets or hides: controls, text directions, invisible characters
CONTROL = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\ufffe\\uffff\\ud800-\\udfff\\U000e0000-\\U000e0fff]"
)
# colours and other attributes of characters (ECMA-48, SGR)
STYLE = re.compile(r"(\x1b\[[0-9;:]*m)")
SHOWN = 240  # characters of a line. Longer lines are cut in the middle.
TAB = "    "


def clean_and_shorten(text: str, limit: int = SHOWN) -> str:
    """Escape control characters, and cut the middle of a text that is too long."""
    if len(text) > limit:
        half = (limit - 5) // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def format_label(label: str, value: str) -> str:
    """Format a line of a finding: seen, expected, check, fix, page. Further lines of the same kind have no label."""
    return f"     {label + ':' if label else '':<10}{value}"


def clean_line(text: str) -> str:
    """Escape control characters and turn tabs into spaces. Nothing is cut."""
    return clean_and_shorten(text.replace("\t", TAB), 4 * len(text))


def clean_text(text: str) -> str:
    """Clean each line of a text."""
    return "\n".join(clean_line(line.removesuffix("\r")) for line in text.split("\n"))


def clean_styled(text: str) -> str:
    """Clean a text of several lines, but keep its styles. The text must have been cleaned before it was styled."""
    parts = STYLE.split(text)
    return "".join(part if STYLE.fullmatch(part) else clean_text(part) for part in parts)


def clean_values(value: Any) -> Any:
    """Return the same data with all texts cleaned."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_values(key): clean_values(held) for key, held in value.items()}
    return [clean_values(held) for held in value] if isinstance(value, list | tuple) else value


def print_text(text: str, stream: TextIO | None = None) -> None:
    """Write lines to standard output, or to *stream*."""
    stream = stream or sys.stdout
    stream.write(f"{clean_text(text)}\n")
    stream.flush()


def shorten_time(text: str) -> str:
    """Return an ISO 8601 time to the minute in UTC, or the text if it is not a time."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return text


def wrap_text(text: str, width: int, indent: str = "", more: str = "  ") -> list[str]:
    """Wrap a text to *width* columns (0: not at all) without breaking words. *more* indents the further lines."""
    if not width:
        return [indent + text]
    wrapper = textwrap.TextWrapper(
        width,
        initial_indent=indent,
        subsequent_indent=more,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapper.wrap(text) or [indent]


def measure_width(stream: TextIO) -> int:
    """Return the columns of a terminal; 0 if the stream is none: its lines may have any length."""
    return shutil.get_terminal_size().columns if stream.isatty() else 0


def print_error(text: str) -> None:
    """Write lines to standard error."""
    print_text(text, sys.stderr)

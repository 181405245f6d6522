"""Recorded machine output, which is stored compressed: ``zcat FILE.json.gz`` shows it.

    python tests/support/record_files.py FILE ...   # replaces each FILE with FILE.gz

Equal text gives equal bytes: the time stamp in the file is 0.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "unit/recorded"
END = ".gz"


def read_record(path: Path) -> str:
    """Return the text of a recorded file; *path* is its name with or without ``.gz``."""
    stored = path if path.suffix == END else path.with_name(path.name + END)
    return gzip.decompress(stored.read_bytes()).decode()


def load_record(path: Path) -> Any:
    """Return the value of recorded JSON; *path* is its name with or without ``.gz``."""
    return json.loads(read_record(path))


def name_record(path: Path) -> str:
    """Return the name of a recorded file without its extensions."""
    return path.name.partition(".")[0]


def write_record(path: Path, text: str) -> None:
    """Store recorded text; *path* is its name without ``.gz``."""
    path.with_name(path.name + END).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    for word in sys.argv[1:]:
        write_record(Path(word), Path(word).read_text())
        Path(word).unlink()

"""Generate the JSON schema of result.json from its types: ``python -m fullmesh.result.schema`` (``--check``)."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from fullmesh.result.types import Result

PATH = Path(__file__).parents[1] / "schema/result-1.json"
HEAD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://fullmesh.example/schema/result-1.json",
}


def build_result_schema() -> dict[str, Any]:
    """Build the schema: the document's own keys at the top, the parts below ``$defs``."""
    parts = msgspec.json.schema(Result)["$defs"]
    for part in parts.values():
        # msgspec ignores unknown keys of a TypedDict and allows them here. Fullmesh's reader (contract.py) does not.
        part["additionalProperties"] = False
        part["description"] = inspect.cleandoc(part.pop("description", ""))
        part.pop("title")
    top = parts.pop(Result.__name__)
    return {**HEAD, "title": top.pop("description").rstrip("."), **top, "$defs": parts}


def render_result_schema() -> str:
    """Render the content of the file."""
    return json.dumps(build_result_schema(), indent=2) + "\n"


def main(arguments: list[str]) -> int:
    """Write the file, or check whether it is up to date."""
    if "--check" not in arguments:
        PATH.write_text(render_result_schema(), encoding="utf-8")
    elif PATH.read_text(encoding="utf-8") != render_result_schema():
        sys.stderr.write(f"{PATH} is out of date. Run python -m fullmesh.result.schema.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

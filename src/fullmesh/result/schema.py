"""The JSON schema of result.json, made from its types by ``python -m fullmesh.result.schema`` (``--check``)."""

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
    """The schema: the document's own keys at its top, the parts below ``$defs``."""
    parts = msgspec.json.schema(Result)["$defs"]
    for part in parts.values():
        # msgspec passes over unknown keys of a TypedDict and says so here; our reader (contract.py) refuses them.
        part["additionalProperties"] = False
        part["description"] = inspect.cleandoc(part.pop("description", ""))
        part.pop("title")
    top = parts.pop(Result.__name__)
    return {**HEAD, "title": top.pop("description").rstrip("."), **top, "$defs": parts}


def render_result_schema() -> str:
    """What stands in the file."""
    return json.dumps(build_result_schema(), indent=2) + "\n"


def main(arguments: list[str]) -> int:
    """Write the file, or say whether it is what would be written."""
    if "--check" not in arguments:
        PATH.write_text(render_result_schema(), encoding="utf-8")
    elif PATH.read_text(encoding="utf-8") != render_result_schema():
        sys.stderr.write(f"{PATH} is not what its types say: python -m fullmesh.result.schema\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

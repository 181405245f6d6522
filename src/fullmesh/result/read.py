"""Reads a result.json by its types; of the same form is what is about to be written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fullmesh import contract
from fullmesh.foreign_text import parse_tool_json
from fullmesh.result.types import PLAN_KEYS, Result


def find_schema_faults(result: Result) -> Iterator[tuple[str, str]]:
    """What schema 1 demands and no type says: where it is not so, and what is wrong there."""
    for key in PLAN_KEYS:
        if key not in result["plan"]:
            yield "$.plan", f"Object missing required field `{key}`"
    for number, rung in enumerate(result["rungs"]):
        if rung["status"] != "passed" and not rung["reason"]:
            yield f"$.rungs[{number}].reason", f"empty, where the status is {rung['status']}"


def parse_result(value: object) -> Result:
    """The value, which is a result of this version.

    Raises:
        ContractError: it is none; with the path of what is wrong.
    """
    result = contract.convert_value(Result, value)
    wrong = dict(find_schema_faults(result))
    if wrong:
        raise contract.ContractError(wrong)
    return result


def list_result_faults(value: object) -> list[str]:
    """Where a value is no result of this version."""
    try:
        parse_result(value)
    except contract.ContractError as error:
        return [f"{path}: {what}" for path, what in error.paths.items()]
    return []


def load_result(path: Path) -> Result:
    """Read a result.

    Raises:
        ValueError: it is no result of this version.
    """
    try:
        return parse_result(parse_tool_json(path.read_text(encoding="utf-8")))
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except contract.ContractError as error:
        why = f"is no result of schema 1: {error}"
    except ValueError as error:
        why = f"is no JSON: {error}"
    raise ValueError(
        f"[CL-114] {path} {why}. Name a result.json that this version wrote, or run ./fullmesh verify."
    )

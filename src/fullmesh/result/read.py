"""Read a result.json by its types, and check a result before it is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fullmesh import contract
from fullmesh.foreign_text import parse_tool_json
from fullmesh.result.types import PLAN_KEYS, Result


def find_schema_faults(result: Result) -> Iterator[tuple[str, str]]:
    """Yield the path and the problem for each rule of schema 1 that types cannot express."""
    for key in PLAN_KEYS:
        if key not in result["plan"]:
            yield "$.plan", f"Object missing required field `{key}`"
    for number, check in enumerate(result["rungs"]):
        if check["status"] != "passed" and not check["reason"]:
            yield f"$.rungs[{number}].reason", f"empty, although the status is {check['status']}"


def parse_result(value: object) -> Result:
    """Parse a value as a result of this version.

    Raises:
        ContractError: it is not one. The error has the path of the problem.
    """
    result = contract.convert_value(Result, value)
    wrong = dict(find_schema_faults(result))
    if wrong:
        raise contract.ContractError(wrong)
    return result


def list_result_faults(value: object) -> list[str]:
    """List the paths and problems that make a value no result of this version."""
    try:
        parse_result(value)
    except contract.ContractError as error:
        return [f"{path}: {what}" for path, what in error.paths.items()]
    return []


def load_result(path: Path) -> Result:
    """Read a result.

    Raises:
        ValueError: it is not a result of this version.
    """
    try:
        return parse_result(parse_tool_json(path.read_text(encoding="utf-8")))
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except contract.ContractError as error:
        why = f"is not a result of schema 1: {error}"
    except ValueError as error:
        why = f"is not JSON: {error}"
    raise ValueError(
        f"[CL-114] {path} {why}. Fix: use a result.json that this version wrote, or run ./fullmesh verify."
    )

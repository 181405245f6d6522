"""Read the answers of modules and results by their types (``fullmesh.observed``).

`convert_value` is strict: it rejects an unknown, missing or ill-typed field, and its error names the path. A
diagnosis also meets broken machines, so its lenient reader (``diagnose/shape.py``) uses the same types. Both check
texts against the patterns of ``fullmesh.node_values``.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from fullmesh import node_values
from fullmesh.observed.ranks import CollectedRanks, RankReport, StepsSaid

T = TypeVar("T")
WHOLE = "$"
MOST_SHOWN = 80  # characters of a rejected text
# Keys that Ansible adds to the result of a module (its documentation, "Return Values").
ANSIBLES = {
    "attempts",
    "changed",
    "deprecations",
    "diff",
    "failed",
    "failed_when_result",
    "invocation",
    "warnings",
}
ENDED = ("failed", "unreachable", "skipped")


class ContractError(ValueError):
    """An answer does not match its type.

    Attributes:
        paths: path -> error, such as ``$.facts.limits`` -> ``unknown field``.
    """

    def __init__(self, paths: Mapping[str, str]) -> None:
        self.paths = dict(paths)
        super().__init__("; ".join(f"{path}: {what}" for path, what in self.paths.items()))


Patterns = Mapping[str, Mapping[str, re.Pattern[str]]]


def find_field_patterns(
    kind: Any, patterns: Patterns = node_values.CHECKED
) -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of the texts of a record, by field."""
    record = f"{kind.__module__.rpartition('.')[2]}.{kind.__qualname__}"
    return patterns.get(record, {})


@cache
def narrow_type(kind: Any, pattern: str = "") -> Any:
    """Return the type with the patterns of ``fullmesh.node_values`` added to its texts.

    Args:
        kind: a TypedDict, or the type of a field.
        pattern: of each text in it.
    """
    if is_typeddict(kind):
        checked, optional = find_field_patterns(kind), kind.__optional_keys__
        hints = {
            name: narrow_type(hint, checked[name].pattern if name in checked else "")
            for name, hint in get_type_hints(kind).items()
        }
        if hints == get_type_hints(kind):
            return kind
        fields = {
            name: NotRequired[hint] if name in optional else Required[hint]
            for name, hint in hints.items()
        }
        return TypedDict(kind.__name__, fields)  # type: ignore[operator]
    if kind is str and pattern:
        return Annotated[str, msgspec.Meta(pattern=pattern)]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (list, dict):
        return origin[tuple(narrow_type(one, pattern) for one in inner)]
    if origin is UnionType:
        return Union[tuple(narrow_type(one, pattern) for one in inner)]  # noqa: UP007 (made of a tuple)
    return kind


STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")


def describe_refused_text(value: Any, path: str) -> str:
    """Describe a text that matches no pattern, and quote it if msgspec's path leads to it."""
    for name, index in STEP.findall(path):
        if index == "...":  # msgspec does not say which value of a mapping it is
            break
        value = value[name or int(index)]
    shown = f"{value[:MOST_SHOWN]!r}" if isinstance(value, str) else "a text in it"
    return f"{shown} has characters or a form that no such value has"


def convert_value(kind: type[T], value: object) -> T:
    """Convert a value to *kind*, which it must match exactly.

    Raises:
        ContractError: a field is missing, unknown, of another type, or a text that does not match. It has the path.
    """
    try:
        found: T = msgspec.convert(value, narrow_type(cast("Any", kind)))
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `")
        path = path.rstrip("`") or WHOLE
        if "matching regex" in text:
            text = describe_refused_text(value, path)
        raise ContractError({path: text}) from error
    except UnicodeEncodeError:
        # JSON allows half a surrogate pair in a key. msgspec stops there, even if the key is unknown.
        return convert_value(
            kind, json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        )
    # msgspec ignores the unknown keys of a TypedDict (its documentation, "Supported Types"), so compare the value with
    # the result. Equality is checked first, because the search took 10 s for 1,000 nodes.
    unknown = (
        dict.fromkeys(find_unknown_paths(value, found), "unknown field") if value != found else {}
    )
    if unknown:
        raise ContractError(unknown)
    if kind is CollectedRanks:
        validate_rank_steps(cast("CollectedRanks", found))
    return found


STEPS = get_type_hints(StepsSaid)


def collect_step_data(report: RankReport) -> dict[str, object]:
    """Map each step of a rank to its raw data, if the step succeeded or reported its data before it ended."""
    said = [one for one in report["events"] if one["state"] in ("begin", "ok") and "data" in one]
    return {one["step"]: one["data"] for one in said}


def convert_rank_steps(report: RankReport) -> StepsSaid:
    """Convert the data of each step of a rank. Steps that failed or returned malformed data are left out.

    Malformed data is reported once, when answers are read (VC-307), so rules need not check it.
    """
    whole = {}
    for step, data in collect_step_data(report).items():
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            whole[step] = msgspec.convert(data, STEPS[step])
    return cast("StepsSaid", whole)


def validate_rank_steps(found: CollectedRanks) -> None:
    """Check the data of every rank's steps against their types.

    Raises:
        ContractError: a step is unknown, or its data does not match its type.
    """
    for rank, report in found["ranks"].items():
        try:
            convert_value(StepsSaid, collect_step_data(report))
        except ContractError as error:
            paths = {f"$.ranks.{rank}{path[1:]}": what for path, what in error.paths.items()}
            raise ContractError(paths) from error


def find_unknown_paths(value: object, found: object, path: str = WHOLE) -> Iterator[str]:
    """Yield the paths that exist in *value* but not in *found*."""
    if isinstance(value, Mapping) and isinstance(found, Mapping):
        for key, one in value.items():
            if key in found:
                yield from find_unknown_paths(one, found[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(value, Sequence) and isinstance(found, Sequence) and not isinstance(value, str):
        for number, (one, other) in enumerate(zip(value, found, strict=True)):
            yield from find_unknown_paths(one, other, f"{path}[{number}]")


def convert_answer(kind: type[T], said: Mapping[str, Any]) -> T | None:
    """Convert the result that Ansible registered for a module. Return None if the module did not run or failed.

    Raises:
        ContractError: it does not match *kind*.
    """
    if any(said.get(word) for word in ENDED):
        return None
    return convert_value(kind, {key: value for key, value in said.items() if key not in ANSIBLES})

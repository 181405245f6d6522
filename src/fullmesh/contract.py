"""What modules return, read by the types that they are written with (``fullmesh.observed``); results, likewise.

`read` is for answers that must be whole: it refuses an unknown, missing or ill-typed field and says where it stands.
A diagnosis meets machines that are broken; its lenient reader (``diagnose/shape.py``) is made from the same types.

Both hold texts against the patterns of ``fullmesh.node_values``.
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
MOST_SHOWN = 80  # characters of a text that is refused
# What Ansible adds to what a module returns (its documentation, "Return Values").
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
    """An answer is not what its type says.

    Attributes:
        paths: path -> what is wrong there, ``$.facts.limits`` -> ``unknown field``.
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
    """Return the type with the patterns of ``fullmesh.node_values`` at its texts.

    Args:
        kind: a TypedDict, or what stands in one.
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
    """Return a sentence about a text that matches no pattern, with the text where msgspec's path leads to it."""
    for name, index in STEP.findall(path):
        if index == "...":  # msgspec does not say which value of a mapping it is
            break
        value = value[name or int(index)]
    shown = f"{value[:MOST_SHOWN]!r}" if isinstance(value, str) else "a text in it"
    return f"{shown} has characters or a form that no such value has"


def convert_value(kind: type[T], value: object) -> T:
    """The value, which is exactly what *kind* says.

    Raises:
        ContractError: a field is missing, of another type, unknown, or a text that no such field has; with its path.
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
        # Half a pair of surrogates, which JSON may have, in a key: msgspec stops there, whether it is known or not.
        return convert_value(
            kind, json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        )
    # msgspec passes over the unknown keys of a TypedDict (its documentation, "Supported Types"), so they are what the
    # value has and its reading lacks.
    # What is equal has lost nothing, and that is soon seen; of a thousand nodes the search itself took ten seconds.
    unknown = (
        dict.fromkeys(find_unknown_paths(value, found), "unknown field") if value != found else {}
    )
    if unknown:
        raise ContractError(unknown)
    if kind is CollectedRanks:
        validate_rank_steps(cast("CollectedRanks", found))
    return found


STEPS = get_type_hints(StepsSaid)


def collect_step_data(told: RankReport) -> dict[str, Any]:
    """Step -> what it found, of a rank's steps that ended well, or said so before their end; as it was written down."""
    said = [one for one in told["events"] if one["state"] in ("begin", "ok") and "data" in one]
    return {one["step"]: one["data"] for one in said}


def convert_rank_steps(told: RankReport) -> StepsSaid:
    """What each step of a rank found; a step that failed, or found something of another form, found nothing.

    That a form is not right is said once, where answers are read (VC-307); no rule has to look for it.
    """
    whole = {}
    for step, data in collect_step_data(told).items():
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            whole[step] = msgspec.convert(data, STEPS[step])
    return cast("StepsSaid", whole)


def validate_rank_steps(found: CollectedRanks) -> None:
    """Hold what the steps of every rank found against their types.

    Raises:
        ContractError: a step is not known, or found something else than its type says.
    """
    for rank, told in found["ranks"].items():
        try:
            convert_value(StepsSaid, collect_step_data(told))
        except ContractError as error:
            paths = {f"$.ranks.{rank}{path[1:]}": what for path, what in error.paths.items()}
            raise ContractError(paths) from error


def find_unknown_paths(value: object, found: object, path: str = WHOLE) -> Iterator[str]:
    """The paths of what stands in *value* and not in *found*."""
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
    """What a module returned, of what Ansible registered; None where it did not run or did not end well.

    Raises:
        ContractError: it is not what *kind* says.
    """
    if any(said.get(word) for word in ENDED):
        return None
    return convert_value(kind, {key: value for key, value in said.items() if key not in ANSIBLES})

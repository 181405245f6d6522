"""What modules return, read by the types that they are written with (``fullmesh.observed``); results, likewise.

`read` is for answers that must be whole: it refuses an unknown, missing or ill-typed field and says where it stands.
A diagnosis meets machines that are broken; its lenient reader (``diagnose/shape.py``) is made from the same types.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

from fullmesh.observed.ranks import Collected, RankSaid, StepsSaid

T = TypeVar("T")
WHOLE = "$"
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


def read(kind: type[T], value: object) -> T:
    """The value, which is exactly what *kind* says.

    Raises:
        ContractError: a field is missing, of another type, or unknown; with its path.
    """
    try:
        found: T = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `")
        raise ContractError({path.rstrip("`") or WHOLE: text}) from error
    except UnicodeEncodeError:
        # Half a pair of surrogates, which JSON may have, in a key: msgspec stops there, whether it is known or not.
        return read(
            kind, json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        )
    # msgspec passes over the unknown keys of a TypedDict (its documentation, "Supported Types"), so they are what the
    # value has and its reading lacks.
    # What is equal has lost nothing, and that is soon seen; of a thousand nodes the search itself took ten seconds.
    unknown = dict.fromkeys(lost(value, found), "unknown field") if value != found else {}
    if unknown:
        raise ContractError(unknown)
    if kind is Collected:
        read_steps(cast("Collected", found))
    return found


STEPS = get_type_hints(StepsSaid)


def found_by(told: RankSaid) -> dict[str, Any]:
    """Step -> what it found, of a rank's steps that ended well, or said so before their end; as it was written down."""
    said = [one for one in told["events"] if one["state"] in ("begin", "ok") and "data" in one]
    return {one["step"]: one["data"] for one in said}


def steps_of(told: RankSaid) -> StepsSaid:
    """What each step of a rank found; a step that failed, or found something of another form, found nothing.

    That a form is not right is said once, where answers are read (VC-307); no rule has to look for it.
    """
    whole = {}
    for step, data in found_by(told).items():
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            whole[step] = msgspec.convert(data, STEPS[step])
    return cast("StepsSaid", whole)


def read_steps(found: Collected) -> None:
    """Hold what the steps of every rank found against their types.

    Raises:
        ContractError: a step is not known, or found something else than its type says.
    """
    for rank, told in found["ranks"].items():
        try:
            read(StepsSaid, found_by(told))
        except ContractError as error:
            paths = {f"$.ranks.{rank}{path[1:]}": what for path, what in error.paths.items()}
            raise ContractError(paths) from error


def lost(value: object, found: object, path: str = WHOLE) -> Iterator[str]:
    """The paths of what stands in *value* and not in *found*."""
    if isinstance(value, Mapping) and isinstance(found, Mapping):
        for key, one in value.items():
            if key in found:
                yield from lost(one, found[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(value, Sequence) and isinstance(found, Sequence) and not isinstance(value, str):
        for number, (one, other) in enumerate(zip(value, found, strict=True)):
            yield from lost(one, other, f"{path}[{number}]")


def answer(kind: type[T], said: Mapping[str, Any]) -> T | None:
    """What a module returned, of what Ansible registered; None where it did not run or did not end well.

    Raises:
        ContractError: it is not what *kind* says.
    """
    if any(said.get(word) for word in ENDED):
        return None
    return read(kind, {key: value for key, value in said.items() if key not in ANSIBLES})

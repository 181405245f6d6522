"""Finds regular expressions whose time can grow faster than the text: by their structure, nothing is timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from re import _constants as sre_constants  # type: ignore[attr-defined]
    from re import _parser as sre_parse  # type: ignore[attr-defined]
except ImportError:  # Python 3.9 and 3.10
    import sre_constants
    import sre_parse

# ASCII, and one number each for all other digits, blanks, letters, and the rest.
DIGIT, BLANK, LETTER, REST = range(128, 132)
ALL = frozenset(range(132))
CLASSES = {
    "CATEGORY_DIGIT": frozenset(map(ord, "0123456789")) | {DIGIT},
    "CATEGORY_SPACE": frozenset(map(ord, " \t\n\r\f\v")) | {BLANK},
    "CATEGORY_WORD": frozenset(n for n in range(128) if chr(n).isalnum() or chr(n) == "_")
    | {DIGIT, LETTER},
}
REPEATS = (sre_constants.MAX_REPEAT, sre_constants.MIN_REPEAT)
EMPTY = (sre_constants.AT, sre_constants.ASSERT, sre_constants.ASSERT_NOT)


def codes(av: Any) -> tuple[int, ...]:
    return av if isinstance(av, tuple) else (av,)


def one_of(*numbers: int) -> frozenset[int]:
    """Return characters by their numbers in this file. All characters beyond ASCII count as one."""
    found = {one for one in numbers if one < DIGIT}
    beyond = {DIGIT, BLANK, LETTER, REST} if max(numbers) >= DIGIT else set()
    return frozenset(found | beyond)


def of_category(name: Any) -> frozenset[int]:
    text = str(name)
    positive = text.replace("_NOT_", "_")
    found = CLASSES[positive]
    return ALL - found if "_NOT_" in text else found


def of_set(items: Any) -> frozenset[int]:
    """The characters of a class in brackets."""
    found: set[int] = set()
    negated = False
    others = any(
        op in (sre_constants.LITERAL, sre_constants.RANGE) and max(codes(av)) >= DIGIT
        for op, av in items
    )
    for op, av in items:
        if op is sre_constants.NEGATE:
            negated = True
        elif op is sre_constants.LITERAL:
            found |= one_of(av)
        elif op is sre_constants.RANGE:
            found |= one_of(*(n for n in range(av[0], min(av[1], 127) + 1)), *av[1:])
        elif op is sre_constants.CATEGORY:
            found |= of_category(av)
    return ALL - {n for n in found if n < DIGIT or not others} if negated else frozenset(found)


def characters(op: Any, av: Any) -> frozenset[int]:
    """Return all characters that an item can match."""
    if op in EMPTY:
        return frozenset()
    readers: dict[Any, Callable[[], frozenset[int]]] = {
        sre_constants.LITERAL: lambda: one_of(av),
        sre_constants.NOT_LITERAL: lambda: ALL - {av},
        sre_constants.IN: lambda: of_set(av),
        sre_constants.CATEGORY: lambda: of_category(av),
        sre_constants.MAX_REPEAT: lambda: of_all(av[2]),
        sre_constants.MIN_REPEAT: lambda: of_all(av[2]),
        sre_constants.SUBPATTERN: lambda: of_all(av[3]),
        sre_constants.BRANCH: lambda: frozenset().union(*map(of_all, av[1])),
    }
    return readers.get(op, lambda: ALL)()


def of_all(items: Any) -> frozenset[int]:
    return frozenset().union(*(characters(op, av) for op, av in items))


def nullable(op: Any, av: Any) -> bool:
    """Return whether an item matches nothing as well."""
    if op in EMPTY:
        return True
    if op in REPEATS:
        return av[0] == 0 or all(nullable(*one) for one in av[2])
    if op is sre_constants.SUBPATTERN:
        return all(nullable(*one) for one in av[3])
    if op is sre_constants.BRANCH:
        return any(all(nullable(*one) for one in branch) for branch in av[1])
    return False


def endless(op: Any, av: Any) -> bool:
    return op in REPEATS and av[1] is sre_constants.MAXREPEAT


def sequences(items: Any) -> list[list[Any]]:
    """Each way through the branches, as a list without groups; a repeat stays whole."""
    found: list[list[Any]] = [[]]
    for op, av in items:
        if op is sre_constants.SUBPATTERN:
            more = sequences(av[3])
        elif op is sre_constants.BRANCH:
            more = [one for branch in av[1] for one in sequences(branch)]
        else:
            more = [[(op, av)]]
        found = [[*one, *other] for one in found for other in more][:200]
    return found


def inner(items: Any) -> list[Any]:
    """Every repeat in a pattern."""
    found = []
    for op, av in items:
        if op in REPEATS:
            found += [(op, av), *inner(av[2])]
        elif op is sre_constants.SUBPATTERN:
            found += inner(av[3])
        elif op is sre_constants.BRANCH:
            found += [one for branch in av[1] for one in inner(branch)]
        elif op in (sre_constants.ASSERT, sre_constants.ASSERT_NOT):
            found += inner(av[1])
    return found


def within(op: Any, av: Any, known: frozenset[int]) -> bool:
    """Return whether a repeat can match something, all of it of known characters."""
    return any(
        all(nullable(*one) or characters(*one) & known for one in way)
        and any(characters(*one) & known for one in way)
        for way in sequences(av[2])
    )


def doubled(items: Any) -> str:
    """Two endless repeats that can share characters, with nothing between them that both lack."""
    for way in sequences(items):
        for at, (op, av) in enumerate(way):
            if not endless(op, av):
                continue
            shared = characters(op, av)
            for place, (other, value) in enumerate(way[at + 1 :], at + 1):
                own = characters(other, value)
                if endless(other, value) and within(other, value, shared) and within(op, av, own):
                    rest = way[place + 1 :]
                    if any(not nullable(*one) or one[0] is sre_constants.AT for one in rest):
                        return "two endless repeats share characters"
                if not nullable(other, value):
                    if not shared & own:
                        break
                    shared &= own if not endless(other, value) else shared
    return ""


def nested(items: Any) -> str:
    """An endless repeat of an endless repeat, with nothing in between that only one of them has."""
    for op, av in inner(items):
        if not endless(op, av):
            continue
        for way in sequences(av[2]):
            for at, (one, value) in enumerate(way):
                if endless(one, value) and all(
                    nullable(*other) or characters(*other) & characters(one, value)
                    for place, other in enumerate(way)
                    if place != at
                ):
                    return "an endless repeat of an endless repeat"
    return ""


def leading(items: Any) -> str:
    """It begins with an endless repeat: a search tries it at every place of a long run."""
    for way in sequences(items):
        if (
            way
            and endless(*way[0])
            and any(not nullable(*one) or one[0] is sre_constants.AT for one in way[1:])
        ):
            return "a search begins with an endless repeat"
    return ""


def why_superlinear(pattern: str, flags: int, *, searched: bool) -> str:
    """Return why a pattern's time may grow faster than the text; empty if it does not."""
    items = sre_parse.parse(pattern, flags)
    return nested(items) or doubled(items) or (leading(items) if searched else "")

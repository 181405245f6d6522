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


def get_operand_codes(av: Any) -> tuple[int, ...]:
    return av if isinstance(av, tuple) else (av,)


def map_characters(*numbers: int) -> frozenset[int]:
    """Return characters by their numbers in this file. All characters beyond ASCII count as one."""
    found = {one for one in numbers if one < DIGIT}
    beyond = {DIGIT, BLANK, LETTER, REST} if max(numbers) >= DIGIT else set()
    return frozenset(found | beyond)


def list_category_characters(name: Any) -> frozenset[int]:
    text = str(name)
    positive = text.replace("_NOT_", "_")
    found = CLASSES[positive]
    return ALL - found if "_NOT_" in text else found


def list_set_characters(items: Any) -> frozenset[int]:
    """The characters of a class in brackets."""
    found: set[int] = set()
    negated = False
    others = any(
        op in (sre_constants.LITERAL, sre_constants.RANGE) and max(get_operand_codes(av)) >= DIGIT
        for op, av in items
    )
    for op, av in items:
        if op is sre_constants.NEGATE:
            negated = True
        elif op is sre_constants.LITERAL:
            found |= map_characters(av)
        elif op is sre_constants.RANGE:
            found |= map_characters(*(n for n in range(av[0], min(av[1], 127) + 1)), *av[1:])
        elif op is sre_constants.CATEGORY:
            found |= list_category_characters(av)
    return ALL - {n for n in found if n < DIGIT or not others} if negated else frozenset(found)


def list_item_characters(op: Any, av: Any) -> frozenset[int]:
    """Return all characters that an item can match."""
    if op in EMPTY:
        return frozenset()
    readers: dict[Any, Callable[[], frozenset[int]]] = {
        sre_constants.LITERAL: lambda: map_characters(av),
        sre_constants.NOT_LITERAL: lambda: ALL - {av},
        sre_constants.IN: lambda: list_set_characters(av),
        sre_constants.CATEGORY: lambda: list_category_characters(av),
        sre_constants.MAX_REPEAT: lambda: list_all_characters(av[2]),
        sre_constants.MIN_REPEAT: lambda: list_all_characters(av[2]),
        sre_constants.SUBPATTERN: lambda: list_all_characters(av[3]),
        sre_constants.BRANCH: lambda: frozenset().union(*map(list_all_characters, av[1])),
    }
    return readers.get(op, lambda: ALL)()


def list_all_characters(items: Any) -> frozenset[int]:
    return frozenset().union(*(list_item_characters(op, av) for op, av in items))


def can_match_nothing(op: Any, av: Any) -> bool:
    """Return whether an item matches nothing as well."""
    if op in EMPTY:
        return True
    if op in REPEATS:
        return av[0] == 0 or all(can_match_nothing(*one) for one in av[2])
    if op is sre_constants.SUBPATTERN:
        return all(can_match_nothing(*one) for one in av[3])
    if op is sre_constants.BRANCH:
        return any(all(can_match_nothing(*one) for one in branch) for branch in av[1])
    return False


def is_endless(op: Any, av: Any) -> bool:
    return op in REPEATS and av[1] is sre_constants.MAXREPEAT


def list_sequences(items: Any) -> list[list[Any]]:
    """Each way through the branches, as a list without groups; a repeat stays whole."""
    found: list[list[Any]] = [[]]
    for op, av in items:
        if op is sre_constants.SUBPATTERN:
            more = list_sequences(av[3])
        elif op is sre_constants.BRANCH:
            more = [one for branch in av[1] for one in list_sequences(branch)]
        else:
            more = [[(op, av)]]
        found = [[*one, *other] for one in found for other in more][:200]
    return found


def list_repeats(items: Any) -> list[Any]:
    """Every repeat in a pattern."""
    found = []
    for op, av in items:
        if op in REPEATS:
            found += [(op, av), *list_repeats(av[2])]
        elif op is sre_constants.SUBPATTERN:
            found += list_repeats(av[3])
        elif op is sre_constants.BRANCH:
            found += [one for branch in av[1] for one in list_repeats(branch)]
        elif op in (sre_constants.ASSERT, sre_constants.ASSERT_NOT):
            found += list_repeats(av[1])
    return found


def can_match_in(op: Any, av: Any, known: frozenset[int]) -> bool:
    """Return whether a repeat can match something, all of it of known characters."""
    return any(
        all(can_match_nothing(*one) or list_item_characters(*one) & known for one in way)
        and any(list_item_characters(*one) & known for one in way)
        for way in list_sequences(av[2])
    )


def find_doubled_repeat(items: Any) -> str:
    """Two endless repeats that can share characters, with nothing between them that both lack."""
    for way in list_sequences(items):
        for at, (op, av) in enumerate(way):
            if not is_endless(op, av):
                continue
            shared = list_item_characters(op, av)
            for place, (other, value) in enumerate(way[at + 1 :], at + 1):
                own = list_item_characters(other, value)
                if (
                    is_endless(other, value)
                    and can_match_in(other, value, shared)
                    and can_match_in(op, av, own)
                ):
                    rest = way[place + 1 :]
                    if any(
                        not can_match_nothing(*one) or one[0] is sre_constants.AT for one in rest
                    ):
                        return "two endless repeats share characters"
                if not can_match_nothing(other, value):
                    if not shared & own:
                        break
                    shared &= own if not is_endless(other, value) else shared
    return ""


def find_nested_repeat(items: Any) -> str:
    """An endless repeat of an endless repeat, with nothing in between that only one of them has."""
    for op, av in list_repeats(items):
        if not is_endless(op, av):
            continue
        for way in list_sequences(av[2]):
            for at, (one, value) in enumerate(way):
                if is_endless(one, value) and all(
                    can_match_nothing(*other)
                    or list_item_characters(*other) & list_item_characters(one, value)
                    for place, other in enumerate(way)
                    if place != at
                ):
                    return "an endless repeat of an endless repeat"
    return ""


def find_leading_repeat(items: Any) -> str:
    """It begins with an endless repeat: a search tries it at every place of a long run."""
    for way in list_sequences(items):
        if (
            way
            and is_endless(*way[0])
            and any(not can_match_nothing(*one) or one[0] is sre_constants.AT for one in way[1:])
        ):
            return "a search begins with an endless repeat"
    return ""


def explain_growth(pattern: str, flags: int, *, searched: bool) -> str:
    """Return why a pattern's time may grow faster than the text; empty if it does not."""
    items = sre_parse.parse(pattern, flags)
    return (
        find_nested_repeat(items)
        or find_doubled_repeat(items)
        or (find_leading_repeat(items) if searched else "")
    )

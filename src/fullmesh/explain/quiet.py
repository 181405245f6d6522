"""Find the needles that can occur in a block of a log, so that most of a long log needs no search.

Lines of a log repeat with other numbers. A line without its digits is its shape, and a shape is searched once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fullmesh.explain.reader import Block

DIGITS = b"0123456789"
LEAST = 3  # characters of a needle without its digits. Shorter ones are searched in every block
MOST_SHAPES = 50_000  # that are remembered
FIRST, MOST_NEW = (
    1 << 23,
    0.5,
)  # after so many bytes, give up if a larger share of them has new shapes
NONE: frozenset[str] = frozenset()


class QuietLines:
    """Remembers which needles the shapes of lines have. The size does not depend on the logs.

    Attributes:
        shapes: gate -> needle without its digits -> the needles.
        always: needles that are almost only digits.
        every: all needles.
        quiet: hashes of shapes without a needle.
        loud: hash of another shape -> its needles.
        read: bytes of the blocks so far.
        new: bytes of shapes that were seen for the first time.
        is_useful: whether enough lines repeat.
    """

    def __init__(self, needles: Mapping[str, Iterable[str]]) -> None:
        self.shapes: dict[bytes, dict[bytes, frozenset[str]]] = {}
        self.always: list[str] = []
        self.every = frozenset(needle for group in needles.values() for needle in group)
        for gate, group in needles.items():
            for needle in group:
                shape = needle.encode().translate(None, DIGITS)
                if len(shape) < LEAST:
                    self.always.append(needle)
                    continue
                known = self.shapes.setdefault(gate.encode().translate(None, DIGITS), {})
                known[shape] = known.get(shape, NONE) | {needle}
        self.quiet: set[int] = set()
        self.loud: dict[int, frozenset[str]] = {}
        self.read = self.new = 0
        self.is_useful = True

    def find_needles(self, block: Block) -> frozenset[str]:
        """Return the needles that may occur in a block."""
        text = block.text[block.start : block.stop]
        if not self.is_useful or not text.endswith("\n"):  # a needle can end after the block
            return self.every
        found = NONE.union(needle for needle in self.always if needle in text)
        shapes = text.encode("utf-8", "replace").translate(None, DIGITS).replace(b"\r", b"\n")
        lines = set(shapes.split(b"\n"))
        hashes = set(map(hash, lines)) - self.quiet
        if hashes:
            new = hashes - self.loud.keys()
            if new:
                found |= self._learn([line for line in lines if hash(line) in new])
            found |= NONE.union(*{self.loud[one] for one in hashes - new})
        self._weigh(len(shapes))
        return found

    def _learn(self, lines: list[bytes]) -> frozenset[str]:
        """Search lines with new shapes, remember them, and return their needles."""
        text = b"\n".join(lines)
        self.new += len(text)
        found = {
            shape: needles
            for gate, group in self.shapes.items()
            if gate in text
            for shape, needles in group.items()
            if shape in text
        }
        for line in lines:
            if len(self.quiet) + len(self.loud) >= MOST_SHAPES:
                break
            needles = NONE.union(*(found[shape] for shape in found if shape in line))
            if needles:
                self.loud[hash(line)] = needles
            else:
                self.quiet.add(hash(line))
        return NONE.union(*found.values())

    def _weigh(self, size: int) -> None:
        """Give up if too few lines repeat."""
        self.read += size
        if self.read > FIRST:
            self.is_useful = self.new < self.read * MOST_NEW

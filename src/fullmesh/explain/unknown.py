"""Errors that no rule knows: the first lines of each rank, so that a log with errors is never called healthy."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fullmesh.causes.launch import (
    lg319_own_error,
    lg344_missing_file,
    lg345_no_permission,
    lg346_python_package,
)
from fullmesh.causes.logs import MOST_LINES, LogFinding, LogLine, parse_line_rank
from fullmesh.causes.unknown import lg701_unknown_errors, lg913_survived_errors
from fullmesh.explain.error_lines import (
    ENDS_TRACEBACK,
    FINISHED_NEEDLES,
    GATED_NEEDLES,
    LAST_ERROR,
    NEEDLES,
    PROGRESS_NEEDLES,
    TRACEBACK,
    ErrorKind,
    classify_line,
    find_announced_text,
    find_libraries,
    is_advice,
    is_caught_exception,
    is_consequence,
    is_echo,
    is_failed_attempt,
    is_job_finished,
    is_ready,
    is_sign_of_error,
    is_training_progress,
    is_wrapper,
    parse_clock,
    parse_frame,
    parse_own_error,
)
from fullmesh.explain.reader import Block, find_line_bounds
from fullmesh.printed import clean_and_shorten

PER_RANK = 2  # first error lines of a rank, in addition to its last exception
MOST_RANKS = 64  # of one file
MOST_SHOWN = 8
MOST_HITS = 400  # lines per file and needle to examine, then only the last one of each block
MOST_OPEN = 16  # tracebacks of one file that have not ended
FOREIGN = 60  # lines of other processes inside a traceback
FRAMES = 600  # lines of a traceback
TRIES, FIRST_TRIES = 3, 50  # lines per needle and block to examine for success
TAIL = 1 << 15  # characters at the end of a log to examine without needles
MOST_ADVICE = 8  # lines of a file
ADVICE_LINES, ADVICE_TEXT = (
    4,
    1200,
)  # lines and characters from an error line on that may have advice
BOX = "╭"  # of a traceback that rich drew
CHAINED = ("During handling of the above exception", "the direct cause of the following exception")
CUT_FRAMES = 3  # lines above an exception without a heading that may name its place
QUOTED = 240  # characters of a line in the sentence
DIGITS = re.compile(r"\d")
SHARED_LIBRARY = re.compile(
    r"\.so(?:\.\d{1,5}){0,3}: "
)  # the loader rejected it, so the package is there


@dataclass(frozen=True)
class ErrorLine:
    """An error line.

    Attributes:
        codes: rules that match it and may still be dropped at the end.
        survivable: whether the process may have continued after it.
        place: where the program raised it.
        own: its exception and message, if it is one of the program's own.
        more: the next line, if the message only announces it.
    """

    kind: ErrorKind
    evidence: LogLine
    codes: frozenset[str] = frozenset()
    survivable: bool = True
    place: str = ""
    own: tuple[str, str] | None = None
    more: str = ""

    def is_cleared_by(self, *, progress: int, finished: int) -> bool:
        """Return whether progress or success in these lines shows that the job survived the error."""
        if not self.survivable or self.kind is ErrorKind.CRASH:
            return False
        weak = self.kind >= ErrorKind.LEVEL
        return self.evidence.line < (max(progress, finished) if weak else finished)


# an error of the program's own whose kind says more than that the program failed
OWN_CAUSES = {
    "FileNotFoundError": lg344_missing_file.CAUSE,
    "PermissionError": lg345_no_permission.CAUSE,
    "ModuleNotFoundError": lg346_python_package.CAUSE,
    "ImportError": lg346_python_package.CAUSE,
}
NO_LINE = ErrorLine(ErrorKind.WORD, LogLine("", 0, ""))


@dataclass
class OpenTraceback:
    """A traceback whose last line was not read yet.

    Attributes:
        column: the column in which the text of its lines begins, or -1 before the first frame.
        prefix: the text before that, without its digits (a time stamp).
        ignored: whether Python only reports that it ignored the exception.
        echo: its last line, if that only repeats another line in general words.
        is_secondary: whether Python raised it while it handled another exception, or from it.
        place: the last line of the program's own files in it, or of any file.
    """

    first: LogLine
    survivable: bool
    ignored: bool
    is_secondary: bool = False
    column: int = -1
    prefix: str = ""
    frames: int = FRAMES
    foreign: int = FOREIGN
    has_ended: bool = False
    echo: ErrorLine | None = None
    place: str = ""
    has_own_place: bool = False

    def follow_line(self, line: str) -> bool | None:
        """Take the next line of the log: whether it is the last one, None for another process's line."""
        self.frames -= 1
        if self.column < 0:
            self.column = line.find('  File "')
            self.prefix = DIGITS.sub("0", line[: max(0, self.column)])
            is_own = self.column >= 0
        else:
            is_own = DIGITS.sub("0", line[: self.column]) == self.prefix
        if is_own and line[self.column : self.column + 1] in ("", " ", "\t"):
            frame = parse_frame(line)
            if frame and (frame[1] or not self.has_own_place):
                self.place, self.has_own_place = frame
            return False
        if is_own and ENDS_TRACEBACK.match(line[self.column :]):
            return True
        self.foreign -= 1
        return None

    @property
    def is_over(self) -> bool:
        """Return whether its last line was found, or can no longer be found."""
        return self.has_ended or self.foreign < 0 or self.frames < 0

    @property
    def as_error(self) -> ErrorLine:
        """Return its first line, for a traceback without a last one."""
        return ErrorLine(ErrorKind.EXCEPTION, self.first, survivable=self.survivable)


@dataclass
class FileErrors:
    """The error lines of one file.

    Attributes:
        finished: line that reported the first success, or 0.
        latest: line of the block at hand that reported the last one.
        waiting: the last try to reach a peer that had no success.
        echo: the first exception that only repeats another error, which may be in no log.
        own: the first error of the program's own.
        lines: number of the last line that is not empty.
        tail: the end of the text, whose last line has the number *tail_line*.
        known: lines of the tail that were examined, with the rules that may be dropped at the end.
        advice: lines next to errors in which a program names the cause or the fix.
    """

    first: dict[str, list[ErrorLine]] = field(default_factory=dict)
    last: dict[str, ErrorLine] = field(default_factory=dict)
    survived: list[LogLine] = field(default_factory=list)
    open: list[OpenTraceback] = field(default_factory=list)
    hits: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    finished: int = 0
    latest: int = 0
    waiting: ErrorLine | None = None
    echo: ErrorLine | None = None
    own: ErrorLine | None = None
    lines: int = 0
    tail: str = ""
    tail_line: int = 1
    known: dict[int, frozenset[str]] = field(default_factory=dict)
    advice: dict[int, LogLine] = field(default_factory=dict)

    def find_advice(self, name: str, block: Block, number: int, start: int) -> None:
        """Keep the advice in an error line and in the lines after it."""
        if len(self.advice) >= MOST_ADVICE:
            return
        text = block.text[start : start + ADVICE_TEXT]
        for index, line in enumerate(text.split("\n")[:ADVICE_LINES]):
            if is_advice(line):
                self.advice.setdefault(number + index, _make_evidence(name, number + index, line))
                return

    def add(self, line: ErrorLine) -> None:
        """Keep a rank's first error lines, strongest kinds first, and its last exception."""
        rank = line.evidence.rank
        if line.own and (self.own is None or line.evidence.line < self.own.evidence.line):
            self.own = line
        if rank not in self.first and len(self.first) >= MOST_RANKS:
            return
        kept = [*self.first.get(rank, []), line]
        kept.sort(key=lambda one: (one.kind >= ErrorKind.LEVEL, one.evidence.line))
        self.first[rank] = kept[:PER_RANK]
        if line.kind <= ErrorKind.EXCEPTION:
            self.last[rank] = line

    def clear(self, *, progress: int, finished: int) -> None:
        """Move the errors that the job survived out of the list."""
        if self.own is not None and self.own.is_cleared_by(progress=progress, finished=finished):
            self.own = None
        for rank, lines in list(self.first.items()):
            gone = [o for o in lines if o.is_cleared_by(progress=progress, finished=finished)]
            self.survived += [one.evidence for one in gone][: PER_RANK - len(self.survived)]
            self.first[rank] = [one for one in lines if one not in gone]
            last = self.last.get(rank)
            if last is not None and last.is_cleared_by(progress=progress, finished=finished):
                del self.last[rank]

    def examine_tail(self, name: str) -> list[ErrorLine]:
        """Read the last lines without needles: keep the errors, and return the lines that only may be errors."""
        first = self.tail_line - self.tail.count("\n")
        cut = len(self.tail) == TAIL  # its first line is not complete
        lines = [
            (number, piece)
            for number, line in enumerate(self.tail.split("\n")[cut:], first + cut)
            for piece in line.split("\r")
            if piece
        ]
        self.tail = ""
        progress = max(
            (n for n, line in lines if is_training_progress(line) or is_ready(line)), default=0
        )
        finished = max((n for n, line in lines if is_job_finished(line)), default=0)
        signs = []
        for number, line in lines:
            codes = self.known.get(number)
            if codes == frozenset():
                continue
            if kind := classify_line(line):
                self.add(ErrorLine(kind, _make_evidence(name, number, line), codes or frozenset()))
            elif not self.finished and number > progress and is_sign_of_error(line):
                evidence = _make_evidence(name, number, line)
                signs.append(ErrorLine(ErrorKind.SIGN, evidence, codes or frozenset()))
        self.clear(progress=progress, finished=finished)
        return signs

    def of_rank(self, rank: str) -> Iterator[ErrorLine]:
        """Return the lines of a rank in order."""
        yield from self.first[rank]
        if (last := self.last.get(rank)) is not None and last not in self.first[rank]:
            yield last


class UnknownErrors:
    """The error lines of all logs. The size depends on the number of files and ranks, not on the logs."""

    def __init__(self) -> None:
        self.files: dict[str, FileErrors] = {}

    def note_end(self, name: str, block: Block, needles: Collection[str]) -> None:
        """Record the line in which a log first reports success. Call it before :meth:`take`."""
        state = self.files.setdefault(name, FileErrors())
        ends = [needle for needle in FINISHED_NEEDLES if needle in needles]
        state.latest = _find_last_line(block, ends, is_job_finished)
        if state.latest and not state.finished:
            state.finished = (
                _find_first_line(block, FINISHED_NEEDLES, is_job_finished) or state.latest
            )

    def take(
        self,
        name: str,
        block: Block,
        matched: Mapping[int, frozenset[str]],
        needles: Collection[str],
    ) -> None:
        """Search one block for some needles.

        *matched* has the rules that know a line, empty if one certainly does.
        """
        state = self.files[name]
        found: dict[int, ErrorLine | None] = {}
        for traceback in state.open:
            _find_traceback_end(state, traceback, block, block.start, found)
        gated = [
            needle
            for gate, group in GATED_NEEDLES.items()
            if gate in needles and block.text.find(gate, block.start) != -1
            for needle in group
        ]
        for needle in (*(one for one in NEEDLES if one in needles), *gated):
            for at in _find_needle_positions(state, block, needle):
                _collect_error_line(state, name, block, at, found)
        for traceback in state.open:
            if traceback.is_over and not traceback.has_ended and not traceback.ignored:
                state.add(traceback.as_error)
            state.echo = state.echo or traceback.echo
        state.open = [one for one in state.open if not one.is_over][:MOST_OPEN]
        for number, line in sorted(found.items()):
            codes = matched.get(number)
            if line is not None and (codes is None or codes):
                state.add(replace(line, codes=codes or line.codes))
        text = block.text[block.start : block.stop]
        own = text.rstrip()
        state.lines = block.line + own.count("\n") if own else state.lines
        state.known |= dict(matched) | dict.fromkeys(found, frozenset())
        state.tail = (state.tail + text)[-TAIL:]
        state.tail_line = block.line + text.count("\n")
        first = state.tail_line - state.tail.count("\n")
        state.known = {line: codes for line, codes in state.known.items() if line >= first}
        self._clear(state, block)

    def _clear(self, state: FileErrors, block: Block) -> None:
        if any(state.first.values()) or state.echo is not None:
            progress = _find_last_line(block, PROGRESS_NEEDLES, is_training_progress)
            if progress or state.latest:
                state.clear(progress=progress, finished=state.latest)
                echo = state.echo
                if echo is not None and echo.is_cleared_by(
                    progress=progress, finished=state.latest
                ):
                    state.echo = None

    def find_last_progress(self, name: str, block: Block) -> int:
        """Return the last line of a block that reports progress or success, or 0."""
        return max(
            self.files[name].latest,
            _find_last_line(block, PROGRESS_NEEDLES, is_training_progress),
        )

    def has_finished_before(self, name: str, line: int) -> bool:
        """Return whether a log reported success before a line."""
        return name in self.files and 0 < self.files[name].finished < line

    def lines(self, codes: Collection[str], *, is_alone: bool) -> list[ErrorLine]:
        """List the lines that no rule knows: the first of each rank, then the others.

        If no cause and no symptom was found (*is_alone*), lines that only may be errors are better than none.
        """
        ranks: list[list[ErrorLine]] = []
        signs: list[ErrorLine] = []
        for name, state in self.files.items():
            signs += state.examine_tail(name)
            for rank in state.first:
                lines = [one for one in state.of_rank(rank) if not one.codes.intersection(codes)]
                ranks += [lines] if lines else []
            ranks += [[one.as_error] for one in state.open if not one.ignored]
            if state.waiting is not None and state.waiting.evidence.line >= state.lines:
                ranks.append([state.waiting])
        if not ranks and is_alone:
            ranks = [[state.echo] for state in self.files.values() if state.echo is not None]
        if not ranks and is_alone:
            return signs
        ranks.sort(key=lambda lines: lines[0].kind >= ErrorKind.LEVEL)
        rounds = range(max((len(lines) for lines in ranks), default=0))
        return [lines[turn] for turn in rounds for lines in ranks if turn < len(lines)]

    def _describe_first(self, lines: Sequence[ErrorLine]) -> str:
        """Describe the first of several errors: by the times in the lines, or by its place if there is one log."""
        strong = [one for one in lines if one.kind < ErrorKind.LEVEL] or list(lines)
        causes = [one for one in strong if not is_consequence(one.evidence.text)] or strong
        first, when = _find_first(causes)
        if first is None:
            return ""
        who = f" (rank {first.evidence.rank})" if first.evidence.rank else ""
        place = f"{first.evidence.file}:{first.evidence.line}"
        raised = f" It was raised in {clean_and_shorten(first.place)}." if first.place else ""
        text = " ".join(
            clean_and_shorten(t, QUOTED) for t in (first.evidence.text, first.more) if t
        )
        if raised:
            text = text.rstrip(".") + "."
        start = "The first one is in" if len(strong) > 1 else "In"
        return f"{start} {place}{who}{when}: {text}{raised}"

    def find_own_error(self) -> LogFinding | None:
        """Return the finding about the first error of the program's own that no rule knows."""
        owns = [state.own for state in self.files.values() if state.own is not None]
        first = _find_first(owns)[0] or next(iter(owns), None)
        if first is None or first.own is None:
            return None
        if self._has_earlier_error(first):
            return None
        error, message = first.own
        fields = {
            "error": error,
            "message": f"{message[:QUOTED]} {first.more}".strip().rstrip("."),
            "rank": first.evidence.rank or "?",
            "place": f" It was raised in {first.place}." if first.place else "",
        }
        evidence = [first.evidence, *(one.evidence for one in owns if one is not first)]
        cause = OWN_CAUSES.get(error.rpartition(".")[2], lg319_own_error.CAUSE)
        if SHARED_LIBRARY.search(message):
            cause = lg319_own_error.CAUSE
        return LogFinding(cause, fields, evidence[:MOST_LINES], len(owns))

    def _has_earlier_error(self, own: ErrorLine) -> bool:
        """Return whether an exception or a crash, which is not the program's own, comes before its own error."""
        others = [
            line
            for state in self.files.values()
            for rank in state.first
            for line in state.of_rank(rank)
            if line.kind <= ErrorKind.REASON and not line.own and not line.codes
            if not is_consequence(line.evidence.text)
        ]
        return any(_find_first([own, other])[0] is other for other in others)

    def _describe_advice(self, lines: Sequence[ErrorLine]) -> str:
        """Quote what the program itself says about the cause, next to the first error that has such words."""
        for one in sorted(lines, key=lambda one: one.kind >= ErrorKind.LEVEL):
            near = range(one.evidence.line, one.evidence.line + ADVICE_LINES)
            for number, line in self.files[one.evidence.file].advice.items():
                if number in near:
                    return f"The program itself says: {clean_and_shorten(line.text, QUOTED)}"
        return ""

    def findings(self, codes: Collection[str], *, is_alone: bool) -> list[LogFinding]:
        """Return the findings from these lines, apart from the findings that have *codes*."""
        made = []
        if lines := self.lines(codes, is_alone=is_alone):
            shown = sorted(lines[:MOST_SHOWN], key=lambda one: one.kind >= ErrorKind.LEVEL)
            names = find_libraries([one.evidence.text for one in lines])
            text = (
                f"Lines are of {' and '.join(names)}, which explain-log does not know."
                if names
                else ""
            )
            if lines[0].kind is ErrorKind.SIGN:
                text = f"{text} They may be harmless, but the log ends after them.".strip()
            strong = "yes" if lines[0].kind <= ErrorKind.EXCEPTION else ""
            fields = {
                "libraries": text,
                "strong": strong,
                "first": self._describe_first(lines),
                "advice": self._describe_advice(lines),
            }
            evidence = [one.evidence for one in shown]
            made.append(LogFinding(lg701_unknown_errors.CAUSE, fields, evidence, len(lines)))
        survived = [one for state in self.files.values() for one in state.survived]
        if survived and not lines:
            made.append(
                LogFinding(lg913_survived_errors.CAUSE, {}, survived[:PER_RANK], len(survived))
            )
        return made


def _find_first(lines: Sequence[ErrorLine]) -> tuple[ErrorLine | None, str]:
    """Return the first error with its time: by the clocks, or by its place if there is one log, else None."""
    clocks = {id(one): parse_clock(one.evidence.text) for one in lines}
    shapes = {len(clock.split()) for clock in clocks.values()}
    if len(lines) > 1 and len(shapes) == 1 and 0 not in shapes:
        first = min(lines, key=lambda one: (clocks[id(one)], one.evidence.line))
        return first, f" at {clocks[id(first)]}"
    if len({one.evidence.file for one in lines}) == 1:
        return min(lines, key=lambda one: one.evidence.line), ""
    return None, ""


def _find_needle_positions(state: FileErrors, block: Block, needle: str) -> Iterator[int]:
    """Yield the positions of a needle in a block, at most one per line."""
    stop = block.stop + len(needle) - 1
    at = block.text.find(needle, block.start, stop)
    while at != -1:
        state.hits[needle] += 1
        if state.hits[needle] > MOST_HITS:
            yield block.text.rfind(needle, block.start, stop)
            return
        yield at
        end = block.text.find("\n", at)
        at = block.text.find(needle, end, stop) if end != -1 else -1


def _collect_error_line(
    state: FileErrors, name: str, block: Block, at: int, found: dict[int, ErrorLine | None]
) -> None:
    start, end = find_line_bounds(block.text, at, 0)
    number = block.line + block.text.count("\n", block.start, start)
    if number in found:
        return
    line = block.text[start:end]
    if block.text.startswith(TRACEBACK, at):
        before = block.text[find_line_bounds(block.text, at, 1)[0] : start]
        heading = line[: line.find(TRACEBACK)]
        ignored = "Exception ignored in" in before or "--- Logging error ---" in before
        caught = is_caught_exception(before) or is_caught_exception(heading)
        found[number] = None
        if BOX in heading:  # the frames have no prefix to follow, and the last line has a needle
            return
        chained = block.text[find_line_bounds(block.text, at, 2)[0] : start]
        traceback = OpenTraceback(
            _make_evidence(name, number, line),
            caught,
            ignored,
            is_secondary=any(words in chained for words in CHAINED),
        )
        _find_traceback_end(state, traceback, block, end + 1, found)
        state.open.append(traceback)
        return
    if block.text.startswith(LAST_ERROR, at):
        start, end = end + 1, find_line_bounds(block.text, min(end + 1, len(block.text) - 1), 0)[1]
        reason = block.text[start:end]
        if reason.strip() and number + 1 not in found:
            found[number + 1] = ErrorLine(
                ErrorKind.REASON, _make_evidence(name, number + 1, reason)
            )
        return
    kind = classify_line(line)
    if kind is not None:
        state.find_advice(name, block, number, start)
        more = find_announced_text(line, _read_next_line(block.text, end))
        error = ErrorLine(kind, _make_evidence(name, number, line), more=more)
        if kind is ErrorKind.EXCEPTION:
            above = block.text[find_line_bounds(block.text, at, CUT_FRAMES)[0] : start]
            frames = [frame for row in above.split("\n") if (frame := parse_frame(row))]
            place = frames[-1][0] if frames else ""
            error = replace(error, place=place, own=parse_own_error(line))
        elif kind is ErrorKind.LEVEL:
            error = replace(error, own=parse_own_error(line))
        found[number] = error
    elif is_failed_attempt(line):
        state.waiting = max(
            state.waiting or NO_LINE,
            ErrorLine(ErrorKind.WORD, _make_evidence(name, number, line)),
            key=lambda one: one.evidence.line,
        )


def _find_traceback_end(
    state: FileErrors,
    traceback: OpenTraceback,
    block: Block,
    at: int,
    found: dict[int, ErrorLine | None],
) -> None:
    """Find the last line of a traceback. None in *found* marks a line to ignore."""
    number = block.line + block.text.count("\n", block.start, at)
    while at < block.stop and not traceback.is_over:
        end = block.text.find("\n", at, block.stop)
        end = block.stop if end == -1 else end
        line = block.text[at:end]
        kind = traceback.follow_line(line)
        if kind is False:
            found[number] = None
        elif kind:
            traceback.has_ended = True
            if not traceback.ignored:
                state.find_advice(traceback.first.file, block, number, at)
            evidence = _make_evidence(traceback.first.file, number, line)
            error = ErrorLine(
                ErrorKind.EXCEPTION,
                evidence,
                survivable=traceback.survivable,
                place=traceback.place,
                own=None if traceback.is_secondary else parse_own_error(line),
                more=find_announced_text(line, _read_next_line(block.text, end)),
            )
            echoes = is_echo(line) or is_wrapper(line)
            found[number] = None if traceback.ignored or echoes else error
            traceback.echo = error if echoes and not traceback.ignored else None
        at, number = end + 1, number + 1


def _read_next_line(text: str, end: int) -> str:
    """Return the line after the one that ends at a position."""
    stop = text.find("\n", end + 1)
    return text[end + 1 : stop if stop != -1 else len(text)]


def _make_evidence(name: str, number: int, line: str) -> LogLine:
    return LogLine(name, number, clean_and_shorten(line.strip()), parse_line_rank(line))


def _find_first_line(
    block: Block, needles: Collection[str], is_wanted: Callable[[str], bool]
) -> int:
    """Return the number of the first line of a kind in a block, or 0."""
    best = 0
    for needle in needles:
        at = block.text.find(needle, block.start, block.stop)
        for _ in range(FIRST_TRIES):
            if at == -1:
                break
            start, end = find_line_bounds(block.text, at, 0)
            if is_wanted(block.text[start:end]):
                number = block.line + block.text.count("\n", block.start, start)
                best = min(best or number, number)
                break
            at = block.text.find(needle, end, block.stop)
    return best


def _find_last_line(
    block: Block, needles: Collection[str], is_wanted: Callable[[str], bool]
) -> int:
    """Return the number of the last line of a kind in a block, or 0."""
    best = 0
    for needle in needles:
        stop = block.stop
        if block.text.find(needle, block.start, stop) == -1:  # many times faster than rfind
            continue
        for _ in range(TRIES):
            at = block.text.rfind(needle, block.start, stop)
            if at == -1:
                break
            start, end = find_line_bounds(block.text, at, 0)
            if is_wanted(block.text[start:end]):
                best = max(best, block.line + block.text.count("\n", block.start, start))
                break
            stop = max(block.start, start)
    return best

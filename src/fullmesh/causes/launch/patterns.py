"""Patterns of several causes of start and end."""

from __future__ import annotations

from fullmesh.causes.logs import ExplainOptions, Fields, Pattern

# torchrun's block: host, rank, exitcode, error_file, traceback; more would reach into the block above
RANK = r"rank\s*: (?P<rank>\d+) \(local_rank: \d+\).{0,400}?"
HOST = r"(?:host\s*: (?P<host>\S{1,120}).{0,200}?)?"
BROKEN = ("LG-112", "LG-215", "LG-304", "LG-308", "LG-310", "LG-415", "LG-421")
TORCHRUN = (("launcher", "torchrun"),)
# how srun, a shell, Open MPI and Python write a signal
WORDS = {
    "SIGKILL": "Killed",
    "SIGBUS": "Bus error",
    "SIGSEGV": "Segmentation fault",
    "SIGABRT": "Aborted",
}


def build_signal_patterns(number: int, name: str) -> tuple[Pattern, ...]:
    """Build patterns for a signal as reported by a launcher, a shell, or the library that caught it."""
    words = WORDS[name]
    return (
        Pattern(" (SIG", rf"{HOST}{RANK}Signal {number} \({name}\)", before=4),
        Pattern(
            "failed (exitcode: -",
            rf"failed \(exitcode: -{number}\) (?P<rank>)(?P<host>)local_rank",
        ),
        Pattern(
            "terminated with signal SIG",
            rf"process (?P<rank>\d{{1,7}}) terminated with signal {name}(?P<host>)",
        ),
        Pattern(
            "terminated with code -",
            rf"\[rank: (?P<rank>\d{{1,7}})\] Child process with PID \d+ terminated with code"
            rf" -{number}(?P<host>)\b",
        ),
        Pattern(
            "srun: error: ",
            rf"srun: error: (?P<host>\S{{1,120}}): tasks? (?P<rank>[\d,-]{{1,80}}): {words}",
        ),
        Pattern(
            "exited on signal ",
            rf"process rank (?P<rank>\d{{1,7}}) with PID \d+ on node (?P<host>\S{{1,120}}) exited on signal"
            rf" {number} ",
        ),
        Pattern(
            "exits with return code = ",
            rf"exits with return code = -{number}\b(?P<rank>)(?P<host>)",
        ),
        # torch's ProcessFailure, as agents of other launchers print it
        Pattern(
            "exitcode=-",
            rf"ProcessFailure\(local_rank=.{{0,80}}\bexitcode=-{number},(?P<rank>)(?P<host>)",
        ),
        # MPICH and Intel MPI
        Pattern(
            f"(signal {number})", rf"EXIT STRING: .{{1,60}}\(signal {number}\)(?P<rank>)(?P<host>)"
        ),
        Pattern("KILLED BY SIGNAL: ", rf"KILLED BY SIGNAL: {number} \((?P<rank>)(?P<host>)"),
        # Python's subprocess, systemd, and the 128 + N of shells, Docker and Kubernetes
        Pattern(
            "died with <Signals.", rf"died with <Signals\.{name}: {number}>(?P<rank>)(?P<host>)"
        ),
        Pattern(
            f"status={number}/",
            rf"\bcode=(?:killed|dumped), status={number}/{name[3:]}(?P<rank>)(?P<host>)",
        ),
        *(
            Pattern(
                needle,
                rf"(?i)(?<!\w){words} {{0,4}}{128 + number}\)?(?![\w.])(?P<rank>)(?P<host>)",
            )
            for needle, words in (
                (f"xit code {128 + number}", "exit code"),
                (
                    f"with code {128 + number}",
                    "(?:exited|terminated|ended|finished|failed) with code",
                ),
                (f"xit status {128 + number}", "exit status"),
                (f"xit Code:    {128 + number}", "exit code:"),
                (f"xitCode:{128 + number}", "exitcode:"),
                (f"xit code: {128 + number}", "exit code:"),
                (f"xitCode={128 + number}", "exitcode="),
                (f"xited ({128 + number})", r"exited \("),
            )
        ),
        # text-generation-inference
        Pattern(
            "signaled to shutdown with signal ",
            rf"(?P<rank>)(?P<host>)was signaled to shutdown with signal {number}\b",
        ),
    )


def build_crash_patterns(number: int, name: str) -> tuple[Pattern, ...]:
    """Build patterns for a crash as reported by faulthandler, UCX, Open MPI, absl, Ray or a shell."""
    words = WORDS[name]
    unnamed = "(?P<rank>)(?P<host>)"
    return (
        Pattern("Fatal Python error: ", f"Fatal Python error: {words}{unnamed}"),
        Pattern("Caught signal ", rf"Caught signal {number} \({words}{unnamed}"),
        Pattern(
            "] Signal: ",
            rf"\[(?P<host>[\w.-]{{1,120}}):\d+\] Signal: {words} \({number}\)(?P<rank>)",
        ),
        Pattern("*** SIG", rf"\*\*\* {name} received{unnamed}"),
        *build_shell_patterns(words),
    )


def build_shell_patterns(words: str) -> tuple[Pattern, ...]:
    """Build patterns for a signal as reported by a shell."""
    return (
        Pattern(
            words,
            rf"(?:\bline \d+: +\d+ {words}\b|^\s*{words}(?: +\(core dumped\))?\s*$)(?P<rank>)(?P<host>)",
        ),
    )


def derive_rank_host(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """Fill in ? for a rank or host that torchrun's one-line message does not name."""
    return {**fields, "rank": fields["rank"] or "?", "host": fields["host"] or "?"}

"""The program may not use a file on this node

The program's account may not use a file or directory: {error}: {message}.{place} It belongs to
another account (a shared cache, a run as root), or the container mounts it read-only or with other
user ids.

**Place:** {who}

**Prove:** as the job's account, on that node: id; ls -ld PATH (the path of the message)

**Fix:** Give the account the right to write there, or set the directory in the job's environment
to one of its own (HF_HOME, TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR, XDG_CACHE_HOME, TMPDIR).

**Source:** Python's tracebacks
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern, RecordedLog

# no rank and no place of a traceback
UNRAISED = (("rank", "?"), ("place", ""))
CAUSE = LogCause(
    "LG-345",
    __doc__,
    examples=("mkdir: cannot create directory '/checkpoints': Permission denied",),
    patterns=(
        Pattern(
            "ermission denied",
            (
                r"\A(?!.*(?:pyxis|enroot|spank)).*?"
                r"(?P<error>\b(?:mkdir|touch|cp|mv|rm|tee|ln|tar|cat|chmod|chown|install|rsync|unzip): "
                r"(?:cannot |can't )?[\w ]{0,40}?) ?(?P<message>['\"]?/?[\w./~+-]{1,200}['\"]?: Permission denied)"
            ),
            fields=UNRAISED,
        ),
        # Go, Rust and C++
        Pattern(
            "ermission denied",
            (
                r"(?P<error>\b(?:open|mkdir|write|create|rename|unlink|chdir)) "
                r"(?P<message>/[\w./+-]{1,200}: permission denied)"
            ),
            fields=UNRAISED,
        ),
        Pattern(
            "ermission denied (os error",
            r"(?P<error>\w{2,40}) ?.{0,80}?: (?P<message>Permission denied \(os error 13\))",
            fields=UNRAISED,
        ),
        Pattern(
            "[Errno 1] Operation not permitted: '",
            r"(?P<error>\w{2,20}Error): (?P<message>\[Errno 1\] Operation not permitted: '[^']{1,200}')",
            fields=UNRAISED,
        ),
        # Node.js
        Pattern(
            "EACCES: permission denied",
            r"(?P<error>Error): (?P<message>EACCES: permission denied, [^\n]{3,120})",
            fields=UNRAISED,
        ),
    ),
    explains=(Explains((*RANK_FAILURE_EFFECTS, "LG-320")),),
    yields=True,
    survivable=True,
    weight=68,
    recorded=(
        RecordedLog(
            "a cache of another account",
            "PermissionError: [Errno 13] Permission denied: '/scratch/hf/.locks/a.lock'",
        ),
    ),
)

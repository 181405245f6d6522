"""A shared library is missing or too old

A program could not be loaded: {detail}. The library is not installed on this node or not in the
loader's path, or a binary was built on a newer system.

**Place:** the environment of the node of this log

**Prove:** on that node, run `ldconfig -p` and ldd on the program's own library, and check
$LD_LIBRARY_PATH

**Fix:** Use the same image or virtual environment on all nodes. For a missing library, install its
package or add its folder to LD_LIBRARY_PATH. For GLIBC or GLIBCXX, use a wheel that was built for
this system.

**Source:** read: the messages of glibc's loader
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-526",
    __doc__,
    examples=(
        ("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"),
        (
            "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found "
            "(required by /opt/x.so)"
        ),
    ),
    patterns=(
        Pattern(
            "cannot open shared object file",
            (
                r"(?:\b\w{0,40}Error: |error while loading shared libraries: |dlopen[^:\n]{0,40}: |what\(\):\s{1,4}"
                r"|[Cc]ould not load library \S{1,120} Error: "
                r")(?P<detail>[\w./+-]{1,120}: cannot open shared object file)"
            ),
        ),
        Pattern(
            "' not found",
            r"\.so[\w.]{0,12}: (?P<detail>version `\w{1,12}_[\d.]{1,12}' not found)",
        ),
        Pattern(
            "Unable to load any of {lib", r"(?P<detail>Unable to load any of \{lib[\w.]{1,60})"
        ),
        Pattern(
            "DLL load failed while", r"rror: (?P<detail>DLL load failed while importing \w{1,80})"
        ),
        Pattern("[WinError 126]", r"(?P<detail>\[WinError 126\] .{5,120})"),
        Pattern("[WinError 1114]", r"(?P<detail>\[WinError 1114\] .{5,120})"),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    survivable=True,
    weight=86,
)

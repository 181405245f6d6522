"""A compiler, or a file that it needs, is missing

A program compiles code when it starts (Triton, DeepSpeed, vLLM, FlashInfer), and the node lacks a
tool or a file for it ({detail}).

**Place:** the image or environment of the node of this log

**Prove:** on that node, in the job's environment: type gcc ninja nvcc; echo $CC $CUDA_HOME;
ldconfig -p | grep libcuda.so

**Fix:** Install what the message names on every node or in the image (gcc, ninja, the Python
headers, the CUDA toolkit of torch's version), and set CC or CUDA_HOME. For -lcuda, the driver's
libcuda.so must be in the linker's path. Or compile once, on a machine that has the tools.

**Source:** vllm-project/vllm#17455, #21960, deepspeedai/DeepSpeed#5627, read: Triton's build.py and
torch's cpp_extension.py, the shells' messages
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import (
    PATH_PREFIX,
    RANK_FAILURE_EFFECTS,
    SHELL_PREFIX,
    LogCause,
    Pattern,
    match_missing_program,
)

COMPILERS = (
    r"(?:(?:x86_64|aarch64)-[\w-]{3,40}-)?(?:nvcc|gcc|g\+\+|cc|c\+\+|clang(?:\+\+)?|make|cmake|ninja|hipcc|ptxas)"
    r"(?:-\d{1,3}(?:\.\d{1,3})?)?"
)
CAUSE = LogCause(
    "LG-537",
    __doc__,
    examples=(
        "RuntimeError: Ninja is required to load C++ extensions",
        (
            "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."
        ),
        "/usr/bin/ld: cannot find -lcuda: No such file or directory",
        "/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found",
    ),
    patterns=(
        Pattern("Failed to find C compiler", r"rror: (?P<detail>Failed to find C compiler)"),
        Pattern(
            "Ninja is required", r"rror: (?P<detail>Ninja is required to load C\+\+ extensions)"
        ),
        Pattern(
            "CUDA_HOME ",
            r"(?:rror|xception): (?P<detail>CUDA_HOME (?:environment variable is not set|does not exist))",
        ),
        Pattern(
            "'which', '", r"Command '\['which', '(?P<detail>[\w+.-]{1,40})'\]' returned non-zero"
        ),
        Pattern("cannot find -l", r"\bld: (?P<detail>cannot find -l\w{1,40})"),
        Pattern(
            "No such file or directory",
            r"fatal error: (?P<detail>[\w/.-]{1,80}\.(?:h|hpp|cuh): No such file or directory)",
        ),
        Pattern(
            "No such file or directory: '",
            rf"No such file or directory: '(?P<detail>(?:[^'\n]{{0,120}}bin/)?{COMPILERS})'",
        ),
        *match_missing_program(COMPILERS),
        Pattern(
            ": No such file or directory",
            rf"(?:{SHELL_PREFIX}|\bmake(?:\[\d{{1,3}}\])?: )(?P<detail>{PATH_PREFIX}{COMPILERS}): No such file",
        ),
        Pattern("Could not find nvcc", r"rror: (?P<detail>Could not find nvcc)"),
        Pattern("CMAKE_CUDA_COMPILER", r"(?P<detail>No CMAKE_CUDA_COMPILER could be found)"),
        Pattern("CUDA_TOOLKIT_ROOT_DIR", r"(?P<detail>missing: CUDA_TOOLKIT_ROOT_DIR)"),
        Pattern("No CUDA toolset found", r"(?P<detail>No CUDA toolset found)"),
        Pattern("trying to exec 'cc1", r"(?P<detail>error trying to exec 'cc1\w{0,8}')"),
        Pattern(
            "error: command '", r"error: command '(?P<detail>[\w+./-]{1,80})' failed: No such file"
        ),
        Pattern(
            "Microsoft Visual C++ ",
            r"rror: (?P<detail>Microsoft Visual C\+\+ \S{1,8} or greater is required)",
        ),
        Pattern("Cannot find CUDA_HOME", r"(?P<detail>Cannot find CUDA_HOME)"),
        Pattern("unsupported GNU version", r"#error.{0,20}(?P<detail>unsupported GNU version)"),
    ),
    explains=(Explains(("LG-541", *RANK_FAILURE_EFFECTS)),),
    survivable=True,
    weight=88,
)

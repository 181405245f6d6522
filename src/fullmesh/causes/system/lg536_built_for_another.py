"""A package was built for another version of torch, CUDA or Python

A package does not fit the one with which it is loaded ({detail}): it was built for another version
of torch, CUDA, NumPy or Python. The environments of the nodes may differ, or one package was
updated alone.

**Place:** the Python environment of the node of this log

**Prove:** on every node: pip list | grep -i -E 'torch|cuda|numpy|flash|triton', and nvcc --version

**Fix:** Reinstall the package that the traceback names, in the version for this torch and CUDA,
from one lock file on all nodes. Build extensions again after an update of torch.

**Source:** read: the messages of the loader, torch's cpp_extension.py, torchvision, NumPy and
Triton
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-536",
    __doc__,
    examples=(
        (
            "ImportError: /venv/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: "
            "undefined symbol: _ZN3c104cuda9SetDeviceEi"
        ),
        (
            "RuntimeError: The detected CUDA version (11.8) mismatches the version that was used to "
            "compile PyTorch (12.1). Please make sure to use the same CUDA versions."
        ),
        (
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 "
            "from C header, got 88 from PyObject"
        ),
    ),
    patterns=(
        # the exceptions of two processes may share a line, and this may begin the next one
        Pattern(
            "undefined symbol: ",
            r"(?:rror: .{0,400}|\A\S{1,300}\.so[\w.]{0,20}: )(?P<detail>undefined symbol: (?!nccl)\w{1,120})",
        ),
        Pattern(
            "compiled with different CUDA major versions",
            r"(?P<detail>PyTorch and \w{1,40} were compiled with different CUDA major versions)",
        ),
        Pattern(
            "mismatches the version that was used to compile",
            r"(?P<detail>detected CUDA version \([\d.]{1,8}\) mismatches the version that was used to compile)",
        ),
        # DeepSpeed also prints it when it accepts the difference
        Pattern(
            "does not match the version torch was compiled with",
            (
                r"(?P<detail>Installed CUDA version [\d.]{1,8} does not match the version torch was compiled with"
                r" [\d.]{1,8}), unable"
            ),
        ),
        Pattern(
            "cuDNN version incompatibility",
            r"(?P<detail>cuDNN version incompatibility)",
        ),
        Pattern(
            "may indicate binary incompatibility",
            r"rror: (?P<detail>.{1,80} may indicate binary incompatibility)",
        ),
        Pattern(
            "compiled using NumPy 1.x",
            r"(?P<detail>A module that was compiled using NumPy 1\.x cannot be run)",
        ),
        Pattern(
            "torchvision::nms does not exist",
            r"(?P<detail>operator torchvision::nms does not exist)",
        ),
        Pattern(
            "device kernel image is invalid",
            r"rror.{0,40}: (?P<detail>device kernel image is invalid)",
        ),
        Pattern(
            " not defined in file ",
            r"(?P<detail>symbol \w{1,120},? version [\w.]{1,40} not defined in file \S{1,80})",
        ),
        Pattern("load custom C++ ops", r"rror: (?P<detail>Couldn't load custom C\+\+ ops)"),
        Pattern(
            "have different CUDA versions",
            r"(?P<detail>PyTorch and \w{1,40} have different CUDA versions)",
        ),
        Pattern(
            "VERSION_MISMATCH",
            r"(?P<detail>\bCUDNN_STATUS_(?:SUBLIBRARY_|SERIALIZATION_)?VERSION_MISMATCH)\b",
        ),
        Pattern("_ARRAY_API not found", r"AttributeError: (?P<detail>_ARRAY_API not found)"),
        Pattern(
            "but source was compiled with",
            r"(?P<detail>Loaded runtime CuDNN library: [\d.]{1,12} but source was compiled with: [\d.]{1,12})",
        ),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    survivable=True,
    weight=88,
)

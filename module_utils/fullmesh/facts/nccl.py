"""Query an NCCL library for its version and the address it would announce, without a GPU.

``ncclGetVersion`` and ``ncclGetUniqueId`` need no device and no driver. The second one opens NCCL's bootstrap listener,
so its answer proves the interface and port that NCCL really uses. NCCL reads the environment when it is loaded and
starts a thread that never ends. So it runs in a child process, which allows a deadline and repeated queries with other
settings.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
from typing import TypedDict

from ..foreign_text import parse_foreign_json

LIBRARY = "libnccl.so.2"  # the name the dynamic linker knows
SECONDS = 20.0
MARK = "FULLMESH-NCCL "  # NCCL_DEBUG writes to the same stdout, so the answer's line is marked
OLD_STYLE = 10000  # numbers below are of NCCL 2.8 and older

CHILD = r"""
import ctypes, json, sys

path, want_id = sys.argv[1], sys.argv[2] == "1"
out = {"code": 0, "path": path, "rc": 0, "id": "", "error": ""}
try:
    lib = ctypes.CDLL(path)
    number = ctypes.c_int()
    lib.ncclGetErrorString.restype = ctypes.c_char_p
    out["rc"] = lib.ncclGetVersion(ctypes.byref(number))
    out["code"] = number.value
    with open("/proc/self/maps") as maps:
        real = [line.split()[-1] for line in maps if "/libnccl" in line]
    out["path"] = real[0] if real else path
    if want_id and not out["rc"]:
        raw = ctypes.create_string_buffer(128)
        out["rc"] = lib.ncclGetUniqueId(raw)
        out["id"] = raw.raw.hex()
    if out["rc"]:
        said = [lib.ncclGetErrorString(out["rc"])]
        if hasattr(lib, "ncclGetLastError"):
            lib.ncclGetLastError.restype = ctypes.c_char_p
            said.append(lib.ncclGetLastError(None))
        out["error"] = ": ".join(s.decode("utf-8", "replace") for s in said if s)
except (OSError, AttributeError) as exc:
    out["error"] = str(exc)
    out["rc"] = out["rc"] or -1
sys.stdout.write("\n" + sys.argv[3] + json.dumps(out) + "\n")
"""


class NcclLibrary(TypedDict):
    """The library that was loaded, with its real path."""

    version: str
    path: str


class NcclEndpoint(TypedDict):
    """The address that NCCL listens on. ``family``: ipv4 or ipv6."""

    family: str
    address: str
    port: int


class NcclChildAnswer(TypedDict):
    """The child's output: NCCL's number, its return code (-1: it could not be loaded), a unique id in hex."""

    code: int
    path: str
    rc: int
    id: str
    error: str


class NcclError(Exception):
    """A query without an answer.

    ``reason`` is one of missing, deadline, crashed, refused (a library), absent (a package version).
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def decode_version(code: int) -> str:
    """Convert NCCL's number to ``2.28.9``. Its scale changed after 2.8 (nccl.h)."""
    step = 1000 if code < OLD_STYLE else 10000
    major, rest = divmod(int(code), step)
    return f"{major}.{rest // 100}.{rest % 100}"


def decode_unique_id(raw: bytes) -> NcclEndpoint:
    """Decode the listener's socket address in a unique id.

    Since 2.14 the id starts with 8 random bytes. Older ones start with the address.
    """
    for start in (8, 0):
        family = struct.unpack_from("<H", raw, start)[0]
        port = struct.unpack_from(">H", raw, start + 2)[0]
        if family == socket.AF_INET:
            address = socket.inet_ntop(socket.AF_INET, raw[start + 4 : start + 8])
            return {"family": "ipv4", "address": address, "port": port}
        if family == socket.AF_INET6:
            address = socket.inet_ntop(socket.AF_INET6, raw[start + 8 : start + 24])
            return {"family": "ipv6", "address": address, "port": port}
    raise NcclError("refused", f"the unique id holds no address: {raw[:32].hex()}")


def parse_nccl_version(version: str) -> tuple[list[int], list[int], str]:
    """Return a sort key for package versions such as ``2.28.9-1+cuda12.9``: NCCL first, then CUDA."""
    upstream, _, rest = version.partition("-")
    cuda = rest.partition("+cuda")[2]
    return (
        [int(n) for n in re.findall(r"\d+", upstream)],
        [int(n) for n in re.findall(r"\d+", cuda)],
        rest,
    )


def is_wanted_nccl(version: str, wanted: str, cuda: str) -> bool:
    """Return whether a package version matches the wanted one, completely or in NCCL's part. Empty matches any."""
    right = wanted in ("", version, version.split("-", maxsplit=1)[0])
    return right and (not cuda or version.endswith("+cuda" + cuda))


def choose_nccl_version(available: dict[str, list[str]], wanted: str, cuda: str) -> str:
    """Return the newest wanted version that every package has."""
    common = set.intersection(*(set(found) for found in available.values()))
    fitting = [version for version in common if is_wanted_nccl(version, wanted, cuda)]
    if fitting:
        return max(fitting, key=parse_nccl_version)
    asked = " ".join(
        part for part in (wanted or "any version", cuda and "for CUDA " + cuda) if part
    )
    there = ", ".join(sorted(common, key=parse_nccl_version)) or "no common version of the packages"
    raise NcclError("absent", f"the repository has no NCCL {asked}, only {there}")


def make_child_environment(env: dict[str, str]) -> dict[str, str]:
    """Return this process's environment without NCCL settings, plus *env*."""
    base = {k: v for k, v in os.environ.items() if not k.startswith("NCCL_")}
    base.update({k: str(v) for k, v in env.items()})
    return base


def parse_child_answer(stdout: str) -> NcclChildAnswer:
    """Find the marked line in NCCL's output."""
    for line in reversed(stdout.splitlines()):
        if line.startswith(MARK):
            answer: NcclChildAnswer = parse_foreign_json(line[len(MARK) :])
            return answer
    raise NcclError("crashed", f"no answer from the library, which printed {stdout[-200:]!r}")


def query_nccl_library(
    path: str, env: dict[str, str], want_id: bool, seconds: float
) -> NcclChildAnswer:
    """Load the library in a child process and return its raw answer."""
    command = [sys.executable, "-I", "-c", CHILD, path or LIBRARY, "1" if want_id else "0", MARK]
    try:
        done = subprocess.run(
            command,
            check=False,
            env=make_child_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise NcclError("deadline", f"no answer within {seconds:g} s") from None
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode < 0:
        raise NcclError("crashed", f"the library died with signal {-done.returncode}")
    answer = parse_child_answer(text)
    if answer["rc"]:
        raise NcclError("missing" if answer["rc"] < 0 else "refused", answer["error"])
    return answer


def find_nccl_library(path: str = "", seconds: float = SECONDS) -> NcclLibrary:
    """Return version and real path of the library that is loaded."""
    answer = query_nccl_library(path, {}, False, seconds)
    return {"version": decode_version(answer["code"]), "path": answer["path"]}


def find_nccl_endpoint(
    path: str = "", env: dict[str, str] | None = None, seconds: float = SECONDS
) -> NcclEndpoint:
    """Return the address and port that NCCL listens on with ``env``."""
    answer = query_nccl_library(path, env or {}, True, seconds)
    return decode_unique_id(bytes.fromhex(answer["id"]))

"""Run as the sitecustomize of record_hang.py's ranks: a thread answers queries about the rank.

The job imports torch. Before that there is nothing to report.
"""

from __future__ import annotations

import atexit
import builtins
import json
import linecache
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

WORK = Path("/home/user/work")
RANK = os.environ.get("RANK", "")
raised: dict[str, Any] | None = None


def line(file: str, number: int, name: str) -> dict[str, Any]:
    """Return a frame."""
    found: dict[str, Any] = {"file": file, "line": number, "name": name}
    if text := linecache.getline(file, number).strip():
        found["text"] = text
    return found


def stack(frame: FrameType | None) -> list[dict[str, Any]]:
    """Return a thread's calls, the innermost first."""
    found = []
    while frame is not None:
        found.append(line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found


def threads() -> list[dict[str, Any]]:
    """Return all threads except this one, the main thread first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    frames = sys._current_frames()
    order = sorted(frames, key=lambda one: (one != main, one))
    stacks = [
        (names.get(one, ""), stack(frames[one])) for one in order if one != threading.get_ident()
    ]
    return [{"name": name, "frames": frames_} for name, frames_ in stacks]


def say(name: str) -> None:
    """Write the current state."""
    # Use modules that are already loaded: an import in a hung job may wait for a lock of its main
    # thread.
    recorder = sys.modules["torch._C._distributed_c10d"]
    distributed_c10d = sys.modules["torch.distributed.distributed_c10d"]
    # With stacks, the first call imports torch._inductor, which takes seconds.
    data = recorder._dump_fr_trace(True, False, False)
    world = distributed_c10d._world
    groups = [
        {"name": name, "desc": group.group_desc, "ranks": sorted(world.pg_group_ranks[group])}
        for group, name in world.pg_names.items()  # the groups that this rank made
    ]
    state = {"pickle": data.hex(), "groups": groups, "threads": threads(), "raised": raised}
    path = WORK / f"said{RANK}.{name}.json"
    path.with_suffix(".new").write_text(json.dumps(state))
    path.with_suffix(".new").rename(path)


def say_raw() -> None:
    """Write torch's own record, with stacks."""
    recorder = sys.modules["torch._C._distributed_c10d"]
    (WORK / f"raw{RANK}.json").write_bytes(recorder._dump_fr_trace_json(True, False))
    (WORK / f"raw{RANK}.pickle").write_bytes(recorder._dump_fr_trace(True, True, False))
    (WORK / f"raw{RANK}").touch()


def answer() -> None:
    """Wait for queries."""
    number = 0
    while True:
        if (WORK / f"ask{number}").exists():
            say(str(number))
            number += 1
        if (WORK / "raw").exists():
            say_raw()
            return
        time.sleep(0.02)


def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """Keep the error that ended the program, and the recorder's content at that moment."""
    global raised  # noqa: PLW0603 (sys.excepthook has no state of its own)
    frames = []
    step = trace
    while step is not None:
        code = step.tb_frame.f_code
        frames.append(line(code.co_filename, step.tb_lineno, code.co_name))
        step = step.tb_next
    raised = {"text": f"{kind.__name__}: {value}", "frames": frames[::-1]}
    say("last")
    before(kind, value, trace)


def ready() -> None:
    """Report that the script has reached its place."""
    (WORK / f"ready{RANK}").touch()


if RANK:
    before = sys.excepthook  # of Fullmesh, in the fault benchmark
    sys.excepthook = hook
    builtins.__dict__["ready"] = ready
    atexit.register(say, "last")
    threading.Thread(target=answer, daemon=True, name="fullmesh-hang").start()

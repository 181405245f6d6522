# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Make the first steps of a job as the calling account, and report each that fails with the file that causes it.

Runs on nodes as ``fullmesh-torchrun --check`` (standard library only), with the environment of the caller. It changes
nothing. Exit status: 0 if all steps succeed, 1 if one fails, 2 if they could not be made.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import subprocess
import sys

import fullmesh_start_program as start_program
from fullmesh_foreign_text import parse_decimal, parse_foreign_json

FINE, FAILED, UNCHECKED = 0, 1, 2
STEP_SECONDS, IMPORT_SECONDS = 5, 120
NODES_FILE = "/etc/fullmesh/nodes.json"
NODES_MOST = 64
# Variables that the launcher uses as they are.
PLANNED = re.compile(r"(MASTER_|NNODES|NODE_RANK|NPROC_PER|FULLMESH_[AR]|GLOO_S|NCCL_S|TP_S)")
CODES = {
    "use": ("VC-313", "you may not use {subject}: {error} is closed ({source})"),
    "device": ("VC-327", "you may not use {subject} ({source})"),
    "preload": ("VC-314", "every process prints an error of the loader: {subject}: {error}"),
    "load": ("VC-314", "the loader lacks a library: {subject}: {error}"),
    "value": ("VC-315", "{subject} {error}"),
    "name": ("VC-328", "{subject} has no effect: jobs read {error}"),
    "source": ("VC-315", "a shell cannot read {subject}: {error}"),
    "write": ("VC-316", "you cannot write to {subject}: {error}"),
    "cache": ("VC-316", "you cannot write to {subject}: {error}"),
    "resolve": ("VC-317", "you cannot resolve {subject}: {error}"),
    "bind": ("VC-318", "you cannot bind port {subject}: {error}"),
    "login": ("VC-319", "logins are refused: {subject}: {error}"),
    "python": ("VC-319", "{subject} does not start with {error}"),
    "import": ("VC-302", "torch cannot be imported: {subject}: {error}"),
    "launch": ("VC-322", "{subject} does not start: {error}"),
    "limit": ("VC-323", "the limit {subject} is {error}, which is too small for a job"),
    "slow": ("VC-326", "a login waits for {subject}"),
    "path": ("VC-320", "{subject} names {error}, which you cannot read"),
    "plan": ("VC-321", "{subject} has {error}"),
}
Step = dict[str, str]


class UncheckedError(Exception):
    """The first steps could not be made. The message is the last line of the errors."""


def read_env_lines(path: str) -> dict[str, str]:
    """Return the variables in the node's file."""
    lines: list[str] = []
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        lines = stream.read(1 << 18).splitlines()
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {name: value.strip("'") for name, sign, value in pairs if sign}


def list_node_names() -> list[str]:
    """Return the names of the plan's nodes that jobs resolve."""
    try:
        with open(NODES_FILE, "rb") as stream:
            nodes = parse_foreign_json(stream.read())["nodes"]
        return [one["names"][0] for one in nodes if one["names"]][:NODES_MOST]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def build_settings(python: str, env_file: str, mark: str) -> str:
    """Return the settings of the program, as its argument."""
    planned = read_env_lines(env_file)
    ports = (planned.get("MASTER_PORT", ""), planned.get("FULLMESH_RENDEZVOUS", ""))
    settings: start_program.StartSettings = {
        "mark": mark,
        "known": True,
        "python": python,
        "names": list_node_names(),
        "address": planned.get("FULLMESH_ADDRESS", ""),
        "ports": [
            number for one in ports if (number := parse_decimal(one.rpartition(":")[2])) is not None
        ],
        "env_file": env_file,
        "launcher": start_program.LAUNCHER,
        "parts": start_program.PARTS,
        "devices": start_program.DEVICES,
        "variables": start_program.VARIABLES,
        "places": [],
        "locked": 0,
    }
    return start_program.encode_settings(settings)


def run_command(argv: list[str], seconds: float) -> tuple[int, str, str]:
    """Return the exit status, output and errors of a command, with status -1 if it did not start or end."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except OSError as error:
        return -1, "", str(error)
    except subprocess.TimeoutExpired:
        return -1, "", f"{argv[0]} did not end within {seconds:g} s"
    texts = (done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))
    return done.returncode, *texts


def find_failed_steps(python: str, env_file: str) -> list[Step]:
    """Return the first steps of a job that fail.

    Raises:
        UncheckedError: the program did not end.
    """
    mark = secrets.token_hex(16)
    words = ["-c", start_program.PROGRAM, build_settings(python, env_file, mark)]
    errors, parts = "", []
    # without its variables, this interpreter can still tell why the other one does not start
    for command in ([python], [sys.executable, "-I"]):
        _, output, stderr = run_command([*command, *words], STEP_SECONDS)
        errors, parts = errors + stderr, output.split(mark)
        if len(parts) > 1:
            break
    else:
        lines = [start_program.clean_text(line) for line in errors.split("\n")]
        raise UncheckedError(next(filter(None, reversed(lines)), "it printed nothing"))
    try:
        said = parse_foreign_json(parts[1])
    except ValueError as damage:
        raise UncheckedError(f"its answer is damaged: {damage}") from None
    steps: list[Step] = start_program.find_loader_errors(errors, said["sources"]) + said["steps"]
    for name, value in said["login"].items():
        planned = said["file"].get(name, value)
        if PLANNED.match(name) and planned != value:
            error = f"the value {value!r}, and {env_file} has {planned!r}"
            place = said["sources"].get(name, "")
            steps.append({"step": "plan", "subject": name, "error": error, "source": place})
    return steps


def try_import(python: str) -> list[Step]:
    """Import torch in the interpreter of jobs. Return the failed step, if it fails."""
    # -c has the current folder first in the path, torchrun does not
    code = "import sys; sys.path[:] = filter(None, sys.path); import torch.distributed"
    status, _, errors = run_command([python, "-c", code], IMPORT_SECONDS)
    if not status:
        return []
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    places = re.findall(r'File "([^"]{1,300})", line (\d{1,9})', errors)
    place = ":".join(places[-1]) if places else ""
    last = lines[-1] if lines else f"exit status {status}"
    return [{"step": "import", "subject": python, "error": last, "source": place}]


def describe_step(step: Step) -> str:
    """Return one line about a failed step."""
    code, text = CODES[step["step"]]
    place = step["source"] if "{source}" not in text else ""
    line = f"[{code}] {text.format(**step)}"
    line += f". Fix: correct {place}" if place else f". Check: ./fullmesh explain {code}"
    return start_program.clean_text(line)


def find_account_name() -> str:
    """Return the name of the calling account. In a container it may have none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def main(argv: list[str]) -> int:
    """Make the steps and print a verdict.

    Args:
        argv: the interpreter of jobs, and the environment file.
    """
    python, env_file = argv
    try:
        steps = find_failed_steps(python, env_file)
    except UncheckedError as error:
        sys.stderr.write(
            f"the first steps of a job could not be made: {error}. Check: {python} -V\n"
        )
        return UNCHECKED
    if not any(one["step"] in ("use", "python") for one in steps):
        steps += try_import(python)
    lines = list(dict.fromkeys(map(describe_step, steps)))
    here = f"{find_account_name()} on {os.uname()[1]}"
    verdict = f"{len(lines)} steps fail" if lines else "all steps succeed"
    sys.stdout.write("\n".join([*lines, f"first steps of a job as {here}: {verdict}"]) + "\n")
    return FAILED if lines else FINE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

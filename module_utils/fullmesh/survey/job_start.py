# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run the first second of a job as the account of jobs, through a login as users have it.

``su`` opens a session with the node's PAM stack, as sshd does. A shell in it prints the environment of commands that
ssh runs. Then the account's login shell reads its profile files and starts the interpreter of jobs, which makes the
first steps of a job. It changes nothing: files that it writes are removed, and ports are bound without listening.

Runs on nodes: standard library only. Output of the account is foreign: it is bounded and validated.
"""

from __future__ import annotations

import base64
import contextlib
import glob
import os
import pwd
import re
import secrets
import selectors
import shlex
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, cast

from ..foreign_text import parse_decimal, parse_foreign_json
from ..schema.survey import NO_HOME, NO_LOGIN, START_STEPS
from . import job
from .job_accounts import LOGIN_ENVIRONMENT, UNNAMED_ACCOUNTS, find_unit_accounts
from .job_start_program import (
    DEVICES,
    LAUNCHER,
    NO_LIBRARY,
    PARTS,
    PROGRAM,
    clean_text,
    encode_settings,
    find_loader_errors,
)

if TYPE_CHECKING:
    from typing import Any

    from ..schema.ladder import LadderNodeParams
    from ..schema.survey import JobLogin, StartStep
    from .job_start_program import StartSettings

OWN_PROFILES = (".bash_profile", ".bash_login", ".profile", ".bashrc", ".zshenv", ".zprofile")
PAM_FILES = ("/etc/environment", "/etc/security/pam_env.conf")
# Programs of the session itself, which wait for others.
WAITERS = re.compile(r"-?(?:\w*sh|su|sudo|timeout|env|python[\d.]*|)$")
SHELL_FILES = ("/etc/bash.bashrc", "/etc/bashrc")
SAMPLE, DEPTH_MOST, PROFILE_MOST = 0.5, 20, 1 << 18
# Seconds. The session ends before the survey's deadline, and its content before the session.
SESSION, INSIDE = 2.2, "1.9"
LARGEST, STEPS_MOST, NAMES_MOST = 1 << 20, 40, 32
READ = ("PYTHONHOME", "PYTHONPATH")  # by Python
LOADER_READS = ("LD_PRELOAD", "LD_LIBRARY_PATH")
# Limits of PAM that end a login: in words, the error of the login, and their names in limits.conf(5).
LIMITED = (
    ("processes", re.compile("[Cc]annot fork|fork: |Resource temporarily unavailable"), "nproc"),
    ("sessions", re.compile("cannot open session"), "max(?:sys)?logins"),
    ("memory", re.compile("MemoryError|[Cc]annot allocate memory"), "(?:as|data)"),
)
SHADOW, CHANGED, EXPIRES = "/etc/shadow", 2, 7  # fields
ANSWER = 2  # marks before the answer, see build_session_command
STRANGER = "nobody"  # has the rights that every account has
ENV_FILE, PYTHON = "/etc/fullmesh/env", "/usr/bin/python3"
NO_SHELLS = ("", "nologin", "false", "sync", "halt", "shutdown")
SHORT_SHELLS = ("csh", "tcsh")  # take -l only alone


def choose_start_account(named: str) -> tuple[pwd.struct_passwd | None, bool]:
    """Return the account to start as, and whether it is the account of jobs. None: there is none of that name.

    No session for an account that is only known from a process's environment, since any account can set RANK=.
    """
    if os.geteuid() != 0:
        mine = pwd.getpwuid(os.geteuid())
        return mine, named in ("", mine.pw_name)
    units = [one for one in find_unit_accounts() if one not in UNNAMED_ACCOUNTS]
    with contextlib.suppress(KeyError):
        if named or units:
            return pwd.getpwnam(named or units[0]), True
        return pwd.getpwnam(STRANGER), False
    return None, bool(named or units)


def choose_login_shell(who: pwd.struct_passwd) -> list[str]:
    """Return the words that start the account's login shell. An account without a shell gets /bin/sh."""
    name = os.path.basename(who.pw_shell)
    if name in NO_SHELLS or not os.access(who.pw_shell, os.X_OK):
        return ["/bin/sh", "-l"]
    return [who.pw_shell] if name in SHORT_SHELLS else [who.pw_shell, "-l"]


def describe_unusable_shell(path: str) -> list[dict[str, str]]:
    """Return the failed step if the account's shell refuses logins, as those of services do."""
    error = NO_LOGIN if os.path.basename(path) in NO_SHELLS else ""
    if path and not os.path.exists(path):
        error = "the shell of the account does not exist"
    return [{"step": "login", "subject": path, "error": error}] if path and error else []


def build_session_command(shell: list[str], python: str, settings: StartSettings) -> str:
    """Return the command of the session, for /bin/sh.

    Args:
        shell: starts the login shell.
        python: the interpreter of jobs.
        settings: of the program, with its ``mark``.
    """
    code = base64.b64encode(PROGRAM.encode()).decode()
    given = encode_settings(settings)
    run = f"-c 'import base64;exec(base64.b64decode(\"{code}\"))' {given}"
    own, spare = shlex.quote(python), PYTHON if os.access(PYTHON, os.X_OK) else sys.executable
    # if the environment breaks the interpreter, this one without its variables can still tell why
    inner = f"[ -x {own} ] && {own} {run} && exit; exec {shlex.quote(spare)} -I {run}"
    login = " ".join(map(shlex.quote, [*shell, "-c", f"exec /bin/sh -c {shlex.quote(inner)}"]))
    # bash reads ~/.bashrc in commands of sshd, which it knows by these variables
    # the job needs neither env nor timeout: they may be closed to its account
    remote = f"unset SHLVL; export SSH_CLIENT='127.0.0.1 1 22'; exec {shlex.quote(shell[0])}"
    command = f"({remote} -c '/usr/bin/env -0 || exec /bin/cat /proc/self/environ')"
    limit = f'limit="timeout -s KILL {INSIDE}"; command -v timeout >/dev/null || limit='
    return f"ulimit -c 0; {command}; printf {settings['mark']}; {limit}; exec $limit {login}"


def find_deepest_command(pid: int) -> str:
    """Return the command of the last process in a chain of children, or ""."""
    parents: dict[int, int] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with (
            contextlib.suppress(OSError, ValueError, IndexError),
            open(f"/proc/{name}/stat") as stream,
        ):
            parents[int(stream.read(4096).rpartition(")")[2].split()[1])] = int(name)
    for _ in range(DEPTH_MOST):
        if pid not in parents:
            break
        pid = parents[pid]
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as stream:
        return clean_text(stream.read(4096).replace(b"\0", b" ").decode("utf-8", "replace"))
    return ""


def find_profile_line(word: str, home: str) -> str:
    """Return the file and line of a login that has a program's or a variable's name, or ""."""
    files = [*PAM_FILES, *(os.path.join(home, one) for one in OWN_PROFILES)]
    files += ["/etc/profile", *sorted(glob.glob("/etc/profile.d/*.sh")), *SHELL_FILES]
    for path in files if word else []:
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(handle, errors="replace") as stream:
                for number, line in enumerate(stream.read(PROFILE_MOST).split("\n"), 1):
                    if re.search(
                        rf"(?<![\w/.-]){re.escape(word)}(?![\w-])", line.partition("#")[0]
                    ):
                        return f"{path}:{number}"
    return ""


def run_session(
    argv: list[str],
    environment: dict[str, str],
    late: list[str] | None = None,
    seconds: float = 0.0,
) -> tuple[int | None, bytes, bytes]:
    """Run a command until its deadline. Return its exit status (None: it was ended), its output and its errors.

    Args:
        argv: the command.
        environment: of the command.
        late: gets the command that a slow session waits for.
        seconds: until the deadline, if it is another one than that of a login.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd="/",
        start_new_session=True,
    )
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("a process was started without pipes")
    ends, texts = (
        time.monotonic() + (seconds or SESSION),
        {process.stdout: b"", process.stderr: b""},
    )
    try:
        with selectors.DefaultSelector() as waiting:
            for stream in texts:
                waiting.register(stream, selectors.EVENT_READ)
            while waiting.get_map():
                asked = late is not None and not late
                ready = waiting.select(max(0.0, ends - time.monotonic() - (SAMPLE if asked else 0)))
                if not ready and asked and late is not None:
                    late.append(find_deepest_command(process.pid))
                    continue
                if not ready or sum(map(len, texts.values())) > LARGEST:
                    break
                for key, _ in ready:
                    stream = cast("Any", key.fileobj)
                    part = os.read(stream.fileno(), 65536)
                    texts[stream] += part
                    if not part:
                        waiting.unregister(stream)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, ends - time.monotonic()))
    finally:
        code = process.poll()
        if code is None:
            # su passes this on; the command inside ends by itself
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()
    return code, texts[process.stdout], texts[process.stderr]


def read_program_answer(text: bytes) -> dict[str, Any] | None:
    """Return the program's answer, or None if it is damaged."""
    try:
        said = parse_foreign_json(text, most_bytes=LARGEST)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def read_steps(answer: object) -> list[StartStep]:
    """Return the program's steps, without any that is malformed."""
    found: list[StartStep] = []
    for one in answer if isinstance(answer, list) else []:
        if isinstance(one, dict) and one.get("step") in START_STEPS and len(found) < STEPS_MOST:
            subject, error, source = (
                clean_text(one.get(key, "")) for key in ("subject", "error", "source")
            )
            found.append(
                {"step": one["step"], "subject": subject, "error": error, "source": source}
            )
    return found


def read_values(answer: object, more: tuple[str, ...] = ()) -> dict[str, str]:
    """Return texts about variables that matter to a job, and those about *more* variables."""
    held = answer if isinstance(answer, dict) else {}
    return {
        name: job.redact_value(clean_text(value))
        for name, value in list(held.items())[:1000]
        if isinstance(name, str) and (job.NAMES.match(name) or name in more)
    }


def parse_environment_dump(text: bytes) -> dict[str, str]:
    """Parse the output of ``env -0``."""
    words = (one.decode("utf-8", "replace").partition("=") for one in text.split(b"\0"))
    return {name: value for name, equals, value in words if equals}


def find_limit_line(name: str) -> str:
    """Return the last file and line that sets a limit of PAM, in words, or ""."""
    place = ""
    for path in ("/etc/security/limits.conf", *sorted(glob.glob("/etc/security/limits.d/*.conf"))):
        with contextlib.suppress(OSError), open(path, errors="replace") as stream:
            for number, line in enumerate(stream.read(PROFILE_MOST).split("\n"), 1):
                if re.match(rf"\s*[^#\s]+\s+(?:hard|soft|-)\s+{name}\s", line):
                    place = f" of {path}:{number}"
    return place


def describe_expiry(account: str, today: float) -> str:
    """Return why shadow(5) keeps an account from logging in, in words, or "".

    Args:
        account: its name.
        today: days since 1970.
    """
    with contextlib.suppress(OSError), open(SHADOW) as stream:
        for line in stream:
            fields = line.rstrip("\n").split(":")
            if fields[0] == account and len(fields) > EXPIRES:
                ends = parse_decimal(fields[EXPIRES], 1 << 31)
                if ends is not None and ends <= today:
                    return " (the account has expired)"
                if fields[CHANGED] == "0":
                    return " (its password has to be changed)"
    return ""


def describe_failed_login(
    shell: str, output: list[bytes], errors: str, code: int | None
) -> StartStep:
    """Describe a login that ended before Python started."""
    lines = [clean_text(line) for line in errors.splitlines()]
    last = next((line for line in reversed(lines) if line), f"exit status {code}")
    for name, pattern, words in LIMITED:
        place = find_limit_line(words) if pattern.search(last) else ""
        # PAM refuses a session for other reasons, too
        if place or (name != "sessions" and pattern.search(last)):
            last += f" (limit of {name}{place})"
    return {
        "step": "login",
        "subject": shell if len(output) > 1 else "the session",
        "error": last,
        "source": "",
    }


def is_loader_error(errors: str) -> bool:
    """Return whether the last error of a session is that of the dynamic loader."""
    return bool(NO_LIBRARY.search((errors.strip().splitlines() or [""])[-1]))


def build_program_settings(want: LadderNodeParams, mark: str, known: bool) -> StartSettings:
    """Return the settings of the program."""
    return {
        "mark": mark,
        "known": known,
        "python": want["python"],
        "names": [name for line in want["hosts"] for name in line["names"][:1]][:NAMES_MOST],
        "address": want["address"],
        "ports": [one["port"] for one in want["named"] if one["kind"] in ("master", "rendezvous")],
        "env_file": ENV_FILE,
        "launcher": LAUNCHER,
        "parts": PARTS,
        "devices": DEVICES if known else [],
        "variables": job.NAMES.pattern,
        "places": [],
        "locked": 0,
    }


def survey_job_start(want: LadderNodeParams) -> JobLogin | tuple[JobLogin | None, str]:
    """Return what the first second of a job met, or why that could not be found out.

    Args:
        want: ``python``, ``named``, ``address``, ``hosts``, and ``job_user``: the account, if the inventory names it.
    """
    begun = time.monotonic()
    who, known = choose_start_account(want["job_user"])
    start: JobLogin = {
        "account": who.pw_name if who else want["job_user"],
        "known": known,
        "steps": [],
        "command": {},
        "login": {},
        "file": {},
        "sources": {},
        "seconds": 0.0,
    }
    if who is None:
        if known:
            missing = "no such account on this node"
            start["steps"].append(
                {"step": "login", "subject": start["account"], "error": missing, "source": ""}
            )
        return start
    mark = secrets.token_hex(16)
    shell = choose_login_shell(who)
    command = build_session_command(
        shell, want["python"], build_program_settings(want, mark, known)
    )
    root = os.geteuid() == 0
    words = (
        ["su", "-s", "/bin/sh", who.pw_name, "-c", command] if root else ["/bin/sh", "-c", command]
    )
    late: list[str] = []
    code, output, raw = run_session(words, LOGIN_ENVIRONMENT if root else dict(os.environ), late)
    parts, errors = output.split(mark.encode()), raw.decode("utf-8", "replace")
    said = read_program_answer(parts[2]) if len(parts) > ANSWER else None
    if said is None and code in (None, -signal.SIGKILL, 128 + signal.SIGKILL):
        stage = "the login shell and Python" if len(parts) > 1 else "the login"
        why = f"{stage} of {who.pw_name} did not end in time"
        program = os.path.basename(late[0].partition(" ")[0]) if late else ""
        place = "" if WAITERS.match(program) else find_profile_line(program, who.pw_dir)
        if not place:
            return None, why
        start["steps"] = read_steps(
            [{"step": "slow", "subject": late[0], "error": stage, "source": place}]
        )
        return start, why
    start["sources"] = read_values((said or {}).get("sources"), READ)
    if said is None:
        places = {name: find_profile_line(name, who.pw_dir) for name in LOADER_READS}
        start["sources"] = {name: place for name, place in places.items() if place}
    loader = find_loader_errors(errors, start["sources"])
    # it may be for some accounts only
    start["steps"] = read_steps(
        [one for one in loader if known or not os.path.exists(one["subject"])]
    )
    if said is not None:
        start["steps"] += read_steps(said.get("steps"))
        start["login"], start["file"] = (
            read_values(said.get("login")),
            read_values(said.get("file")),
        )
    elif known and not is_loader_error(errors):  # which is a step of its own
        failed = describe_failed_login(shell[0], parts, errors, code)
        failed["error"] += describe_expiry(who.pw_name, time.time() / 86400)
        start["steps"].append(failed)
    start["command"] = read_values(parse_environment_dump(parts[0])) if len(parts) > 1 else {}
    if known:
        start["steps"] += read_steps(describe_unusable_shell(who.pw_shell))
        if not os.path.exists(who.pw_dir):
            start["steps"] += read_steps(
                [{"step": "login", "subject": who.pw_dir, "error": NO_HOME}]
            )
    if known and said is not None and b"SSH_CLIENT=" not in parts[0]:
        why = "it ends a command over ssh before the command runs. A login shell works"
        step = {"step": "login", "subject": shell[0], "error": why, "source": "~/.bashrc"}
        start["steps"] += read_steps([step])
    start["seconds"] = round(time.monotonic() - begun, 3)
    return start

# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Start the unit of jobs as ``systemctl start fullmesh-job@NAME`` does, with a script that ends by itself.

systemd then runs its conditions and commands, applies its limits and filters, and starts the launcher. The launcher's
option --rank starts the script without torchrun, so no job is joined.

Runs on nodes: standard library only. Output of the unit is foreign: it is bounded and validated.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import subprocess
import time
from typing import TYPE_CHECKING

from ..foreign_text import parse_decimal
from ..tools import systemctl
from .job_accounts import UNNAMED_ACCOUNTS, find_account_entry, find_unit_accounts
from .job_start_program import LAUNCHER, VALUES, clean_text
from .job_unit import JOBS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..schema.survey import JobUnitStart

SYSTEMD = "/run/systemd/system"  # sd_booted(3)
RUN = "/run"
LAUNCHER_MOST = 65536
PREFIX = "fullmesh-look-"
SECONDS = 1.8  # of the start, which the survey waits for
QUERY_SECONDS = 2.0
OLD_SECONDS = 3600.0  # a file of a start that was killed
LINES, LINES_MOST = "20", 8192
ASKED = ("Result", "ExecMainCode", "ExecMainStatus", "ExecMainPID", "ExecCondition", "ExecStartPre")
ENTRY = re.compile(
    r"\{ path=(\S{1,300}) ; argv\[\]=(.{0,2000}?) ; .{0,400}? code=(\S{1,20}) ; status=(\d{1,5})",
    re.ASCII,
)
# Exit statuses of systemd itself (systemd.exec(5), "Process Exit Codes").
OWN_STATUS = {
    **{
        200: "CHDIR",
        203: "EXEC",
        205: "LIMITS",
        208: "STDIN",
        209: "STDOUT",
        214: "SETSCHEDULER",
        215: "CPUAFFINITY",
    },
    **{216: "GROUP", 217: "USER", 218: "CAPABILITIES", 219: "CGROUP", 221: "RESOURCES_LIMIT"},
    **{225: "NETWORK", 226: "NAMESPACE", 228: "SECCOMP", 229: "SELINUX_CONTEXT", 231: "APPARMOR"},
    **{233: "RUNTIME_DIRECTORY", 238: "STATE_DIRECTORY", 239: "CACHE_DIRECTORY"},
    **{240: "LOGS_DIRECTORY", 242: "NUMA_POLICY", 243: "CREDENTIALS"},
}
# Lines that name the cause, the best first. systemd prints the second and third kind.
TELLING = (
    re.compile(r"fullmesh: |\[LA-\d{3}\]", re.ASCII),
    re.compile(r"Failed (?:to|at step) |Skipped due to|Assertion failed|killed by the OOM"),
    re.compile(r"(?:Error|error|denied|not found|No such)"),
)
FINAL = re.compile(
    r"^(?:\S{1,300}\.service: (?:Failed with|Main process|Control process|Consumed)|Failed to start|Start(?:ing|ed) )"
)

# The steps that differ between the unit and a login: they take about 20 ms. It ends itself if it hangs.
PROGRAM = (
    VALUES
    + r"""
import glob, mmap, os, resource, select, shutil, signal, socket, subprocess, sys, tempfile, threading
signal.alarm(2)
def try_step(what, step):
    try:
        step()
    except Exception as exc:
        sys.exit("fullmesh: a job cannot %s: %s" % (what, exc))
def find_programs():
    # of the launcher
    for name in ("id", "find", "mkdir", "mktemp"):
        if shutil.which(name) is None:
            raise OSError("%s is not in PATH=%s" % (name, os.environ.get("PATH", "")))
def write_file(folder):
    with tempfile.TemporaryFile(dir=folder) as stream:
        stream.write(bytes(4096))
        stream.flush()
def connect_to_self():
    address = os.environ["FULLMESH_ADDRESS"]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as one, socket.socket(family) as other:
        one.bind((address, 0))
        one.listen()
        other.settimeout(0.5)
        other.connect(one.getsockname())
def start_thread():
    threads = [threading.Thread(target=int) for _ in range(16)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
def start_process():
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
def wait_for_events():
    with select.epoll() as waiting:
        waiting.poll(0)
    if hasattr(os, "eventfd"):
        os.close(os.eventfd(0))
def map_code():
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
def find_own_torch():
    prefix = os.path.dirname(os.path.dirname(sys.executable))  # option -S leaves out the packages
    sys.path.extend(glob.glob(os.path.join(glob.escape(prefix), "lib", "python3*", "site-packages")))
    package = find_torch(sys.path)
    if package and not os.path.exists(os.path.join(package, "distributed", "run.py")):
        raise ImportError("%s %s" % (package, OTHER_TORCH))
def check_variables():
    package = find_torch(sys.path)
    wrong = [(name, find_forbidden_value(name, value, package)) for name, value in os.environ.items()]
    if os.path.isdir(package):
        wrong += find_wrong_logs(os.environ, package)
    for name, why in wrong:
        if why:
            raise ValueError("%s=%s %s" % (name, os.environ[name], why))
def start_launcher():
    # option --rank, with which the unit started this, does without a part of the launcher's variables
    if sys.argv[1:] and os.access(sys.argv[1], os.X_OK):
        done = subprocess.run([sys.argv[1], "--dry-run", "job.py"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=1)
        if done.returncode:
            told = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise OSError(told[-1] if told else "exit status %d" % done.returncode)
def write_proof():
    with open(os.environ["FULLMESH_PROOF"], "w") as stream:
        stream.write("done")
try_step("start programs", find_programs)
# tempfile takes another folder if this one is missing; the launcher does not
try_step("write a temporary file", lambda: write_file(os.environ.get("TMPDIR") or "/tmp"))
try_step("write to /dev/shm", lambda: write_file("/dev/shm"))
try_step("listen and connect", connect_to_self)
try_step("wait for events", wait_for_events)
try_step("start threads", start_thread)
try_step("start a process", start_process)
try_step("generate code, as torch does", map_code)
try_step("start the launcher", start_launcher)
try_step("import torch", find_own_torch)
try_step("use its variables", check_variables)
try:
    write_proof()
except OSError:
    pass
"""
)


class UnitStart:
    """One start of the unit.

    Attributes:
        unit: its name.
        path: the file of its variables.
    """

    def __init__(self, instance: str, variables: Mapping[str, str]) -> None:
        self.unit = f"fullmesh-job@{instance}.service"
        self.path = os.path.join(JOBS, f"{instance}.env")
        self.variables = variables
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Write the file of variables and start the unit.

        Raises:
            OSError: the file cannot be written, or there is no systemctl.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(self.path, flags, 0o644), "w") as stream:
            stream.writelines(f'{name}="{value}"\n' for name, value in self.variables.items())
        self.process = subprocess.Popen(
            ["systemctl", "start", "--wait", "--", self.unit],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def poll(self) -> int | None:
        """Return 0 if the unit has succeeded, 1 if it has failed, None while it runs."""
        code = self.process.poll() if self.process else 1
        return None if code is None else int(bool(code))

    def wait(self, seconds: float) -> int | None:
        """Wait for the end of the unit and return it as `poll` does."""
        if self.process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        return self.poll()

    def kill(self) -> None:
        """Kill all processes of the unit."""
        run_quietly(["systemctl", "kill", "-s", "KILL", "--", self.unit])
        if self.wait(QUERY_SECONDS) is None and self.process:
            self.process.kill()
            self.process.wait()

    def describe_failure(self) -> str:
        """Describe why the unit failed, or return "" if systemd reports no failure."""
        shown = run_quietly(systemctl.build_show_command(ASKED, [self.unit]))
        return describe_unit_failure(shown, self.read_journal())

    def read_journal(self) -> str:
        """Return the last lines of the unit, and of systemd about it."""
        words = ["journalctl", "-q", "-o", "cat", "--no-pager", "-n", LINES, "-u", self.unit]
        return run_quietly(words)[-LINES_MOST:]

    def clean_up(self) -> None:
        """Remove the file, and the failed unit from systemd's list."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        if self.poll():
            run_quietly(["systemctl", "reset-failed", "--", self.unit])


def run_quietly(argv: list[str]) -> str:
    """Return a command's output, or "" if it fails."""
    try:
        done = subprocess.run(
            argv,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=QUERY_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def find_telling_line(journal: str) -> str:
    """Return the line of a unit's journal that describes its end best."""
    lines = [line for line in map(clean_text, journal.split("\n")) if line]
    for pattern in TELLING:
        for line in reversed(lines):
            if pattern.search(line) and not FINAL.match(line):
                return line
    return next((line for line in reversed(lines) if not FINAL.match(line)), "")


def describe_status(code: str, status: int) -> str:
    """Describe how a command of a unit ended."""
    if code not in ("exited", "1"):
        return f"was ended by signal {status}"
    own = OWN_STATUS.get(status)
    return f"ended with status {status}" + (f" ({own} of systemd)" if own else "")


def describe_unit_failure(shown: str, journal: str) -> str:
    """Describe why a unit failed, or return "" if systemd reports no failure.

    Args:
        shown: the output of systemctl show.
        journal: its last lines.
    """
    said = systemctl.parse_properties(shown)
    line = find_telling_line(journal)
    if "Skipped due to 'exec-condition'" in journal:
        held = ENTRY.match(said.get("ExecCondition", ""))
        command = clean_text(held.group(2)) if held else ""
        return f"ExecCondition={command} did not succeed"
    if said.get("Result", "success") == "success":
        return ""
    why = f": {line}" if line else ""
    for name, equals, value in (one.partition("=") for one in shown.split("\n")):
        found = ENTRY.match(value) if equals and name in ("ExecCondition", "ExecStartPre") else None
        status = parse_decimal(found.group(4), 1 << 16) if found else None
        if found and status:
            return f"{name}={clean_text(found.group(2))} {describe_status(found.group(3), status)}{why}"
    status = parse_decimal(said.get("ExecMainStatus", ""), 1 << 16)
    if status:
        return f"the job {describe_status(said.get('ExecMainCode', ''), status)}{why}"
    return f"its result is {clean_text(said['Result'])}{why}"


def can_start_unit() -> bool:
    """Return whether this node starts jobs as a unit, and with a launcher that knows --rank."""
    accounts = [one for one in find_unit_accounts() if one not in UNNAMED_ACCOUNTS]
    if os.geteuid() != 0 or not accounts or not os.path.isdir(SYSTEMD):
        return False
    if not os.access(JOBS, os.W_OK):
        return False
    try:
        with open(LAUNCHER, "rb") as stream:
            return b"--rank)" in stream.read(LAUNCHER_MOST)
    except OSError:
        return False


def is_job_active() -> bool:
    """Return whether a job runs as the unit."""
    words = ["systemctl", "list-units", "--no-legend", "--plain", "--full"]
    return bool(run_quietly([*words, "--state=active,activating", "fullmesh-job@*"]).strip())


def remove_old_files(prefix: str) -> None:
    """Remove the files of starts that were killed long ago."""
    for name in os.listdir(JOBS):
        path = os.path.join(JOBS, name)
        with contextlib.suppress(OSError):
            if name.startswith(prefix) and os.lstat(path).st_mtime < time.time() - OLD_SECONDS:
                os.unlink(path)


def make_proof_file(path: str) -> None:
    """Make the empty file that the account of the unit writes to."""
    who = find_account_entry(next(find_unit_accounts(), ""))
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        if who:
            os.fchown(handle, who.pw_uid, who.pw_gid)
    finally:
        os.close(handle)


def survey_job_unit_start() -> JobUnitStart | tuple[None, str] | None:
    """Start the unit with a script that makes the first steps of a job. None if jobs do not start as a unit here.

    A node whose jobs run is left alone, since the unit's own commands may end them.
    """
    if not can_start_unit() or is_job_active():
        return None
    remove_old_files(PREFIX)
    instance = PREFIX + secrets.token_hex(6)
    proof = os.path.join(RUN, instance)
    code = base64.b64encode(PROGRAM.encode()).decode()
    variables = {
        "FULLMESH_OPTIONS": "--rank -B -S -c",
        "FULLMESH_SCRIPT": f"import base64;exec(base64.b64decode('{code}'))",
        "FULLMESH_ARGS": LAUNCHER,
        "FULLMESH_PROOF": proof,
        "FULLMESH_HANG": "0",
        "TORCHINDUCTOR_CACHE_DIR": "/",  # the launcher makes no folder
    }
    start, begun = UnitStart(instance, variables), time.monotonic()
    try:
        make_proof_file(proof)
        start.begin()
        code_of_unit = start.wait(SECONDS)
        if code_of_unit is None:
            start.kill()
            return None, "the start of fullmesh-job@ did not end in time"
        text = "" if os.path.getsize(proof) else start.describe_failure()
        if code_of_unit and not text:
            text = "systemctl start fullmesh-job@ fails"
    finally:
        start.clean_up()
        with contextlib.suppress(OSError):
            os.unlink(proof)
    return {"error": text, "seconds": round(time.monotonic() - begun, 3)}

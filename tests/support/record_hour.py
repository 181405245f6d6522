"""Record docs/tutorials/first-hour.md again: run the commands of the page on a new lab, and replace their output.

Run it as root: ``python tests/support/record_hour.py``. It needs the place of ``inventory/mine``. Titles and text of
the page stay. A command that ends with another exit code than the page says stops the recording.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyte
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/tutorials/first-hour.md"
PICTURE = ROOT / "docs/pictures/finding.png"
MINE = ROOT / "inventory/mine"
LABS = Path("/var/lib/fullmesh-lab/labs")
COLUMNS, LINES = 100, 500
STEP = re.compile(
    r"```console\n\$ (?P<typed>[^\n]+)\n(?P<shown>.*?)```\n\n\*\d+ s, exit code (?P<code>\d+)\.\*",
    re.DOTALL,
)
TABLE = re.compile(r"(?<=\|---\|---:\|\n)(?:\|.*\|\n)+")
HEADLESS = "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --window-size=1000,760"


def record_command(typed: str, env: Mapping[str, str]) -> tuple[str, int, float]:
    """Run a command on a terminal; return the text that is then on it, the exit code and the seconds."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    begun = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.execvpe("bash", ["bash", "-c", f"stty cols {COLUMNS} rows {LINES}; {typed}"], env)  # noqa: S606 (a terminal is needed)
    asked = b""
    while raw := read_terminal(terminal):
        stream.feed(raw.replace(f"{ROOT}/".encode(), b""))
        asked = (asked + raw)[-80:]
        if asked.endswith(b"[n]: "):
            os.write(terminal, b"y\n")
            asked = b""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    text = "\n".join(line.rstrip() for line in screen.display).strip("\n")
    return text, code, time.monotonic() - begun


def read_terminal(terminal: int) -> bytes:
    """Read what comes next; nothing when the program has ended."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux reports so that the other end is closed
        return b""


@contextmanager
def start_lab(lab: str, nodes: int = 2) -> Iterator[dict[str, str]]:
    """Start a lab for a recording that writes ``inventory/mine``, and remove both afterwards."""
    if MINE.exists():
        raise SystemExit(
            f"{shlex.quote(str(MINE))} exists. Fix: rename it, the recording needs its place."
        )
    run_lab("up", "--name", lab, "--nodes", str(nodes))
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield prepare_nodes(Path(folder), lab)
    finally:
        shutil.rmtree(MINE, ignore_errors=True)
        run_lab("down", "--name", lab)


def prepare_nodes(folder: Path, lab: str) -> dict[str, str]:
    """Give the nodes their addresses, as by hand, and return the environment that lets ssh find them by name."""
    text = (LABS / lab / "inventory/hosts.yml").read_text()
    lines = []
    for name, node in yaml.safe_load(text)["all"]["children"]["torch_nodes"]["hosts"].items():
        lines.append(f"Host {name}\n  HostName {node['ansible_host']}")
        nic, address = node["fullmesh_interface"], node["fullmesh_address"]
        run_lab("exec", "--name", lab, name, "--", "ip", "link", "set", nic, "up")
        run_lab("exec", "--name", lab, name, "--", "ip", "address", "add", address, "dev", nic)
    keys = LABS / lab
    lines.append(f"Host *\n  User root\n  IdentityFile {keys}/id_ed25519")
    lines.append(f"  UserKnownHostsFile {keys}/known_hosts")
    config = folder / "ssh_config"
    config.write_text("\n".join(lines) + "\n")
    program = folder / "ssh"  # for commands of a page that begin with ssh
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
    program.chmod(0o755)
    return {
        **{key: value for key, value in os.environ.items() if key not in ("CI", "PYTHONPATH")},
        "ANSIBLE_SSH_COMMON_ARGS": f"-F {config}",
        # ssh reuses a connection to the same name, which can be a node of another lab
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"),
        "PATH": f"{folder}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
    }


def run_lab(*args: str) -> None:
    subprocess.run([ROOT / "fullmesh", "lab", *args], check=True)


def photograph_report() -> None:
    """Make the picture of a finding from the newest report, with Chromium."""
    with tempfile.TemporaryDirectory() as folder:  # a packaged browser may not read every folder
        page, made = Path(folder, "report.html"), Path(folder, "made.png")
        shutil.copy(ROOT / "runs/latest/report.html", page)
        flags = [*HEADLESS.split(), "--force-color-profile=srgb", f"--screenshot={made}"]
        subprocess.run(["chromium", *flags, page.as_uri()], check=True, capture_output=True)
        shutil.copy(made, PICTURE)


def record_page(
    text: str, env: Mapping[str, str], photograph: Callable[[], None] | None = None
) -> str:
    """Return the page with new output and times. *photograph*: what to do after a diagnosis."""
    rows, total = [], 0.0

    def renew(step: re.Match[str]) -> str:
        nonlocal total
        sys.stderr.write(f"$ {step['typed']}\n")
        shown, code, seconds = record_command(step["typed"], env)
        if code != int(step["code"]):
            raise SystemExit(f"exit code {code}, not {step['code']}:\n{shown}")
        if photograph and step["typed"].startswith("./fullmesh diagnose"):
            photograph()
        total += seconds
        if step["shown"]:
            rows.append(f"| `{step['typed']}` | {seconds:.0f} |\n")
            shown += "\n"
        else:
            shown = ""
        return f"```console\n$ {step['typed']}\n{shown}```\n\n*{seconds:.0f} s, exit code {code}.*"

    text = STEP.sub(renew, text)
    rows.append(f"| total | {total:.0f} |\n")
    return TABLE.sub(lambda _: "".join(rows), text)


def main() -> None:
    """Record the page."""
    with start_lab("hour") as env:
        PAGE.write_text(record_page(PAGE.read_text(), env, photograph_report))


if __name__ == "__main__":
    main()

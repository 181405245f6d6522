"""How the play came into a node: its ssh sessions and sshd's ports, from a /proc in a directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.transaction import session

HEADER = "  sl  local_address rem_address   st tx rx tr tm retr uid timeout inode\n"
HOST, JUMP, MAPPED = "0B00000A", "090200C0", "0000000000000000FFFF0000090200C0"


def write_file(proc: Path, path: str, text: str) -> None:
    target = Path(str(proc) + path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def process(proc: Path, pid: int, parent: int, name: str, environ: str = "") -> None:
    write_file(proc, f"/{pid}/stat", f"{pid} ({name}) S {parent} 1 1")
    write_file(proc, f"/{pid}/comm", name + "\n")
    write_file(proc, f"/{pid}/environ", environ)
    (proc / str(pid) / "fd").mkdir(exist_ok=True)


def sockets(proc: Path, rows: list[tuple[str, str, str, str]], name: str = "tcp") -> None:
    form = "0: {} {} {} 0:0 0:0 0 0 0 {} 1\n"
    write_file(proc, f"/net/{name}", HEADER + "".join(form.format(*row) for row in rows))


def link_socket(proc: Path, pid: int, inode: str) -> None:
    os.symlink(f"socket:[{inode}]", proc / str(pid) / "fd" / inode)


def test_the_live_controller_is_found_through_sudo(tmp_path: Path) -> None:
    process(tmp_path, 40, 30, "python3")
    process(tmp_path, 30, 20, "sudo (x) y")
    process(tmp_path, 20, 10, "bash", "A=1\0SSH_CONNECTION=192.0.2.1 5 10.0.0.11 2222\0")
    assert session.list_ssh_clients({}, 40, str(tmp_path)) == ["192.0.2.1"]
    assert session.list_ssh_ports({}, 40, str(tmp_path)) == [2222]
    assert session.list_ssh_clients({}, 10, str(tmp_path)) == []


def test_sessions_of_the_environment_and_of_parents_both_count(tmp_path: Path) -> None:
    process(tmp_path, 40, 20, "python3")
    process(tmp_path, 20, 1, "bash", "SSH_CONNECTION=10.0.0.11 7 10.0.0.11 22\0")
    here = {"SSH_CONNECTION": "::ffff:192.0.2.9 5 10.0.0.11 22"}
    assert session.list_ssh_clients(here, 40, str(tmp_path)) == ["10.0.0.11", "192.0.2.9"]


@pytest.mark.parametrize("name", ["sshd", "sshd-session"])
def test_a_session_without_the_variable_is_found_by_its_socket(tmp_path: Path, name: str) -> None:
    """`ssh -J jump node`: the other end is the jump host; `env -i` and su - drop every variable."""
    process(tmp_path, 10, 1, "sshd")
    process(tmp_path, 20, 10, name)
    process(tmp_path, 40, 20, "python3")
    rows = [(f"{HOST}:0016", f"{JUMP}:C350", "01", "101"), ("00000000:0016", "0:0", "0A", "100")]
    # a forwarding of this session to somewhere else is no way in
    rows.append((f"{HOST}:D431", "630200C0:0050", "01", "102"))
    sockets(tmp_path, rows)
    link_socket(tmp_path, 10, "100")
    for inode in ("101", "102"):
        link_socket(tmp_path, 20, inode)
    assert session.list_ssh_clients({}, 40, str(tmp_path)) == ["192.0.2.9"]


def test_a_v4_session_on_a_v6_socket_is_v4(tmp_path: Path) -> None:
    process(tmp_path, 10, 1, "sshd")
    process(tmp_path, 20, 10, "sshd")
    process(tmp_path, 40, 20, "python3")
    sockets(tmp_path, [("0" * 32 + ":0016", "0:0", "0A", "100")], "tcp6")
    text = (tmp_path / "net/tcp6").read_text(encoding="utf-8")
    row = f"1: {'0' * 24}0B00000A:0016 {MAPPED}:C350 01 0:0 0:0 0 0 0 101 1\n"
    (tmp_path / "net/tcp6").write_text(text + row, encoding="utf-8")
    link_socket(tmp_path, 10, "100")
    link_socket(tmp_path, 20, "101")
    assert session.list_ssh_clients({}, 40, str(tmp_path)) == ["192.0.2.9"]


@pytest.mark.parametrize(
    ("connection", "server"),
    [
        ("10.0.0.1 50000 10.0.0.11 22", "10.0.0.11"),
        ("::ffff:10.0.0.1 50000 ::ffff:10.0.0.11 22", "10.0.0.11"),
        ("fe80::1%eth1 50000 fe80::2%eth1 22", "fe80::2"),
        ("", ""),
        # a user's own shell may set the variable to anything
        ("a b c d", ""),
        ("10.0.0.1 x 10.0.0.11 22", ""),
        ("10.0.0.1 50000 10.0.0.11", ""),
    ],
)
def test_the_address_that_we_came_in_on(tmp_path: Path, connection: str, server: str) -> None:
    process(tmp_path, 40, 1, "python3", f"SSH_CONNECTION={connection}\0")
    for words in (
        session.find_ssh_session({}, 40, str(tmp_path)),
        session.find_ssh_session({"SSH_CONNECTION": connection}, 1, str(tmp_path)),
    ):
        assert session.get_server_address(words) == server


def test_our_session_is_found_behind_sudo() -> None:
    """A real child of a shell, with the variable only in the environment of the shell."""
    words = "192.0.2.1 5 192.0.2.2 22"
    script = (
        "import os, ansible.module_utils as m; m.__path__.append(os.environ['FOLDER']); "
        "from ansible.module_utils.fullmesh.transaction import session; "
        "print(*session.find_ssh_session({}, os.getppid()))"
    )
    done = subprocess.run(
        ["sh", "-c", f'env -u SSH_CONNECTION "{sys.executable}" -c "{script}"; true'],
        env={
            **os.environ,
            "SSH_CONNECTION": words,
            "FOLDER": str(Path(__file__).parents[2] / "module_utils"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == words


def test_foreign_sessions_are_not_ours(tmp_path: Path) -> None:
    process(tmp_path, 10, 1, "sshd")
    process(tmp_path, 20, 10, "sshd", "SSH_CONNECTION=198.51.100.9 1 10.0.0.11 22\0")
    process(tmp_path, 40, 1, "python3")
    sockets(tmp_path, [(f"{HOST}:0016", f"{JUMP}:C350", "01", "101")])
    link_socket(tmp_path, 20, "101")
    assert session.list_ssh_clients({}, 40, str(tmp_path)) == []


def test_sshds_ports_are_its_listeners_and_not_a_sessions_forwardings(tmp_path: Path) -> None:
    rows = [("00000000:08AE", "0:0", "0A", "101"), ("0100007F:0016", "0:0", "0A", "102")]
    rows += [("00000000:1F90", "0:0", "0A", "103"), ("00000000:08AE", "0:0", "01", "104")]
    sockets(tmp_path, rows)
    process(tmp_path, 10, 1, "sshd")
    process(tmp_path, 20, 10, "sshd")  # a session, with a forwarding on 8080
    for pid, inode in ((10, "101"), (10, "102"), (20, "103"), (10, "104")):
        link_socket(tmp_path, pid, inode)
    assert session.list_sshd_ports(str(tmp_path)) == [2222]

"""ssh between the nodes: one key for all, real host keys, and no changes to foreign files."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh import ssh_keys
from ladder_samples import plan

from fullmesh.roles import node_ssh

PLAN = plan(2)
FIRST, SECOND = list(PLAN["nodes"])
ALIEN = "ssh-rsa AAAA another-user"
STRANGER = 61999


@pytest.mark.parametrize(
    ("user", "port", "wrong"),
    [
        ("fullmesh", 22, 0),
        ("train", "2222", 0),
        ("root", 22, 1),
        ("x; reboot", 22, 1),
        ("", 0, 2),
        ("fullmesh", "ssh", 1),
    ],
)
def test_invalid_settings_are_refused(user: str, port: object, wrong: int) -> None:
    assert [fault.code for fault in node_ssh.find_node_ssh_faults(user, port)] == ["NS-101"] * wrong


def test_the_key_is_one_that_ssh_itself_reads(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(node_ssh.generate_private_key())
    path.chmod(0o600)
    done = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[:2] == node_ssh.derive_public_key(path.read_text()).split()[:2]
    assert node_ssh.generate_private_key() != node_ssh.generate_private_key()


def test_the_masters_key_wins_and_a_damaged_one_does_not() -> None:
    own, foreign = node_ssh.generate_private_key(), node_ssh.generate_private_key()
    master = PLAN["master"]["node"]
    other = SECOND if master == FIRST else FIRST
    assert node_ssh.choose_private_key(PLAN, {master: own, other: foreign}) == own
    assert node_ssh.choose_private_key(PLAN, {master: "", other: foreign}) == foreign
    assert node_ssh.choose_private_key(PLAN, {master: own[:90], other: foreign}) == foreign
    assert node_ssh.choose_private_key(PLAN, {}) not in ("", own, foreign)


@pytest.mark.parametrize("port", [22, 2222])
def test_known_hosts_names_every_node_with_its_own_key(tmp_path: Path, port: int) -> None:
    key = {
        name: node_ssh.derive_public_key(node_ssh.generate_private_key()) for name in PLAN["nodes"]
    }
    path = tmp_path / "known_hosts"
    path.write_text(
        node_ssh.render_known_hosts(PLAN, {name: [line] for name, line in key.items()}, port)
    )
    for name, node in PLAN["nodes"].items():
        for asked in (node["address"], name):
            word = asked if port == 22 else f"[{asked}]:{port}"
            found = subprocess.run(
                ["ssh-keygen", "-F", word, "-f", str(path)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            assert key[name].split()[1] in found


def test_the_key_line_limits_source_and_commands() -> None:
    assert node_ssh.render_authorized_key(
        "ssh-ed25519 AAAA fullmesh-cluster", ["10.0.0.1", "fd78::1"]
    ) == ('restrict,from="10.0.0.1,fd78::1" ssh-ed25519 AAAA fullmesh-cluster')


def test_one_node_queries_every_node() -> None:
    asked = [node_ssh.find_next_address(PLAN, name) for name in PLAN["nodes"]]
    assert sorted(asked) == sorted(node["address"] for node in PLAN["nodes"].values())
    assert asked[0] != PLAN["nodes"][FIRST]["address"]


@pytest.fixture
def tmp_path(open_folder: Path) -> Path:
    """Let an account without rights enter the folder of a test."""
    return open_folder


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a machine with the account, whose folder has its owner's key."""
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    monkeypatch.setattr(ssh_keys, "FOLDER", str(tmp_path / "etc/fullmesh/ssh"))
    monkeypatch.setattr(ssh_keys, "ROOT", str(tmp_path))
    monkeypatch.setattr(ssh_keys, "HOST_KEYS", str(tmp_path / "etc/ssh_host_*_key.pub"))
    me = pwd.getpwuid(os.getuid())
    found = pwd.struct_passwd(
        (me.pw_name, "x", me.pw_uid, me.pw_gid, "", str(tmp_path / "home"), "/bin/sh")
    )
    monkeypatch.setattr(ssh_keys, "find_account", lambda _user: found)
    return tmp_path


PARAMS: dict[str, Any] = {
    "user": "train",
    "private_key": "SECRET\n",
    "authorized": 'restrict,from="10.0.0.1" ssh-ed25519 AAAA fullmesh-cluster',
    "known_hosts": "10.0.0.1 ssh-ed25519 BBBB\n",
    "config": "Host *\n",
}


def test_an_existing_account_of_the_user_is_unchanged(node: Path) -> None:
    keys = node / "home/.ssh/authorized_keys"
    keys.write_text(ALIEN + "\n")
    keys.chmod(0o640)
    assert ssh_keys.install_ssh_keys(PARAMS, check=True)["changed"] is True
    assert keys.read_text() == ALIEN + "\n"
    assert ssh_keys.install_ssh_keys(PARAMS, check=False)["changed"] is True
    assert keys.read_text().splitlines() == [ALIEN, PARAMS["authorized"]]
    assert stat.S_IMODE(keys.stat().st_mode) == 0o640
    assert stat.S_IMODE((node / "etc/fullmesh/ssh/id_ed25519").stat().st_mode) == 0o600
    # a new cluster address: our line is replaced, the others stay
    moved = PARAMS | {"authorized": PARAMS["authorized"].replace("10.0.0.1", "10.0.0.2")}
    assert ssh_keys.install_ssh_keys(moved, check=False)["changed"] is True
    assert keys.read_text().splitlines() == [ALIEN, moved["authorized"]]
    with keys.open("a") as stream:
        stream.write("ssh-rsa CCCC later\n")
    assert ssh_keys.remove_ssh_keys(check=True)["changed"] is True
    assert ssh_keys.remove_ssh_keys(check=False) == {"changed": True, "left": ""}
    assert keys.read_text().splitlines() == [ALIEN, "ssh-rsa CCCC later"]
    assert not (node / "etc/fullmesh").exists()
    assert not (node / "var/lib/fullmesh/undo").exists()
    assert ssh_keys.remove_ssh_keys(check=False)["changed"] is False


@pytest.fixture
def stranger(node: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the same machine with an account without rights, next to files that only root may change."""
    uid, gid = (STRANGER, STRANGER) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    for path in (node / "home", node / "home/.ssh"):
        os.chown(path, uid, gid)
    found = pwd.struct_passwd(("train", "x", uid, gid, "", str(node / "home"), "/bin/sh"))
    monkeypatch.setattr(ssh_keys, "find_account", lambda _user: found)
    (node / "secret").write_text("ROOTS-OWN\n")
    (node / "secret").chmod(0)
    (node / "roots-ssh").mkdir()
    (node / "roots-ssh").chmod(0)
    return node


def untouched(secret: Path) -> bool:
    held = secret.stat()
    if (held.st_uid, stat.S_IMODE(held.st_mode)) != (os.geteuid(), 0):
        return False
    secret.chmod(0o600)
    return secret.read_text() == "ROOTS-OWN\n"


@pytest.mark.parametrize("check", [True, False])
def test_a_key_file_that_is_a_link_is_refused(stranger: Path, check: bool) -> None:
    keys = stranger / "home/.ssh/authorized_keys"
    keys.symlink_to(stranger / "secret")
    with pytest.raises(
        ssh_keys.AccountError, match=r"\[NS-105\] .*keys is not a plain file.*link to"
    ):
        ssh_keys.install_ssh_keys(PARAMS, check=check)
    assert untouched(stranger / "secret")
    assert keys.is_symlink()


@pytest.mark.parametrize("check", [True, False])
def test_a_folder_that_is_a_link_is_refused(stranger: Path, check: bool) -> None:
    roots = stranger / "roots-ssh"
    (stranger / "home/.ssh").rmdir()
    (stranger / "home/.ssh").symlink_to(roots)
    with pytest.raises(
        ssh_keys.AccountError, match=r"\[NS-105\] .*ssh is not a directory.*roots-ssh"
    ):
        ssh_keys.install_ssh_keys(PARAMS, check=check)
    assert (roots.stat().st_uid, stat.S_IMODE(roots.stat().st_mode)) == (os.geteuid(), 0)
    roots.chmod(0o700)
    assert list(roots.iterdir()) == []


def test_a_check_without_child_process_refuses_the_same(stranger: Path) -> None:
    """In this process, because a child with the account's rights cannot write coverage data."""
    keys = stranger / "home/.ssh/authorized_keys"
    keys.symlink_to(stranger / "secret")
    with pytest.raises(ssh_keys.AccountError, match=r"\[NS-105\] .*keys is not a plain file.*link"):
        ssh_keys.read_ssh_folder(str(stranger / "home"))


def test_a_fifo_does_not_block_the_run(stranger: Path) -> None:
    os.mkfifo(stranger / "home/.ssh/authorized_keys")
    with pytest.raises(ssh_keys.AccountError, match="NS-105"):
        ssh_keys.install_ssh_keys(PARAMS, check=True)


def test_undo_does_not_follow_links_either(stranger: Path) -> None:
    ssh_keys.install_ssh_keys(PARAMS, check=False)
    keys = stranger / "home/.ssh/authorized_keys"
    keys.unlink()
    keys.symlink_to(stranger / "secret")
    with pytest.raises(ssh_keys.AccountError, match="NS-105"):
        ssh_keys.remove_ssh_keys(check=False)
    assert untouched(stranger / "secret")


def test_work_in_the_accounts_folder_runs_as_the_account(
    stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that appears after the check is harmless, because the account has no right to its target."""

    def fooled(_home: str) -> int:
        return os.open(stranger / "roots-ssh", os.O_RDONLY | os.O_DIRECTORY)

    monkeypatch.setattr(ssh_keys, "open_ssh_folder", fooled)
    for check in (True, False):
        with pytest.raises(OSError, match=r"as train: .*Permission denied"):
            ssh_keys.install_ssh_keys(PARAMS, check=check)
    (stranger / "roots-ssh").chmod(0o700)
    assert list((stranger / "roots-ssh").iterdir()) == []


def test_the_work_runs_without_rights(stranger: Path) -> None:
    def work() -> list[Any]:
        status = Path("/proc/self/status").read_text().splitlines()
        return [os.getresuid(), os.getresgid(), [ln for ln in status if ln.startswith("CapEff")]]

    owner = ssh_keys.find_account("")
    wanted = [[owner.pw_uid] * 3, [owner.pw_gid] * 3, ["CapEff:\t" + "0" * 16]]
    assert ssh_keys.run_as_account(owner, work) == wanted
    with pytest.raises(OSError, match=r"as train: .*Permission denied"):
        ssh_keys.run_as_account(ssh_keys.find_account(""), (stranger / "secret").read_text)


def test_an_account_that_kills_the_work_is_reported(stranger: Path) -> None:
    with pytest.raises(OSError, match="as train: it ended without an answer"):
        ssh_keys.run_as_account(ssh_keys.find_account(""), lambda: os.kill(os.getpid(), 9))


def test_a_linked_home_works_and_root_needs_no_rights(stranger: Path) -> None:
    """The home in passwd may be a link (automounted homes), and NFS may deny root all access (root_squash)."""
    (stranger / "home").rename(stranger / "elsewhere")
    (stranger / "home").symlink_to(stranger / "elsewhere")
    ssh_keys.install_ssh_keys(PARAMS, check=False)
    keys = stranger / "elsewhere/.ssh/authorized_keys"
    assert keys.read_text().splitlines() == [PARAMS["authorized"]]
    assert (keys.stat().st_uid, stat.S_IMODE(keys.stat().st_mode)) == (
        ssh_keys.find_account("").pw_uid,
        0o600,
    )
    assert ssh_keys.install_ssh_keys(PARAMS, check=False)["changed"] is False
    ssh_keys.remove_ssh_keys(check=False)
    assert not keys.exists()


def test_a_diff_shows_our_lines_only(node: Path) -> None:
    (node / "home/.ssh/authorized_keys").write_text(ALIEN + "\n")
    shown = ssh_keys.install_ssh_keys(PARAMS, check=True)["diff"]
    assert ALIEN not in str(shown)
    assert PARAMS["authorized"] in str(shown)


def test_a_file_that_is_no_list_of_keys_is_refused(
    stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_keys, "LARGEST", 10)
    (stranger / "home/.ssh/authorized_keys").write_text("x" * 11)
    (stranger / "home/.ssh/authorized_keys").chmod(0o644)
    with pytest.raises(ssh_keys.AccountError, match=r"\[NS-105\].*more than 10 bytes"):
        ssh_keys.install_ssh_keys(PARAMS, check=True)


def test_a_diff_never_contains_the_key(node: Path) -> None:
    assert "SECRET" not in str(ssh_keys.install_ssh_keys(PARAMS, check=True))
    ssh_keys.install_ssh_keys(PARAMS, check=False)
    assert "SECRET" not in str(
        ssh_keys.install_ssh_keys(PARAMS | {"private_key": "OTHER\n"}, check=True)
    )


def test_our_files_are_removed_and_foreign_ones_stay(node: Path) -> None:
    (node / "home/.ssh").rmdir()
    ssh_keys.install_ssh_keys(PARAMS, check=False)
    assert (node / "home/.ssh/authorized_keys").exists()
    ssh_keys.remove_ssh_keys(check=False)
    assert list((node / "home").iterdir()) == []


def test_a_missing_host_key_is_reported(node: Path) -> None:
    with pytest.raises(ssh_keys.SshError, match="NS-102"):
        ssh_keys.read_host_keys()
    (node / "etc/ssh_host_ed25519_key.pub").write_text("ssh-ed25519 AAAA root@a\n")
    (node / "etc/ssh_host_dsa_key.pub").write_text("ssh-dss AAAA root@a\n")
    assert ssh_keys.read_host_keys() == ["ssh-ed25519 AAAA root@a"]


def test_a_refused_command_is_quoted() -> None:
    with pytest.raises(ssh_keys.SshError, match=r"NS-103.*no such thing"):
        ssh_keys.run_account_command(["sh", "-c", "echo no such thing; exit 6"])


def test_a_command_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_keys, "COMMAND_SECONDS", 0.1)
    with pytest.raises(ssh_keys.SshError, match=r"NS-103.*sleep 9 failed: no end after"):
        ssh_keys.run_account_command(["sleep", "9"])


def test_a_refused_login_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], 255, stdout=b"Warning\nPermission denied (publickey).\n")
    monkeypatch.setattr(ssh_keys.subprocess, "run", lambda *_, **__: done)
    with pytest.raises(ssh_keys.SshError, match=r"NS-104.*10\.0\.0\.2 as train: Permission denied"):
        ssh_keys.check_peer_login({"user": "train", "peer": "10.0.0.2"})

# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The account and the key by which nodes log in to each other."""

import glob
import json
import os
import pwd
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh_files import put, read

if TYPE_CHECKING:
    from typing import Any

    Params = dict[str, Any]

DOCUMENTATION = r"""
---
module: cluster_ssh
short_description: The account and the key by which nodes log in to each other
description:
  - Makes the account where it is missing, brings key, known_hosts and ssh's settings into a folder of ours, and adds
    one line to the account's authorized_keys. Lines and files of others are never touched.
  - Then logs in to another node, so that what was written is also what works.
options:
  state:
    description:
      - V(read) looks only, V(present) brings everything, V(tried) logs in to O(peer), V(absent) takes everything away.
    type: str
    choices: [read, present, tried, absent]
    required: true
  user:
    description: The account.
    type: str
    default: ''
  private_key:
    description: The cluster's private key.
    type: str
    default: ''
  authorized:
    description: The line for authorized_keys.
    type: str
    default: ''
  known_hosts:
    description: The whole file.
    type: str
    default: ''
  config:
    description: The whole file.
    type: str
    default: ''
  peer:
    description: The address of the node to log in to.
    type: str
    default: ''
attributes:
  check_mode:
    description: Says what would change, on a bare machine too; does not log in.
    support: full
  diff_mode:
    description: Names of what differs and the text of what is no secret.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: See which key and host keys there are
  cluster_ssh:
    state: read
  no_log: true
"""

RETURN = r"""
private_key:
  description: The key that the node has; empty where there is none. A secret.
  type: str
  returned: with state=read
host_keys:
  description: The public lines of sshd's keys.
  type: list
  elements: str
  returned: with state=read
left:
  description: The account's folder, where somebody's files are in it and it was therefore left.
  type: str
  returned: with state=absent
"""

FOLDER = "/etc/fullmesh/ssh"
HOST_KEYS = "/etc/ssh/ssh_host_*_key.pub"
# What was made here, so that exactly this is taken away again.
NOTE = "/var/lib/fullmesh/node_ssh.json"
MARK = " fullmesh-cluster"
HOMES = "/home"
TRY_SECONDS = 15
# useradd and userdel wait up to 15 s for the lock of /etc/passwd (lckpwdf(3)).
COMMAND_SECONDS = 60


class SshError(Exception):
    """A coded sentence for the user."""


def host_keys() -> "list[str]":
    """The public lines of sshd's keys; DSA is refused by every sshd of today."""
    lines = [read(path).strip() for path in sorted(glob.glob(HOST_KEYS)) if "_dsa_" not in path]
    if not any(lines):
        raise SshError(
            "[NS-102] there is no ssh host key here: %s. Make them with ssh-keygen -A, and start sshd."
            % HOST_KEYS
        )
    return [line for line in lines if line]


def account(user: str) -> "pwd.struct_passwd | None":
    """The account, None where there is none."""
    try:
        return pwd.getpwnam(user)
    except KeyError:
        return None


def command(argv: "list[str]") -> None:
    """Run a command of shadow-utils; its words are the error."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        failed, said = done.returncode, done.stdout.decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        failed, said = 1, "no end after %d s" % COMMAND_SECONDS
    if failed:
        said = said or "exit status %d" % failed
        raise SshError(
            "[NS-103] %s failed: %s. End what runs in this account, or name another one in node_ssh_user."
            % (" ".join(argv), said.splitlines()[-1])
        )


def note() -> "Params":
    """What was made here before."""
    try:
        return dict(json.loads(read(NOTE) or "{}"))
    except ValueError:
        return {}


def keep(made: "Params") -> None:
    """Remember what was made; written before it is made, so that an interrupted run can be undone."""
    os.makedirs(os.path.dirname(NOTE), exist_ok=True)
    put(NOTE, json.dumps(made) + "\n", 0o600, (0, 0))


def wanted_keys(text: str, line: str) -> str:
    """authorized_keys with our line in it once; *line* empty: without it."""
    others = [one for one in text.splitlines() if not one.endswith(MARK)]
    lines = others + ([line] if line else [])
    return "".join(one + "\n" for one in lines)


def differing(params: "Params") -> "list[Params]":
    """What has to be written: path, before, after, mode, and whether it is the account's."""
    owner = account(params["user"])
    home = owner.pw_dir if owner else os.path.join(HOMES, params["user"])
    line = os.path.join(home, ".ssh", "authorized_keys")
    files = [
        {
            "path": FOLDER + "/id_ed25519",
            "after": params["private_key"],
            "mode": 0o600,
            "own": True,
        },
        {"path": FOLDER + "/known_hosts", "after": params["known_hosts"], "mode": 0o644},
        {"path": FOLDER + "/config", "after": params["config"], "mode": 0o644},
        {
            "path": line,
            "after": wanted_keys(read(line), params["authorized"]),
            "mode": 0o600,
            "own": True,
        },
    ]  # type: list[Params]
    found = []
    for one in files:
        one["before"] = read(one["path"])
        uid = owner.pw_uid if owner and one.get("own") else 0
        if one["before"] != one["after"] or not fits(
            one["path"], uid, one["mode"], one["path"] == line
        ):
            found.append(one)
    return found


def fits(path: str, uid: int, mode: int, theirs: bool) -> bool:
    """Whether owner and mode are right; a user's own authorized_keys keeps the mode it has."""
    try:
        info = os.stat(path)
    except OSError:
        return False
    return info.st_uid == uid and (theirs or stat.S_IMODE(info.st_mode) == mode)


def make_account(params: "Params", made: "Params") -> "pwd.struct_passwd":
    """The account, made where it is missing: no password ('*' is not 'locked', sshd lets keys in), an empty folder."""
    user = params["user"]
    found = account(user)
    if found is None:
        made.update({"user": user, "account": True})
        keep(made)
        home = os.path.join(HOMES, user)
        options = ["--system", "--user-group", "--no-create-home", "--home-dir", home]
        command(["useradd", *options, "--shell", "/bin/bash", "--password", "*", user])
        found = pwd.getpwnam(user)
    if not os.path.isdir(found.pw_dir) and made.get("account"):
        os.mkdir(found.pw_dir, 0o700)
        os.chown(found.pw_dir, found.pw_uid, found.pw_gid)
    return found


def present(params: "Params", check: bool) -> "Params":
    """Bring everything."""
    made = note()
    moved = bool(made.get("user")) and made["user"] != params["user"]
    if moved and not check:
        absent(check)
        made = {}
    files = differing(params)
    changed = bool(files) or moved or account(params["user"]) is None
    diff = [
        {
            "before_header": one["path"],
            "after_header": one["path"],
            "before": "" if one["after"] == params["private_key"] else one["before"],
            "after": "a new key\n" if one["after"] == params["private_key"] else one["after"],
        }
        for one in files
    ]
    if changed and not check:
        bring(params, made, files)
    return {"changed": changed, "diff": diff}


def bring(params: "Params", made: "Params", files: "list[Params]") -> None:
    """Make the account and write what differs."""
    owner = make_account(params, made)
    dot = os.path.join(owner.pw_dir, ".ssh")
    made.update(
        {"user": params["user"], "folder": not os.path.isdir(dot) or made.get("folder", False)}
    )
    made["keys"] = made.get("keys", not os.path.exists(dot + "/authorized_keys"))
    keep(made)
    os.makedirs(FOLDER, exist_ok=True)
    if not os.path.isdir(dot):
        os.makedirs(dot, 0o700)
        os.chown(dot, owner.pw_uid, owner.pw_gid)
    for one in files:
        mine = one.get("own")
        mode = one["mode"]
        if one["path"].startswith(dot) and one["before"]:
            mode = stat.S_IMODE(os.stat(one["path"]).st_mode)
        put(one["path"], one["after"], mode, (owner.pw_uid, owner.pw_gid) if mine else (0, 0))
    label(dot)


def label(path: str) -> None:
    """Give SELinux's own context to what was made: sshd may not read keys of another type."""
    if shutil.which("restorecon") and os.path.isdir("/sys/fs/selinux"):
        command(["restorecon", "-RF", path])


def absent(check: bool) -> "Params":
    """Take away what was made here: the line, the files, the account, its folder when nothing of anybody is in it."""
    made = note()
    changed = bool(made) or os.path.isdir(FOLDER)
    if check or not changed:
        return {"changed": changed, "left": ""}
    owner = account(made.get("user", ""))
    left = remove_login(owner, made) if owner else ""
    for name in ("id_ed25519", "known_hosts", "config"):
        if os.path.exists(os.path.join(FOLDER, name)):
            os.unlink(os.path.join(FOLDER, name))
    for path in (FOLDER, os.path.dirname(FOLDER)):
        if os.path.isdir(path) and not os.listdir(path):
            os.rmdir(path)
    if os.path.exists(NOTE):
        os.unlink(NOTE)
    return {"changed": True, "left": left}


def remove_login(owner: "pwd.struct_passwd", made: "Params") -> str:
    """Our line, and the account when it is ours; returns its folder where it had to stay."""
    if made.get("account"):
        # first: it refuses while something runs in the account, and then everything must still be as it was
        command(["userdel", owner.pw_name])
    dot = os.path.join(owner.pw_dir, ".ssh")
    keys = os.path.join(dot, "authorized_keys")
    if os.path.exists(keys):
        rest = wanted_keys(read(keys), "")
        if rest or not made.get("keys"):
            put(keys, rest)
        else:
            os.unlink(keys)
    if made.get("folder") and os.path.isdir(dot) and not os.listdir(dot):
        os.rmdir(dot)
    if not made.get("account") or not os.path.isdir(owner.pw_dir):
        return ""
    if os.listdir(owner.pw_dir):
        return str(owner.pw_dir)
    os.rmdir(owner.pw_dir)
    return ""


def tried(params: "Params") -> "Params":
    """Log in to the peer as a job would."""
    argv = [
        "runuser",
        "-u",
        params["user"],
        "--",
        "ssh",
        "-F",
        FOLDER + "/config",
        params["peer"],
        "true",
    ]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TRY_SECONDS,
            check=False,
            cwd="/",
        )
        said, failed = done.stdout.decode(errors="replace").strip(), done.returncode != 0
    except subprocess.TimeoutExpired:
        said, failed = "no answer for %d s" % TRY_SECONDS, True
    if failed:
        raise SshError(
            "[NS-104] no login from here to %s as %s: %s. "
            "Look into that node's `journalctl -u sshd -u ssh`, and try: %s"
            % (
                params["peer"],
                params["user"],
                (said.splitlines() or ["no words"])[-1],
                " ".join(argv),
            )
        )
    return {"changed": False}


def main() -> None:
    """Read, call, return."""
    texts = ("user", "authorized", "known_hosts", "config", "peer")
    spec = {name: {"type": "str", "default": ""} for name in texts}  # type: Params
    spec["private_key"] = {"type": "str", "default": "", "no_log": True}
    spec["state"] = {
        "type": "str",
        "choices": ["read", "present", "tried", "absent"],
        "required": True,
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    params = module.params
    try:
        if params["state"] == "read":
            result = {"private_key": read(FOLDER + "/id_ed25519"), "host_keys": host_keys()}  # type: Params
        elif params["state"] == "present":
            result = present(params, module.check_mode)
        elif params["state"] == "tried":
            result = {} if module.check_mode else tried(params)
        else:
            result = absent(module.check_mode)
    except SshError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg="[NS-103] the account's files cannot be written: %s. Mend that path and run it again."
            % error
        )
    module.exit_json(**dict({"changed": False}, **result))


if __name__ == "__main__":
    main()

"""Files of others keep their line ends, and bytes that are no UTF-8, where we edit them.

Read by the reader that the modules use and written by their writer: Python's own makes a line feed of each carriage
return, so an edit of one line used to change every other one of a file that came from another system.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh import chrony, files, hosts_file, selinux, ssh_keys
from ansible.module_utils.fullmesh.network import change
from ansible.module_utils.fullmesh.network.backends import (
    ifcfg,
    ifupdown,
    netplan,
    networkmanager,
)
from ansible.module_utils.fullmesh.network.machine import Node
from ansible.module_utils.fullmesh.packages import versionlock

NETPLAN = """network:
  ethernets:
    eth0: {dhcp4: true}
    eth1:
      dhcp4: true
"""
INTERFACES = """auto lo
iface lo inet loopback
auto eth1
iface eth1 inet dhcp
"""
PROFILE = """[connection]
id=eth1
interface-name=eth1
autoconnect=true
"""
# What is there, the edit, and the lines of it that are not ours to change.
EDITS: dict[str, tuple[str, Callable[[str], str], int]] = {
    "hosts": (
        "127.0.0.1 localhost\n127.0.1.1 el1\n10.9.9.9 storage\n",
        lambda text: hosts_file.render(text, [{"address": "10.0.0.1", "names": ["el1"]}]),
        2,
    ),
    "netplan": (NETPLAN, lambda text: netplan.freed(text, {"eth1": set()}, ["eth1"], "x"), 3),
    "ifupdown": (INTERFACES, lambda text: ifupdown.freed(text, ["eth1"]), 2),
    "keyfile": (PROFILE, networkmanager.quieted, 3),
    "ifcfg": ("DEVICE=eth1\nONBOOT=yes\nBOOTPROTO=dhcp\n", ifcfg.quieted, 2),
    "chrony": (
        "pool ntp.example iburst\nmakestep 1 3\n",
        lambda text: chrony.wanted_files("c", text, [], ["server 10.0.0.1"], True)["c"],
        1,
    ),
    "selinux": (
        "# how\nSELINUX=permissive\nSELINUXTYPE=targeted\n",
        lambda text: selinux.with_mode(text, "enforcing"),
        2,
    ),
    "versionlock": (
        "# mine\nkernel-5.14.0-1.el9.*\n",
        lambda text: versionlock.with_locks(text, {"libnccl": "2.21.5-1+cuda12.4"}),
        2,
    ),
    "authorized_keys": (
        "ssh-ed25519 AAAA admin\n",
        lambda text: ssh_keys.wanted_keys(text, "ssh-ed25519 BBBB " + ssh_keys.MARK),
        1,
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_keeps_the_line_ends_of_every_other_line(name: str, tmp_path: Path) -> None:
    text, edit, kept = EDITS[name]
    raw = (text + "# caf\xe9\n").replace("\n", "\r\n").encode("latin-1")
    path = tmp_path / "file"
    path.write_bytes(raw)
    files.put(str(path), edit(files.read(str(path))))
    after = path.read_bytes()
    assert after != raw
    assert b"# caf\xe9\r\n" in after
    assert len([line for line in raw.splitlines(True) if line in after.splitlines(True)]) > kept


def test_the_node_reads_as_the_other_readers_do(tmp_path: Path) -> None:
    raw = b"a\r\nb\rc\xff\n"
    (tmp_path / "file").write_bytes(raw)
    read = Node(lambda _command: (0, "", ""), str(tmp_path)).read("/file")
    assert read.encode("utf-8", "surrogateescape") == raw
    # undo compares what stands there with what it has kept
    assert change.as_text(raw) == read


@pytest.mark.parametrize("render", ["hosts", "chrony"])
def test_a_block_of_ours_is_known_again_with_other_line_ends(render: str) -> None:
    """Some editors give a whole file the line ends of their own system."""
    text, edit, _kept = EDITS[render]
    converted = edit(text).replace("\n", "\r\n")
    again = edit(converted)
    assert again.count("BEGIN Fullmesh") == 1
    assert again.count("END Fullmesh") == 1

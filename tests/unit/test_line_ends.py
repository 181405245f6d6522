"""Edits of foreign files keep their line ends, and bytes that are not UTF-8.

The tests use the reader and the writer of the modules. Python's own reader turns each carriage
return into a line feed. An edit of one line once changed every other line of a file from another
system.
"""

from __future__ import annotations

import ast
import re
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
from ansible.module_utils.fullmesh.network.backends.common import ForeignError
from ansible.module_utils.fullmesh.network.machine import NetworkNode
from ansible.module_utils.fullmesh.packages import versionlock

from fullmesh.settings import ROOT

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
# The content, the edit, and the number of lines that must not change.
EDITS: dict[str, tuple[str, Callable[[str], str], int]] = {
    "hosts": (
        "127.0.0.1 localhost\n127.0.1.1 el1\n10.9.9.9 storage\n",
        lambda text: hosts_file.build_hosts_file(text, [{"address": "10.0.0.1", "names": ["el1"]}]),
        2,
    ),
    "netplan": (
        NETPLAN,
        lambda text: netplan.strip_entries(text, {"eth1": set()}, ["eth1"], "x"),
        3,
    ),
    "ifupdown": (INTERFACES, lambda text: ifupdown.comment_out_stanzas(text, ["eth1"]), 2),
    "keyfile": (PROFILE, networkmanager.disable_autoconnect, 3),
    "ifcfg": ("DEVICE=eth1\nONBOOT=yes\nBOOTPROTO=dhcp\n", ifcfg.disable_ifcfg, 2),
    "chrony": (
        "pool ntp.example iburst\nmakestep 1 3\n",
        lambda text: chrony.build_chrony_files("c", text, [], ["server 10.0.0.1"], True)["c"],
        1,
    ),
    "selinux": (
        "# how\nSELINUX=permissive\nSELINUXTYPE=targeted\n",
        lambda text: selinux.replace_selinux_mode(text, "enforcing"),
        2,
    ),
    "versionlock": (
        "# mine\nkernel-5.14.0-1.el9.*\n",
        lambda text: versionlock.add_own_locks(text, {"libnccl": "2.21.5-1+cuda12.4"}),
        2,
    ),
    "authorized_keys": (
        "ssh-ed25519 AAAA admin\n",
        lambda text: ssh_keys.render_authorized_keys(text, "ssh-ed25519 BBBB " + ssh_keys.MARK),
        1,
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_keeps_the_line_ends_of_every_other_line(name: str, tmp_path: Path) -> None:
    text, edit, kept = EDITS[name]
    raw = (text + "# caf\xe9\n").replace("\n", "\r\n").encode("latin-1")
    path = tmp_path / "file"
    path.write_bytes(raw)
    files.write_file_atomically(str(path), edit(files.read_text_file(str(path))))
    after = path.read_bytes()
    assert after != raw
    assert b"# caf\xe9\r\n" in after
    assert len([line for line in raw.splitlines(True) if line in after.splitlines(True)]) > kept


def test_the_node_reads_as_the_other_readers_do(tmp_path: Path) -> None:
    raw = b"a\r\nb\rc\xff\n"
    (tmp_path / "file").write_bytes(raw)
    read = NetworkNode(lambda _command: (0, "", ""), str(tmp_path)).read("/file")
    assert read.encode("utf-8", "surrogateescape") == raw
    # undo compares the current content with the stored one
    assert change.decode_file_text(raw) == read


# Each is white space or a line end for str.split(), str.strip(), str.splitlines() or a pattern's
# \s. isspace(3) in the C locale only knows the first two, so the others are content.
SPACES = [
    chr(one) for one in range(0x3001) if chr(one).isspace() or len(f"a{chr(one)}b".splitlines()) > 1
]
SPACES = [one for one in SPACES if one not in " \t\n\r"]


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_keeps_a_line_with_any_space_of_unicode(name: str) -> None:
    text, edit, _kept = EDITS[name]
    assert len(SPACES) == 25
    for one in SPACES:
        comment = f"# caf{one}{one}eth1{one}END{one}"
        try:
            after = edit(text + comment + "\n" + comment)
        except ForeignError:
            # line ends of YAML: only netplan has others than the line feed
            assert (name, one in "\x85\u2028\u2029") == ("netplan", True)
            continue
        assert after.split("\n").count(comment) == 2, repr(one)


@pytest.mark.parametrize("one", SPACES)
def test_words_are_split_where_the_readers_of_files_split_them(one: str) -> None:
    joined = one not in files.SPACE
    assert files.split_words(f" a{one}b\tc\r") == ([f"a{one}b", "c"] if joined else ["a", "b", "c"])
    assert files.split_words(f"{one} a b c", 1) == ([one, "a b c"] if joined else ["a", "b c"])
    assert files.split_words(f" {one}" if not joined else "\n") == []


# Code that reads or edits foreign files, or the output of foreign programs about them.
READERS = [
    *("network/backends/*.py", "network/change.py", "facts/configured.py"),
    *("network/give_back.py", "network/static_ip.py", "network/ways.py", "packages/sources.py"),
    *("netfilter/*.py", "packages/versionlock.py", "firewall/preserve.py", "firewall/ufw.py"),
    *("firewall/firewalld.py", "firewall/firewalld_others.py", "firewall/foreign.py"),
    *("survey/boot_files.py", "survey/filters.py", "survey/job.py", "survey/job_unit.py"),
    *("survey/names.py", "survey/nccl_conf.py", "survey/next_boot.py", "transaction/session.py"),
    *("chrony.py", "hosts_file.py", "kernel.py", "name_resolution.py", "selinux.py"),
    *("ssh_keys.py", "sysctl.py", "time_sync.py"),
]
PATTERNS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "split"}


def unicode_spaces(tree: ast.AST) -> list[int]:
    """List the lines that depend on Python's own idea of white space."""
    found = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        name, written = call.func.attr, ast.unparse(call)
        of_text = name in {"split", "rsplit", "strip", "lstrip", "rstrip", "splitlines"}
        bare = not call.args or ast.unparse(call.args[0]) == "None"
        pattern = ast.unparse(call.func.value) == "re" and name in PATTERNS
        if (of_text and bare and not pattern) or (
            pattern and re.search(r"\\[swdb]", written) and "re.ASCII" not in written
        ):
            found.append(call.lineno)
    return found


def test_readers_of_foreign_files_know_ascii_white_space_only() -> None:
    bad = "a.split()\nb.strip()\nc.splitlines()\nd.split(None, 1)\nre.match(r'\\s', e)\n"
    assert unicode_spaces(ast.parse(bad)) == [1, 2, 3, 4, 5]
    good = "split_words(a)\nb.strip(SPACE)\nlines_of(c)\nre.match(r'\\s', e, re.ASCII)\n"
    assert unicode_spaces(ast.parse(good)) == []
    top = ROOT / "module_utils/fullmesh"
    paths = sorted({path for pattern in READERS for path in top.glob(pattern)})
    assert len(paths) > len(READERS)
    found = {
        str(path.relative_to(ROOT)): lines
        for path in paths
        if (lines := unicode_spaces(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize("render", ["hosts", "chrony"])
def test_our_block_is_recognized_with_other_line_ends(render: str) -> None:
    """Some editors convert a whole file to the line ends of their own system."""
    text, edit, _kept = EDITS[render]
    converted = edit(text).replace("\n", "\r\n")
    again = edit(converted)
    assert again.count("BEGIN Fullmesh") == 1
    assert again.count("END Fullmesh") == 1

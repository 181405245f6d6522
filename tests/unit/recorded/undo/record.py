"""Makes the recorded undo stores of older versions: their own code writes them, out of git.

    python tests/unit/recorded/undo/record.py 2e7304f flat
    python tests/unit/recorded/undo/record.py faa894c package

``flat`` for a version whose module_utils lie side by side (up to 43437fb), ``package`` for later ones. What comes out
is committed as it is; nobody needs to make it again unless a further old version is to be shown.
"""

from __future__ import annotations

import importlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import ansible.module_utils

HERE = Path(__file__).parent
BEFORE = {
    "owners": {
        "netplan": {
            "links": {
                "eth1": {"addresses": ["10.0.0.5/24"], "mtu": 1400, "up": True, "managed": True}
            },
            "routes": [{"family": "-4", "to": "10.7.0.0/16", "via": "10.0.0.1", "dev": "eth1"}],
        }
    },
    "names": {"netplan": ["eth1"]},
    "runtime": {
        "links": {
            # only watched: what 2e7304f kept as well
            "eth0": {"mtu": 1500, "up": True, "addresses": ["10.9.0.7/24"], "leases": []},
            "eth1": {"mtu": 1400, "up": True, "addresses": ["10.0.0.5/24"], "leases": []},
        },
        "routes": [["-4", "eth1", "10.7.0.0/16 via 10.0.0.1 proto static"]],
        "connected": [["-4", "eth1", "10.0.0.0/24 proto kernel scope link src 10.0.0.5"]],
    },
}
FILES = {
    "/etc/chrony.conf": ("# theirs\npool 2.pool.ntp.org iburst\n", 0o640),
    "/etc/netplan/50-cloud-init.yaml": ("network: {version: 2}\n", 0o600),
    "/etc/selinux/config": ("SELINUX=permissive\nSELINUXTYPE=targeted\n", 0o644),
    "/etc/ufw/ufw.conf": ("# /etc/ufw/ufw.conf\nENABLED=yes\nLOGLEVEL=low\n", 0o644),
    "/proc/sys/net/ipv4/tcp_fin_timeout": ("60\n", 0o644),
    "/var/lib/dpkg/status": ("Package: base\n", 0o644),
}


def answers(command: list[str]) -> tuple[int, str, str]:
    """The tools of a node."""
    if command[:2] == ["systemctl", "show"]:
        names = command[command.index("--") + 1 :]
        block = "LoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\n"
        return 0, "\n".join(block for _ in names), ""
    if command[0] == "dpkg-query":
        return 0, "base installed\nsystemd-timesyncd installed\n", ""
    if command[0] == "ip":
        return 0, '[{"ifname": "eth1", "mtu": 1400, "addr_info": []}]', ""
    return 0, "Status: active\n", ""


def short(command: list[str]) -> tuple[int, str]:
    """The same for those that want one text."""
    rc, out, err = answers(command)
    return rc, out + err


def node(root: Path) -> None:
    """A node before Fullmesh."""
    for path, (text, mode) in FILES.items():
        file = Path(str(root) + path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
    os.utime(str(root) + "/etc/ufw/ufw.conf", ns=(1_700_000_000_000_000_000,) * 2)
    (root / "etc/localtime").symlink_to("/usr/share/zoneinfo/UTC")


def write(root: Path, old: Any) -> None:
    """Every writer once."""
    point = old["undo"]

    def remember(role: str, **names: list[str]) -> None:
        wanted = {kind: names.get(kind, []) for kind in point.KINDS}
        point.remember(point.Node(str(root), answers), role, wanted, False)

    remember(
        "time_sync",
        files=["/etc/chrony.conf", "/etc/localtime", "/etc/chrony/conf.d/60-fullmesh.conf"],
        sysctls=["net.ipv4.tcp_fin_timeout"],
        services=["chrony.service"],
        packages=["chrony", "systemd-timesyncd"],
    )
    remember(
        "static_ip",
        files=["/etc/netplan/50-cloud-init.yaml", "/etc/netplan/90-fullmesh.yaml"],
        interfaces=["eth1"],
    )
    links = old["static_ip"].Links(
        old["static_ip"].Node(answers, str(root)), {"links": []}, check=False
    )
    links.keep_original(BEFORE)
    remember("selinux_mode", files=["/etc/selinux/config", "/.autorelabel"])
    selinux = old["selinux"]
    switch = selinux.Switch(selinux.Node(str(root), short), {"mode": "enforcing"}, False)
    switch.remember({"installed": True, "runtime": "permissive"})
    remember("peer_firewall", services=["firewalld.service"], packages=["firewalld"])
    firewall = old["firewall"].Firewall({"ufw": "carry"}, False, short, str(root))
    firewall.ufw_on = True
    firewall.take_ufw()
    old["ssh"].NOTE = str(root) + old["ssh"].NOTE
    old["ssh"].keep({"user": "train", "account": True, "folder": True, "keys": True})


NAMES = {
    "flat": {
        "undo": "undo_point",
        "static_ip": "static_ip_links",
        "selinux": "selinux_state",
        "firewall": "peer_zone",
        "ssh": "cluster_ssh",
    },
    "package": {
        "undo": "ansible.module_utils.fullmesh.state.undo",
        "static_ip": "ansible.module_utils.fullmesh.network.change",
        "selinux": "ansible.module_utils.fullmesh.selinux",
        "firewall": "ansible.module_utils.fullmesh.firewall.peers",
        "ssh": "ansible.module_utils.fullmesh.ssh_keys",
    },
}


def main(revision: str, layout: str) -> None:
    """Run the code of a version over a node in a folder, and keep its store."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        argv = ["git", "archive", revision]
        tar = subprocess.run(argv, check=True, capture_output=True, cwd=HERE.parents[3]).stdout
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            archive.extractall(place / "code", filter="data")
        ansible.module_utils.__path__.append(str(place / "code/module_utils"))
        sys.path.insert(0, str(place / "code/library"))
        root = place / "node"
        root.mkdir()
        node(root)
        write(root, {key: importlib.import_module(one) for key, one in NAMES[layout].items()})
        target = HERE / revision
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(root / "var/lib/fullmesh", target)


if __name__ == "__main__":
    main(*sys.argv[1:3])

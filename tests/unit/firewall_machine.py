"""What the tests of the peers' firewall share: a simulated machine, zones, policies and rules."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

import pytest
from ansible.module_utils.fullmesh.firewall import (
    firewalld_files,
    ufw,
)
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.state import record
from ansible.module_utils.fullmesh.transaction import engine
from rehearsal import rehearsed

PEERS = ["10.0.0.11", "10.0.0.12", "fd00::11"]


WANT: dict[str, Any] = {
    "zone": "fullmesh",
    "mode": "peers_range",
    "peers": PEERS,
    "controllers": ["198.51.100.7"],
    "ports": ["29500/tcp", "50000-54095/tcp"],
    "controller_ports": [],
    "public_ports": [],
    "ssh_ports": [22],
    "own_service": False,
    "ufw_policy": "",
}


def rendered(**change: Any) -> dict[str, str]:
    return {
        path: text for path, text in firewalld_files.render_own_files(WANT | change).items() if text
    }


ZONE_FILE = "/etc/firewalld/zones/fullmesh.xml"


JOB_FILE = "/etc/firewalld/policies/fullmesh-job.xml"


def put(root: Path, path: str, text: str) -> None:
    target = Path(str(root) + path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


PUBLIC = '<zone><service name="ssh"/><port port="8000-8010" protocol="tcp"/></zone>'


ZONES = """\
public (active)
  target: default
  interfaces: eth0
  sources:
  services: dhcpv6-client ssh
  ports:
  rich rules:
	rule family="ipv4" source address="192.0.2.1" accept
"""


BOUND = ZONES.replace("public", "{0}") + "\n" + ZONES.replace("eth0", "")


POLICIES = """\
allow-host-ipv6 (active)
  priority: -15000
  target: CONTINUE
  ingress-zones: ANY
  egress-zones: HOST
  services: {0}

fullmesh-ssh (active)
  priority: -20000
  services: {1}
"""


def rule(chain: str, *expressions: dict[str, Any]) -> dict[str, Any]:
    return {"rule": {"family": "inet", "chain": chain, "handle": 7, "expr": list(expressions)}}


def dport(port: Any) -> dict[str, Any]:
    left = {"payload": {"protocol": "tcp", "field": "dport"}}
    return {"match": {"op": "==", "left": left, "right": port}}


def udp(port: Any) -> dict[str, Any]:
    left = {"payload": {"protocol": "udp", "field": "dport"}}
    return {"match": {"op": "==", "left": left, "right": port}}


def source(name: str) -> dict[str, Any]:
    left = {"payload": {"protocol": "ip", "field": "saddr"}}
    return {"match": {"op": "==", "left": left, "right": "@" + name}}


ACCEPT: dict[str, Any] = {"accept": None}


JOB = "filter_IN_policy_fullmesh-job"


def jump(chain: str, target: str) -> dict[str, Any]:
    return rule(chain, {"jump": {"target": target}})


def job(*matches: dict[str, Any], family: str = "4") -> dict[str, Any]:
    """A rule of the peers' policy, as firewalld 1.3.3 loads it."""
    return rule(JOB + "_allow", source("fullmesh-peers" + family), *matches, ACCEPT)


def kernel() -> list[dict[str, Any]]:
    ssh = "filter_IN_policy_fullmesh-ssh"
    ports = (22, 29500, {"range": [50000, 54095]})
    return [
        {"metainfo": {"version": "1.0.6"}},
        {"set": {"name": "fullmesh-peers4", "elem": ["10.0.0.12", "10.0.0.11"]}},
        {"set": {"name": "fullmesh-peers6", "elem": ["fd00::11"]}},
        {"set": {"name": "fullmesh-controllers4", "elem": ["198.51.100.7"]}},
        jump("filter_INPUT_POLICIES_pre", ssh),
        jump("filter_INPUT_POLICIES_pre", JOB),
        rule("filter_INPUT_ZONES", {"goto": {"target": "filter_IN_public"}}),
        jump(ssh, ssh + "_allow"),
        jump(JOB, JOB + "_allow"),
        *(job(dport(port), family=family) for family in "46" for port in ports),
        rule(ssh + "_allow", source("fullmesh-controllers4"), dport(22), ACCEPT),
        rule("filter_IN_public_allow", dport(22), ACCEPT),
    ]


def strict() -> list[dict[str, Any]]:
    """The same with the peers bound to our zone."""
    goto = {"goto": {"target": "filter_IN_fullmesh"}}
    bound = [rule("filter_INPUT_ZONES", source("fullmesh-peers" + f), goto) for f in "46"]
    return [*kernel(), *bound]


def without(text: str) -> list[dict[str, Any]]:
    return [item for item in kernel() if text not in json.dumps(item)]


class Machine:
    """Stands for systemctl, firewall-cmd and nft."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.units = {firewall_peers.UNIT: ("loaded", "inactive", "disabled")}
        self.table: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.table_after = kernel()
        self.others: list[dict[str, Any]] = []
        self.answers: dict[str, str] = {"iptables-save": "", "ip6tables-save": "", "ip": ""}
        self.told: dict[str, str] = {}
        self.fails = ""

    def run(self, argv: list[str]) -> tuple[int, str]:
        line = " ".join(argv)
        self.calls.append(line)
        if self.fails and self.fails in line:
            return 1, "it does not work"
        rehearsed(argv)
        if argv[:2] == ["systemctl", "show"]:
            states = [
                self.units.get(n, ("not-found", "inactive", ""))
                for n in argv[argv.index("--") + 1 :]
            ]
            form = "LoadState={}\nActiveState={}\nUnitFileState={}\n"
            return 0, "\n".join(form.format(*state) for state in states)
        if argv[0] == "nft":
            rules = self.others if line.endswith("ruleset") else self.table
            return 0, json.dumps({"nftables": rules})
        if line in self.told:
            return 0, self.told[line]
        if line.endswith("list-all-zones"):
            return 0, ZONES
        if "start firewalld" in line or line == "firewall-cmd --reload":
            self.table = self.table_after
        return 0, self.answers.get(argv[0], "")

    def commands(self) -> str:
        looks = (" show", "nft ", "-save", "get-zone")
        return "\n".join(call for call in self.calls if not any(word in call for word in looks))


PARAMS: dict[str, Any] = {
    "state": "present",
    "mode": "peers_range",
    "zone": "fullmesh",
    "peers": PEERS,
    "controllers": ["198.51.100.7"],
    "ports": ["29500/tcp", "50000-54095/tcp"],
    "controller_ports": [],
    "public_ports": [],
    "rdma": "auto",
    "ufw": "carry",
    "start": "refuse",
    "rollback_seconds": 60,
    "token": "run",
}


def firewall(machine: Machine, check: bool = False, **change: Any) -> firewall_peers.Firewall:
    return firewall_peers.Firewall(PARAMS | change, check, machine.run, str(machine.root))


def refused(machine: Machine, **change: Any) -> str:
    with pytest.raises(firewall_peers.FirewallRefusedError) as caught:
        firewall(machine, **change).present()
    return str(caught.value)


def ours(machine: Machine) -> list[str]:
    return sorted(
        path
        for path in firewalld_files.map_own_paths("fullmesh").values()
        if os.path.exists(str(machine.root) + path)
    )


SSH_FOR_ALL = "### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in\n"


def with_ufw(machine: Machine, rules: str = "") -> None:
    """ufw, enabled."""
    put(machine.root, ufw.COMMAND, "")
    put(machine.root, "/etc/ufw/ufw.conf", "# x\nENABLED = yes\n")
    put(machine.root, "/etc/ufw/user.rules", rules + SSH_FOR_ALL)


RULES = """\
### tuple ### allow tcp 8080 0.0.0.0/0 any 0.0.0.0/0 in
### tuple ### allow tcp 9100 0.0.0.0/0 any 0.0.0.0/0 in_eth0
"""


def taken_over(machine: Machine, fails: str = "") -> firewall_peers.Firewall:
    with_ufw(machine, RULES.splitlines(keepends=True)[0])
    machine.answers["/usr/sbin/ufw"] = "Status: active\n"
    chain = "filter_IN_policy_fullmesh-ufw_post"
    accepts = [rule(chain, dport(port), {"accept": None}) for port in (8080, 22)]
    machine.table_after = [*kernel(), *accepts]
    machine.fails = fails
    return firewall(machine)


def remembered(machine: Machine, *, active: bool) -> None:
    """The role's own record: whether firewalld ran when it came."""
    unit = {"found": True, "active": active, "enabled": ""}
    before = record.make_empty_record("peer_firewall") | {"services": {firewall_peers.UNIT: unit}}
    record.UndoPoint(str(machine.root), "peer_firewall").save(before, {})


# Without what is a part of it (PartOf=), as fail2ban is.
STOPPED = "systemctl stop --job-mode=ignore-dependencies firewalld.service"


JOB_FILE = "/etc/firewalld/policies/fullmesh-job.xml"


def journal() -> engine.Journal:
    return cast("engine.Journal", engine.read_json(f"{engine.STORE}/peer_firewall/journal.json"))


OLD_ZONE = f"""<?xml version="1.0" encoding="utf-8"?>
<!-- {firewalld_files.MARK} -->
<zone>
  <short>fullmesh</short>
  <source ipset="fullmesh-peers4"/>
  <port port="29500" protocol="tcp"/>
</zone>
"""


# /proc/net of a lab node: sshd; listeners on 8000, 8001 (IPv6), 8003 (eth1's address), 50010, 2049/udp; on loopback
# 8002 and 323/udp; a DHCP client, LLMNR, a connected and a nameless UDP client; one peer connected to 8000.
SOCKETS = Path(__file__).parent / "data/sockets"


OWNERS = {"348453": "python3", "348458": "nfsd", "348454": "python3"}


CARDS = """\
2: eth0    inet 10.77.1.11/24 brd 10.77.1.255 scope global eth0
3: eth1    inet 10.78.1.11/24 scope global eth1
"""


ONLY_SSH = '<zone><service name="ssh"/></zone>'


def bare(machine: Machine) -> Machine:
    """A node that never had a firewall, with what listens there."""
    for name in ("tcp", "tcp6", "udp", "udp6"):
        put(machine.root, "/proc/net/" + name, (SOCKETS / name).read_text(encoding="utf-8"))
    put(machine.root, "/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    for pid, inode in enumerate(OWNERS, 580):
        put(machine.root, f"/proc/{pid}/comm", OWNERS[inode] + "\n")
        place = Path(f"{machine.root}/proc/{pid}/fd")
        place.mkdir()
        (place / "3").symlink_to(f"socket:[{inode}]")
    put(machine.root, "/etc/firewalld/zones/public.xml", ONLY_SSH)
    machine.answers["ip"] = CARDS
    return machine


def others(port: int) -> list[dict[str, Any]]:
    """A table of the user's that drops a port."""
    chain = {"family": "inet", "table": "mine", "name": "in", "hook": "input", "prio": 0}
    drop = {
        "family": "inet",
        "table": "mine",
        "chain": "in",
        "handle": 4,
        "expr": [dport(port), {"drop": None}],
    }
    return [{"chain": chain | {"policy": "accept"}}, {"rule": drop}]


AUDIT = 'type=AVC msg=audit({}.497:9): avc:  denied  {{ write }} for  pid=239 comm="firewalld" '


AUDIT += "scontext=system_u:system_r:firewalld_t:s0 tcontext=system_u:object_r:lib_t:s0 tclass=file permissive=0"

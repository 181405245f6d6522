"""The undo of the network keeps the state of others: module and engine run over a simulated kernel."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.network import give_back
from ansible.module_utils.fullmesh.network import links as network_links
from ansible.module_utils.fullmesh.state import record
from network_samples import Link, link
from rehearsal import rehearse_rollback

tx = network_links.engine
Card = dict[str, Any]


class Kernel:
    """Addresses and routes of two interfaces, in the format of iproute2 6.1. Their owner flushes them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.nics: dict[str, Card] = {}
        self.routes: list[list[str]] = []
        self.commands: list[str] = []
        self.set_nic("eth0", "10.9.0.7/24")
        self.set_nic("eth1")
        self.routes.append(["-4", "eth0", "default via 10.9.0.1 proto static"])
        for name in self.nics:
            (root / "sys/class/net" / name).mkdir(parents=True)
            (root / "sys/class/net" / name / "type").write_text("1\n")
        (root / "etc/netplan").mkdir(parents=True)

    def set_nic(self, name: str, *addresses: str, **more: Any) -> None:
        self.nics[name] = {"addresses": list(addresses), "mtu": 1500, **more}

    def shown(self) -> list[dict[str, Any]]:
        return [
            {
                "ifname": name,
                "address": "02:00:00:00:00:0a",
                "mtu": nic["mtu"],
                "flags": ["UP", "LOWER_UP"],
                "addr_info": [
                    {
                        "local": one.split("/")[0],
                        "prefixlen": int(one.split("/")[1]),
                        "scope": "global",
                        "broadcast": "10.0.0.255",
                    }
                    for one in nic["addresses"]
                ],
            }
            for name, nic in self.nics.items()
        ]

    def lines(self, family: str, name: str) -> list[str]:
        own = [one for one in self.nics[name]["addresses"] if family == "-4"]
        near = [
            f"{ipaddress.ip_interface(one).network} proto kernel scope link src {one.split('/')[0]}"
            for one in own
            if not one.endswith("/32")
        ]
        return near + [one[2] for one in self.routes if one[:2] == [family, name]]

    def listed(self, family: str) -> list[dict[str, Any]]:
        found = []
        for name in self.nics:
            for line in self.lines(family, name):
                words = line.split()
                pairs = dict(zip(words[1::2], words[2::2]))
                one = {"dst": words[0], "dev": name, "protocol": pairs.get("proto", "boot")}
                found.append(one | ({"gateway": pairs["via"]} if "via" in pairs else {}))
        return found

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        words = " ".join(command)
        if command[0] == "ip" and "show" in command:
            if "addr" in command:
                return 0, json.dumps(self.shown()), ""
            if "nexthop" in command or "rule" in command:
                return 0, "", ""
            family = next(one for one in command if one in ("-4", "-6"))
            if "-j" in command:
                return 0, json.dumps(self.listed(family)), ""
            found = [
                f"{line} dev {name}" for name in self.nics for line in self.lines(family, name)
            ]
            return 0, "\n".join(found), ""
        if command[0] == "ip":
            self.commands.append(words)
            return self.take(command)
        if words.startswith("networkctl reconfigure"):
            for name in command[2:]:
                self.owner(name)
        rehearse_rollback(command)
        if "systemd-run" in words and " apply " in words:
            tx.do_apply(command[-1])
        return (127 if words.startswith(("nmcli", "ifquery")) else 0), "", ""

    def owner(self, name: str) -> None:
        """Drop from the interface what systemd-networkd's files do not have (ManageForeignRoutes, reconfigure)."""
        file = self.root / "etc/netplan/90-fullmesh.yaml"
        text = file.read_text() if file.exists() else ""
        own = [one for one in ("10.0.0.11/24", "10.9.0.77/24") if f'"{one}"' in text]
        near = {"eth1": "10.0.0.", "eth0": "10.9.0."}[name]
        self.nics[name]["addresses"] = [one for one in own if one.startswith(near)]
        self.routes = [one for one in self.routes if one[1] != name]
        if "10.9.0.1" in text and name == "eth0":
            self.routes.append(["-4", "eth0", "default via 10.9.0.1 proto static"])
        if "10.5.0.0/16" in text and name == "eth1":
            self.routes.append(["-4", "eth1", "10.5.0.0/16 via 10.0.0.1 proto static"])

    def take(self, command: list[str]) -> tuple[int, str, str]:
        words = [one for one in command[1:] if one not in ("-4", "-6")]
        name = words[words.index("dev") + 1] if "dev" in words else words[-1]
        if words[0] == "addr" and words[2] not in self.nics[name]["addresses"]:
            self.nics[name]["addresses"] += [words[2]]
        if words[:2] == ["addr", "del"]:
            self.nics[name]["addresses"].remove(words[2])
        if words[0] == "route":
            at = words.index("dev")
            entry = [command[1], name, " ".join([*words[2:at], *words[at + 2 :]])]
            # the kernel keeps one route for each network and metric
            same = entry if words[1] == "del" else give_back.build_route_key(entry)
            self.routes = [
                one for one in self.routes if same not in (one, give_back.build_route_key(one))
            ]
            self.routes += [entry] if words[1] == "replace" else []
        return 0, "", ""

    def engine(self, command: Any, *_: Any, **__: Any) -> tuple[int, str]:
        rc, out, err = self(command if isinstance(command, list) else ["sh", "-c", command])
        return rc, out + err

    def call(self, state: str, check: bool = False, **more: Any) -> dict[str, Any]:
        params = {
            "links": [link()],
            "provider": "netplan",
            "check_duplicates": False,
            "wait_seconds": 0,
            "rollback_seconds": 60,
            "peers": [],
            "master": "",
            "token": "run",
        }
        links = network_links.StaticIpLinks(
            network_links.NetworkNode(self, str(self.root)), params | more, check
        )
        result: dict[str, Any] = getattr(links, state)()
        return result

    def converge(self, *links: Link) -> None:
        """Run the role's change, with the files of the undo point that its task `Remember` makes."""
        point = record.UndoPoint(str(self.root), "static_ip")
        ours = {"/etc/netplan/90-fullmesh.yaml": {"kind": "absent"}}
        point.save(point.load() | {"files": ours}, {})
        assert self.call("present", links=list(links))["armed"]
        assert self.call("proved", links=list(links))["fresh"]
        assert self.call("confirmed")["changed"]

    def undo(self) -> dict[str, Any]:
        self.commands = []
        result = self.call("absent", links=[])
        if result["armed"]:
            assert self.call("proved", links=[])["fresh"]
            self.call("confirmed")
        return result

    def record(self) -> dict[str, Any]:
        point = record.UndoPoint(str(self.root), "static_ip")
        return dict(point.load()["part"]["network"])


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    machine, root = Kernel(tmp_path), str(tmp_path)
    monkeypatch.setattr(tx, "STORE", root + "/store")
    monkeypatch.setattr(tx, "UNITS", root + "/units")
    monkeypatch.setattr(tx, "wait_for_exit", lambda process: None)
    monkeypatch.setattr(tx, "run_with_deadline", machine.engine)
    monkeypatch.setattr(tx, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(tx, "POLL_SECONDS", 0)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.9.0.1", "5", "10.9.0.7", "22"]
    )
    arm, apply = tx.arm, tx.apply_change
    monkeypatch.setattr(
        tx, "arm", lambda r, n, s, p, *more, **by: arm(r, n, s, [root + i for i in p], *more, **by)
    )
    monkeypatch.setattr(
        tx,
        "apply_change",
        lambda r, n, f, *m, **by: apply(r, n, {root + p: t for p, t in f.items()}, *m, **by),
    )
    return machine


VIP = ["-4", "eth1", "192.0.2.0/24 via 10.0.0.200 proto bird"]


def change_later(kernel: Kernel) -> None:
    """Change the node months later: the management interface is renumbered, and others add addresses and routes."""
    kernel.set_nic("eth0", "10.9.0.50/24", "10.9.0.99/32")
    kernel.routes = [one for one in kernel.routes if one[1] != "eth0"]
    kernel.routes += [
        ["-4", "eth0", "default via 10.9.0.254 proto static"],
        ["-4", "eth0", "10.244.1.0/24 via 10.9.0.12 proto bird"],
        ["-4", "eth1", "203.0.113.0/24 proto bird scope link"],
    ]
    kernel.nics["eth1"]["addresses"].append("10.0.0.99/32")


def test_an_undo_leaves_the_management_nic_and_later_changes(kernel: Kernel) -> None:
    kernel.converge(link(routes=[{"to": "10.5.0.0/16", "via": "10.0.0.1"}]))
    assert kernel.nics["eth1"]["addresses"] == ["10.0.0.11/24"]
    assert list(kernel.record()["runtime"]["links"]) == ["eth1"]
    change_later(kernel)
    eth0 = json.dumps([kernel.nics["eth0"], [one for one in kernel.routes if one[1] == "eth0"]])
    assert kernel.call("absent", check=True, links=[])["needed"]
    result = kernel.undo()
    assert result["moves_to"] == ""
    assert eth0 == json.dumps(
        [kernel.nics["eth0"], [one for one in kernel.routes if one[1] == "eth0"]]
    )
    assert not [one for one in kernel.commands if "eth0" in one]
    assert kernel.nics["eth1"]["addresses"] == ["10.0.0.99/32"]
    assert [one[2] for one in kernel.routes if one[1] == "eth1"] == [
        "203.0.113.0/24 proto bird scope link"
    ]
    assert not list(kernel.root.glob("etc/netplan/*"))
    assert kernel.undo()["changed"] is False


def test_the_undo_itself_watches_the_management_card(kernel: Kernel) -> None:
    """The transaction of the undo must not cut off others either."""
    kernel.converge(link())
    change_later(kernel)
    kernel.call("absent", links=[])
    journal = json.loads((kernel.root / "store/static_ip/journal.json").read_text())
    assert sorted(journal["runtime"]["links"]) == ["eth0", "eth1"]
    assert "10.9.0.50/24" in journal["runtime"]["links"]["eth0"]["addresses"]


def test_a_nic_that_we_moved_returns_with_its_own_addresses(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.converge(link(interface="eth0", addresses=["10.9.0.77/24"], gateway="10.9.0.1"))
    kernel.nics["eth0"]["addresses"].append("10.9.0.99/32")
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.9.0.1", "5", "10.9.0.77", "22"]
    )
    assert kernel.undo()["moves_to"] == "10.9.0.7"
    assert sorted(kernel.nics["eth0"]["addresses"]) == ["10.9.0.7/24", "10.9.0.99/32"]
    assert [one[2] for one in kernel.routes] == ["default via 10.9.0.1 proto static"]


def test_a_connection_to_a_foreign_address_stays(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.converge(link(interface="eth0", addresses=["10.9.0.77/24"], gateway="10.9.0.1"))
    kernel.nics["eth0"]["addresses"].append("10.9.0.99/32")
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.9.0.1", "5", "10.9.0.99", "22"]
    )
    assert kernel.undo()["moves_to"] == ""


def test_an_address_routed_through_ours_cannot_stay() -> None:
    """The kernel would reject the address each time, and the undo would wait for it."""
    assert not give_back.is_route_reachable(VIP[2], ["10.1.0.9/24"], [])
    assert give_back.is_route_reachable(VIP[2], ["10.0.0.9/24"], [])
    near = [["-4", "eth1", "10.0.0.200 proto bird scope link"]]
    assert give_back.is_route_reachable(VIP[2], [], near)
    assert give_back.is_route_reachable("10.7.0.0/16 via 10.0.0.200 proto bird onlink", [], [])
    assert give_back.is_route_reachable("fd01::/64 via fe80::1 proto ra metric 100", [], [])
    assert not give_back.is_route_reachable("nexthop via 10.0.0.1 weight 1", ["10.0.0.9/24"], [])


def make_link(*addresses: str, **more: Any) -> dict[str, Any]:
    found = [{"address": one, "scope": "global"} for one in addresses]
    return {"addresses": found, "kind": "", "master": "", **more}


@pytest.mark.parametrize(
    ("state", "alone"),
    [
        # it only carries our VLAN, or another owner has renumbered it since
        (make_link("10.9.0.50/24"), True),
        (make_link("10.9.0.50/24", master="br0"), True),
        (make_link("10.0.0.11/24"), False),
        (make_link("10.0.0.11/24", "10.0.0.99/32"), False),
        # an interface that our link created, or one that lost our address
        (make_link("10.9.0.50/24", master="bond0"), False),
        (make_link("10.9.0.50/24", kind="bond"), False),
        (make_link(), False),
    ],
)
def test_an_interface_with_a_new_owner_is_found(state: dict[str, Any], alone: bool) -> None:
    ours = give_back.find_own_addresses(["addresses: [10.0.0.11/24]\n"], {"eth1": state})
    found = give_back.find_foreign_interfaces(["bond0", "eth1"], {"eth1": state}, ours)
    assert found == (["eth1"] if alone else [])


@pytest.mark.parametrize(
    ("text", "mtu", "ours"),
    [
        ("      mtu: 9000\n", 9000, True),
        ("MTUBytes=9000\n", 9000, True),
        ('MTU="9000"\n', 9000, True),
        ("    mtu 9000\n", 9000, True),
        ("mtu=9000\n", 1500, False),
        ("", 9000, False),
    ],
)
def test_an_mtu_in_our_files_is_ours(text: str, mtu: int, ours: bool) -> None:
    assert give_back.is_mtu_in_files([text], mtu) is ours


def test_an_owner_gets_the_current_state_of_an_unchanged_nic() -> None:
    """NetworkManager would activate the old profile, and netplan's rollback would restore the old address."""

    def snapshot(profile: str, address: str) -> dict[str, Any]:
        one = {"mtu": 1500, "up": True, "addresses": [address], "leases": []}
        return {"links": {"eth0": one}, "routes": [], "profiles": {"eth0": profile}}

    then, now = snapshot("old", "10.9.0.7/24"), snapshot("new", "10.9.0.50/24")
    view = {"links": now["links"], "routes": []}
    before = {"links": then["links"], "routes": []}
    goal = give_back.build_undo_goal(
        before, view, {"eth0": make_link("10.9.0.50/24")}, [], ["eth0", "eth0.7"]
    )
    assert goal["alone"] == ["eth0"]
    given = give_back.build_owner_states({"networkmanager": then}, {"networkmanager": now}, goal)
    assert given["networkmanager"]["profiles"] == {"eth0": "new"}
    assert given["networkmanager"]["links"]["eth0"]["addresses"] == ["10.9.0.50/24"]


def test_a_foreign_default_route_is_not_replaced_by_the_old_one() -> None:
    then = [["-4", "eth0", "default via 10.9.0.1 proto static"]]
    now = [["-4", "eth0", "default via 10.9.0.254 proto bird"]]
    goal = {"addresses": ["10.9.0.7/24"]}
    assert give_back.merge_routes(then, now, goal) == now
    assert (
        give_back.merge_routes(then, [["-4", "eth0", "default via 10.9.0.254 metric 50"]], goal)[0]
        == then[0]
    )

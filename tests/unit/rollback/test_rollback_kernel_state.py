"""The rollback: addresses, routes and rules as the kernel shows them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.fullmesh.transaction import engine as transaction_engine
from rollback_machine import RollbackNode


def build_view(addresses: list[str], routes: list[list[str]], mtu: int = 1500) -> dict[str, Any]:
    leases = [one for one in addresses if one.startswith("10.")]
    link = {"mtu": mtu, "up": True, "addresses": addresses, "leases": leases}
    return {"links": {"e0": link}, "routes": routes}


def test_lost_kernel_state_is_restored_by_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    default = ["-4", "e0", "default via 10.0.0.1 proto dhcp metric 100"]
    before = build_view(["10.0.0.5/24"], [default])
    now = build_view(["10.0.0.9/24"], [["-4", "e0", "default via 10.0.0.2"]], 576)
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)
    assert transaction_engine.build_kernel_commands(before) == [
        ["ip", "link", "set", "e0", "mtu", "1500"],
        ["ip", "addr", "add", "10.0.0.5/24", "dev", "e0"],
        ["ip", "addr", "del", "10.0.0.9/24", "dev", "e0"],
        ["ip", "-4", "route", "del", "default", "via", "10.0.0.2", "dev", "e0"],
        ["ip", "-4", "route", "replace", *default[2].split(), "dev", "e0"],
    ]
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: before)
    assert transaction_engine.build_kernel_commands(before) == []


# Addresses that e0 got from other programs during the change: of keepalived, and of a router advertisement.
LATER = ["192.0.2.200/32", "2001:db8::5/64"]


OWN_CHANGES: transaction_engine.OwnChanges = {
    "addresses": {"e0": ["192.0.2.9/24"]},
    "routes": [],
    "links": ["e0"],
}


def build_later_view(addresses: list[str], routes: list[list[str]]) -> dict[str, Any]:
    return build_view(addresses + LATER, routes)


@pytest.mark.parametrize(
    ("lease_before", "ours", "deleted"),
    [
        (False, OWN_CHANGES, ["addr 10.0.0.7/24", "addr 192.0.2.9/24", "route default"]),
        # the owner may have received another lease since the rollback began
        (True, OWN_CHANGES, ["addr 192.0.2.9/24", "route default"]),
        # an interface that is only observed, because ssh or a default route uses it
        (False, {**OWN_CHANGES, "addresses": {}, "links": []}, []),
    ],
)
def test_a_rollback_deletes_only_what_the_change_added(
    lease_before: bool,
    ours: transaction_engine.OwnChanges,
    deleted: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = build_view(["10.0.0.5/24"] if lease_before else ["192.0.2.5/24"], []) | {"ours": ours}
    now = build_later_view(["192.0.2.9/24", "10.0.0.7/24"], [["-4", "e0", "default via 192.0.2.1"]])
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)
    steps = [step for step in transaction_engine.build_kernel_commands(before) if "del" in step]
    commands = [f"addr {step[3]}" if step[1] == "addr" else f"route {step[4]}" for step in steps]
    assert commands == deleted


def test_a_rollback_restores_a_foreign_address_that_an_owner_drops(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """keepalived does not add its address again, and `networkctl reconfigure` drops it."""
    before = build_view(["192.0.2.5/24"], []) | {"ours": OWN_CHANGES}
    manner = {"2001:db8::5/64": ["valid_lft", "600", "preferred_lft", "600"]}
    now = build_later_view(["192.0.2.9/24"], [])
    now["links"]["e0"]["manner"] = manner
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)
    node.folder.mkdir(parents=True)
    kept = transaction_engine.keep_later_addresses(str(node.folder), before)["links"]["e0"]
    assert kept["addresses"] == ["192.0.2.200/32", "192.0.2.5/24", "2001:db8::5/64"]
    assert kept["manner"] == manner
    # as after a kill between the owner's commands and the rest
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: build_view([], []))
    assert transaction_engine.keep_later_addresses(str(node.folder), before)["links"]["e0"] == kept


def test_owners_have_time_for_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build_view(
        ["10.0.0.5/24", "192.0.2.5/24"], [["-4", "e0", "default via 10.0.0.1 proto dhcp"]]
    )
    monkeypatch.setattr(
        transaction_engine, "read_kernel_view", lambda names: build_view(["192.0.2.9/24"], [])
    )
    seconds = {
        " ".join(step): transaction_engine.get_owner_patience(step, before)
        for step in transaction_engine.build_kernel_commands(before)
    }
    assert seconds == {
        "ip addr add 10.0.0.5/24 dev e0": transaction_engine.LEASE_SECONDS,
        "ip addr add 192.0.2.5/24 dev e0": transaction_engine.SETTLE_SECONDS,
        "ip addr del 192.0.2.9/24 dev e0": 0,
        "ip -4 route replace default via 10.0.0.1 proto dhcp dev e0": transaction_engine.LEASE_SECONDS,
    }


def test_state_that_the_owner_does_not_restore_is_set_in_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, now, commands = build_view(["192.0.2.5/24"], []), build_view([], []), []
    monkeypatch.setattr(transaction_engine, "SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)

    def run_command(command: list[str]) -> None:
        commands.append(" ".join(command))
        now.update(before)

    monkeypatch.setattr(transaction_engine, "run_with_deadline", run_command)
    assert (
        transaction_engine.settle_kernel(before) == commands == ["ip addr add 192.0.2.5/24 dev e0"]
    )


@pytest.mark.parametrize(("seconds_waited", "start"), [(0, 12), (5, 7), (20, 0)])
def test_time_spent_waiting_for_a_lease_is_deducted(
    monkeypatch: pytest.MonkeyPatch, seconds_waited: int, start: int
) -> None:
    before, now, commands = build_view(["10.0.0.5/24"], []), build_view([], []), []
    clock = [1000.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    def run_command(command: list[str]) -> None:
        commands.append((" ".join(command), round(clock[0] - 1000)))
        now.update(before)

    monkeypatch.setattr(
        transaction_engine, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep)
    )
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)
    monkeypatch.setattr(transaction_engine, "run_with_deadline", run_command)
    transaction_engine.settle_kernel(before, clock[0] - seconds_waited)
    assert commands == [("ip addr add 10.0.0.5/24 dev e0", start)]


LEASED = """[{"ifname": "e0", "flags": ["UP"], "mtu": 1500, "addr_info": [
  {"family": "inet", "local": "10.0.0.5", "prefixlen": 24, "metric": 100, "broadcast": "10.0.0.255", "scope": "global",
   "dynamic": true, "label": "e0", "valid_life_time": 3487, "preferred_life_time": 3487},
  {"family": "inet", "local": "10.0.1.5", "prefixlen": 24, "metric": 7, "scope": "global",
   "valid_life_time": 4294967295, "preferred_life_time": 4294967295},
  {"family": "inet6", "local": "fd00::5", "prefixlen": 64, "scope": "global", "noprefixroute": true,
   "valid_life_time": 4294967295, "preferred_life_time": 4294967295},
  {"family": "inet6", "local": "fe80::5", "prefixlen": 64, "scope": "link",
   "valid_life_time": 4294967295, "preferred_life_time": 4294967295}]}]"""


def test_address_keeps_its_metric_and_lease_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ip -j addr` of iproute2 6.1 for a lease of systemd-networkd 252, and for a static address."""
    monkeypatch.setattr(
        transaction_engine,
        "read_command_output",
        lambda command: LEASED if "addr" in command else "",
    )
    before = transaction_engine.read_kernel_view(["e0"])
    without_addresses = LEASED.split('"addr_info"', maxsplit=1)[0] + '"addr_info": []}]'
    monkeypatch.setattr(
        transaction_engine,
        "read_command_output",
        lambda command: without_addresses if "addr" in command else "",
    )
    assert [" ".join(step) for step in transaction_engine.build_kernel_commands(before)] == [
        "ip addr add 10.0.0.5/24 broadcast 10.0.0.255 noprefixroute valid_lft 3487 preferred_lft 3487 dev e0",
        "ip addr add 10.0.1.5/24 metric 7 dev e0",
        "ip addr add fd00::5/64 noprefixroute dev e0",
    ]


MANAGED = """[{"ifname": "e0", "flags": ["UP"], "mtu": 1500, "addr_info": [
  {"family": "inet", "local": "10.0.0.5", "prefixlen": 24, "broadcast": "10.0.0.255", "scope": "global",
   "dynamic": true, "noprefixroute": true, "label": "e0", "valid_life_time": 3600, "preferred_life_time": 3600}]}]"""


MANAGED_ROUTES = """default via 10.0.0.1 dev e0 proto dhcp src 10.0.0.5 metric 100
10.0.0.0/24 dev e0 proto kernel scope link src 10.0.0.5 metric 100
local 10.0.0.5 dev e0 table local proto kernel scope host src 10.0.0.5"""


def test_connected_route_is_restored_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """As NetworkManager 1.42 sets it. Without that route, the kernel rejects the gateway."""

    def answer_command(command: list[str]) -> str:
        if "addr" in command:
            return MANAGED
        if "route" not in command:
            return ""
        return MANAGED_ROUTES if "-4" in command else "fe80::/64 dev e0 proto kernel metric 1024"

    monkeypatch.setattr(transaction_engine, "read_command_output", answer_command)
    before = transaction_engine.read_kernel_view(["e0"])
    assert transaction_engine.build_kernel_commands(before) == []
    now = transaction_engine.read_kernel_view(["e0"])
    now["links"]["e0"]["addresses"], now["routes"], now["connected"] = [], [], []
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)
    steps = transaction_engine.build_kernel_commands(before, 100)
    assert [" ".join(step) for step in steps] == [
        "ip addr add 10.0.0.5/24 broadcast 10.0.0.255 noprefixroute valid_lft 3500 preferred_lft 3500 dev e0",
        "ip -4 route replace 10.0.0.0/24 proto kernel scope link src 10.0.0.5 metric 100 dev e0",
        "ip -4 route replace default via 10.0.0.1 proto dhcp src 10.0.0.5 metric 100 dev e0",
    ]
    assert {transaction_engine.get_owner_patience(step, before) for step in steps} == {
        transaction_engine.LEASE_SECONDS
    }
    # it is removed with its address; the state that an older version saved has none
    now["connected"] = [["-4", "e0", "10.9.0.0/24 proto kernel"]]
    older = {"e0": {key: before["links"]["e0"][key] for key in ("mtu", "up", "addresses")}}
    for expected in (before, {"links": older, "routes": before["routes"]}):
        assert not [
            step for step in transaction_engine.build_kernel_commands(expected) if "del" in step
        ]


def test_an_existing_route_is_accepted_despite_a_lost_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ip addr replace` of an IPv6 address removes noprefixroute, and the owner's route stays."""
    route = ["-6", "e0", "fd00::/64 proto kernel metric 100 pref medium"]
    link = {"mtu": 1500, "up": True, "addresses": ["fd00::5/64"], "leases": []}
    before = {"links": {"e0": link | {"manner": {"fd00::5/64": ["noprefixroute"]}}}}
    now = {"links": {"e0": link | {"manner": {"fd00::5/64": []}}}}
    both: dict[str, Any] = {"routes": [], "connected": [route]}
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now | both)
    assert transaction_engine.build_kernel_commands(before | both) == []
    both["connected"] = []
    assert [
        step[3]
        for step in transaction_engine.build_kernel_commands(before | both | {"connected": [route]})
    ] == ["replace"]


# `ip -o route show table all`, `ip rule` and `ip -o nexthop` of iproute2 6.1, on a node with FRR.
EVERYTHING = {
    "-4 route": r"""default via 10.0.0.1 dev e0 proto static
default via 10.0.0.1 dev e0 table 100 proto static
10.5.0.0/16 proto static metric 20 \	nexthop via 10.0.0.1 dev e0 weight 1 \	nexthop via 10.9.0.1 dev e9 weight 1
10.6.0.0/16 nhid 30 proto zebra metric 20 \	nexthop via 10.0.0.1 dev e0 weight 1 \	nexthop via 10.0.0.2 dev e0 weight 1
10.7.0.0/16 nhid 7 via inet6 fe80::1 dev e0 proto zebra metric 20
10.8.0.0/16 via 10.9.0.1 dev e9
unreachable 10.78.1.0/24
10.0.0.0/24 dev e0 proto kernel scope link src 10.0.0.5
local 10.0.0.5 dev e0 table local proto kernel scope host src 10.0.0.5""",
    "-4 rule": """0:	from all lookup local
1000:	from all lookup [l3mdev-table]
32765:	from 10.0.0.5 lookup 100
32766:	from all lookup main""",
    "nexthop": """id 7 via fe80::1 dev e0 scope link proto zebra
id 8 via 10.0.0.2 dev e0 scope link linkdown proto zebra
id 9 via 10.9.0.2 dev e9 scope link proto zebra
id 30 group 7/8,2 proto zebra
id 31 group 9 proto zebra""",
}


def test_all_tables_rules_and_nexthops_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    link = '[{"ifname": "e0", "flags": ["UP"], "mtu": 1500, "addr_info": []}]'

    def answer_command(command: list[str]) -> str:
        options = " ".join(command)
        return next(
            (text for key, text in EVERYTHING.items() if key in options.replace("-o ", "")),
            link if "addr" in command else "",
        )

    monkeypatch.setattr(transaction_engine, "read_command_output", answer_command)
    before = transaction_engine.read_kernel_view(["e0"])
    assert transaction_engine.build_kernel_commands(before) == []
    deleted = {**before, "routes": [], "nexthops": [], "rules": []}
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: deleted)
    assert [" ".join(step) for step in transaction_engine.build_kernel_commands(before)] == [
        "ip nexthop replace id 7 via fe80::1 dev e0 proto zebra",
        "ip nexthop replace id 8 via 10.0.0.2 dev e0 proto zebra",
        "ip nexthop replace id 30 group 7/8,2 proto zebra",
        "ip -4 route replace default via 10.0.0.1 proto static dev e0",
        "ip -4 route replace default via 10.0.0.1 table 100 proto static dev e0",
        "ip -4 route replace 10.5.0.0/16 proto static metric 20 nexthop via 10.0.0.1 dev e0 weight 1 "
        "nexthop via 10.9.0.1 dev e9 weight 1",
        "ip -4 route replace 10.6.0.0/16 nhid 30 proto zebra metric 20",
        "ip -4 route replace 10.7.0.0/16 nhid 7 proto zebra metric 20",
        "ip -4 route replace unreachable 10.78.1.0/24",
        "ip -4 rule add priority 0 from all lookup local",
        "ip -4 rule add priority 32765 from 10.0.0.5 lookup 100",
        "ip -4 rule add priority 32766 from all lookup main",
    ]


def test_routes_of_daemons_are_never_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    later = [["-4", "e0", "10.1.0.0/16 via 10.0.0.1 proto bird metric 32"]]
    own = [["-4", "e0", "10.2.0.0/16 via 10.0.0.1 proto static"]]
    monkeypatch.setattr(
        transaction_engine, "read_kernel_view", lambda names: build_view([], later + own)
    )
    assert [step[4] for step in transaction_engine.build_kernel_commands(build_view([], []))] == [
        "10.2.0.0/16"
    ]


@pytest.mark.parametrize(
    ("line", "route"),
    [
        ("blackhole 203.0.113.0/24 table 100", "blackhole 203.0.113.0/24 table 100"),
        # IPv6 as iproute2 6.1 shows it
        (
            "prohibit 2001:db8:9::/48 dev lo table 100 metric 1024 error -13 pref medium",
            "prohibit 2001:db8:9::/48 table 100 metric 1024 pref medium",
        ),
        ("unreachable default dev lo table 5 proto kernel metric 4294967295 error -101", None),
        ("broadcast 10.0.0.255 dev e0 table local", None),
    ],
)
def test_rejecting_route_has_no_interface(line: str, route: str | None) -> None:
    """Found by tests/cuts/test_others_cuts.py: systemd-networkd removes foreign ones during the rollback."""
    assert transaction_engine.parse_route_line(["e0"], "-4", line) == (route and ["-4", "", route])


def test_a_later_unreachable_route_is_never_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    later = [["-4", "", "blackhole 203.0.113.0/24"]]
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: build_view([], later))
    assert transaction_engine.build_kernel_commands(build_view([], [])) == []


def test_warnings_are_not_part_of_the_output() -> None:
    script = "echo '[]'; echo 'Cannot open a table' >&2"
    assert transaction_engine.read_command_output(["/bin/sh", "-c", script]) == "[]"
    assert transaction_engine.run_with_deadline(["/bin/sh", "-c", script])[1] != "[]"


@pytest.mark.parametrize(
    ("lease_seconds", "age", "expected"),
    [(3600, 0, 3600), (3600, 100, 3500), (120, 100, 60), (3600, 9000, 60), (30, 10, 30)],
)
def test_restored_lease_is_not_extended(lease_seconds: int, age: int, expected: int) -> None:
    options = [
        "noprefixroute",
        "valid_lft",
        str(lease_seconds),
        "preferred_lft",
        str(lease_seconds),
    ]
    assert transaction_engine.age_lease_times(options, age)[2::2] == [str(expected), str(expected)]
    assert transaction_engine.age_lease_times(["metric", "7"], age) == ["metric", "7"]


def test_a_route_is_compared_without_volatile_fields() -> None:
    assert transaction_engine.strip_route_state(
        "default via fe80::1 proto ra metric 100 expires 1795sec pref low"
    ) == ("default via fe80::1 proto ra metric 100 pref low")
    # without onlink, the kernel rejects a gateway outside the link's networks (ip-route(8))
    assert (
        transaction_engine.strip_route_state("default via 192.0.2.1 linkdown onlink")
        == "default via 192.0.2.1 onlink"
    )
    assert not transaction_engine.is_restorable_route(
        "10.0.0.0/24 proto kernel scope link src 10.0.0.5"
    )

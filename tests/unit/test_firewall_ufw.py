"""Translate ufw's rules (ufw 0.36.2) into firewalld's."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from ansible.module_utils.fullmesh.firewall import ufw

RECORDED = Path(__file__).parent / "data/firewall/ufw-0.36.2-user.rules"
PEERS = ["10.0.0.11", "fd00::11"]
PORTS = ["29500/tcp", "22/tcp"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in (
        ("/etc/ufw/user.rules", RECORDED.read_text(encoding="utf-8")),
        ("/etc/default/ufw", 'DEFAULT_INPUT_POLICY="DROP"\nDEFAULT_OUTPUT_POLICY="ACCEPT"\n'),
        ("/etc/ufw/before.rules", "shipped\n"),
        (ufw.SHIPPED + "before.rules", "shipped\n"),
    ):
        write_file(tmp_path, path, text)
    return tmp_path


def write_file(root: Path, path: str, text: str) -> None:
    target = Path(str(root) + path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def test_rules_that_firewalld_cannot_express_are_named_with_reason(root: Path) -> None:
    assert ufw.list_unsupported_rules(str(root), PEERS, PORTS) == [
        "`allow tcp 9100 0.0.0.0/0 any 0.0.0.0/0 in_eth0` (bound to an interface)",
        "`route:allow any any 0.0.0.0/0 any 0.0.0.0/0 in_eth0!out_eth1` (routed traffic)",
    ]


@pytest.mark.parametrize(
    ("path", "text", "word"),
    [
        ("/etc/default/ufw", "DEFAULT_INPUT_POLICY=ACCEPT\n", "DEFAULT_INPUT_POLICY=ACCEPT"),
        ("/etc/default/ufw", 'DEFAULT_OUTPUT_POLICY="DROP"\n', "DEFAULT_OUTPUT_POLICY=DROP"),
        ("/etc/ufw/before.rules", "edited\n", "/etc/ufw/before.rules (was edited)"),
        ("/etc/ufw/user.rules", "### tuple ### allow tcp\n", "(of an unknown form)"),
        (
            "/etc/ufw/user.rules",
            tuple_ := "### tuple ### deny any any 0.0.0.0/0 any 10.0.0.0/8 in\n",
            "(blocks",
        ),
        ("/etc/ufw/user.rules", tuple_.replace("any any 0", "tcp 22 0"), "(blocks"),
        ("/etc/ufw/user.rules", tuple_.replace(" in", " out"), "(outgoing)"),
        ("/etc/ufw/user.rules", tuple_.replace("0 any 1", "0 53 1"), "(by source port)"),
    ],
)
def test_each_thing_that_cannot_be_carried_over_is_named(
    root: Path, path: str, text: str, word: str
) -> None:
    write_file(root, path, text)
    assert any(word in one for one in ufw.list_unsupported_rules(str(root), PEERS, PORTS))


ALL = "### tuple ### {} {} {} 0.0.0.0/0 any 0.0.0.0/0 in\n"
SOME = "### tuple ### allow any 22 0.0.0.0/0 any 192.0.2.0/24 in\n"


@pytest.mark.parametrize(
    ("rules", "opens"),
    [
        (SOME, True),
        ("", True),
        (SOME + ALL.format("allow", "tcp", "22"), False),
        (ALL.format("limit", "any", "20:30"), False),
        (ALL.format("allow", "any", "any"), False),
        (ALL.format("allow", "udp", "22"), True),
        (ALL.format("allow", "tcp", "80,443"), True),
        ("### tuple ### allow tcp 22 10.0.0.11 any 0.0.0.0/0 in\n", True),
    ],
)
def test_a_port_that_ufw_blocked_and_the_zone_opens_is_named(
    root: Path, rules: str, opens: bool
) -> None:
    write_file(root, "/etc/ufw/user.rules", rules)
    carried = ufw.list_carried_rules(str(root), PEERS, PORTS)
    found = ufw.find_newly_open_ssh(str(root), "public", [22], carried)
    assert [one.partition(" (")[0] for one in found] == ["ssh on 22/tcp over IPv4"] * opens
    assert ufw.find_newly_open_ssh(str(root), "public", [], carried) == []


def test_the_other_family_has_rules_of_its_own(root: Path) -> None:
    """Without IPV6=yes, ufw writes no IPv6 rules, and accepts no IPv6 connections."""
    write_file(root, "/proc/sys/net/ipv6/conf/all/disable_ipv6", "0\n")
    carried = ufw.list_carried_rules(str(root), PEERS, PORTS)
    found = ufw.find_newly_open_ssh(str(root), "public", [22], carried)
    assert [one.partition(" (")[0] for one in found] == ["ssh on 22/tcp over IPv6"]
    write_file(
        root, "/etc/ufw/user6.rules", "### tuple ### allow tcp 22 ::/0 any ::/0 OpenSSH - in\n"
    )
    carried = ufw.list_carried_rules(str(root), PEERS, PORTS)
    assert ufw.find_newly_open_ssh(str(root), "public", [22], carried) == []


def policy(root: Path) -> list[ElementTree.Element]:
    text = ufw.render_ufw_policy("fullmesh", ufw.list_carried_rules(str(root), PEERS, PORTS))
    tree = ElementTree.fromstring(text)  # noqa: S314 (ours)
    assert tree.get("target") == "CONTINUE"
    return tree.findall("rule")


def format_rule(rule: ElementTree.Element) -> str:
    words = []
    for tag in rule:
        values = [tag.get(name) for name in ("address", "port", "protocol") if tag.get(name)]
        words.append(":".join([tag.tag, *(str(value) for value in values)]))
    return " ".join(words)


def test_the_other_rules_keep_their_order(root: Path) -> None:
    rules = policy(root)
    assert [format_rule(rule) for rule in rules] == [
        "port:22:tcp accept",
        "source:192.0.2.0/24 port:80:tcp accept",
        "source:192.0.2.0/24 port:443:tcp accept",
        "port:53:tcp accept",
        "port:53:udp accept",
        "source:192.0.2.66 drop",
        "port:2222:tcp accept",
        "port:6000-6007:tcp accept",
    ]
    assert [int(str(rule.get("priority"))) for rule in rules] == list(range(1, 9))


def test_nothing_to_carry_over_gives_no_file(root: Path) -> None:
    write_file(root, "/etc/ufw/user.rules", "")
    assert ufw.render_ufw_policy("fullmesh", ufw.list_carried_rules(str(root), PEERS, PORTS)) == ""


def test_a_protocol_without_ports_and_v6(root: Path) -> None:
    write_file(
        root, "/etc/ufw/user.rules", "### tuple ### allow esp any 0.0.0.0/0 any 192.0.2.1 in\n"
    )
    write_file(
        root, "/etc/ufw/user6.rules", "### tuple ### reject tcp 25 2001:db8::1 any ::/0 in\n"
    )
    first, second = policy(root)
    assert first.find("protocol").get("value") == "esp"  # type: ignore[union-attr]
    assert (second.get("family"), format_rule(second)) == (
        "ipv6",
        "destination:2001:db8::1 port:25:tcp reject",
    )


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ("allow tcp 50000:50010 0.0.0.0/0 any 0.0.0.0/0 in", True),
        ("allow any any 0.0.0.0/0 any 10.0.0.0/8 in", True),
        ("limit any 54095 0.0.0.0/0 any 0.0.0.0/0 in", True),
        ("allow udp 50000 0.0.0.0/0 any 0.0.0.0/0 in", False),
        ("allow tcp 22,54096 0.0.0.0/0 any 0.0.0.0/0 in", False),
        ("deny tcp 50000 0.0.0.0/0 any 0.0.0.0/0 in", False),
    ],
)
def test_a_rule_that_opens_the_clusters_ports_is_named(text: str, wide: bool) -> None:
    notes = ufw.describe_ufw_takeover(
        [dict(ufw.parse_ufw_rule(text), family="4")], ["50000-54095/tcp"], []
    )
    assert [note["code"] for note in notes] == ["PF-203"] + ["PF-204"] * wide


def test_a_lost_limit_and_a_lost_rule_are_reported(root: Path) -> None:
    rules = ufw.list_carried_rules(str(root), PEERS, PORTS)
    text = ufw.describe_ufw_takeover(rules, [], ["`x`"])[0]["text"]
    assert "Without their rate limit: `limit tcp 2222" in text
    assert "Not carried over, as configured: `x`" in text


def test_ufw_conf_decides_whether_it_is_on(root: Path) -> None:
    for text, on in (("ENABLED=yes", True), (" enabled = YES", True), ("#ENABLED=yes", False)):
        write_file(root, ufw.CONF, text + "\n")
        assert ufw.is_ufw_enabled(str(root)) is on

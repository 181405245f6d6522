"""Parse other programs' files with random damage: no parser crashes, and foreign entries are kept.

Each test starts from a recorded file and drops, repeats, moves, joins and replaces lines and words:
200 variants for each parser in every commit, 100,000 with ``./fullmesh test reliability``.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from ansible.module_utils.fullmesh import hosts_file
from ansible.module_utils.fullmesh.facts.configured import read_configured_networks
from ansible.module_utils.fullmesh.firewall import blocking, preserve, ufw
from ansible.module_utils.fullmesh.netfilter import ruleset
from ansible.module_utils.fullmesh.network.backends import (
    common,
    ifcfg,
    ifupdown,
    netplan,
    networkmanager,
)
from ansible.module_utils.fullmesh.transaction import session
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

DATA = Path(__file__).parent / "data"
OURS = ["eth1"]
KINDS = ("drop", "double", "move", "join", "cut", "insert", "word", "indent", "character")
# Elements of their formats, and text that has broken such parsers elsewhere.
WORDS = [
    *("eth1", "eth0", "eth1:0", "eth1.5", "*", "e*", "10.0.0.5/24", "2001:db8::1", "0.0.0.0/0"),
    *("{", "}", "[", "]", ":", "- ", "#", "\\", "'", '"', "&a", "*a", "|", ">", "---", "\t", "\r"),
    *("iface eth1 inet dhcp", "auto eth1", "[connection]", "interface-name=eth1", "ONBOOT=yes"),
    *("match: {name: eth1}", "set-name: eth1", "-A INPUT -j DROP", "COMMIT", "*filter", "any"),
    *("\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\udc80", "\x00", "-1", "99999999999", "1:2:3"),
]
STEP = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 400),
    st.integers(0, 400),
    st.sampled_from(WORDS) | st.text(max_size=8),
)


def damage_text(text: str, steps: list[tuple[str, int, int, str]]) -> str:
    """Return a text with random damage."""
    lines = text.split("\n")
    for kind, first, second, word in steps:
        at, other = first % len(lines), second % len(lines)
        line = lines[at]
        if kind == "drop" and len(lines) > 1:
            del lines[at]
        elif kind == "double":
            lines.insert(other, line)
        elif kind == "move":
            lines[at], lines[other] = lines[other], line
        elif kind == "join" and at + 1 < len(lines):
            lines[at : at + 2] = [line + lines[at + 1]]
        elif kind == "cut":
            lines[at] = line[: second % (len(line) + 1)]
        elif kind == "insert":
            lines.insert(at, word)
        elif kind == "word":
            words = line.split(" ")
            words[second % len(words)] = word
            lines[at] = " ".join(words)
        elif kind == "indent":
            lines[at] = " " * (second % 9) + line.lstrip()
        elif kind == "character":
            here = second % (len(line) + 1)
            lines[at] = line[:here] + word + line[here + 1 :]
    return "\n".join(lines)


Check = Callable[[str], None]
PARSERS: dict[str, tuple[list[str], Check]] = {}


def parser(*samples: str) -> Callable[[Check], Check]:
    """Register the check of one parser with its start: names of recorded files, or a text."""
    found = [one if "\n" in one else (DATA / one).read_text() for one in samples]

    def register(check: Check) -> Check:
        PARSERS[check.__name__] = (found, check)
        return check

    return register


# --- programs that configure interfaces -------------------------------------------------------


def netplan_entries(text: str) -> dict[tuple[str, str], Any] | None:
    """Return the entries of a netplan file by kind and id, None if it is no YAML or no mapping."""
    try:
        network = yaml.safe_load(text)["network"] or {}
        return {
            (kind, str(name)): entry
            for kind, entries in network.items()
            if isinstance(entries, dict)
            for name, entry in entries.items()
        }
    except (yaml.YAMLError, TypeError, KeyError, AttributeError, ValueError, RecursionError):
        return None


def may_be_ours(name: str, entry: object) -> bool:
    """Return whether an entry names our interface with any key."""
    return name in OURS or "eth1" in json.dumps(entry, default=str) or "match" in str(entry)


@parser(
    *(
        f"network/{name}.netplan"
        for name in ("00-installer-config", "50-cloud-init-subiquity", "50-cloud-init")
    )
)
def a_netplan_file_keeps_foreign_entries(text: str) -> None:
    try:
        after = netplan.strip_entries(text, {"eth1": set()}, OURS, "/etc/netplan/x.yaml")
    except common.ForeignError:
        return
    before = netplan_entries(text)
    if before is None or after == text:
        return
    now = netplan_entries(after)
    assert now is not None, after
    for (kind, name), entry in before.items():
        if not may_be_ours(name, entry):
            assert now.get((kind, name)) == entry, after


def stanzas(text: str) -> list[list[str]] | None:
    """Return the foreign iface stanzas of interfaces(5), None if an option is in no stanza (ifup rejects that).

    Only a line feed ends a line.
    """
    joined = re.sub(r"\\\n", "", text)
    found: list[list[str]] = []
    inside = False
    stanza = False
    for line in joined.split("\n"):
        words = re.findall(r"[^ \t\r\f\v]+", line)
        if not words or words[0].startswith("#"):
            continue
        head = words[0] in {"iface", "mapping", "auto", "source", "source-directory", "rename"}
        head = head or words[0].startswith(("allow-", "no-"))
        if head:
            stanza = words[0] in {"iface", "mapping"}
            inside = words[0] == "iface" and len(words) > 1 and words[1].split(":")[0] not in OURS
            if inside:
                found.append([" ".join(words)])
        elif not stanza:
            return None
        elif inside:
            found[-1].append(" ".join(words))
    return found


@parser("network/interfaces-debian", "network/interfaces-50-cloud-init")
def an_interfaces_file_keeps_foreign_stanzas(text: str) -> None:
    before = stanzas(text)
    if before is not None:
        assert stanzas(ifupdown.comment_out_stanzas(text, OURS)) == before


@parser("network/cloud-init-eth0.nmconnection")
def a_keyfile_loses_only_its_autoconnect(text: str) -> None:
    networkmanager.is_profile_bound(text, OURS, set())
    networkmanager.find_lost_profile_settings(text)
    before = networkmanager.parse_keyfile(text)
    if "" in before:
        return  # NetworkManager does not read a file with a key before the first group
    after = networkmanager.parse_keyfile(networkmanager.disable_autoconnect(text))
    for sections in (before, after):
        sections.setdefault("connection", {}).pop("autoconnect", None)
    assert after == before


@parser("network/ifcfg-ens33-el7", "network/ifcfg-eth0-el8-cloud")
def an_ifcfg_file_loses_only_its_onboot(text: str) -> None:
    ifcfg.is_ifcfg_of(text, OURS, set())
    ifcfg.find_lost_ifcfg_settings(text)
    assert ifcfg.parse_ifcfg(ifcfg.disable_ifcfg(text)) == {
        **ifcfg.parse_ifcfg(text),
        "ONBOOT": "no",
    }


@parser("network/interfaces-debian", "network/50-cloud-init.netplan")
def addresses_in_owners_files_are_found_without_a_crash(text: str) -> None:
    for one in read_configured_networks(lambda _path: text, lambda _pattern: ["x"]):
        ipaddress.ip_interface(one)


# --- firewalls ----------------------------------------------------------------------------------


@parser("firewall/ufw-0.36.2-user.rules")
def rules_of_ufw_become_xml_or_are_named(text: str) -> None:
    for tuple_text in ufw.TUPLE.findall(text):
        one = ufw.parse_ufw_rule(tuple_text)
        one["family"] = "4"
        if ufw.explain_unsupported_rule(one):
            continue
        ufw.is_blocking_senders(one, ["10.0.0.0/24"], ["50000-54095/tcp"])
        ElementTree.fromstring(ufw.render_ufw_policy("fullmesh", [one]).encode() or b"<x/>")  # noqa: S314 (our own output)


QUESTION: Any = {
    "peers": {"4": ["10.78.2.12", "10.78.2.13"], "6": ["fd00::12"]},
    "own": {"4": "10.78.2.11", "6": "fd00::11"},
    "interface": "eth1",
    "ports": ["29500/tcp", "50000-54095/tcp", "4791/udp"],
}


@parser("firewall/nft-1.0.6-beside.json")
def rules_of_nftables_are_judged_or_left(text: str) -> None:
    blocking.find_peer_blockers(ruleset.parse_nft_json(text), QUESTION)


@parser("firewall/iptables-nft-1.8.9-beside.txt")
def rules_of_iptables_are_judged_and_none_is_missed(text: str) -> None:
    blocking.find_peer_blockers(ruleset.parse_iptables_save(text, "ip"), QUESTION)
    assert preserve.build_restore_text(text, text) == ""


# --- names, and our ssh connection ----------------------------------------------------------------

HOSTS = """127.0.0.1 localhost
127.0.1.1 node1.example node1 # by the installer
::1 ip6-localhost ip6-loopback
10.9.0.1 storage nfs # the old one
10.0.0.11 node1
"""
PLANNED: list[hosts_file.HostsEntry] = [
    {"address": "10.0.0.11", "names": ["node1.example", "node1"]},
    {"address": "10.0.0.12", "names": ["node2"]},
]


def answers(text: str) -> Iterator[tuple[str, list[str]]]:
    """Return a resolver's view of hosts(5) without our names. Only a line feed ends a line."""
    own_names = {name for host in PLANNED for name in host["names"]}
    for line in text.split("\n"):
        words = re.split(r"[ \t\r\f\v]+", line.split("#", 1)[0].strip(" \t\r\f\v"))
        names = [name for name in words[1:] if name.lower() not in own_names]
        if names:
            yield words[0], names


@parser(HOSTS)
def a_hosts_file_keeps_foreign_names_and_is_restored(text: str) -> None:
    rendered = hosts_file.build_hosts_file(text, PLANNED)
    assert sorted(answers(rendered)) == sorted(answers(text))
    assert hosts_file.build_hosts_file(rendered, PLANNED) == rendered
    assert sorted(answers(hosts_file.remove_hosts_block(rendered, text))) == sorted(answers(text))


@parser("10.0.0.1 50022 10.0.0.11 22\n")
def an_ssh_connection_is_one_or_none(text: str) -> None:
    empty = str(DATA / "sockets")
    for words in session.list_ssh_connections({"SSH_CONNECTION": text}, 1, empty):
        assert len(words) == 4
        ipaddress.ip_address(session.get_server_address(words))
        int(words[3])


def test_a_damaged_text_differs() -> None:
    """The strategy does damage the text."""
    text = "a b\nc d\n e f"
    made = {kind: damage_text(text, [(kind, 1, 2, "eth1")]) for kind in KINDS}
    assert [kind for kind, one in made.items() if one == text] == []


# --- the tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PARSERS)
@given(sample=st.integers(0, 5), steps=st.lists(STEP, max_size=8))
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_no_parser_crashes_or_loses_foreign_entries(
    name: str, sample: int, steps: list[tuple[str, int, int, str]]
) -> None:
    samples, check = PARSERS[name]
    text = damage_text(samples[sample % len(samples)], steps)
    note(repr(text))
    check(text)


# Each is white space or a line end for Python (all of them: SPACES of test_line_ends.py).
ODD_SPACES = "\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2003\u200a\u2028\u2029\u202f\u205f\u3000"


@pytest.mark.parametrize("name", PARSERS)
def test_no_unusual_space_changes_foreign_settings(name: str) -> None:
    """Insert it into each line: instead of it, before, after, between words. U+00A0 once broke a netplan file."""
    samples, check = PARSERS[name]
    for space in ODD_SPACES:
        for lines in (sample.split("\n") for sample in samples):
            for at, line in enumerate(lines):
                for odd in {space, space + line, line + space, line.replace(" ", space)}:
                    check("\n".join([*lines[:at], odd, *lines[at + 1 :]]))
                # if it is deeper than all others, YAML takes it for a part of the previous value
                for added in (space, " " * 20 + space):
                    check("\n".join([*lines[:at], added, *lines[at:]]))


@pytest.mark.parametrize("end", ["\r", "\x85", "\u2028"])
def test_a_line_end_that_only_yaml_knows_is_refused(end: str) -> None:
    """Number 14012 of tests/reliability: a lone CR moved a line below another one, which was removed alone."""
    text = "network:\n  ethernets:\n    eth1:\n      addresses: [10.9.0.7/24]\n      nameservers:\n"
    text += f" {end}       addresses: [10.9.0.53]\n"
    with pytest.raises(common.ForeignError):
        netplan.strip_entries(text, {"eth1": set()}, ["eth1"], "/etc/netplan/x.yaml")
    whole = text.replace("\n", "\r\n").replace(f" {end} ", " ")
    assert "10.9.0.53" in netplan.strip_entries(
        whole, {"eth1": set()}, ["eth1"], "/etc/netplan/x.yaml"
    )

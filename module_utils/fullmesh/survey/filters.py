"""The firewalls of one node: what the kernel enforces (nftables), what firewalld runs and what it keeps on disk.

Nothing is judged here; the judge sends packets through these rules on the controller.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ..files import SPACE, split_lines, split_words
from ..foreign_text import parse_tool_json
from .net import read_kernel_file

if TYPE_CHECKING:
    from typing import Any

    from ..schema.survey import (
        FirewalldPolicy,
        FirewalldState,
        FirewalldZone,
        NftSurvey,
        NodeSurvey,
        PolicyState,
        ZoneState,
    )

    Chain = tuple[str, str, str]

SECONDS = 8
RULES_MOST = (
    4000  # a host with Kubernetes has tens of thousands; the judge says so instead of reading them
)
ELEMENTS_MOST = 4000
TEXT_MOST = 8000000
HOOKS = ("input", "output", "prerouting", "postrouting", "ingress", "egress")
BUS = "org.fedoraproject.FirewallD1"
NFT_JSON = 1 << 4  # NFT_CTX_OUTPUT_JSON, libnftables(3)
ZONE_FOLDERS = ("/etc/firewalld/zones", "/usr/lib/firewalld/zones")
POLICY_FOLDERS = ("/etc/firewalld/policies", "/usr/lib/firewalld/policies")


def run_tool(argv: list[str]) -> tuple[int, str]:
    """Exit status and output of a command; (127, "") where it is missing, (124, "") past its time."""
    env = dict(os.environ, LC_ALL="C", PATH="/usr/sbin:/usr/bin:/sbin:/bin")
    try:
        done = subprocess.run(
            argv,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            env=env,
        )
    except subprocess.TimeoutExpired:
        return 124, ""
    except OSError:
        return 127, ""
    return done.returncode, done.stdout.decode("utf-8", "replace")


def read_ruleset_by_library() -> str:
    """Ask libnftables itself: firewalld brings the library without the command on some systems."""
    try:
        lib = ctypes.CDLL("libnftables.so.1")
    except OSError:
        return ""
    lib.nft_ctx_new.restype = ctypes.c_void_p
    lib.nft_ctx_get_output_buffer.restype = ctypes.c_char_p
    link = ctypes.c_void_p(lib.nft_ctx_new(0))
    lib.nft_ctx_output_set_flags(link, NFT_JSON)
    lib.nft_ctx_buffer_output(link)
    lib.nft_ctx_buffer_error(link)
    code = lib.nft_run_cmd_from_buffer(link, b"list ruleset")
    said = lib.nft_ctx_get_output_buffer(link) if code == 0 else b""
    lib.nft_ctx_free(link)
    return (said or b"").decode("utf-8", "replace")


def read_ruleset_text() -> tuple[str, str]:
    """All rules as JSON, or an empty text and why not."""
    if os.geteuid() != 0:
        return "", "reading firewall rules needs root"
    code, text = run_tool(["nft", "-j", "list", "ruleset"])
    if code == 0 and text.strip(SPACE):
        return text, ""
    text = read_ruleset_by_library()
    if text:
        return text, ""
    return "", "neither nft nor libnftables is installed" if code == 127 else "nft gave no answer"  # noqa: PLR2004


def get_chain_key(rule: dict[str, Any]) -> Chain:
    """Name the chain of a rule."""
    return (rule["family"], rule["table"], rule["chain"])


def find_reachable_chains(chains: list[Any], rules: list[Any]) -> set[Chain]:
    """Say which chains a packet to or from this host can come through: some at hooks, and what they jump to."""
    by_chain: dict[Chain, list[Any]] = {}
    for rule in rules:
        by_chain.setdefault(get_chain_key(rule), []).append(rule)
    todo = [(c["family"], c["table"], c["name"]) for c in chains if c.get("hook") in HOOKS]
    seen: set[Chain] = set()
    while todo:
        key = todo.pop()
        if key in seen:
            continue
        seen.add(key)
        for rule in by_chain.get(key, []):
            for name in re.findall(r'"target": ?"([^"]+)"', json.dumps(rule.get("expr", []))):
                todo.append((key[0], key[1], name))
    return seen


def parse_ruleset(text: str) -> NftSurvey:
    """Keep the chains, rules and sets that can decide about a packet to or from this host.

    Those that send a packet elsewhere (type nat) are kept whole or not at all: Kubernetes has tens of thousands, and
    of a part of them nobody could say what becomes of a packet.
    """
    held = parse_tool_json(text[:TEXT_MOST])["nftables"]
    chains = [item["chain"] for item in held if "chain" in item]
    rules = [item["rule"] for item in held if "rule" in item]
    keep = find_reachable_chains([c for c in chains if c.get("type") != "nat"], rules)
    used = [r for r in rules if get_chain_key(r) in keep]
    cut = max(0, len(used) - RULES_MOST)
    elsewhere = find_reachable_chains([c for c in chains if c.get("type") == "nat"], rules) - keep
    sending = [r for r in rules if get_chain_key(r) in elsewhere]
    if len(used) + len(sending) <= RULES_MOST:
        keep, used = keep | elsewhere, used + sending
    else:
        cut += len(sending)
    sets = [item[k] for item in held for k in ("set", "map") if k in item]
    for one in sets:
        one["elem"] = one.get("elem", [])[:ELEMENTS_MOST]
    return {
        "chains": [c for c in chains if (c["family"], c["table"], c["name"]) in keep],
        "rules": [
            {k: r[k] for k in ("family", "table", "chain", "handle", "expr") if k in r}
            for r in used[:RULES_MOST]
        ],
        "sets": [{k: s.get(k) for k in ("family", "table", "name", "elem")} for s in sets],
        "cut": cut,
    }


def survey_ruleset() -> tuple[NftSurvey | None, str]:
    """What nftables enforces, or why that is not known."""
    text, why = read_ruleset_text()
    if not text:
        return None, why
    if len(text) > TEXT_MOST:
        return None, "there are more rules than can be read"
    found = parse_ruleset(text)
    nameless = [c for c in found["chains"] if c["family"] == "netdev" and not c.get("dev")]
    if nameless:  # nft 1.0.6 and its neighbours leave the cards of a chain out of the JSON
        held = parse_chain_devices(run_tool(["nft", "list", "chains", "netdev"])[1])
        for chain in nameless:
            chain["dev"] = held.get((chain["table"], chain["name"]), [])
    return found, ""


def parse_chain_devices(text: str) -> dict[tuple[str, str], list[str]]:
    """Read the cards of chains, by table and chain, from what nft prints for people."""
    found: dict[tuple[str, str], list[str]] = {}
    table = name = ""
    for line in split_lines(text):
        words = split_words(line)
        if words[:1] == ["table"]:
            table = words[2]
        elif words[:1] == ["chain"]:
            name = words[1]
        match = re.search(r"\bdevices?(?: =)? (\{[^}]*\}|\S+)", line, re.ASCII)
        if match and table and name:
            found[(table, name)] = re.findall(r"[^\s{}\",;]+", match.group(1), re.ASCII)
    return found


def survey_legacy_tables() -> list[str]:
    """Tables of the old iptables in use beside nftables."""
    names = (
        read_kernel_file("/proc/net/ip_tables_names")
        + "\n"
        + read_kernel_file("/proc/net/ip6_tables_names")
    )
    return sorted(set(split_words(names)))


def find_port_borders(seen: NodeSurvey | None, first: int, last: int) -> list[int]:
    """Ports on both sides of every border that the rules draw inside the range."""
    held = seen["nft"] if seen and "nft" in seen else None
    text = json.dumps([rule.get("expr", []) for rule in held["rules"]]) if held else ""
    text += json.dumps([one.get("elem", []) for one in held["sets"]]) if held else ""
    found: set[int] = set()
    for digits in re.findall(r"(?<![\d.:/])\d{4,5}(?![\d.:/])", text, re.ASCII):
        port = int(digits)
        found.update(p for p in (port - 1, port, port + 1) if first <= p <= last)
    return sorted(found)


def query_firewalld(*words: str) -> Any:
    """Ask firewalld over D-Bus; firewall-cmd needs 0.3 s of Python for each question."""
    code, text = run_tool(
        ["busctl", "--json=short", "call", BUS, "/org/fedoraproject/FirewallD1", *words]
    )
    if code != 0:
        return None
    try:
        return parse_tool_json(text)["data"][0]
    except (ValueError, KeyError, IndexError, TypeError):
        return None


def strip_dbus_types(value: Any) -> Any:
    """Take D-Bus' types off a value."""
    if isinstance(value, dict):
        if set(value) == {"type", "data"}:
            return strip_dbus_types(value["data"])
        return {key: strip_dbus_types(one) for key, one in value.items()}
    return [strip_dbus_types(one) for one in value] if isinstance(value, list) else value


def format_ports(value: Any) -> list[str]:
    """Print ``50000-54095/tcp`` for every pair."""
    pairs = value if isinstance(value, list) else []
    return sorted("/".join(map(str, pair)) for pair in pairs if isinstance(pair, (list, tuple)))


def read_runtime_zone(name: str) -> FirewalldZone:
    """Settings of a zone that are in force."""
    held = query_firewalld(BUS + ".zone", "getZoneSettings2", "s", name)
    held = strip_dbus_types(held) if held is not None else {}
    return {
        "target": "" if held.get("target", "default") == "default" else str(held["target"]),
        "ports": format_ports(held.get("ports")),
        "services": sorted(map(str, held.get("services", []))),
        "sources": sorted(map(str, held.get("sources", []))),
        "interfaces": sorted(map(str, held.get("interfaces", []))),
        "rules": len(held.get("rules_str", [])),
    }


def read_permanent_zone(name: str) -> FirewalldZone | None:
    """Settings of a zone as they will be after a reload; None where there is no file."""
    for folder in ZONE_FOLDERS:
        text = read_kernel_file(os.path.join(folder, name + ".xml"))
        if not text:
            continue
        root = ElementTree.fromstring(text)  # noqa: S314 (a file that only root of this node can write)
        sources = [s.get("address") or "ipset:" + str(s.get("ipset")) for s in root.iter("source")]
        return {
            "target": root.get("target", "") or "",
            "ports": sorted(
                "{}/{}".format(p.get("port"), p.get("protocol")) for p in root.findall("port")
            ),
            "services": sorted(str(s.get("name")) for s in root.findall("service")),
            "sources": sorted(s for s in sources if s != "ipset:None"),
            "interfaces": sorted(str(i.get("name")) for i in root.findall("interface")),
            "rules": len(root.findall("rule")),
        }
    return None


def read_runtime_policy(name: str) -> FirewalldPolicy:
    """Settings of a policy that are in force."""
    held = query_firewalld(BUS + ".policy", "getPolicySettings", "s", name)
    held = strip_dbus_types(held) if held is not None else {}
    return {
        "target": str(held.get("target", "CONTINUE")),
        "ports": format_ports(held.get("ports")),
        "services": sorted(map(str, held.get("services", []))),
        "ingress": sorted(map(str, held.get("ingress_zones", []))),
        "egress": sorted(map(str, held.get("egress_zones", []))),
        "rules": sorted(map(str, held.get("rich_rules", []))),
    }


def format_rule_words(node: Any) -> list[str]:
    """Write an element of a rule and what is in it as firewalld writes it: ``port port="22" protocol="tcp"``."""
    found = [str(node.tag)] + [f'{key}="{node.get(key)}"' for key in node.attrib]
    return found + [word for child in node for word in format_rule_words(child)]


def read_permanent_policy(name: str) -> FirewalldPolicy | None:
    """Settings of a policy as they will be after a reload; None where there is no file."""
    for folder in POLICY_FOLDERS:
        text = read_kernel_file(os.path.join(folder, name + ".xml"))
        if not text:
            continue
        root = ElementTree.fromstring(text)  # noqa: S314 (a file that only root of this node can write)
        return {
            "target": root.get("target", "") or "CONTINUE",
            "ports": sorted(
                "{}/{}".format(p.get("port"), p.get("protocol")) for p in root.findall("port")
            ),
            "services": sorted(str(s.get("name")) for s in root.findall("service")),
            "ingress": sorted(str(z.get("name")) for z in root.findall("ingress-zone")),
            "egress": sorted(str(z.get("name")) for z in root.findall("egress-zone")),
            "rules": sorted(" ".join(format_rule_words(rule)) for rule in root.findall("rule")),
        }
    return None


def read_policies() -> dict[str, PolicyState]:
    """The policies in force and those with a file of this node's own; {} where firewalld knows none (before 0.9)."""
    active = query_firewalld(BUS + ".policy", "getActivePolicies")
    if active is None:
        return {}
    known = set(map(str, query_firewalld(BUS + ".policy", "getPolicies") or []))
    found: dict[str, PolicyState] = {}
    for name in sorted(known & {*map(str, active), *list_xml_names(POLICY_FOLDERS[0])})[:20]:
        try:
            kept = read_permanent_policy(name)
        except ElementTree.ParseError:
            kept = None
        found[name] = {"runtime": read_runtime_policy(name), "permanent": kept}
    return found


def list_xml_names(folder: str) -> list[str]:
    """Name the objects that have a file in a folder of firewalld's configuration."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [name[: -len(".xml")] for name in names if name.endswith(".xml")]


def survey_firewalld() -> tuple[FirewalldState | None, str]:
    """Zones and policies in force beside those on disk; None where firewalld does not run, and why it is not known."""
    active = query_firewalld(BUS + ".zone", "getActiveZones")
    if active is None:
        return None, "" if os.geteuid() == 0 else "it does not run, or tells its zones to root only"
    default = query_firewalld("" + BUS, "getDefaultZone")
    names = sorted({*map(str, active), str(default or "public"), *list_xml_names(ZONE_FOLDERS[0])})
    found: dict[str, ZoneState] = {}
    for name in names[:20]:
        try:
            kept = read_permanent_zone(name)
        except ElementTree.ParseError:
            kept = None
        found[name] = {"runtime": read_runtime_zone(name), "permanent": kept}
    sets = {}
    for one in (query_firewalld(BUS + ".ipset", "getIPSets") or [])[:20]:
        sets[str(one)] = sorted(
            map(str, query_firewalld(BUS + ".ipset", "getEntries", "s", str(one)) or [])
        )
    held: FirewalldState = {
        "default": str(default or ""),
        "active": strip_dbus_types(active),
        "zones": found,
        "ipsets": sets,
        "policies": read_policies(),
    }
    return held, ""

"""Survey a node's firewalls: nftables rules in the kernel, and firewalld's run-time and permanent state.

The controller judges them, by sending packets through these rules.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
from typing import TYPE_CHECKING

from ..facts.node import run_command
from ..files import SPACE, split_words
from ..tools import firewalld, nft
from .net import read_kernel_file

if TYPE_CHECKING:
    from typing import Any

    from ..schema.survey import (
        FirewalldState,
        NftSurvey,
        NodeSurvey,
        PolicyState,
        ZoneState,
    )

    Chain = tuple[str, str, str]

SECONDS = 8
RULES_MOST = (
    4000  # a host with Kubernetes has tens of thousands, and the judge reports that instead
)
ELEMENTS_MOST = 4000
TEXT_MOST = 8000000
LEGACY_MOST, LINE_MOST = 200000, 600
HOOKS = ("input", "output", "prerouting", "postrouting", "ingress", "egress")
NFT_JSON = 1 << 4  # NFT_CTX_OUTPUT_JSON, libnftables(3)


def run_tool(argv: list[str]) -> tuple[int, str]:
    """Run a command that answers within `SECONDS` on a healthy node."""
    return run_command(argv, SECONDS)


def read_ruleset_by_library() -> str:
    """Read the rules with libnftables: on some systems firewalld depends on the library, but not on the command."""
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
    """Return all rules as JSON, or "" and the reason."""
    if os.geteuid() != 0:
        return "", "reading firewall rules needs root"
    code, text = run_tool(nft.SHOW_RULESET)
    if code == 0 and text.strip(SPACE):
        return text, ""
    text = read_ruleset_by_library()
    if text:
        return text, ""
    return "", "neither nft nor libnftables is installed" if code == 127 else "nft gave no answer"  # noqa: PLR2004


def get_chain_key(rule: dict[str, Any]) -> Chain:
    """Return the key of a rule's chain."""
    return (rule["family"], rule["table"], rule["chain"])


def find_reachable_chains(chains: list[Any], rules: list[Any]) -> set[Chain]:
    """Return the chains that packets to or from this host can reach: those at hooks, and their jump targets."""
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

    Chains of type nat are kept completely or not at all: Kubernetes has tens of thousands of rules, and a part of them
    gives no reliable result.
    """
    held = nft.parse_objects(text[:TEXT_MOST])
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
    """Return the nftables rules, or why they are unknown."""
    text, why = read_ruleset_text()
    if not text:
        return None, why
    if len(text) > TEXT_MOST:
        return None, "there are too many rules to read"
    found = parse_ruleset(text)
    nameless = [c for c in found["chains"] if c["family"] == "netdev" and not c.get("dev")]
    if nameless:  # nft 1.0.6 and similar versions omit a chain's interfaces in JSON
        chains = nft.parse_chains(run_tool(nft.build_chains_command("netdev"))[1])
        held = {(one.table, one.name): one.devices for one in chains}
        for chain in nameless:
            chain["dev"] = held.get((chain["table"], chain["name"]), [])
    return found, ""


def survey_legacy_tables() -> list[str]:
    """Return the tables of the old iptables that are in use."""
    names = (
        read_kernel_file("/proc/net/ip_tables_names")
        + "\n"
        + read_kernel_file("/proc/net/ip6_tables_names")
    )
    return sorted(set(split_words(names)))


def survey_legacy_rules() -> dict[str, list[str]]:
    """Return the rules of the old iptables by family. Tables that are not in use are not created."""
    found = {}
    for family, tool in (("ip", "iptables"), ("ip6", "ip6tables")):
        if os.geteuid() == 0 and read_kernel_file(f"/proc/net/{family}_tables_names"):
            code, text = run_tool([tool + "-legacy-save"])
            lines = text.split("\n") if code == 0 and len(text) <= LEGACY_MOST else []
            kept = [line for line in lines if line[:1] in ("*", ":", "-") and len(line) < LINE_MOST]
            if kept:
                found[family] = kept
    return found


def find_port_borders(seen: NodeSurvey | None, first: int, last: int) -> list[int]:
    """Return the ports on both sides of every border that the rules draw inside the range."""
    held = seen["nft"] if seen and "nft" in seen else None
    text = json.dumps([rule.get("expr", []) for rule in held["rules"]]) if held else ""
    text += json.dumps([one.get("elem", []) for one in held["sets"]]) if held else ""
    found: set[int] = set()
    for digits in re.findall(r"(?<![\d.:/])\d{4,5}(?![\d.:/])", text, re.ASCII):
        port = int(digits)
        found.update(p for p in (port - 1, port, port + 1) if first <= p <= last)
    return sorted(found)


def query_firewalld(interface: str, method: str, *arguments: str) -> Any:
    """Query firewalld over D-Bus. None if it does not answer."""
    code, text = run_tool(firewalld.build_bus_command(interface, method, *arguments))
    if code != 0:
        return None
    try:
        return firewalld.parse_bus_reply(text)
    except ValueError:
        return None


def read_zone(name: str) -> ZoneState:
    """Read a zone's run-time state, and its state after a reload."""
    kept = firewalld.read_object_file("", "zones", name)
    return {
        "runtime": firewalld.describe_zone_reply(
            query_firewalld(".zone", "getZoneSettings2", "s", name)
        ),
        "permanent": None if kept is None else firewalld.describe_zone_file(kept),
    }


def read_policy(name: str) -> PolicyState:
    """Read a policy's run-time state, and its state after a reload."""
    kept = firewalld.read_object_file("", "policies", name)
    return {
        "runtime": firewalld.describe_policy_reply(
            query_firewalld(".policy", "getPolicySettings", "s", name)
        ),
        "permanent": None if kept is None else firewalld.describe_policy_file(kept),
    }


def read_policies() -> dict[str, PolicyState]:
    """Return active policies and those with a file on this node. {} if firewalld has none (before 0.9)."""
    active = query_firewalld(".policy", "getActivePolicies")
    if active is None:
        return {}
    known = set(map(str, query_firewalld(".policy", "getPolicies") or []))
    found: dict[str, PolicyState] = {}
    for name in sorted(
        known & {*map(str, active), *firewalld.list_object_names(firewalld.ETC + "/policies")}
    )[:20]:
        found[name] = read_policy(name)
    return found


def survey_firewalld() -> tuple[FirewalldState | None, str]:
    """Return run-time and permanent zones and policies.

    None if firewalld does not run, with the reason if unknown.
    """
    active = query_firewalld(".zone", "getActiveZones")
    if active is None:
        return None, "" if os.geteuid() == 0 else "it does not run, or shows its zones to root only"
    default = query_firewalld("", "getDefaultZone")
    names = sorted(
        {
            *map(str, active),
            str(default or "public"),
            *firewalld.list_object_names(firewalld.ETC + "/zones"),
        }
    )
    found: dict[str, ZoneState] = {}
    for name in names[:20]:
        found[name] = read_zone(name)
    sets = {}
    for one in (query_firewalld(".ipset", "getIPSets") or [])[:20]:
        sets[str(one)] = sorted(
            map(str, query_firewalld(".ipset", "getEntries", "s", str(one)) or [])
        )
    held: FirewalldState = {
        "default": str(default or ""),
        "active": active,
        "zones": found,
        "ipsets": sets,
        "policies": read_policies(),
    }
    return held, ""

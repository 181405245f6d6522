"""How a link is written down for NetworkManager and for netplan, and what the kernel says of it.

Runs on nodes: standard library only, Python 3.6 syntax. Pure: text in, text or data out.
"""

import ipaddress
import json
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    Link = dict[str, Any]
    Seen = dict[str, Any]

NAME = "fullmesh-"
KEYFILES = "/etc/NetworkManager/system-connections"
NETPLAN = "/etc/netplan/90-fullmesh.yaml"
HEAD = "# Ansible managed: role static_ip of Fullmesh; changes made here are lost.\n"
# RFC 4122 name space of our own, so that every node and every run give a profile the same uuid.
NAMESPACE = uuid.UUID("6f0c7b52-6a3e-5d0e-9f3b-2f4f6b1d7a90")
# Before a profile that DHCP or a cloud image left for the same interface (NM's default is 0).
PRIORITY = 100


def version(text: str) -> int:
    """4 or 6, of an address with or without prefix."""
    return ipaddress.ip_interface(text).version


def profile_uuid(interface: str) -> str:
    """The uuid of our NetworkManager profile for *interface*."""
    return str(uuid.uuid5(NAMESPACE, interface))


def keyfile_path(interface: str) -> str:
    """Where NetworkManager keeps our profile."""
    return KEYFILES + "/" + NAME + interface + ".nmconnection"


def of_family(values: "list[str]", family: int) -> "list[str]":
    """Those of *values* that are IPv4 or IPv6."""
    return [value for value in values if version(value) == family]


def keyfile(link: "Link") -> str:
    """Write a link as a NetworkManager keyfile (nm-settings-keyfile(5))."""
    name = link["interface"]
    sections = [
        (
            "connection",
            [
                ("id", NAME + name),
                ("uuid", profile_uuid(name)),
                ("type", "ethernet"),
                ("interface-name", name),
                ("autoconnect", "true"),
                ("autoconnect-priority", str(PRIORITY)),
            ],
        ),
        ("ethernet", keyfile_ethernet(link)),
        ("ipv4", keyfile_family(link, 4, "disabled")),
        # link-local, not disabled: disable_ipv6 would take IPv6 away from whatever else uses the interface
        ("ipv6", keyfile_family(link, 6, "link-local")),
    ]
    text = ["\n".join(["[" + n + "]"] + [k + "=" + v for k, v in p]) for n, p in sections if p]
    return HEAD + "\n\n".join(text) + "\n"


def keyfile_ethernet(link: "Link") -> "list[tuple[str, str]]":
    """MAC and MTU where they are given."""
    pairs = []
    if link.get("mac"):
        pairs.append(("mac-address", str(link["mac"]).upper()))
    if link.get("mtu"):
        pairs.append(("mtu", str(link["mtu"])))
    return pairs


def keyfile_family(link: "Link", family: int, without: str) -> "list[tuple[str, str]]":
    """One of the sections ipv4 and ipv6; *without* is the method where the link has no such address."""
    addresses = of_family(link["addresses"], family)
    if not addresses:
        return [("method", without)]
    pairs = [("method", "manual"), ("may-fail", "false")]
    pairs += [("address%d" % n, value) for n, value in enumerate(addresses, 1)]
    gateway = of_family([link["gateway"]] if link.get("gateway") else [], family)
    pairs += [("gateway", value) for value in gateway] or [("never-default", "true")]
    dns = of_family(link.get("dns", []), family)
    if dns:
        pairs.append(("dns", "".join(value + ";" for value in dns)))
    if link.get("search"):
        pairs.append(("dns-search", "".join(value + ";" for value in link["search"])))
    routes = [one for one in link.get("routes", []) if version(one["to"]) == family]
    pairs += [("route%d" % n, one["to"] + "," + one["via"]) for n, one in enumerate(routes, 1)]
    return pairs


def netplan(links: "list[Link]") -> str:
    """Write all links as one netplan file; netplan merges it with other files by the interface's name."""
    lines = ["network:", "  version: 2", "  ethernets:"]
    for link in links:
        lines.append("    " + quoted(link["interface"]) + ":")
        lines += ["      " + line for line in netplan_link(link)]
    return HEAD + "\n".join(lines) + "\n"


def netplan_link(link: "Link") -> "list[str]":
    """The lines of one interface."""
    lines = []
    if link.get("mac"):
        lines.append("match: {macaddress: " + quoted(link["mac"]) + "}")
    # optional: a boot must not wait two minutes for a cluster cable that is out
    lines += ["optional: true", "dhcp4: false", "dhcp6: false", "accept-ra: false"]
    lines += ["link-local: [ipv6]", "addresses: " + listed(link["addresses"])]
    if link.get("mtu"):
        lines.append("mtu: " + str(link["mtu"]))
    if link.get("dns") or link.get("search"):
        lines.append("nameservers:")
        for key, name in (("addresses", "dns"), ("search", "search")):
            lines += ["  " + key + ": " + listed(link[name])] if link.get(name) else []
    routes = wanted_routes(link)
    if routes:
        lines.append("routes:")
        lines += [
            "  - {to: " + quoted(r["to"]) + ", via: " + quoted(r["via"]) + "}" for r in routes
        ]
    return lines


def wanted_routes(link: "Link") -> "list[dict[str, str]]":
    """The gateway as a route, and the routes; 0.0.0.0/0 is what every netplan knows (22.04: 0.104)."""
    routes = list(link.get("routes", []))
    if link.get("gateway"):
        to = "0.0.0.0/0" if version(link["gateway"]) == 4 else "::/0"  # noqa: PLR2004 (IP version)
        routes.insert(0, {"to": to, "via": link["gateway"]})
    return routes


def quoted(text: str) -> str:
    """A YAML double-quoted text is a JSON one."""
    return json.dumps(str(text))


def listed(values: "list[str]") -> str:
    """A YAML flow list."""
    return "[" + ", ".join(quoted(value) for value in values) + "]"


# --- what the kernel says ---------------------------------------------------------------------


def parse_links(text: str) -> "dict[str, Seen]":
    """Read ``ip -j addr show``: {interface: {mac, mtu, up, addresses: [...]}}."""
    return {
        one["ifname"]: {
            "mac": one.get("address", ""),
            "mtu": one.get("mtu", 0),
            "up": "LOWER_UP" in one.get("flags", []),
            "addresses": [parse_address(info) for info in one.get("addr_info", []) if info],
        }
        for one in json.loads(text or "[]")
        if one.get("ifname")
    }


def parse_address(info: "Seen") -> "Seen":
    """One entry of addr_info."""
    return {
        "address": "%s/%s" % (info.get("local"), info.get("prefixlen")),
        "scope": info.get("scope", ""),
        "tentative": bool(info.get("tentative")),
        "duplicate": bool(info.get("dadfailed")),
        "dynamic": bool(info.get("dynamic")),
    }


def parse_routes(text: str) -> "list[dict[str, str]]":
    """Read ``ip -j route show``: [{to, via, dev}]; "default" becomes its network."""
    routes = []
    for one in json.loads(text or "[]"):
        via = one.get("gateway", "")
        to = one.get("dst", "")
        if to == "default" and via:
            to = "0.0.0.0/0" if version(via) == 4 else "::/0"  # noqa: PLR2004 (IP version)
        if via and to:
            routes.append({"to": network(to), "via": via, "dev": one.get("dev", "")})
    return routes


def network(text: str) -> str:
    """One spelling of a network: ``ip`` drops the prefix of a host route."""
    return str(ipaddress.ip_network(text, strict=False))


def lacks(link: "Link", seen: "dict[str, Seen]", routes: "list[dict[str, str]]") -> "list[str]":
    """Say what the kernel lacks of a link, in words; nothing when it is as wanted."""
    name = link["interface"]
    state = seen.get(name, {"addresses": [], "mtu": 0})
    have = {one["address"]: one for one in state["addresses"]}
    faults = []
    for address in link["addresses"]:
        entry = have.get(address)
        if entry is None:
            faults.append(
                "%s is not on %s (it has %s)" % (address, name, ", ".join(have) or "no address")
            )
        elif entry["duplicate"]:
            faults.append("%s on %s is used by another host, says the kernel" % (address, name))
        elif entry["tentative"]:
            faults.append("%s on %s is still being checked for duplicates" % (address, name))
        elif entry["dynamic"]:
            faults.append("%s on %s is a lease that ends" % (address, name))
    if link.get("mtu") and state["mtu"] != link["mtu"]:
        faults.append("the MTU of %s is %s, not %s" % (name, state["mtu"], link["mtu"]))
    for route in wanted_routes(link):
        wanted = {"to": network(route["to"]), "via": route["via"], "dev": name}
        if wanted not in routes:
            faults.append("there is no route to %(to)s via %(via)s on %(dev)s" % wanted)
    return faults


def carrier_of(address: str, seen: "dict[str, Seen]") -> str:
    """The interface that has *address* (no prefix); nothing where none has."""
    for name, state in seen.items():
        if any(one["address"].split("/")[0] == address for one in state["addresses"]):
            return name
    return ""


def cuts_off(link: "Link", server: str, seen: "dict[str, Seen]") -> bool:
    """Say whether our own connection comes in over an address that the link would lose."""
    keeps = {value.split("/")[0] for value in link["addresses"]}
    return bool(server) and carrier_of(server, seen) == link["interface"] and server not in keeps


def plain_server(connection: str) -> str:
    """The server's address in SSH_CONNECTION; an IPv4 address that came in over an IPv6 socket is IPv4."""
    fields = connection.split()
    if len(fields) != 4:  # noqa: PLR2004 (client, port, server, port: ssh(1))
        return ""
    try:
        address = ipaddress.ip_address(fields[2].split("%")[0])
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)

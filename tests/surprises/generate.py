"""Generate unforeseen faults: one for each seed, from parts that a kernel accepts.

A fault is shell text for one of two nodes, with its undo. ``$PEER`` is the other node's cluster
address, ``$OWN`` the node's own, and ``$MAC`` an unused hardware address. ``oracle.py`` finds out
whether the fault does any harm.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

TABLE = "surprise"
PREF = 90  # priority of rules that select a routing table, and the number of the table
FIRST, LAST = 32768, 60999  # the default range of the kernel's ports


@dataclass(frozen=True)
class Surprise:
    """A fault.

    Attributes:
        kind: nft, route, rule, neighbour, tc, sysctl, link, names, environment.
        do: makes it.
        undo: reverts it.
        words: texts of which the finding that names the mechanism must contain one.
        parts: conditions of a rule, each of which may be omitted. ``do`` has ``{parts}`` at their
            place.
        victim: 0 or 1, the affected node.
    """

    kind: str
    do: str
    undo: str
    words: tuple[str, ...]
    parts: tuple[str, ...] = ()
    victim: int = 0

    @property
    def script(self) -> str:
        """Return the whole script that makes it."""
        return self.do.replace("{parts}", " ".join(self.parts))

    def smaller(self) -> Iterator[Surprise]:
        """Yield the same fault with one condition fewer."""
        for index in range(len(self.parts)):
            yield replace(self, parts=(*self.parts[:index], *self.parts[index + 1 :]))


def draw_ports(dice: random.Random) -> str:
    """Draw ports of the range, or the named ones: one, some, a part of the range, all."""
    first = dice.randint(FIRST, LAST - 1)
    return dice.choice(
        [
            f"{first}-{dice.randint(first + 1, LAST)}",
            f"{FIRST}-{LAST}",
            "1024-65535",
            "29500",
            "29400-29500",
            f"{{ 29500, {first}-{LAST} }}",
            f"!= {FIRST}-{LAST}",
        ]
    )


def draw_conditions(dice: random.Random, incoming: bool) -> list[str]:
    """Draw conditions of an nftables rule, some of which make no difference."""
    near, far = ("daddr", "saddr") if incoming else ("saddr", "daddr")
    pool: list[Callable[[], str]] = [
        lambda: f"ip {far} $PEER",
        lambda: f"ip {far} 10.0.0.0/8",
        lambda: f"ip {far} != 127.0.0.0/8",
        lambda: f"ip {near} $OWN",
        lambda: "ip protocol tcp",
        lambda: "meta l4proto tcp",
        lambda: (
            ("iifname" if incoming else "oifname") + dice.choice([" eth1", ' "eth*"', " != lo"])
        ),
        lambda: f"tcp dport {draw_ports(dice)}",
        lambda: f"tcp dport {draw_ports(dice)}",
        lambda: f"tcp sport {draw_ports(dice)}",
        lambda: dice.choice(
            ["ct state new", "ct state established", "ct state { new, untracked }"]
        ),
        lambda: "tcp flags & (syn | ack) == " + dice.choice(["syn", "syn | ack"]),
        lambda: "tcp flags syn / syn,ack",
        lambda: f"ip ttl {dice.choice(['< 65', '64', '> 32'])}",
        lambda: f"ip length {dice.choice(['> 1000', '< 100', '60'])}",
        lambda: f"meta length {dice.choice(['> 1200', '> 40'])}",
        lambda: (
            f"meta skuid {dice.choice(['1500', '!= 0', '1000-2000', '0'])}"
            if not incoming
            else "meta pkttype host"
        ),
        lambda: f"numgen random mod 10 < {dice.choice([3, 6, 9])}",
        lambda: f"limit rate over {dice.choice([1, 3, 10])}/second burst 2 packets",
        lambda: "meta mark 0",
        lambda: "tcp option maxseg exists",
        lambda: "ip dscp cs0",
        lambda: "@nh,72,8 6",
        lambda: f"@th,16,16 >= {FIRST}",
        lambda: "ct direction original",
        lambda: "fib daddr type " + ("local" if incoming else "unicast"),
    ]
    found = [make() for make in dice.sample(pool, dice.randint(1, 3))]
    # A rule that also cuts the test's own login would not test a diagnosis of links.
    if not any("eth1" in one or "$PEER" in one or "$OWN" in one for one in found):
        found.insert(0, f"ip {far} $PEER")
    return found


def draw_nft_rule(dice: random.Random) -> Surprise:
    """Draw a rule in its own table."""
    family = dice.choice(["inet", "inet", "ip", "netdev"])
    hook = (
        "ingress"
        if family == "netdev"
        else dice.choice(["input", "output", "prerouting", "postrouting"])
    )
    incoming = hook in ("input", "prerouting", "ingress")
    parts = draw_conditions(dice, incoming)
    if family == "netdev":
        parts = [p for p in parts if not p.startswith(("ct ", "meta skuid", "fib "))] or [
            "ip saddr $PEER"
        ]
    verdicts = ["drop", "drop", "drop", "jump deeper", "goto deeper"]
    if hook in ("input", "output"):
        verdicts += [
            "reject",
            "reject with icmp host-prohibited",
            "reject with icmp port-unreachable",
        ]
        verdicts += ["queue num 7"]
        if any(p.startswith(("tcp", "ip protocol", "meta l4proto")) for p in parts):
            verdicts.append("reject with tcp reset")
    verdict = dice.choice(verdicts)
    device = "device eth1 " if family == "netdev" else ""
    head = f"type filter hook {hook} {device}priority {dice.choice([-300, -150, -10, 0, 10, 100])};"
    lines = [f"add table {family} {TABLE}"]
    if "deeper" in verdict:
        lines.append(f"add chain {family} {TABLE} deeper")
        lines.append(f"add rule {family} {TABLE} deeper {dice.choice(['drop', 'counter drop'])}")
    lines.append(f"add chain {family} {TABLE} way {{ {head} }}")
    lines.append(f"add rule {family} {TABLE} way {{parts}} {verdict}")
    text = "\n".join(lines)
    return Surprise(
        "nft",
        f"nft -f - <<'RULES'\n{text}\nRULES".replace("<<'RULES'", "<<RULES"),
        f"nft delete table {family} {TABLE}",
        (TABLE,),
        tuple(parts),
    )


def draw_policy(dice: random.Random) -> Surprise:
    """Draw a chain that drops everything unknown."""
    hook = dice.choice(["input", "output"])
    side = "iifname" if hook == "input" else "oifname"
    own = f"{side} != eth1 accept"
    let = dice.choice(
        ["tcp dport 22 accept", "ct state established,related accept", "meta l4proto icmp accept"]
    )
    text = (
        f"add table inet {TABLE}\nadd chain inet {TABLE} way {{ type filter hook {hook} priority 0; policy drop; }}\n"
        f"add rule inet {TABLE} way {own}\nadd rule inet {TABLE} way {let}"
    )
    return Surprise(
        "nft", f"nft -f - <<RULES\n{text}\nRULES", f"nft delete table inet {TABLE}", (TABLE,)
    )


def draw_nat(dice: random.Random) -> Surprise:
    """Draw address translation: another target or another sender."""
    rule, hook, prio = dice.choice(
        [
            (f"tcp dport {FIRST}-{LAST} redirect to :9", "prerouting", -100),
            ("ip daddr $PEER tcp dport 1024-65535 dnat to 10.78.1.250", "output", -100),
            ("ip daddr $PEER snat to 10.99.9.9", "postrouting", 100),
            ("ip daddr $PEER masquerade", "postrouting", 100),
            ("iifname eth1 tcp dport 29500 dnat to 127.0.0.1", "prerouting", -100),
        ]
    )
    text = (
        f"add table ip {TABLE}\nadd chain ip {TABLE} way {{ type nat hook {hook} priority {prio}; }}\n"
        f"add rule ip {TABLE} way {rule}"
    )
    return Surprise(
        "nft", f"nft -f - <<RULES\n{text}\nRULES", f"nft delete table ip {TABLE}", (TABLE,)
    )


def draw_mark(dice: random.Random) -> Surprise:
    """Draw a mark by the packet filter, and a rule that uses the mark."""
    action = dice.choice(["prohibit", "blackhole", f"lookup {PREF}"])
    text = (
        f"add table ip {TABLE}\nadd chain ip {TABLE} way {{ type route hook output priority -150; }}\n"
        f"add rule ip {TABLE} way ip daddr $PEER tcp dport {dice.choice(['1024-65535', '29500'])} meta mark set 0x10"
    )
    do = (
        f"nft -f - <<RULES\n{text}\nRULES\nip rule add pref {PREF} fwmark 0x10 {action}\n"
        f"ip route add blackhole default table {PREF}"
    )
    undo = f"nft delete table ip {TABLE}; ip rule del pref {PREF}; ip route flush table {PREF}"
    return Surprise("rule", do, undo, ("fwmark", "mark", TABLE, "blackhole", "prohibit"))


def draw_route(dice: random.Random) -> Surprise:
    """Draw a more specific route to the peer."""
    where = dice.choice(["$PEER/32", "$PEER/32", "${PEER%.*}.8/29"])
    what = dice.choice(
        [
            "blackhole {0}",
            "prohibit {0}",
            "unreachable {0}",
            "throw {0}",
            "{0} via ${{OWN%.*}}.250 dev eth1 onlink",
            "{0} dev eth0",
            "{0} dev lo",
            "{0} dev eth1 mtu lock 200",
            "{0} dev eth1 advmss 200",
            "{0} dev eth1 initcwnd 1",
            "{0} dev eth1 src $(ip -4 -o addr show eth0 | awk '{{print $4}}' | cut -d/ -f1)",
            "{0} nexthop dev eth1 weight 1 nexthop via ${{OWN%.*}}.250 dev eth1 weight 1",
            "{0} dev eth1 rto_min 3s",
            "{0} via inet6 fe80::dead dev eth1",
        ]
    ).format(where)
    kind = what.split()[0]
    undo = f"ip route del {kind} {where}" if not kind.startswith("$") else f"ip route del {where}"
    return Surprise(
        "route", f"ip route add {what}", undo, ("route", "eth0", "source", "neigh", " lo")
    )


def draw_routing_rule(dice: random.Random) -> Surprise:
    """Draw a rule that selects another table, or none."""
    selector = dice.choice(
        [
            "from $OWN",
            "to $PEER",
            "from $OWN to $PEER",
            f"to $PEER ipproto tcp dport {FIRST}-{LAST}",
            "to $PEER ipproto tcp dport 29500",
            f"from $OWN to $PEER ipproto tcp sport {FIRST}-{LAST}",
            "to $PEER uidrange 1500-1500",
            "to $PEER uidrange 1-60000",
            "from $PEER iif eth1",
        ]
    )
    what = dice.choice(["prohibit", "blackhole", "unreachable", f"lookup {PREF}", f"lookup {PREF}"])
    away = dice.choice(
        ["blackhole default", "default via ${OWN%.*}.250 dev eth1 onlink", "default dev lo"]
    )
    if selector.endswith("eth1"):
        away = "blackhole default"
    return Surprise(
        "rule",
        f"ip route add {away} table {PREF}\nip rule add pref {PREF} {selector} {what}",
        f"ip rule del pref {PREF}; ip route flush table {PREF}",
        ("rule", "uid", "account", f"table {PREF}"),
    )


def draw_neighbor(dice: random.Random) -> Surprise:
    """Draw an entry of the neighbor table, or a change of how it is filled."""
    do, undo = dice.choice(
        [
            (
                "ip neigh replace $PEER lladdr $MAC dev eth1 nud permanent",
                "ip neigh del $PEER dev eth1",
            ),
            (
                "ip neigh replace $PEER lladdr $MAC dev eth1 nud noarp",
                "ip neigh del $PEER dev eth1",
            ),
            (
                "ip neigh replace $PEER lladdr $MAC dev eth1 nud reachable",
                "ip neigh del $PEER dev eth1",
            ),
            ("ip link set eth1 arp off; ip neigh flush dev eth1", "ip link set eth1 arp on"),
            (
                "echo 8 > /proc/sys/net/ipv4/conf/eth1/arp_ignore; ip neigh flush dev eth1",
                "echo 0 > /proc/sys/net/ipv4/conf/eth1/arp_ignore",
            ),
            ("ip link set eth1 address 02:00:00:00:77:01", "ip link set eth1 address $OWN_MAC"),
        ]
    )
    return Surprise("neighbour", do, undo, ("neigh", "ARP", "arp"))


def draw_queue(dice: random.Random) -> Surprise:
    """Draw a queue that is too slow, or too short."""
    what = dice.choice(
        [
            "tbf rate 64kbit burst 1600 limit 3000",
            "tbf rate 1mbit burst 200 limit 3000",
            "tbf rate 8kbit burst 3000 limit 6000",
            "pfifo limit 0",
            "pfifo limit 1",
            "bfifo limit 100",
            "htb default 1",
        ]
    )
    return Surprise(
        "tc",
        f"tc qdisc replace dev eth1 root {what}",
        "tc qdisc del dev eth1 root",
        ("tc ", "qdisc"),
    )


def draw_sysctl(dice: random.Random) -> Surprise:
    """Draw a setting of the network namespace. Many do no harm."""
    key, value = dice.choice(
        [
            ("net/ipv4/ip_local_port_range", "50000 50003"),
            ("net/ipv4/ip_local_reserved_ports", "1024-65535"),
            ("net/ipv4/tcp_rmem", "256 256 256"),
            ("net/ipv4/tcp_wmem", "256 256 256"),
            ("net/ipv4/tcp_sack", "0"),
            ("net/ipv4/tcp_timestamps", "0"),
            ("net/ipv4/tcp_syncookies", "2"),
            ("net/ipv4/tcp_abort_on_overflow", "1"),
            ("net/ipv4/tcp_max_syn_backlog", "1"),
            ("net/core/somaxconn", "1"),
            ("net/ipv4/ip_default_ttl", "1"),
            ("net/ipv4/tcp_syn_retries", "1"),
            ("net/ipv4/tcp_synack_retries", "1"),
            ("net/ipv4/tcp_base_mss", "88"),
            ("net/ipv4/tcp_window_scaling", "0"),
            ("net/ipv4/ip_forward", "1"),
            ("net/ipv4/conf/eth1/rp_filter", "1"),
            ("net/ipv4/conf/eth1/arp_filter", "1"),
            ("net/ipv4/conf/eth1/arp_announce", "2"),
            ("net/ipv4/conf/eth1/disable_policy", "1"),
            ("net/ipv4/tcp_retries2", "1"),
            ("net/ipv4/tcp_tw_reuse", "1"),
            ("net/ipv4/tcp_ecn", "1"),
        ]
    )
    path = f"/proc/sys/{key}"
    return Surprise(
        "sysctl",
        f"cat {path} > /run/surprise.old; echo '{value}' > {path}",
        f"cat /run/surprise.old > {path}",
        (key.rsplit("/", 1)[-1], key.replace("/", ".")),
    )


def draw_link_change(dice: random.Random) -> Surprise:
    """Draw a change of the interface, of its address, or of IPsec policies."""
    do, undo = dice.choice(
        [
            ("ip link set eth1 down", "ip link set eth1 up"),
            ("ip addr del $OWN/24 dev eth1", "ip addr add $OWN/24 dev eth1"),
            (
                "ip addr del $OWN/24 dev eth1; ip addr add $OWN/32 dev eth1",
                "ip addr del $OWN/32 dev eth1; ip addr add $OWN/24 dev eth1",
            ),
            ("ip link set eth1 mtu 576", "ip link set eth1 mtu 1500"),
            ("ip link set eth1 mtu 9000", "ip link set eth1 mtu 1500"),
            ("ip xfrm policy add src $OWN dst $PEER dir out action block", "ip xfrm policy flush"),
            ("ip xfrm policy add src $PEER dst $OWN dir in action block", "ip xfrm policy flush"),
            (
                "ip xfrm policy add src $PEER dst $OWN proto tcp dport 29500 dir in action block",
                "ip xfrm policy flush",
            ),
            (
                "ip xfrm policy add src $OWN dst $PEER dir out tmpl src $OWN dst $PEER proto esp mode transport",
                "ip xfrm policy flush",
            ),
            ("ip addr add $PEER/32 dev lo", "ip addr del $PEER/32 dev lo"),
        ]
    )
    return Surprise(
        "link", do, undo, ("xfrm", "IPsec", "address", "carrier", "no route at all", "mtu")
    )


def draw_hosts_change(dice: random.Random) -> Surprise:
    """Draw a change of /etc/hosts, where a job looks up its own name."""
    address = dice.choice(["127.0.1.1", "127.0.0.1", "192.0.2.77", "$PEER", "::1"])
    do = (
        'cat /etc/hosts > /run/surprise.old; { echo "' + address + ' $(hostname)"; '
        'grep -v "$(hostname)" /run/surprise.old; } > /run/surprise.new; cat /run/surprise.new > /etc/hosts'
    )
    return Surprise("names", do, "cat /run/surprise.old > /etc/hosts", ("name", "hosts"))


def draw_environment_change(dice: random.Random) -> Surprise:
    """Draw a change of /etc/environment, which every login reads."""
    line = dice.choice(
        [
            "GLOO_SOCKET_IFNAME=eth7",
            "GLOO_SOCKET_IFNAME=lo",
            "GLOO_SOCKET_IFNAME=eth0",
            "GLOO_SOCKET_IFNAME=eth1,eth7",
        ]
    )
    return Surprise(
        "environment",
        "touch /etc/environment; cat /etc/environment > /run/surprise.old\n"
        f"echo {line} >> /etc/environment",
        "cat /run/surprise.old > /etc/environment",
        ("GLOO_SOCKET_IFNAME",),
    )


MAKERS: tuple[tuple[Callable[[random.Random], Surprise], int], ...] = (
    (draw_nft_rule, 10),
    (draw_policy, 1),
    (draw_nat, 2),
    (draw_mark, 1),
    (draw_route, 4),
    (draw_routing_rule, 4),
    (draw_neighbor, 2),
    (draw_queue, 2),
    (draw_sysctl, 3),
    (draw_link_change, 3),
    (draw_hosts_change, 1),
    (draw_environment_change, 1),
)


def draw_surprise(seed: int) -> Surprise:
    """Return the fault of a seed."""
    dice = random.Random(seed)  # noqa: S311 (no secret)
    maker = dice.choices([m for m, _ in MAKERS], [weight for _, weight in MAKERS])[0]
    return replace(maker(dice), victim=dice.randint(0, 1))

"""Replace IP addresses, MAC addresses and GUIDs. Subnets stay subnets, ranges stay ranges, gateways stay gateways.

Every network of the originals gets a network of the same size that has no original, in the same order and inside the
replacement of the network around it. The host bits stay. The last 3 bytes of a MAC address become a number, also in an
IPv6 address and in a GUID of InfiniBand.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Span = tuple[int, int]  # the first and the last address of a network, as numbers

# Addresses that identify no site: this host, loopback, link-local, multicast and netmasks.
COMMON4 = tuple(
    ipaddress.IPv4Network(one)
    for one in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")
)
COMMON6 = (ipaddress.IPv6Network("::/127"), ipaddress.IPv6Network("ff00::/8"))
LINK_LOCAL = ipaddress.IPv6Network("fe80::/10")
# Private networks that every site may use: their names stay, and addresses in them stay in them.
PRIVATE4 = tuple(
    ipaddress.IPv4Network(one)
    for one in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
)
MORE4 = tuple(
    ipaddress.IPv4Network(f"{one}.0.0.0/8") for one in (11, 21, 22, 26, 28, 29, 30, 33, 55, 214)
)
POOLS6 = (
    ipaddress.IPv6Network("2001:db8::/32"),
    *(ipaddress.IPv6Network(f"3fff:{one:x}::/32") for one in range(256)),
)
WIDEST = {4: 8, 6: 32}  # larger networks are not a site's own
NARROW = {4: 24, 6: 64}  # the network of an address that no smaller network has
SMALL_HOST = 1 << 16  # a person chose an interface identifier below this one
MASK64, MASK40, MASK24 = (1 << 64) - 1, (1 << 40) - 1, (1 << 24) - 1
LOCAL_BIT = 0x020000  # of a vendor's prefix. IPv6 inverts it.
EUI_MIDDLE = 0xFFFE
MAPPED = 0xFFFF  # ::ffff:a.b.c.d
SOLICITED = int(ipaddress.IPv6Address("ff02::1:ff00:0")) >> 24
UNKNOWN4 = ipaddress.IPv4Address("192.0.2.0")
UNKNOWN6 = ipaddress.IPv6Address("2001:db8::")


def is_common(address: IPAddress) -> bool:
    """Return whether an address is the same at every site."""
    if isinstance(address, ipaddress.IPv4Address):
        return any(address in network for network in COMMON4)
    return any(address in network for network in COMMON6)


def make_span(address: int, prefix: int, bits: int) -> Span:
    """Return the network of an address."""
    size = 1 << (bits - prefix)
    first = address - address % size
    return first, first + size - 1


def list_tops(spans: Iterable[Span]) -> list[Span]:
    """List the networks that no other of them contains, in order."""
    tops: list[Span] = []
    for one in sorted(spans, key=lambda one: (one[0], -one[1])):
        if not tops or one[0] > tops[-1][1]:
            tops.append(one)
    return tops


def find_span(spans: Sequence[Span], address: int) -> Span | None:
    """Find the network of an address among networks that do not overlap, in order."""
    at = bisect_right(spans, (address, 1 << 129)) - 1
    return spans[at] if at >= 0 and spans[at][0] <= address <= spans[at][1] else None


def pack_spans(spans: Sequence[Span], base: int) -> Iterable[tuple[Span, int]]:
    """Yield a place for each network from *base* on, aligned to its size and in the same order."""
    for one in spans:
        size = one[1] - one[0] + 1
        base = -(-base // size) * size
        yield one, base
        base += size


@dataclass
class NetworkMap:
    """Stand-ins for the networks and addresses of one IP version.

    Attributes:
        version: 4 or 6.
        spans: networks of the originals.
        singles: addresses of the originals, as numbers.
        bases: network -> the first address of its replacement.
    """

    version: int
    spans: set[Span] = field(default_factory=set)
    singles: set[int] = field(default_factory=set)
    bases: dict[Span, int] = field(default_factory=dict)
    _tops: list[Span] = field(default_factory=list)
    _inner: dict[Span, list[Span]] = field(default_factory=dict)

    @property
    def bits(self) -> int:
        """The bits of an address."""
        return 32 if self.version == 4 else 128  # noqa: PLR2004 (IP versions)

    def place_networks(self) -> None:
        """Choose the replacements, once all originals are known.

        Raises:
            ValueError: there are more networks than replacement networks.
        """
        small = NARROW[self.version]
        narrow = {make_span(one, small, self.bits) for one in self.singles}
        every = sorted(self.spans | narrow, key=lambda one: (one[0], -one[1]))
        children: dict[Span, list[Span]] = defaultdict(list)
        around: list[Span] = []
        for one in every:
            while around and one[0] > around[-1][1]:
                around.pop()
            if around:
                children[around[-1]].append(one)
            around.append(one)
        self._inner = dict(children)
        self._tops = list_tops(every)
        self._place_tops()
        for one in every:
            self.bases.update(pack_spans(self._inner.get(one, []), self.bases[one]))

    def _place_tops(self) -> None:
        next_free: dict[Span, int] = {}
        for top in self._tops:
            for pool in self._list_pools(top):
                base = self._find_gap(top[1] - top[0] + 1, next_free.get(pool, pool[0]), pool[1])
                if base is not None:
                    self.bases[top] = base
                    next_free[pool] = base + top[1] - top[0] + 1
                    break
            else:
                raise ValueError(f"too many IPv{self.version} networks to replace")

    def _list_pools(self, top: Span) -> list[Span]:
        if self.version == 6:  # noqa: PLR2004 (IP versions)
            return [(int(one[0]), int(one[-1])) for one in POOLS6]
        private = [(int(one[0]), int(one[-1])) for one in PRIVATE4]
        own = [one for one in private if one[0] <= top[0] and top[1] <= one[1]]
        return [*own, *((int(one[0]), int(one[-1])) for one in MORE4)]

    def _find_gap(self, size: int, base: int, last: int) -> int | None:
        """Find an aligned place without an original."""
        while True:
            base = -(-base // size) * size
            if base + size - 1 > last:
                return None
            at = bisect_right(self._tops, (base + size - 1, 1 << 129)) - 1
            if at < 0 or self._tops[at][1] < base:
                return base
            base = self._tops[at][1] + 1

    def find_network(self, address: int) -> Span | None:
        """Return the smallest network of an address, or the one whose last address it is."""
        found = find_span(self._tops, address)
        while found is not None:
            inner = find_span(self._inner.get(found, []), address)
            if inner is None or (address == found[1] and found in self.spans):
                return found
            found = inner
        return None

    def replace_network(self, address: int, prefix: int) -> int | None:
        """Return the replacement of a network's address. None: the network stays as it is."""
        span = make_span(address, prefix, self.bits)
        return self.bases.get(span)

    def replace_address(self, address: int) -> int | None:
        """Return the replacement of an address. None: it was not learned."""
        found = self.find_network(address)
        return None if found is None else self.bases[found] + address - found[0]


@dataclass
class AddressMap:
    """Stand-ins for addresses. Learn all originals first, then call ``place_networks``, then replace.

    Attributes:
        v4: IPv4 networks.
        v6: IPv6 networks, without link-local ones.
        macs: (vendor's prefix, last 3 bytes) of the originals.
        guids: (first 3 bytes, last 5 bytes) of identifiers that are not made of a MAC address.
    """

    v4: NetworkMap = field(default_factory=lambda: NetworkMap(4))
    v6: NetworkMap = field(default_factory=lambda: NetworkMap(6))
    macs: set[tuple[int, int]] = field(default_factory=set)
    guids: set[tuple[int, int]] = field(default_factory=set)
    _tails: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def learn_address(self, address: IPAddress, prefix: int | None = None) -> None:
        """Remember an address, and its network if the prefix is known."""
        number = int(address)
        if isinstance(address, ipaddress.IPv6Address) and number >> 32 == MAPPED:
            self.learn_address(ipaddress.IPv4Address(number & 0xFFFFFFFF))
            return
        if is_common(address):
            return
        if isinstance(address, ipaddress.IPv6Address):
            self.learn_low64(number & MASK64)
            if address in LINK_LOCAL:
                return
        side = self.v4 if address.version == 4 else self.v6  # noqa: PLR2004 (IP versions)
        if prefix is None or not WIDEST[address.version] <= prefix <= side.bits:
            side.singles.add(number)
            return
        span = make_span(number, prefix, side.bits)
        if number != span[0]:
            side.singles.add(number)
        elif any(span == (int(one[0]), int(one[-1])) for one in PRIVATE4):
            return  # the name of a private network, not of an interface's
        if prefix < side.bits:
            side.spans.add(span)
        else:
            side.singles.add(number)

    def learn_mac(self, mac: int) -> None:
        """Remember a MAC address."""
        vendor, tail = mac >> 24, mac & MASK24
        if mac and vendor != MASK24:
            self.macs.add((vendor & ~LOCAL_BIT, tail))

    def learn_low64(self, number: int) -> None:
        """Remember an interface identifier or a GUID."""
        if number < SMALL_HOST:
            return
        if number >> 24 & 0xFFFF == EUI_MIDDLE:
            self.macs.add(((number >> 40) & ~LOCAL_BIT, number & MASK24))
        else:
            self.guids.add((number >> 40, number & MASK40))

    def place_networks(self) -> None:
        """Choose all replacements.

        Raises:
            ValueError: there are more networks than replacement networks.
        """
        self.v4.place_networks()
        self.v6.place_networks()
        for bits, originals in ((24, self.macs), (40, self.guids)):
            used: Counter[int] = Counter()
            for vendor, tail in sorted(originals):
                used[vendor] += 1
                while (vendor, used[vendor]) in originals:
                    used[vendor] += 1
                self._tails[bits, vendor, tail] = used[vendor]

    def replace_mac(self, mac: int) -> int:
        """Return the replacement of a MAC address."""
        vendor, tail = mac >> 24, mac & MASK24
        if not mac or vendor == MASK24:
            return mac
        return vendor << 24 | self._tails.get((24, vendor & ~LOCAL_BIT, tail), 0)

    def replace_low64(self, number: int) -> int:
        """Return the replacement of an interface identifier or of a GUID."""
        if number < SMALL_HOST:
            return number
        vendor = number >> 40
        if number >> 24 & 0xFFFF == EUI_MIDDLE:
            tail = self._tails.get((24, vendor & ~LOCAL_BIT, number & MASK24), 0)
            return vendor << 40 | EUI_MIDDLE << 24 | tail
        return vendor << 40 | self._tails.get((40, vendor, number & MASK40), 0)

    def replace_address(self, address: IPAddress) -> IPAddress:
        """Return the replacement of an address."""
        if isinstance(address, ipaddress.IPv6Address):
            return self._replace_ipv6(int(address))
        if is_common(address):
            return address
        found = self.v4.replace_address(int(address))
        return UNKNOWN4 if found is None else ipaddress.IPv4Address(found)

    def _replace_ipv6(self, number: int) -> IPAddress:
        address = ipaddress.IPv6Address(number)
        if number >> 32 == MAPPED:
            inner = self.replace_address(ipaddress.IPv4Address(number & 0xFFFFFFFF))
            return ipaddress.IPv6Address(MAPPED << 32 | int(inner))
        if is_common(address):
            is_solicited = number >> 24 == SOLICITED
            return ipaddress.IPv6Address(SOLICITED << 24) if is_solicited else address
        low = self.replace_low64(number & MASK64)
        if address in LINK_LOCAL:
            return ipaddress.IPv6Address(number >> 64 << 64 | low)
        network, found = self.v6.find_network(number), self.v6.replace_address(number)
        if network is None or found is None:
            return UNKNOWN6
        is_wide = network[1] - network[0] >= MASK64
        return ipaddress.IPv6Address(found >> 64 << 64 | low if is_wide else found)

    def replace_network(self, address: IPAddress, prefix: int) -> IPAddress:
        """Return the replacement of an address that is written with its prefix."""
        side, number = (self.v4, int(address)) if address.version == 4 else (self.v6, int(address))  # noqa: PLR2004 (IP versions)
        if prefix < side.bits and number == make_span(number, prefix, side.bits)[0]:
            base = side.replace_network(number, prefix)
            if base is not None:
                return type(address)(base)
            if prefix < WIDEST[address.version] or any(
                address == one[0] and prefix == one.prefixlen for one in PRIVATE4
            ):
                return address
        return self.replace_address(address)

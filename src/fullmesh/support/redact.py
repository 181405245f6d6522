"""Replace everything in texts and data that identifies a site: learn all originals first, then replace them."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from fullmesh.explain.reader import ANSI
from fullmesh.foreign_text import ForeignTextError, parse_foreign_json
from fullmesh.support.addresses import AddressMap
from fullmesh.support.names import HOST, NameMap, is_generic
from fullmesh.support.secrets import REMOVED, is_harmless_value, is_secret_name, remove_secrets

DEEPEST = 4  # encodings inside encodings
LEAST_BASE64, LONGEST_BASE64 = 8, 1 << 20
LEAST_SECRET = 6
# A path of these is on many machines. /opt/fullmesh is on every node.
COMMON_FOLDERS = frozenset(
    {
        *("", "bin", "boot", "data", "dev", "etc", "fullmesh", "home", "inventory", "lib", "lib64"),
        *("local", "mnt", "opt", "proc", "root", "run", "sbin", "share", "src", "srv", "sys"),
        *("tmp", "usr", "var", "venv", ".venv", "work"),
    }
)
FULL_IPV6 = 39  # characters of a GID in sysfs
ESCAPE = re.compile(r"\\(?:u00|x)([2-7][0-9a-fA-F])")
PERCENT = re.compile(r"(?<![^\s\"'<>\\])[^\s\"'<>\\]*%[0-9A-Fa-f]{2}[^\s\"'<>\\]*")
BASE64 = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{4,}={0,2}(?![A-Za-z0-9+/_=])")
HEX_LONG = re.compile(
    r"(?<![0-9A-Za-z])(?:0x)?(?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{12}|[0-9A-Fa-f]{16}|[0-9A-Fa-f]{32})(?![0-9A-Za-z])"
)
# The groups of one pattern, so that no replacement is replaced again.
START = r"(?:(?<![0-9A-Za-z:])|(?<=\\[nrt]))"
ADDRESS = re.compile(
    rf"""(?P<uuid>(?<![0-9A-Fa-f])[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}(?![0-9A-Fa-f]))
    |(?P<cloud>(?<![A-Za-z0-9])(?:i|eni|vpc|subnet|sg|ami|vol|rtb|igw|acl|eipalloc|lt|fs|pg|cr)
        -[0-9a-f]{{8,17}}(?![0-9A-Za-z]))
    |(?P<mac>(?<![0-9A-Fa-f])(?<![0-9A-Fa-f][:-])[0-9A-Fa-f]{{2}}(?P<sep>[:-])[0-9A-Fa-f]{{2}}
        (?:(?P=sep)[0-9A-Fa-f]{{2}}){{4,18}}(?![0-9A-Fa-f])(?!(?P=sep)[0-9A-Fa-f]))
    |(?P<dotted>(?<![0-9A-Za-z.])[0-9A-Fa-f]{{4}}\.[0-9A-Fa-f]{{4}}\.[0-9A-Fa-f]{{4}}(?![0-9A-Za-z.]))
    |(?P<guid>{START}[0-9A-Fa-f]{{4}}(?::[0-9A-Fa-f]{{4}}){{3}}(?![0-9A-Fa-f:]))
    |(?P<v6>{START}(?:[0-9A-Fa-f]{{0,4}}:){{2,7}}(?:(?:\d{{1,3}}\.){{3}}\d{{1,3}}|[0-9A-Fa-f]{{1,4}})?(?![0-9A-Za-z:]))(?:/(?P<bits6>\d{{1,3}})(?!\d))?
    |(?P<v4>(?<!\d)(?<!\d\.)(?:\d{{1,3}}\.){{3}}\d{{1,3}}(?!\d))(?:/(?P<bits4>\d{{1,2}})(?![\d.]))?
    |(?P<dashed>(?<!\d)(?<!\d-)\d{{1,3}}-\d{{1,3}}-\d{{1,3}}-\d{{1,3}}(?!\d)(?!-\d))""",
    re.VERBOSE,
)
# A version with four numbers is not an address: nvidia-cudnn-cu12==9.1.0.70, version 12.4.5.8, libcudnn9-9.1.0.70
VERSION_BEFORE = re.compile(r"(?:[=<>!~]=|\bv|[Vv]ersion[\"':= ]{1,4})\Z")
PACKAGE_BEFORE = re.compile(r"[A-Za-z]\d{0,2}[-_]\Z")
LARGEST_VERSION, LARGEST_OF_PACKAGE = 15, 9  # of the first number
TOKEN = re.compile(r"[^\W_](?:[\w.-]*[^\W_])?")
WORD_ESCAPE = re.compile(r"(?<!\\)(\\[nrt])")
# Texts around names. Each pattern has one group or named groups: host, user.
CONTEXTS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"\w://(?:[^\s/@]*@)?(?P<host>[A-Za-z0-9][\w.-]*)",
        r"(?P<user>[A-Za-z_][\w.-]{0,63})@(?![\w.-]{0,250}\.(?:service|socket|timer|mount|target|slice|scope)\b)"
        r"(?P<host>(?:\d{1,3}\.){3}\d{1,3}|[A-Za-z0-9][\w-]*(?:\.[\w-]+)*\.[A-Za-z]{2,})(?![\w.-]*[(/])",
        r"\w://(?P<user>[A-Za-z_][\w.-]*)@",
        r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d))"
        r" (?P<host>[A-Za-z][\w.-]*) [\w./@-]+(?:\[\d+\])?:",
        r"(?:^|\s)(?P<host>[A-Za-z][\w.-]*):\d+:\d+ \[\d+\] (?:\w+/\S+ :\d+ )?NCCL\b",
        r"(?:ok|changed|fatal|failed|skipping|unreachable|included): \[(?P<host>[A-Za-z0-9][\w.-]*)(?: -> \S*)?\]",
        r"\[\S{1,200} -> (?P<host>[A-Za-z0-9][\w.-]*)(?:\([^)]*\))?\]",
        r"^\s*host\s*:\s*(?P<host>[A-Za-z0-9][\w.-]*)\s",
        r"(?i)\bhost(?:_?name|name)?[\"']?\s*[=:]\s*[\"']?(?P<host>[A-Za-z][\w.-]*)",
        r"\[(?P<host>[A-Za-z][\w.-]*)\]:\d{2,5}\b",
        r"(?i)resolve (?:host(?:name)?|name) [\"'`]?(?P<host>[A-Za-z0-9][\w.-]*)",
        r"(?:/home|/Users)/(?P<user>[A-Za-z_][\w.-]*)",
        r"(?i)\b(?:for|of) (?:invalid )?user [\"'`]?(?P<user>[A-Za-z_][\w.-]*)",
        r"\bpublickey for (?P<user>[A-Za-z_][\w.-]*)",
        r"\b(?:USER|LOGNAME|ansible_user|remote_user|owner)[\"']?\s*[=:]\s*[\"']?(?P<user>[A-Za-z_][\w.-]*)",
        r"(?m)^(?:search|domain)\s+(?P<domain>\S+)",
        r"(?i)\bserial(?:[ _-]?(?:number|no\.?))?[\"']?\s*[:=>]\s*[\"']?(?P<serial>[A-Za-z0-9_-]+)",
        r"(?i)<serial>\s*(?P<serial>[A-Za-z0-9_-]+)",
        r"\barn:aws[\w-]*:[^:\s]*:[^:\s]*:(?P<account>\d{12})\b",
    )
)
HOST_KEYS = frozenset(
    {
        *("hostname", "fqdn", "nodename", "inventory_hostname", "ansible_host", "host_name"),
        *("server", "proxy", "names", "search", "hosts", "servers"),
    }
)
USER_KEYS = frozenset(
    {"user", "username", "owner", "account", "login", "ansible_user", "remote_user"}
)
SERIAL_KEYS = re.compile(r"(?i)(?:^|_)(?:serial|serial_number|asset_tag|machine_id|board_id)\Z")
HEX_ID = re.compile(r"[0-9a-f]{32}")
ACCOUNT_ID = re.compile(r"\d{12}")


def parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address in a text, or None."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def decode_plain_text(token: str) -> tuple[str, str] | None:
    """Return the text in a base64 or hexadecimal word, and the name of the encoding."""
    for name, decode in (("hex", bytes.fromhex), ("base64", decode_base64)):
        try:
            text = decode(token).decode("utf-8")
        except (ValueError, binascii.Error):
            continue
        if text and all(one.isprintable() or one in "\n\r\t" for one in text):
            return text, name
    return None


def decode_base64(token: str) -> bytes:
    """Decode base64 of both alphabets, with or without padding."""
    plain = token.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


@dataclass
class Redactor:
    """Collect the names and addresses in all files of a bundle, then replace them.

    Attributes:
        keep_names: remove the secrets only.
        counts: kind -> number of different originals.
    """

    keep_names: bool = False
    addresses: AddressMap = field(default_factory=AddressMap)
    names: NameMap = field(default_factory=NameMap)
    secrets: set[str] = field(default_factory=set)
    numbered: dict[str, str] = field(default_factory=dict)  # UUIDs and cloud objects
    paths: dict[str, str] = field(default_factory=dict)  # folders of the controller -> replacements
    _seen_paths: set[str] = field(default_factory=set)
    _seen4: set[str] = field(default_factory=set)
    _derived: dict[str, str] = field(default_factory=dict)
    _encoded: dict[str, str] = field(default_factory=dict)
    _cache: dict[str, str] = field(default_factory=dict)
    _learned: set[str] = field(default_factory=set)
    _ready: bool = False

    # ---- learn

    def learn_secret(self, value: str) -> None:
        """Remember a secret that may also occur elsewhere. A short or common word is only removed where it is set."""
        if len(value) >= LEAST_SECRET and not is_generic(value) and not is_secret_name(value):
            self.secrets.add(value)

    def learn_path(self, path: str, replacement: str) -> None:
        """Remember a folder of the controller. Its name may be that of a project."""
        if not self.keep_names and not COMMON_FOLDERS.issuperset(path.split("/")):
            self.paths.setdefault(path, replacement)

    def learn_text(self, text: str, depth: int = 0) -> None:
        """Learn the originals in a text."""
        if depth > DEEPEST or text in self._learned:
            return
        if len(text) < LONGEST_BASE64:
            self._learned.add(text)
        text = normalize_text(text)
        remove_secrets(text, self.learn_secret)
        if self.keep_names:
            return
        self._seen_paths.update(one for one in self.paths if one in text)
        for context in CONTEXTS:
            for found in context.finditer(text):
                self._learn_groups(found.groupdict())
        for found in ADDRESS.finditer(text):
            self._learn_address(found, text)
        for inner in self._list_encoded(text):
            self.learn_text(inner, depth + 1)

    def _list_encoded(self, text: str) -> Iterator[str]:
        if "%" in text:
            yield from (unquote(one) for one in PERCENT.findall(text))
        for one in BASE64.findall(text):
            if LEAST_BASE64 <= len(one) <= LONGEST_BASE64:
                found = decode_plain_text(one)
                if found is not None:
                    yield found[0]

    def _learn_groups(self, groups: dict[str, str | None]) -> None:
        learn: dict[str, Callable[[str], None]] = {
            "host": self.names.learn_host,
            "user": self.names.learn_user,
            "domain": self.names.learn_domain,
            "serial": self.names.learn_serial,
            "account": self.names.learn_account,
        }
        for kind, value in groups.items():
            if value and not (kind == "host" and parse_ip(value)):
                learn[kind](value)

    def _learn_address(self, found: re.Match[str], text: str) -> None:
        if found["uuid"] or found["cloud"]:
            self._number_object(found[0].lower())
        elif found["mac"]:
            self._walk_mac(found["mac"], learn=True)
        elif found["dotted"]:
            self.addresses.learn_mac(int(found["dotted"].replace(".", ""), 16))
        elif found["guid"]:
            self.addresses.learn_low64(int(found["guid"].replace(":", ""), 16))
        else:
            self._learn_ip(found, text)

    def _learn_ip(self, found: re.Match[str], text: str) -> None:
        kind, bits = ("v6", "bits6") if found["v6"] else ("v4", "bits4")
        address = parse_ip(found[kind]) if found[kind] else None
        if address is None or (kind == "v4" and is_version(found, text)):
            return
        self.addresses.learn_address(address, int(found[bits]) if found[bits] else None)
        if kind == "v4":
            self._seen4.add(found["v4"])

    def _walk_mac(self, text: str, *, learn: bool) -> str:
        sep = text[2]
        data = bytes.fromhex(text.replace(sep, ""))
        head, tail = data[:-8], data[-8:]
        if len(data) == 6:  # noqa: PLR2004 (bytes of a MAC address)
            if learn:
                self.addresses.learn_mac(int.from_bytes(data))
                return text
            new = self.addresses.replace_mac(int.from_bytes(data)).to_bytes(6)
        elif len(data) in (
            8,
            20,
        ):  # a GUID, and the address of an InfiniBand interface, which ends with one
            if learn:
                self.addresses.learn_low64(int.from_bytes(tail))
                return text
            new = head + self.addresses.replace_low64(int.from_bytes(tail)).to_bytes(8)
        else:
            return text
        plain = sep.join(f"{one:02x}" for one in new)
        return plain.upper() if text.isupper() else plain

    def _number_object(self, text: str) -> None:
        if text.strip("0-"):
            self.numbered.setdefault(text, "")

    def learn_value(self, value: object, key: str = "") -> None:
        """Learn the originals in data."""
        if isinstance(value, dict):
            address, length = value.get("addr"), value.get("len")
            if isinstance(address, str) and isinstance(length, int) and (ip := parse_ip(address)):
                self.addresses.learn_address(ip, length)
            for name, held in value.items():
                self.learn_text(str(name))
                if key in ("nodes", "by_node", "digests"):
                    self.names.learn_host(str(name))
                self.learn_value(held, inherit_name(key, name))
        elif isinstance(value, list):
            for one in value:
                self.learn_value(one, key)
        elif isinstance(value, str) and value:
            self._learn_string(value, key)

    def _learn_string(self, value: str, key: str) -> None:
        if is_secret_name(key):
            if not is_harmless_value(key, value):
                self.learn_secret(value)
            return
        if not self.keep_names and parse_ip(value) is None:
            lower = key.lower()
            if lower in HOST_KEYS and TOKEN.fullmatch(value):
                self.names.learn_host(value)
            elif lower in USER_KEYS:
                if ACCOUNT_ID.fullmatch(value):
                    self.names.learn_account(value)
                self.names.learn_user(value)
            elif SERIAL_KEYS.search(key):
                if HEX_ID.fullmatch(value):
                    self.numbered.setdefault(value, "")
                self.names.learn_serial(value)
        self.learn_text(value)

    # ---- choose

    def choose_replacements(self, occurs: Callable[[str], bool]) -> None:
        """Choose the replacements, once all originals are known.

        Args:
            occurs: whether a text occurs in the originals.
        """
        self.names.choose_names(occurs)
        self.addresses.place_networks()
        kinds: Counter[str] = Counter()
        for one in sorted(self.numbered):
            head = one.rpartition("-")[0] if len(one) < 32 else ""  # noqa: PLR2004 (digits of a UUID)
            kinds[head] += 1
            number = kinds[head]
            if head:
                self.numbered[one] = f"{head}-{number:0{len(one) - len(head) - 1}x}"
            elif "-" in one:
                self.numbered[one] = f"{number:08x}-0000-4000-8000-000000000000"
            else:
                self.numbered[one] = f"{number:032x}"
        self._derive_forms()
        self._ready = True

    def _derive_forms(self) -> None:
        """Prepare other ways to write an original: hexadecimal addresses, base64 of short names."""
        for number in sorted(self.addresses.v4.singles):
            new = self.addresses.v4.replace_address(number)
            pair = (number.to_bytes(4), (new or 0).to_bytes(4))
            self._derived[pair[0].hex()] = pair[1].hex()
            self._derived[pair[0][::-1].hex()] = pair[1][::-1].hex()  # as in /proc/net
        for vendor, tail in sorted(self.addresses.macs):
            for prefix in (vendor, vendor | 0x020000):
                mac = prefix << 24 | tail
                eui = prefix << 40 | 0xFFFE << 24 | tail
                self._derived[f"{mac:012x}"] = f"{self.addresses.replace_mac(mac):012x}"
                self._derived[f"{eui:016x}"] = f"{self.addresses.replace_low64(eui):016x}"
        for vendor, tail in sorted(self.addresses.guids):
            guid = vendor << 40 | tail
            self._derived[f"{guid:016x}"] = f"{self.addresses.replace_low64(guid):016x}"
        for number in sorted(self.addresses.v6.singles):
            new6 = self.addresses.replace_address(ipaddress.IPv6Address(number))
            self._derived[f"{number:032x}"] = f"{int(new6):032x}"
        for old, new_name in {**self.names.chosen, **dict.fromkeys(self.secrets, REMOVED)}.items():
            for spelled in {old, old.upper(), old.capitalize()}:
                for ending in ("", "\n"):
                    data, fresh = f"{spelled}{ending}".encode(), f"{new_name}{ending}".encode()
                    plain = base64.b64encode(data).decode()
                    for form in (plain, plain.rstrip("=")):
                        self._encoded[form] = base64.b64encode(fresh).decode()
                        url = form.replace("+", "-").replace("/", "_")
                        self._encoded[url] = self._encoded[form]
                    self._encoded[data.hex()] = fresh.hex()

    # ---- replace

    def redact_text(self, text: str, depth: int = 0) -> str:
        """Replace the originals in a text."""
        small = len(text) <= 256  # noqa: PLR2004 (characters: longer texts seldom repeat)
        if small and text in self._cache:
            return self._cache[text]
        new = self._redact_text(normalize_text(text), depth)
        if small:
            self._cache[text] = new
        return new

    def _redact_text(self, text: str, depth: int) -> str:
        text = remove_secrets(text, lambda _one: None)
        for secret in self._list_long_secrets():
            if secret in text:
                text = text.replace(secret, REMOVED)
        for path in sorted(self._seen_paths, key=len, reverse=True):
            text = re.sub(rf"{re.escape(path)}(?![\w.-])", self.paths[path], text)
        if depth < DEEPEST:
            if "%" in text:
                text = PERCENT.sub(lambda found: self._redact_percent(found[0], depth), text)
            text = BASE64.sub(lambda found: self._redact_encoded(found[0], depth), text)
        if self.keep_names:
            return text
        parts, at = [], 0
        for found in ADDRESS.finditer(text):
            new = self._replace_address(found, text)
            if new is not None:
                parts += [self._replace_names(text[at : found.start()]), new]
                at = found.end()
        return "".join([*parts, self._replace_names(text[at:])])

    def _list_long_secrets(self) -> list[str]:
        return sorted(self.secrets, key=lambda one: (-len(one), one))

    def _redact_percent(self, text: str, depth: int) -> str:
        plain = unquote(text)
        new = self.redact_text(plain, depth + 1)
        return text if new == plain else quote(new, safe="/:?&=@,;+")

    def _redact_encoded(self, token: str, depth: int) -> str:
        known = self._encoded.get(token) or self._encoded.get(token.lower())
        if known is not None:
            return known
        if not LEAST_BASE64 <= len(token) <= LONGEST_BASE64:
            return token
        found = decode_plain_text(token)
        if found is None:
            return token
        new = self.redact_text(found[0], depth + 1)
        if new == normalize_text(found[0]):
            return token
        data = new.encode()
        return data.hex() if found[1] == "hex" else base64.b64encode(data).decode()

    def _replace_address(self, found: re.Match[str], text: str) -> str | None:
        """Return the replacement of an address in a text, or None if it is none."""
        if found["uuid"] or found["cloud"]:
            return self.numbered.get(found[0].lower()) or found[0]
        if found["mac"]:
            return self._walk_mac(found["mac"], learn=False)
        if found["dotted"] or found["guid"]:
            return self._replace_groups(found[0])
        if found["dashed"]:
            dotted = found["dashed"].replace("-", ".")
            address = parse_ip(dotted) if dotted in self._seen4 else None
            if address is None:
                return None
            return str(self.addresses.replace_address(address)).replace(".", "-")
        return self._replace_ip(found, text)

    def _replace_groups(self, text: str) -> str:
        """Replace a MAC address of 3 groups, or a GUID of 4 groups."""
        sep = text[4]
        number = int(text.replace(sep, ""), 16)
        is_mac = sep == "."
        new = (self.addresses.replace_mac if is_mac else self.addresses.replace_low64)(number)
        digits = f"{new:0{12 if is_mac else 16}x}"
        return sep.join(digits[at : at + 4] for at in range(0, len(digits), 4))

    def _replace_ip(self, found: re.Match[str], text: str) -> str | None:
        kind, bits = ("v6", "bits6") if found["v6"] else ("v4", "bits4")
        address = parse_ip(found[kind])
        is_seen = kind == "v6" or found["v4"] in self._seen4
        if address is None or (not is_seen and is_version(found, text)):
            return None
        if found[bits]:
            prefix = int(found[bits])
            return f"{self.addresses.replace_network(address, prefix)}/{prefix}"
        new = self.addresses.replace_address(address)
        if isinstance(new, ipaddress.IPv6Address) and "." in found[kind] and new.ipv4_mapped:
            return f"::ffff:{new.ipv4_mapped}"
        return new.exploded if len(found[kind]) == FULL_IPV6 else str(new)

    def _replace_names(self, text: str) -> str:
        if not text:
            return text
        text = HEX_LONG.sub(self._replace_hex, text)
        pieces = WORD_ESCAPE.split(text) if "\\" in text else [text]
        return "".join(
            one if at % 2 else TOKEN.sub(lambda found: self.names.replace_token(found[0]), one)
            for at, one in enumerate(pieces)
        )

    def _replace_hex(self, found: re.Match[str]) -> str:
        head = "0x" if found[0].startswith("0x") else ""
        digits = found[0].removeprefix("0x")
        new = self._derived.get(digits.lower())
        if new is None:
            new = self.numbered.get(digits.lower())
        if not new:
            return found[0]
        return head + (new.upper() if digits.isupper() else new)

    def redact_value(self, value: Any, key: str = "") -> Any:
        """Replace the originals in data."""
        if isinstance(value, dict):
            return {
                self.redact_text(str(name)): self._redact_network(
                    value, inherit_name(key, name), held
                )
                for name, held in value.items()
            }
        if isinstance(value, list):
            return [self.redact_value(one, key) for one in value]
        if isinstance(value, bool) or value is None:
            return value
        if is_secret_name(key) and not is_harmless_value(key, str(value)):
            return REMOVED
        return self.redact_text(value) if isinstance(value, str) else value

    def _redact_network(self, value: dict[str, Any], name: str, held: object) -> Any:
        """Replace a member of a mapping. nft writes a network as an address and a length."""
        length = value.get("len")
        if (
            name == "addr"
            and isinstance(held, str)
            and isinstance(length, int)
            and (ip := parse_ip(held))
        ):
            return held if self.keep_names else str(self.addresses.replace_network(ip, length))
        return self.redact_value(held, str(name))

    # ---- whole members

    def learn_member(self, text: str, form: str) -> None:
        """Learn the originals in a member: *form* is text, json or jsonl."""
        if form == "text":
            self.learn_text(text)
            return
        for one in parse_documents(text, form):
            if isinstance(one, str):
                self.learn_text(one)
            else:
                self.learn_value(one)

    def redact_member(self, text: str, form: str) -> str:
        """Replace the originals in a member."""
        if form == "text":
            return self.redact_text(text)
        lines = [
            self.redact_text(one)
            if isinstance(one, str)
            else json.dumps(self.redact_value(one), indent=2 if form == "json" else None)
            for one in parse_documents(text, form)
        ]
        return "\n".join(lines) + "\n"

    def count_replaced(self) -> dict[str, int]:
        """Count the different originals of each kind."""
        learned = self.names.learned
        return {
            "addresses": len(self.addresses.v4.singles) + len(self.addresses.v6.singles),
            "networks": len(self.addresses.v4.spans) + len(self.addresses.v6.spans),
            "hardware addresses": len(self.addresses.macs) + len(self.addresses.guids),
            **{
                f"{kind} names" if kind == HOST else f"{kind}s": len(learned[kind])
                for kind in learned
            },
            "identifiers": len(self.numbered),
            "folders": len(self._seen_paths),
            "secrets": len(self.secrets),
        }


def inherit_name(key: str, name: str) -> str:
    """Return the name that decides about a value: everything below a secret is a part of it."""
    return key if is_secret_name(key) else name


def normalize_text(text: str) -> str:
    """Remove colours, and write escaped letters as letters."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    return ESCAPE.sub(keep_letter, text) if "\\" in text else text


def keep_letter(found: re.Match[str]) -> str:
    """Return the letter of an escape, or the escape itself if it is a sign."""
    letter = chr(int(found[1], 16))
    return letter if letter.isalnum() or letter in "-._:/@" else found[0]


def is_version(found: re.Match[str], text: str) -> bool:
    """Return whether four numbers are a version of a program."""
    before = text[max(0, found.start() - 16) : found.start()]
    first = int(found["v4"].partition(".")[0])
    if found["bits4"] or first > LARGEST_VERSION:
        return False
    is_package = first <= LARGEST_OF_PACKAGE and PACKAGE_BEFORE.search(before)
    return bool(is_package or VERSION_BEFORE.search(before))


def parse_documents(text: str, form: str) -> Iterator[Any]:
    """Yield the documents of a member. A line that is no JSON is a text."""
    for one in [text] if form == "json" else text.splitlines():
        try:
            found = parse_foreign_json(one, most_bytes=4 * len(one), most_values=len(one))
        except ForeignTextError:
            found = one
        yield found

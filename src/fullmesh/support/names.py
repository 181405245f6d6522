"""Learn the names of hosts, domains, users, serial numbers and cloud objects, and choose their replacements."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from fullmesh.result.schema import build_result_schema

HOST, USER, DOMAIN, SERIAL, ACCOUNT = "host", "user", "domain", "serial", "account"
KINDS = (HOST, USER, DOMAIN, SERIAL, ACCOUNT)
# Words that are names on many machines: they identify nobody, and texts and rules need them.
GENERIC_WORDS = """
    localhost localdomain local internal invalid example test lan home corp com org net io
    master node nodes worker head host hosts gpu cpu server client login admin administrator root
    user users nobody lab cluster controller peer peers rank all any none null true false default
    unknown main public private new old linux ubuntu debian centos rocky almalinux rhel fedora torch
    nccl gloo python python3 ansible fullmesh ssh sshd systemd kernel error warning info debug ok
    changed failed fatal skipping eth0 eth1 lo ib0 docker0 ec2-user cloud-user chrony ntp daemon bin
    sys mail www-data dnsmasq dbus polkitd messagebus nfs slurm munge job train self name
"""
GENERIC = frozenset(GENERIC_WORDS.split())
# Services of the internet that every site uses.
PUBLIC_WORDS = """
    pypi.org pythonhosted.org pytorch.org python.org github.com githubusercontent.com
    huggingface.co nvidia.com ubuntu.com debian.org centos.org fedoraproject.org rockylinux.org
    almalinux.org redhat.com docker.io docker.com quay.io ghcr.io kernel.org ntp.org ietf.org
    freedesktop.org ansible.com readthedocs.io w3.org oasis-open.org json-schema.org anaconda.org
    openssh.com libssh.org
"""
PUBLIC_DOMAINS = tuple(PUBLIC_WORDS.split())
UNIT_SUFFIX = re.compile(
    r"\.(?:service|socket|timer|mount|slice|target|scope|path|device|swap|automount|py|so|sh|log|json|ya?ml|conf)$"
)
NAME = re.compile(r"[^\W_](?:[\w.-]{0,251}[^\W_])?")
SERIAL_VALUE = re.compile(r"(?=[^\s]*\d)[A-Za-z0-9][A-Za-z0-9_-]{4,63}")
LEAST_NAME = 2
PREFIXES = {
    HOST: ("host-", "machine-", "computer-", "hostalias-"),
    USER: ("user-", "person-", "account-", "useralias-"),
    DOMAIN: ("domain-", "zone-", "site-", "domainalias-"),
    SERIAL: ("SERIAL-", "SN-", "NUMBER-", "SERIALALIAS-"),
    ACCOUNT: ("9000", "8000", "7000", "6000"),
}


@cache
def list_schema_words() -> frozenset[str]:
    """List the names of the keys of result.json, which no host's name may replace."""
    found: set[str] = set()

    def collect_names(value: object) -> None:
        if isinstance(value, dict):
            properties = value.get("properties")
            if isinstance(properties, dict):
                found.update(properties)
            for one in value.values():
                collect_names(one)
        elif isinstance(value, list):
            for one in value:
                collect_names(one)

    collect_names(build_result_schema())
    return frozenset(one.lower() for one in found)


def is_generic(name: str) -> bool:
    """Return whether a name says nothing about a site."""
    lower = name.lower()
    return (
        len(lower) < LEAST_NAME
        or not any(one.isalpha() for one in lower)
        or lower in GENERIC
        or lower in list_schema_words()
    )


def is_public_host(name: str) -> bool:
    """Return whether a host belongs to a service that every site uses."""
    return (
        name.lower().endswith(tuple(f".{one}" for one in PUBLIC_DOMAINS)) or name in PUBLIC_DOMAINS
    )


def sort_naturally(name: str) -> tuple[list[tuple[int, str]], str]:
    """Sort n2 before n10."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(one) if one.isdecimal() else -1, one) for one in parts], name


@dataclass
class NameMap:
    """Stand-ins for names. Learn all originals first, then call ``choose_names``.

    Attributes:
        learned: kind -> originals in lower case.
        chosen: original in lower case -> replacement.
    """

    learned: dict[str, set[str]] = field(default_factory=lambda: {kind: set() for kind in KINDS})
    chosen: dict[str, str] = field(default_factory=dict)
    _longest: int = 0  # pieces of a name

    def learn_host(self, name: str) -> None:
        """Remember a host's name, and its domain if it has one."""
        name = name.strip().strip("[]").rstrip(".").lower()
        if not NAME.fullmatch(name) or UNIT_SUFFIX.search(name) or is_public_host(name):
            return
        label, _, domain = name.partition(".")
        if (
            label.replace("-", "").isdecimal()
            or not domain.replace(".", "a").replace("-", "a").isalnum()
        ):
            label, domain = (label, "") if not domain else (name, "")
        if domain and not domain.rpartition(".")[2].isalpha():
            label, domain = name, ""
        if not is_generic(label):
            self.learned[HOST].add(label)
        if domain:
            self.learn_domain(domain)

    def learn_domain(self, name: str) -> None:
        """Remember a domain."""
        name = name.strip().strip(".").lower()
        if NAME.fullmatch(name) and not is_generic(name) and not is_public_host(name):
            self.learned[DOMAIN].add(name)

    def learn_user(self, name: str) -> None:
        """Remember the name of an account."""
        if NAME.fullmatch(name) and not is_generic(name) and not name.startswith("systemd-"):
            self.learned[USER].add(name.lower())

    def learn_serial(self, value: str) -> None:
        """Remember a serial number."""
        value = value.strip()
        if SERIAL_VALUE.fullmatch(value):
            self.learned[SERIAL].add(value.lower())

    def learn_account(self, value: str) -> None:
        """Remember the number of a cloud account."""
        self.learned[ACCOUNT].add(value)

    def choose_names(self, occurs: Callable[[str], bool]) -> None:
        """Choose the replacements, once all originals are known.

        Args:
            occurs: whether a text occurs in the originals.
        """
        for kind in KINDS:
            prefix = next((one for one in PREFIXES[kind] if not occurs(one)), f"{kind}-alias-x")
            new = (one for one in self.learned[kind] if one not in self.chosen)
            for number, one in enumerate(sorted(new, key=sort_naturally), 1):
                self.chosen[one] = (
                    f"{prefix}{number:08d}" if kind == ACCOUNT else f"{prefix}{number}"
                )
                if kind == DOMAIN:
                    self.chosen[one] += ".invalid"
        split = (len(re.findall(r"[^\W_]+", one)) for one in self.chosen)
        self._longest = 2 * max(split, default=0)

    def replace_token(self, token: str) -> str:
        """Replace the names in a word that has letters, digits, points, hyphens and underscores."""
        whole = self.chosen.get(token.lower())
        if whole is not None:
            return whole
        pieces = re.split(r"((?:[^\W_])+)", token)  # runs of letters and digits at the odd places
        at, out = 1, pieces[:1]
        while at < len(pieces):
            last = min(len(pieces) - 1, at + self._longest)
            for end in range(last - last % 2, at, -2):
                found = self.chosen.get("".join(pieces[at:end]).lower())
                if found is not None:
                    out.append(found)
                    at = end
                    break
            else:
                out.append(pieces[at])
                at += 1
            if at < len(pieces):
                out.append(pieces[at])
            at += 1
        return "".join(out)

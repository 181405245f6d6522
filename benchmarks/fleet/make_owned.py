"""Runs on a host of the fleet: makes the files of the roles there, and prints them as fullmesh_owned."""

from __future__ import annotations

import glob
import json
import subprocess
from pathlib import Path

FILES, FILE_BYTES = 30, 3000
SYSCTLS, PACKAGES = 21, 9
SERVICES = ("chrony", "firewalld", "ssh", "nftables", "fullmesh-rollback")
SET_ENTRIES, RULES = 8, 40


def main() -> None:
    """Write the files, and choose existing services, sysctls and packages."""
    folder = Path("/etc/fullmesh")
    folder.mkdir(exist_ok=True)
    files = [folder / f"file{number}" for number in range(FILES)]
    for one in files:
        one.write_text(one.name * (FILE_BYTES // len(one.name)))
    rules = [
        {
            "rule": {
                "family": "inet",
                "table": "firewalld",
                "chain": "filter_IN_fullmesh",
                "handle": number,
                "expr": [{"accept": None}],
            }
        }
        for number in range(RULES)
    ]
    entries = {
        "set": {
            "name": "fullmesh-peers",
            "family": "inet",
            "table": "firewalld",
            "elem": [f"198.18.0.{n}" for n in range(SET_ENTRIES)],
        }
    }
    Path("/etc/fleet_ruleset.json").write_text(
        json.dumps(
            {"nftables": [{"table": {"family": "inet", "name": "firewalld"}}, entries, *rules]}
        )
    )
    sysctls = {}
    for path in sorted(glob.glob("/proc/sys/net/ipv4/tcp_*"))[:SYSCTLS]:
        value = " ".join(Path(path).read_text().split())
        sysctls[path.removeprefix("/proc/sys/").replace("/", ".")] = value
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package}\n"], capture_output=True, text=True, check=True
    )
    owned = {
        "files": [str(one) for one in files],
        "sysctls": sysctls,
        "services": {f"{name}.service": {"active": True, "enabled": True} for name in SERVICES},
        "packages": dict.fromkeys(listed.stdout.split()[:PACKAGES], ""),
        "firewalld": ["fullmesh"],
    }
    print(json.dumps({"fleet": owned}))


if __name__ == "__main__":
    main()

"""A NetworkManager that reads ifcfg files, as EL9's does, for a lab's EL node: ``python3 -m devtools.lab.ifcfg el1``.

The look-alike's NetworkManager is Debian's, which is built without the plugin. Here the same version is built from
Debian's own source package with that plugin and little else, once, and takes the place of the node's program.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path

from devtools.lab import host, lifecycle, plan, sources_list
from devtools.lab.console import say, step
from devtools.lab.errors import LabError, StepError
from devtools.lab.once import built
from devtools.lab.paths import Paths, find
from devtools.lab.podman import Podman
from devtools.lab.state import Store

# Each with a program, or a file, by which its presence shows.
PKG_CONFIG = "/usr/lib/x86_64-linux-gnu/pkgconfig"
PACKAGES = {
    "dpkg-dev": "dpkg-source",
    "meson": "meson",
    "ninja-build": "ninja",
    "gcc": "gcc",
    "libc6-dev": "gencat",
    "pkg-config": "pkg-config",
    "gettext": "msgfmt",
    "xsltproc": "xsltproc",
    "libglib2.0-dev": f"{PKG_CONFIG}/glib-2.0.pc",
    "libudev-dev": f"{PKG_CONFIG}/libudev.pc",
    "libsystemd-dev": f"{PKG_CONFIG}/libsystemd.pc",
    "libndp-dev": f"{PKG_CONFIG}/libndp.pc",
    "libdbus-1-dev": f"{PKG_CONFIG}/dbus-1.pc",
    "uuid-dev": f"{PKG_CONFIG}/uuid.pc",
}
PLUGIN = "src/core/settings/plugins/ifcfg-rh/libnm-settings-plugin-ifcfg-rh.so"
DAEMON = "src/core/NetworkManager"
# Nothing that needs another library: no radio, no telephone, no documentation, no polkit.
OFF = (
    *("polkit", "ppp", "modem_manager", "ofono", "bluez5_dun", "wifi", "iwd", "ovs", "nmcli"),
    *("nmtui", "nm_cloud_setup", "introspection", "vapi", "docs", "qt", "concheck", "selinux"),
    *("libpsl", "teamdctl", "firewalld_zone", "ifupdown", "session_tracking_consolekit"),
)
OPTIONS = {
    "prefix": "/usr",
    "sysconfdir": "/etc",
    "localstatedir": "/var",
    "libdir": "/usr/lib/x86_64-linux-gnu",
    "ifcfg_rh": "true",
    "systemdsystemunitdir": "no",
    "session_tracking": "no",
    "suspend_resume": "systemd",
    "libaudit": "no",
    "crypto": "null",
    "ebpf": "false",
    "tests": "no",
    "readline": "none",
    **dict.fromkeys(OFF, "false"),
}
FETCH_SECONDS = 300.0
BUILD_SECONDS = 1500.0
LOCK_SECONDS = 1800.0
# $1: version of NetworkManager.
INSTALL = """\
set -eu
have=$(NetworkManager --version)
[ "$have" = "$1" ] || { echo "the node has NetworkManager $have, and $1 was built" >&2; exit 1; }
install -m 0755 /tmp/lab-ifcfg/NetworkManager /usr/sbin/NetworkManager
install -D -m 0644 /tmp/lab-ifcfg/plugin.so \\
    "/usr/lib/x86_64-linux-gnu/NetworkManager/$1/libnm-settings-plugin-ifcfg-rh.so"
rm -rf /tmp/lab-ifcfg
printf '[main]\\nplugins=keyfile,ifcfg-rh\\n' > /etc/NetworkManager/conf.d/90-lab-ifcfg.conf
mkdir -p /etc/sysconfig/network-scripts
"""


def folder(paths: Paths) -> Path:
    """Where the program and the plugin lie once they are built; another way to build them is another folder."""
    way = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    return paths.cache / f"network-manager-{way}"


def ensure(paths: Paths) -> Path:
    """Fetch Debian's source and build it; once."""

    def make(work: Path) -> None:
        host.ensure_packages(paths, PACKAGES)
        _fetch(paths, work)
        _build(paths, work)

    return built(paths, folder(paths), "NetworkManager with ifcfg-rh", make, LOCK_SECONDS)


def _fetch(paths: Paths, work: Path) -> None:
    """Debian's source package, which apt checks; apt's own files on this machine are not touched."""
    apt = sources_list.own_apt(work, lambda line: re.sub(r"^deb\b", "deb-src", line))
    script = f"cd {work} && {apt} update && {apt} source --download-only network-manager"
    script += " && dpkg-source --extract network-manager_*.dsc source"
    step(
        "fetch NetworkManager's source", ["sh", "-ec", script], paths.logs / "nm.log", FETCH_SECONDS
    )


def _build(paths: Paths, work: Path) -> None:
    given = " ".join(f"-D{name}={value}" for name, value in OPTIONS.items())
    script = f"cd {work}/source && meson setup ../build --buildtype=plain {given}"
    script += (
        f" && ninja -C ../build {DAEMON} {PLUGIN} && strip ../build/{DAEMON} ../build/{PLUGIN}"
    )
    script += (
        f" && cp ../build/{DAEMON} ../out/NetworkManager && cp ../build/{PLUGIN} ../out/plugin.so"
    )
    script += " && ../out/NetworkManager --version > ../out/version"
    step("build NetworkManager", ["sh", "-ec", script], paths.logs / "nm.log", BUILD_SECONDS)


def install(podman: Podman, paths: Paths, container: str) -> None:
    """Give a running node the program and the plugin; the service is left to whoever has written its files."""
    parts = ensure(paths)
    podman.must("cp", f"{parts}/.", f"{container}:/tmp/lab-ifcfg")
    version = (parts / "version").read_text().strip()
    podman.must("exec", "-i", container, "sh", "-c", INSTALL, "sh", version)


def main() -> int:
    """One node of a running lab."""
    parser = argparse.ArgumentParser(prog="python3 -m devtools.lab.ifcfg", description=__doc__)
    parser.add_argument("--name", default="demo", help="lab, default: demo")
    parser.add_argument("node")
    args = parser.parse_args()
    paths = find()
    try:
        lab = lifecycle.require(Store(paths, plan.check_name(args.name)))
        node = lifecycle.node_of(lab, args.node)
        install(lifecycle.open_podman(paths), paths, node.container)
    except (LabError, StepError) as error:
        say(str(error))
        return 2
    say(f"{args.node}: NetworkManager reads ifcfg files")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Check the settings of role monitoring_tools, and list its packages for the manifest."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.faults import Fault
from fullmesh.plain import parse_switch

CODES: dict[str, str] = {
    "MT-101": "No repository of the node has a monitoring tool",
    "MT-102": "A list of monitoring tools is malformed, or has an invalid package name",
    "MT-103": "The folder for text files is not a plain absolute path",
    "MT-104": "A folder for text files is set, but node_exporter is off",
    "MT-105": "A running node_exporter does not read text files from a folder that Fullmesh can write to",
    "MT-106": "The folder for text files does not exist",
    "MT-107": "node_exporter does not run although it was started",
    "MT-108": "The metrics of a verification could not be written for node_exporter (warning)",
    "MT-109": "A node_exporter that holds port 9100 is not a service of the node",
    "MT-110": "The folder for text files is root's and other accounts can change it, or a foreign link leads to it",
}
# Names that both rpm and dpkg accept, and dnf's groups (@).
NAME = re.compile(r"@?[A-Za-z0-9][A-Za-z0-9._+:-]*")
# No pattern, because node_exporter would then search folders and Fullmesh could not choose one.
FOLDER = re.compile(r"/[^\x00-\x1f*?\[\]]+")


def find_monitoring_faults(
    packages: Any, gpu_packages: Any, textfile_dir: Any, *, manage: Any, node_exporter: Any
) -> list[Fault]:
    """Return the settings that cannot work. Without *manage*, the lists of packages are not used."""
    lists = {"monitoring_tools_packages": packages, "monitoring_tools_gpu_packages": gpu_packages}
    found = find_package_list_faults(lists) if parse_switch(manage) else []
    return found + find_textfile_dir_faults(textfile_dir, parse_switch(node_exporter) is True)


def find_package_list_faults(settings: Mapping[str, Any]) -> list[Fault]:
    """Return the faults in the lists of packages, which are given by setting.

    ``-e monitoring_tools_packages=htop`` is a text. Joining it with a list would fail in the middle of a run, and as
    a list it would be read as single letters.
    """
    found = []
    for setting, value in settings.items():
        listed = not isinstance(value, str | Mapping) and isinstance(value, Sequence)
        wrong = [one for one in value if not NAME.fullmatch(str(one))] if listed else [value]
        if wrong:
            step = "Use a list of package names, such as [nload, iftop]"
            found.append(Fault("MT-102", f"{setting} has {wrong[0]!r}", step))
    return found


def find_textfile_dir_faults(folder: Any, asked: bool) -> list[Fault]:
    """Return the faults in ``monitoring_tools_textfile_dir``. *asked* is whether node_exporter is on.

    An empty value is valid: the role then finds the folder.
    """
    if folder == "":
        return []
    found = []
    plain = isinstance(folder, str) and FOLDER.fullmatch(folder)
    if not plain or folder != os.path.normpath(folder):
        found.append(
            Fault(
                "MT-103",
                f"monitoring_tools_textfile_dir is {folder!r}, which is not a plain absolute path",
                "Write it like /var/lib/prometheus/node-exporter, or leave it empty so that the role finds it",
            )
        )
    if not asked:
        found.append(
            Fault(
                "MT-104",
                f"monitoring_tools_textfile_dir is {folder!r}, but monitoring_tools_node_exporter is off, so"
                " nothing would be written there",
                "Set monitoring_tools_node_exporter: true, which leaves your own node_exporter unchanged",
            )
        )
    return found


def list_watched_packages(packages: Sequence[str]) -> dict[str, str]:
    """Return the packages as the manifest watches them: in any version."""
    return dict.fromkeys(packages, "")

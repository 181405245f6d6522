"""The role monitoring_tools: what is wrong with its settings, and what it owns."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.faults import Fault
from fullmesh.plain import parse_switch

CODES: dict[str, str] = {
    "MT-101": "a monitoring tool that no repository of the node has",
    "MT-102": "a list of monitoring tools that is none, or holds something that is no package's name",
    "MT-103": "a folder for text files that is no plain absolute path",
    "MT-104": "a folder for text files is named, and node_exporter is not asked for",
    "MT-105": "a node_exporter that runs on the node reads no text files that could be written",
    "MT-106": "the folder for text files is not there",
    "MT-107": "node_exporter does not run although it was started",
    "MT-108": "a verification's figures could not be left for node_exporter (a warning)",
    "MT-109": "A node_exporter that holds port 9100 is not a service of the node",
    "MT-110": "The folder for text files is root's and other accounts can change it, or a foreign link leads to it",
}
# What rpm and dpkg both take, and dnf's groups (@) besides.
NAME = re.compile(r"@?[A-Za-z0-9][A-Za-z0-9._+:-]*")
# In a pattern node_exporter would look for folders, and of two names one could not be told.
FOLDER = re.compile(r"/[^\x00-\x1f*?\[\]]+")


def find_monitoring_faults(
    packages: Any, gpu_packages: Any, textfile_dir: Any, *, manage: Any, node_exporter: Any
) -> list[Fault]:
    """Find the settings that cannot work; without *manage* no list of packages is used."""
    lists = {"monitoring_tools_packages": packages, "monitoring_tools_gpu_packages": gpu_packages}
    found = find_package_list_faults(lists) if parse_switch(manage) else []
    return found + find_textfile_dir_faults(textfile_dir, parse_switch(node_exporter) is True)


def find_package_list_faults(settings: Mapping[str, Any]) -> list[Fault]:
    """What is wrong with the lists of packages, by the name of the setting.

    ``-e monitoring_tools_packages=htop`` is a text: joined with a list it fails in the middle of a run, and as a list
    of letters it would be worse.
    """
    found = []
    for setting, value in settings.items():
        listed = not isinstance(value, str | Mapping) and isinstance(value, Sequence)
        wrong = [one for one in value if not NAME.fullmatch(str(one))] if listed else [value]
        if wrong:
            step = "Give a list of package names, like [nload, iftop]"
            found.append(Fault("MT-102", f"{setting} has {wrong[0]!r}", step))
    return found


def find_textfile_dir_faults(folder: Any, asked: bool) -> list[Fault]:
    """What is wrong with ``monitoring_tools_textfile_dir``; *asked*: node_exporter is.

    Empty is right: the folder is found out then.
    """
    if folder == "":
        return []
    found = []
    plain = isinstance(folder, str) and FOLDER.fullmatch(folder)
    if not plain or folder != os.path.normpath(folder):
        found.append(
            Fault(
                "MT-103",
                f"monitoring_tools_textfile_dir is {folder!r}, which is no folder's plain absolute path",
                "Write it like /var/lib/prometheus/node-exporter, or leave it empty to have it found out",
            )
        )
    if not asked:
        found.append(
            Fault(
                "MT-104",
                f"monitoring_tools_textfile_dir is {folder!r}, and monitoring_tools_node_exporter is off, so"
                " nothing would be written there",
                "Set monitoring_tools_node_exporter: true; a node_exporter of your own is left as it is",
            )
        )
    return found


def list_watched_packages(packages: Sequence[str]) -> dict[str, str]:
    """The packages as the manifest watches them: any version."""
    return dict.fromkeys(packages, "")

"""Hands the rules of the role monitoring_tools to Ansible."""

from __future__ import annotations

from typing import Any

from fullmesh.plain import parse_switch
from fullmesh.roles import monitoring_tools


def monitoring_tools_faults(packages: Any, gpu_packages: Any) -> list[str]:
    """Coded sentences: what is wrong with the lists of packages."""
    given = {"monitoring_tools_packages": packages, "monitoring_tools_gpu_packages": gpu_packages}
    return [str(fault) for fault in monitoring_tools.find_package_list_faults(given)]


def monitoring_tools_folder_faults(folder: Any, node_exporter: Any) -> list[str]:
    """Coded sentences: what is wrong with the folder for text files."""
    return [
        str(fault)
        for fault in monitoring_tools.find_textfile_dir_faults(
            folder, bool(parse_switch(node_exporter))
        )
    ]

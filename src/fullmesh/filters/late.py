"""Map Fullmesh's filters to their functions, which are imported when the filter is first used.

Importing all of them with their part of the core takes 0.3 s, and a run without changes uses few of them. Before
Ansible forks a process for each node, ``load_all_filters`` imports the rest in the parent.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

PACKAGE = "fullmesh"

# Filter -> its module in ``fullmesh``, with the function if that has another name.
FILTERS = {
    "bundle_contents": "filters.bundle",
    "bundle_controller": "filters.bundle",
    "bundle_faults": "filters.bundle",
    "bundle_hosts": "filters.bundle",
    "bundle_kind": "filters.bundle",
    "bundle_lock_name": "filters.bundle",
    "bundle_python": "filters.bundle",
    "bundle_sources": "filters.bundle",
    "bundle_target": "filters.bundle",
    "change_token": "transaction:make_change_token",
    "cluster_env_lines": "filters.cluster_env",
    "cluster_status": "filters.observe.watch",
    "container_toolkit_may": "filters.container_toolkit",
    "container_toolkit_not_installed": "filters.container_toolkit",
    "container_toolkit_notes": "filters.container_toolkit",
    "container_toolkit_place": "roles.container_toolkit:choose_toolkit_source",
    "container_toolkit_writes_source": "filters.container_toolkit",
    "controller_is_peer": "filters.observe.verify_cluster",
    "diagnose_as_login": "filters.observe.diagnose",
    "diagnose_first": "filters.observe.diagnose",
    "diagnose_hosts": "filters.observe.diagnose",
    "diagnose_job_users": "filters.observe.diagnose",
    "diagnose_not_root": "filters.observe.diagnose",
    "diagnose_partners": "filters.observe.diagnose",
    "diagnose_plan": "filters.observe.diagnose",
    "diagnose_probes": "filters.observe.diagnose",
    "diagnose_result": "filters.observe.diagnose",
    "diagnose_rounds": "filters.observe.diagnose",
    "diagnose_scope": "filters.observe.diagnose",
    "diagnose_shut": "filters.observe.diagnose",
    "diagnose_summary": "filters.observe.diagnose",
    "diagnose_traces": "filters.observe.diagnose",
    "diagnose_wants": "filters.observe.diagnose",
    "ec2_address_filters": "filters.observe.ec2",
    "ec2_concerned": "filters.observe.ec2",
    "ec2_findings": "filters.observe.ec2",
    "ec2_group_filters": "filters.observe.ec2",
    "ec2_instance_filters": "filters.observe.ec2",
    "ec2_made_groups": "filters.observe.ec2",
    "ec2_no_answer": "filters.observe.ec2",
    "ec2_todo": "filters.observe.ec2",
    "ec2_undo": "filters.observe.ec2",
    "efa_findings": "filters.observe.efa",
    "efa_plugin_verdict": "filters.observe.efa",
    "kept_path": "filters.cluster_plan",
    "kernel_tuning_limits": "filters.kernel_tuning",
    "kernel_tuning_settings": "filters.kernel_tuning",
    "ladder_about": "filters.observe.verify_cluster",
    "ladder_bisect_after": "filters.observe.verify_cluster",
    "ladder_bisect_first": "filters.observe.verify_cluster",
    "ladder_bisect_jobs": "filters.observe.verify_cluster",
    "ladder_bisect_most": "filters.observe.verify_cluster",
    "ladder_bisect_next": "filters.observe.verify_cluster",
    "ladder_closer": "filters.observe.verify_cluster",
    "ladder_failure": "filters.observe.verify_cluster",
    "ladder_follow_up": "filters.observe.verify_cluster",
    "ladder_jobs": "filters.observe.verify_cluster",
    "ladder_may_start": "filters.observe.verify_cluster",
    "ladder_opened": "filters.observe.verify_cluster",
    "ladder_outsider_targets": "filters.observe.verify_cluster",
    "ladder_probes": "filters.observe.verify_cluster",
    "ladder_result": "filters.observe.verify_cluster",
    "ladder_scope": "filters.observe.verify_cluster",
    "ladder_summary": "filters.observe.verify_cluster",
    "ladder_textfile": "filters.observe.verify_cluster",
    "ladder_wants": "filters.observe.verify_cluster",
    "launchers_commands": "roles.launchers:build_command_files",
    "launchers_hook": "roles.launchers:build_hook_files",
    "launchers_hostfile": "roles.launchers:render_hostfile",
    "launchers_library": "roles.launchers:build_library_files",
    "launchers_nodes": "roles.launchers:render_nodes_file",
    "launchers_services": "roles.launchers:render_services_file",
    "monitoring_tools_owned": "roles.monitoring_tools:list_watched_packages",
    "nccl_key_address": "roles.nccl:choose_key_address",
    "nccl_key_file": "filters.nccl",
    "nccl_not_installed": "filters.nccl",
    "nccl_notes": "filters.nccl",
    "nccl_repository": "roles.nccl:choose_nccl_repository",
    "node_ssh_authorized": "roles.node_ssh:render_authorized_key",
    "node_ssh_key": "filters.node_ssh",
    "node_ssh_known_hosts": "filters.node_ssh",
    "node_ssh_next": "roles.node_ssh:find_next_address",
    "node_ssh_pattern": "filters.node_ssh",
    "node_ssh_public": "roles.node_ssh:derive_public_key",
    "node_view": "filters.cluster_plan",
    "nvidia_driver_may_build": "filters.nvidia_driver",
    "nvidia_driver_may_undo": "filters.nvidia_driver",
    "nvidia_driver_plan": "filters.nvidia_driver",
    "nvidia_driver_probes": "filters.nvidia_driver",
    "peer_firewall_mode": "roles.peer_firewall:parse_firewall_mode",
    "peer_firewall_request": "filters.peers",
    "peers_left_out": "filters.peers",
    "peers_wanted": "filters.peers",
    "plan_default": "filters.cluster_plan",
    "plan_drift": "filters.cluster_plan",
    "plan_leads_time": "filters.cluster_plan",
    "plan_link_addresses": "model.wireguard:map_link_addresses",
    "plan_made": "filters.cluster_plan",
    "plan_members": "filters.cluster_plan",
    "plan_opened": "filters.cluster_plan",
    "plan_serial": "filters.cluster_plan",
    "plan_tunnel_peers": "model.wireguard:list_tunnel_peers",
    "plan_tunnel_ports": "model.wireguard:list_tunnel_ports",
    "preflight_facts_faults": "filters.cluster_plan",
    "preflight_groups": "filters.cluster_plan",
    "preflight_judged": "filters.cluster_plan",
    "preflight_pending": "filters.cluster_plan",
    "preflight_pending_seconds": "filters.cluster_plan",
    "preflight_pending_text": "filters.cluster_plan",
    "preflight_unasked": "filters.cluster_plan",
    "role_faults": "filters.role_faults",
    "static_ip_addresses": "roles.static_ip:list_watched_addresses",
    "static_ip_bootstrap": "filters.static_ip",
    "static_ip_destination": "filters.static_ip",
    "static_ip_here": "filters.static_ip",
    "static_ip_moved": "transaction:find_moved_address",
    "static_ip_told": "filters.static_ip",
    "static_ip_up": "transaction:list_peers_up",
    "static_ip_way": "filters.static_ip",
    "static_ip_witnesses": "transaction:list_witnesses",
    "time_sync_expected": "roles.time_sync:list_expected_sources",
    "time_sync_lines": "roles.time_sync:render_chrony_lines",
    "torch_runtime_asks": "filters.torch_runtime",
    "torch_runtime_files": "filters.torch_runtime",
    "torch_runtime_handover": "filters.torch_runtime",
    "torch_runtime_index": "filters.torch_runtime",
    "torch_runtime_lock": "filters.torch_runtime",
    "torch_runtime_made_for": "filters.torch_runtime",
    "torch_runtime_pinned": "filters.torch_runtime",
    "torch_runtime_python_faults": "filters.torch_runtime",
    "torch_runtime_sources": "filters.torch_runtime",
    "torch_runtime_space": "filters.torch_runtime",
    "torch_runtime_targets": "filters.torch_runtime",
    "torch_runtime_wheels": "filters.torch_runtime",
    "watch_nodes": "filters.observe.watch",
    "wireguard_node_settings": "filters.wireguard",
    "wireguard_pattern": "filters.wireguard",
}
# Role -> the function that finds the settings of it that cannot work, for ``role_faults``.
SETTING_CHECKS = {
    "cluster_env": "roles.cluster_env:find_cluster_env_faults",
    "container_toolkit": "roles.container_toolkit:find_toolkit_faults",
    "ec2_security_group": "filters.observe.ec2:find_ec2_option_faults",
    "kernel_tuning": "roles.kernel_tuning:find_kernel_faults",
    "launchers": "roles.launchers:find_launcher_faults",
    "monitoring_tools": "roles.monitoring_tools:find_monitoring_faults",
    "name_resolution": "roles.name_resolution:find_hosts_file_faults",
    "nccl": "roles.nccl:find_nccl_faults",
    "node_health": "roles.node_health:find_node_health_faults",
    "node_ssh": "roles.node_ssh:find_node_ssh_faults",
    "nvidia_driver": "filters.nvidia_driver:find_driver_option_faults",
    "peer_firewall": "roles.peer_firewall:find_firewall_faults",
    "selinux_mode": "roles.selinux_mode:find_selinux_faults",
    "static_ip": "roles.static_ip:find_static_ip_faults",
    "time_sync": "roles.time_sync:find_time_sync_faults",
    "torch_runtime": "roles.torch_runtime:find_torch_faults",
    "verify_cluster": "diagnose.verification:find_verify_faults",
    "wireguard": "roles.wireguard:find_wireguard_faults",
}

Filter = Callable[..., Any]


@cache
def load_function(place: str, name: str = "") -> Filter:
    """Import the function at *place* of a table: ``module:function``, or ``module`` for one that is called *name*."""
    module, _, function = place.partition(":")
    found: Filter = getattr(importlib.import_module(f"{PACKAGE}.{module}"), function or name)
    return found


def make_lazy_filter(name: str, place: str) -> Filter:
    """Make a filter that imports its function when it is used."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return load_function(place, name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def build_filter_table() -> dict[str, Filter]:
    """Build the table that Ansible asks for: every filter by its name."""
    return {name: make_lazy_filter(name, place) for name, place in FILTERS.items()}


def load_filter(name: str) -> None:
    """Import the function of a filter, and so its neighbours in the same file."""
    load_function(FILTERS[name], name)


def load_all_filters() -> bool:
    """Import all filters and the roles' checks. Return whether any was not imported yet."""
    before = len(sys.modules)
    for name in FILTERS:
        load_filter(name)
    for place in SETTING_CHECKS.values():
        load_function(place)
    return len(sys.modules) > before

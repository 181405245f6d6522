"""A moto server on 127.0.0.1, with what moto lacks and the role relies on, as AWS documents it.

Added: the filter ``ipv6-addresses.ipv6-address``, secondary addresses in ``addresses.private-ip-address``, the type of
an interface as a tag may set it (moto knows no EFA), and DependencyViolation for a group that is in use.
"""

from __future__ import annotations

import sys
from typing import Any

from moto.ec2.exceptions import DependencyViolationError
from moto.ec2.models import elastic_network_interfaces as enis
from moto.ec2.models import security_groups
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

Interface, Backend = enis.NetworkInterface, security_groups.SecurityGroupBackend
own_filter, own_delete = Interface.get_filter_value, Backend.delete_security_group


def get_filter_value(self: Any, filter_name: str, method_name: Any = None) -> Any:
    """Two filters more."""
    if filter_name == "ipv6-addresses.ipv6-address":
        return list(self.ipv6_addresses)
    if filter_name == "addresses.private-ip-address":
        return [one["PrivateIpAddress"] for one in self.private_ip_addresses]
    return own_filter(self, filter_name, method_name)


def delete_security_group(self: Any, name: Any = None, group_id: Any = None) -> Any:
    """Refuse while an interface has the group, or another group's rule names it."""
    held = [eni for eni in self.enis.values() if group_id in [one.id for one in eni._group_set]]
    named = [
        group
        for groups in self.groups.values()
        for group in groups.values()
        if group.id != group_id
        for rule in [*group.ingress_rules, *group.egress_rules]
        if rule.source_group.get("GroupId") == group_id
    ]
    if held or named:
        raise DependencyViolationError(f"resource {group_id} has a dependent object")
    return own_delete(self, name=name, group_id=group_id)


def interface_type(self: Any) -> str:
    """moto makes plain interfaces only."""
    return next((one["value"] for one in self.get_tags() if one["key"] == "test-kind"), "interface")


Interface.get_filter_value = get_filter_value
Backend.delete_security_group = delete_security_group
Interface.interface_type = property(interface_type, lambda self, value: None)

if __name__ == "__main__":
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        DomainDispatcherApplication(create_backend_app),
        threaded=True,
    )

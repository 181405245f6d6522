"""Shared by the tests of EC2: interfaces, security groups and access lists as AWS describes them."""

from __future__ import annotations

from typing import Any

from fullmesh.ec2 import findings as ec2_findings
from fullmesh.ec2.settings import SecurityGroupSettings
from fullmesh.model.plan import derive_plan

VPC, SG = "vpc-0a0a0a0a", "sg-0123456789abcdef0"


OTHER = "sg-0fedcba9876543210"


def build_plan(*addresses: str, **more: Any) -> dict[str, Any]:
    """Derive the plan of nodes n0, n1 … with these addresses."""
    own = addresses or ("10.0.1.1/24", "10.0.1.2/24")
    hosts = {f"n{at}": {"fullmesh_address": one, **more} for at, one in enumerate(own)}
    return derive_plan(hosts)


def describe_interface(
    at: int, address: str, groups: tuple[str, ...] = (SG,), **more: Any
) -> dict[str, Any]:
    """Describe an interface as ec2_eni_info does."""
    return {
        "network_interface_id": f"eni-{at}",
        "attachment": {"instance_id": f"i-{at}"},
        "vpc_id": VPC,
        "subnet_id": "subnet-a",
        "availability_zone": "us-east-1a",
        "interface_type": "interface",
        "groups": [{"group_id": one} for one in groups],
        "private_ip_address": address,
        "private_ip_addresses": [{"private_ip_address": address}],
        "ipv6_addresses": [],
        "tags": {},
        **more,
    }


def describe_rule(
    protocol: str, first: int | None, last: int | None, *targets: str
) -> dict[str, Any]:
    """Describe a rule as ec2_security_group_info does."""
    own = [one for one in targets if one.startswith("sg-")]
    v6 = [one for one in targets if ":" in one]
    v4 = [one for one in targets if one not in own and one not in v6]
    ports = {} if first is None else {"from_port": first, "to_port": last}
    return {
        "ip_protocol": protocol,
        **ports,
        "user_id_group_pairs": [{"group_id": one, "description": ""} for one in own],
        "ip_ranges": [{"cidr_ip": one} for one in v4],
        "ipv6_ranges": [{"cidr_ipv6": one} for one in v6],
        "prefix_list_ids": [],
    }


ALL_OUT = describe_rule("-1", None, None, "0.0.0.0/0")


CLUSTER = [describe_rule("tcp", 29400, 29500, SG), describe_rule("tcp", 50000, 54095, SG)]


def describe_group(
    rules: list[dict[str, Any]],
    out: list[dict[str, Any]] | None = None,
    ident: str = SG,
    **more: Any,
) -> dict[str, Any]:
    """Describe a group as ec2_security_group_info does."""
    return {
        "group_id": ident,
        "group_name": "fullmesh" if ident == SG else "others",
        "vpc_id": VPC,
        "description": "d",
        "tags": {"fullmesh-cluster": "fullmesh"} if ident == SG else {},
        "ip_permissions": rules,
        "ip_permissions_egress": [ALL_OUT] if out is None else out,
        **more,
    }


def build_account(
    interfaces: list[Any] | None = None,
    groups: list[Any] | None = None,
    acls: list[Any] | None = None,
) -> dict[str, Any]:
    """Build the observations of an account, of two complete nodes by default."""
    return {
        "interfaces": interfaces
        or [describe_interface(0, "10.0.1.1"), describe_interface(1, "10.0.1.2")],
        "groups": [describe_group(CLUSTER)] if groups is None else groups,
        "acls": acls or [],
    }


def find_codes(seen: dict[str, Any], own: dict[str, Any], **settings: Any) -> list[str]:
    """Return the codes of the findings."""
    return [
        one.code
        for one in ec2_findings.check_ec2(seen, own, SecurityGroupSettings.of(settings, own))
    ]

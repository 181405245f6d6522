"""What cannot work is named, and nothing is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ec2.conftest import Cloud

PLUGIN = """
import sys

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("boto3", "botocore"):
            raise ImportError(name)

sys.meta_path.insert(0, Gone())
"""


@pytest.mark.rest
def test_a_node_in_another_vpc_and_a_missing_node(cloud: Cloud) -> None:
    """Both are named in one run; the group is not made."""
    second = cloud.network("10.60.0.0/16")
    cloud.launch("gpu3", "10.60.1.13", cloud.make_subnet("10.60.1.0/24", second))
    cloud.nodes["gpu4"] = {"fullmesh_address": "10.50.1.14/24"}
    cloud.settings = {"fullmesh_routed": True}
    run = cloud.play("ec2")
    assert run.code == 2
    assert "[EC-110] gpu3 (10.60.1.13) is i-" in run.words
    assert f"in {second}, but the cluster's VPC is {cloud.vpc}" in run.words
    assert "[EC-108] gpu4: no network interface has the cluster address 10.50.1.14" in run.words
    assert cloud.group() == {}
    assert run.recap("changed") == 0


def test_settings_are_rejected_before_aws_is_queried(cloud: Cloud) -> None:
    """With credentials that do not exist."""
    cloud.settings = {
        "ec2_security_group_ssh_from": ["0.0.0.0/0"],
        "ec2_security_group_groups": ["my-group"],
        "ec2_security_group_extra_ports": ["22"],
    }
    run = cloud.play("ec2", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    assert run.code == 2
    for code in ("EC-102", "EC-103", "EC-104"):
        assert f"[{code}]" in run.words
    assert "EC-122" not in run.words


@pytest.mark.rest
def test_without_credentials_and_without_boto3(cloud: Cloud, tmp_path: Path) -> None:
    """The role and the diagnosis say so, each with the next step."""
    bare = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    run = cloud.play("ec2", **bare)
    assert run.code == 2
    assert "[EC-122] AWS rejected the query:" in run.words
    assert "Unable to locate credentials" in run.words
    (tmp_path / "sitecustomize.py").write_text(PLUGIN)
    run = cloud.play("ec2_diagnose", PYTHONPATH=str(tmp_path))
    assert run.code == 2
    assert "[EC-121] Fullmesh cannot query AWS:" in run.words
    assert "requirements-ec2.txt" in run.words


@pytest.mark.rest
def test_network_acls_between_two_subnets(cloud: Cloud) -> None:
    """The group is made all the same; the run fails and says which ACL blocks what, answers to ssh as well."""
    second = cloud.make_subnet("10.50.2.0/24", zone="b")
    cloud.launch("gpu3", "10.50.2.13", second)
    cloud.settings = {
        "fullmesh_routed": True,
        "fullmesh_services": [
            {"name": "features", "ports": {"store": 29700}, "nodes": ["gpu3"]},
            {"name": "panel", "ports": {"web": 8443}, "reach": "everybody", "nodes": ["gpu3"]},
        ],
        "ec2_security_group_ssh_from": ["203.0.113.7", "2001:db8::/48"],
    }
    acl = cloud.client.create_network_acl(VpcId=cloud.vpc)["NetworkAcl"]["NetworkAclId"]
    current = cloud.client.describe_network_acls(
        Filters=[{"Name": "association.subnet-id", "Values": [second]}]
    )["NetworkAcls"][0]
    association = next(
        one["NetworkAclAssociationId"]
        for one in current["Associations"]
        if one["SubnetId"] == second
    )
    cloud.client.replace_network_acl_association(AssociationId=association, NetworkAclId=acl)

    for number, egress, action, cidr, ports in (
        (90, False, "deny", "10.50.1.12/32", {"From": 29000, "To": 29999}),
        (100, False, "allow", "0.0.0.0/0", {"From": 0, "To": 65535}),
        (100, True, "allow", "10.50.0.0/16", {"From": 0, "To": 65535}),
    ):
        cloud.client.create_network_acl_entry(
            NetworkAclId=acl,
            RuleNumber=number,
            Protocol="6",
            RuleAction=action,
            Egress=egress,
            CidrBlock=cidr,
            PortRange=ports,
        )
    run = cloud.play("ec2")
    assert run.code == 2
    named = f"network ACL {acl} of {second} blocks"
    shut = "29400/tcp, 29500/tcp, 29700/tcp (features store)"
    denied = f"{named} inbound traffic from gpu2 at {shut}: its rule 90 denies them"
    assert f"[EC-114] {denied}" in run.words
    # clients of the panel, from any address, get no reply either
    answers = f"{named} outbound answers to 0.0.0.0/0, 203.0.113.7/32 at 1024-65535/tcp"
    assert f"[EC-115] {answers}" in run.words
    assert "2001:db8::/48" not in run.words.split("[EC-114]", 1)[1]
    assert "in tcp 22-22 203.0.113.7/32" in cloud.rules()
    assert "in tcp 22-22 2001:db8::/48" in cloud.rules()
    assert "fullmesh" in cloud.groups_of("gpu3")


@pytest.mark.rest
def test_undo_disconnects_no_other_instance(cloud: Cloud) -> None:
    """An instance of another user has the group, and one node has no other group: both are named, nothing is undone."""
    cloud.settings = {"ec2_security_group_name": "lab 2"}
    cloud.play("ec2").ok()
    group = cloud.group("lab 2")["GroupId"]
    nodes = dict(cloud.nodes)
    cloud.launch("other", "10.50.1.99")
    cloud.attach("other", cloud.group("default")["GroupId"], group)
    eni = cloud.interface("other")["NetworkInterfaceId"]
    cloud.attach("gpu1", group)
    cloud.nodes = nodes
    run = cloud.play("ec2_undo")
    assert run.code == 2
    assert f"[EC-124] security group {group} (lab 2) is also used by {eni}" in run.words
    assert "[EC-123]" in run.words
    assert "lab 2" in cloud.groups_of("gpu2")


@pytest.mark.rest
def test_an_ipv6_cluster(cloud: Cloud) -> None:
    """Found by IPv6 addresses; the way out of an IPv4 VPC is none for them, so the rules out are made."""
    for at, name in enumerate(("gpu1", "gpu2"), 1):
        eni = cloud.interface(name)["NetworkInterfaceId"]
        address = f"2001:db8:50:1::1{at}"
        cloud.client.assign_ipv6_addresses(NetworkInterfaceId=eni, Ipv6Addresses=[address])
        cloud.nodes[name] = {"fullmesh_address": f"{address}/64", "v4": f"10.50.1.1{at}"}
    cloud.play("ec2").ok()
    assert "out tcp 50000-54095 self" in cloud.rules()
    assert "fullmesh" in cloud.groups_of("gpu2")
    assert cloud.play("ec2").recap("changed") == 0

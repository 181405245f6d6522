"""The dynamic inventory: instances become nodes of the plan, by their private addresses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from tests.ec2.conftest import Cloud

pytestmark = pytest.mark.rest

NODES = ["ip-10-50-1-11.ec2.internal", "ip-10-50-1-12.ec2.internal"]


def test_instances_become_the_plan_and_get_the_group(cloud: Cloud) -> None:
    """Only running instances with the tag; then the whole of playbooks/ec2.yml with this inventory."""
    gone = cloud.launch("gone", "10.50.1.13")
    cloud.client.terminate_instances(InstanceIds=[gone])
    other = cloud.launch("other", "10.50.1.14")
    cloud.client.delete_tags(Resources=[other], Tags=[{"Key": "fullmesh"}])

    listed = cloud.run("ansible-inventory", "-i", "inventory/ec2", "--list").ok()
    inventory = json.loads(listed.text[: listed.text.rindex("\n}") + 2])
    assert sorted(inventory["torch_nodes"]["hosts"]) == NODES

    shown = cloud.run("ansible-playbook", "playbooks/show_plan.yml", "-i", "inventory/ec2").ok()
    block = shown.text.split("    fullmesh_plan:\n")[1].split("\n\n")[0]
    plan = yaml.safe_load("fullmesh_plan:\n" + block)["fullmesh_plan"]
    assert sorted(plan["peers"]) == ["10.50.1.11", "10.50.1.12"]
    assert sorted(plan["nodes"]) == NODES
    macs = {cloud.interface(name)["MacAddress"] for name in ("gpu1", "gpu2")}
    assert {node["links"][0]["mac"] for node in plan["nodes"].values()} == macs

    loud = cloud.run("ansible-playbook", "playbooks/ec2.yml", "-i", "inventory/ec2", "-vvv").ok()
    assert cloud.secret not in loud.text
    assert cloud.key not in loud.text
    assert "fullmesh" in cloud.groups_of("gpu1")
    assert "fullmesh" in cloud.groups_of("gpu2")
    assert "fullmesh" not in cloud.groups_of("other")

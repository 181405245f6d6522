"""Check EC2 security groups and network ACLs, and the EFA software on the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.ec2 import efa
from fullmesh.ec2 import findings as ec2_findings
from fullmesh.ec2.settings import SecurityGroupSettings
from fullmesh.model.types import ClusterPlan
from fullmesh.result.findings import Finding


def build_group_plan(evidence: ClusterEvidence) -> ClusterPlan:
    """Return the plan with the ports that peers use. Without a plan, these are the kernel's ephemeral ports."""
    plan, data = evidence.plan, evidence.plan["data_ports"]
    named = [f"{plan['master']['port']}/tcp", f"{plan['rendezvous']['port']}/tcp"]
    more = [port for port in plan["open_ports"] if not port.endswith("/tcp")]
    return {**plan, "open_ports": [*named, f"{data['first']}-{data['last']}/tcp", *more]}


def rule_security_groups(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find faults in the AWS account's settings, if they were queried."""
    raw = evidence.cloud.get("raw")
    if not isinstance(raw, Mapping) or not {"interfaces", "groups", "acls"} <= raw.keys():
        return
    plan = build_group_plan(evidence)
    settings = SecurityGroupSettings.of(evidence.cloud.get("settings") or {}, plan)
    yield from ec2_findings.check_ec2(raw, plan, settings)


def rule_efa_software(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find faults of EFA device, driver, libfabric and NCCL's plugin on the nodes that reported them."""
    surveys = {name: evidence.survey(name) for name in evidence.nodes}
    yield from efa.check_efa({name: own["efa"] for name, own in surveys.items() if "efa" in own})


RULES = (rule_security_groups, rule_efa_software)

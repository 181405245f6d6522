"""A cluster in a mock of EC2: real HTTP on 127.0.0.1, real boto3, real amazon.aws, the playbooks as users run them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from fullmesh.settings import ROOT

REGION = "us-east-1"
# no real credentials, and strange enough to be found wherever they should not be
KEY, SECRET = "AKIAFULLMESHTESTONLY", "fullmesh-secret-that-must-never-be-shown/0123456789"
SECONDS = 600


def environment(port: int, home: Path) -> dict[str, str]:
    """What Ansible gets: AWS is the mock, and every other way out ends at a closed port of this machine."""
    closed = "http://127.0.0.1:9"
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_LOCAL_TEMP": str(home / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "HTTP_PROXY": closed,
        "HTTPS_PROXY": closed,
        "NO_PROXY": "127.0.0.1",
    }


@dataclass
class Run:
    """The output of a playbook."""

    code: int
    text: str

    @property
    def words(self) -> str:
        """The text with single spaces: Ansible wraps long lines."""
        return " ".join(self.text.split())

    def ok(self) -> Run:
        """It went well, or what it said is shown."""
        assert self.code == 0, self.text[-4000:]
        return self

    def recap(self, word: str) -> int:
        """The sum over hosts of a number of the recap, such as ``changed``."""
        lines = self.text.split("PLAY RECAP")[-1].splitlines()
        parts = [part for line in lines for part in line.split() if part.startswith(f"{word}=")]
        assert parts, self.text[-3000:]
        return sum(int(part.split("=")[1]) for part in parts)


@dataclass
class Cloud:
    """The mock, and the cluster's inventory."""

    port: int
    home: Path
    client: Any
    key: str = KEY
    secret: str = SECRET
    vpc: str = ""
    subnet: str = ""
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def network(self, cidr: str = "10.50.0.0/16") -> str:
        """A VPC."""
        return str(self.client.create_vpc(CidrBlock=cidr)["Vpc"]["VpcId"])

    def make_subnet(self, cidr: str, vpc: str = "", zone: str = "a") -> str:
        """A subnet of a VPC."""
        made = self.client.create_subnet(
            VpcId=vpc or self.vpc, CidrBlock=cidr, AvailabilityZone=REGION + zone
        )
        return str(made["Subnet"]["SubnetId"])

    def launch(self, name: str, address: str, subnet: str = "", **more: Any) -> str:
        """An instance with this private address; it becomes a node of the inventory."""
        made = self.client.run_instances(
            ImageId="ami-12345678",
            MinCount=1,
            MaxCount=1,
            SubnetId=subnet or self.subnet,
            PrivateIpAddress=address,
            TagSpecifications=[
                {"ResourceType": "instance", "Tags": [{"Key": "fullmesh", "Value": "lab"}]}
            ],
        )["Instances"][0]
        self.nodes[name] = {"fullmesh_address": f"{address}/24", **more}
        return str(made["InstanceId"])

    def interface(self, name: str) -> dict[str, Any]:
        """The interface with a node's IPv4 address."""
        address = self.nodes[name].get("v4") or self.nodes[name]["fullmesh_address"].split("/")[0]
        wanted = [{"Name": "addresses.private-ip-address", "Values": [address]}]
        found = self.client.describe_network_interfaces(Filters=wanted)["NetworkInterfaces"]
        return dict(next(one for one in found if one["VpcId"] == self.vpc))

    def groups_of(self, name: str) -> list[str]:
        """Names of a node's groups."""
        return sorted(one["GroupName"] for one in self.interface(name)["Groups"])

    def group(self, name: str = "fullmesh") -> dict[str, Any]:
        """A group of the cluster's VPC by its name; {} for none."""
        wanted = [
            {"Name": "group-name", "Values": [name]},
            {"Name": "vpc-id", "Values": [self.vpc]},
        ]
        found = self.client.describe_security_groups(Filters=wanted)["SecurityGroups"]
        return dict(found[0]) if found else {}

    def make_group(self, name: str, **tags: str) -> str:
        """Make a group of another user."""
        more = [{"Key": key, "Value": value} for key, value in tags.items()]
        spec = [{"ResourceType": "security-group", "Tags": more}] if more else []
        made = self.client.create_security_group(
            GroupName=name, Description="of others", VpcId=self.vpc, TagSpecifications=spec
        )
        return str(made["GroupId"])

    def attach(self, name: str, *groups: str) -> None:
        """Set a node's groups by id."""
        self.client.modify_network_interface_attribute(
            NetworkInterfaceId=self.interface(name)["NetworkInterfaceId"], Groups=list(groups)
        )

    def rules(self, name: str = "fullmesh") -> set[str]:
        """A group's rules, each as one line."""
        group = self.group(name)
        return {
            f"{way} {p['IpProtocol']} {p.get('FromPort', '')}-{p.get('ToPort', '')} {target}"
            for way, key in (("in", "IpPermissions"), ("out", "IpPermissionsEgress"))
            for p in group[key]
            for target in [
                *(one["CidrIp"] for one in p["IpRanges"]),
                *(one["CidrIpv6"] for one in p["Ipv6Ranges"]),
                *(
                    "self" if one["GroupId"] == group["GroupId"] else one["GroupId"]
                    for one in p["UserIdGroupPairs"]
                ),
            ]
        }

    def allow(self, group: str, way: str, protocol: str, ports: str, target: str) -> None:
        """Add a rule by hand."""
        self._rule("authorize", group, way, self._permission(protocol, ports, target))

    def revoke(self, group: str, way: str, protocol: str, ports: str, target: str) -> None:
        """Take a rule away by hand."""
        self._rule("revoke", group, way, self._permission(protocol, ports, target))

    @staticmethod
    def _permission(protocol: str, ports: str, target: str) -> dict[str, Any]:
        permission: dict[str, Any] = {"IpProtocol": protocol}
        if ports:
            first, _, last = ports.partition("-")
            permission |= {"FromPort": int(first), "ToPort": int(last or first)}
        if target.startswith("sg-"):
            permission["UserIdGroupPairs"] = [{"GroupId": target}]
        elif ":" in target:
            permission["Ipv6Ranges"] = [{"CidrIpv6": target}]
        else:
            permission["IpRanges"] = [{"CidrIp": target}]
        return permission

    def _rule(self, verb: str, group: str, way: str, permission: dict[str, Any]) -> None:
        if verb == "revoke" and "UserIdGroupPairs" in permission:
            # moto tells rules apart by their description as well; AWS does not
            permission["UserIdGroupPairs"][0] |= self._described(group, way, permission)
        word = "ingress" if way == "in" else "egress"
        call = getattr(self.client, f"{verb}_security_group_{word}")
        call(GroupId=group, IpPermissions=[permission])

    def _described(self, group: str, way: str, wanted: dict[str, Any]) -> dict[str, str]:
        key = "IpPermissions" if way == "in" else "IpPermissionsEgress"
        target = wanted["UserIdGroupPairs"][0]["GroupId"]
        for one in self.client.describe_security_groups(GroupIds=[group])["SecurityGroups"][0][key]:
            same = all(one.get(k) == wanted.get(k) for k in ("IpProtocol", "FromPort", "ToPort"))
            for pair in one["UserIdGroupPairs"] if same else []:
                if pair["GroupId"] == target and "Description" in pair:
                    return {"Description": pair["Description"]}
        return {}

    def play(self, playbook: str, *args: str, **env: str) -> Run:
        """Run a playbook of the project on the nodes that were launched."""
        return self.run(
            "ansible-playbook",
            f"playbooks/{playbook}.yml",
            "-i",
            str(self.inventory()),
            *args,
            **env,
        )

    def inventory(self) -> Path:
        """A static inventory of the nodes."""
        hosts = {
            name: {key: value for key, value in own.items() if key != "v4"}
            for name, own in self.nodes.items()
        }
        # The nodes' own settings must not reach what runs on the controller; no node exists that could be contacted.
        common = {
            "ansible_host": "127.0.0.1",
            "ansible_port": 9,
            "ansible_become": True,
            "ansible_python_interpreter": "/nonexistent/python",
            **self.settings,
        }
        path = self.home / "hosts.yml"
        path.write_text(yaml.safe_dump({"torch_nodes": {"hosts": hosts, "vars": common}}))
        return path

    def run(self, *command: str, **env: str) -> Run:
        """Run a command of Ansible against the mock; an empty value takes a variable away."""
        whole = {**environment(self.port, self.home), **env}
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={name: value for name, value in whole.items() if value},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Run(done.returncode, done.stdout + done.stderr)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The mock, on a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    log = tmp_path_factory.mktemp("moto") / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/ec2/server.py"), str(port)],
            stdout=out,
            stderr=out,
            env=environment(port, log.parent),
        )
    for _ in range(300):
        with socket.socket() as probe:
            if process.poll() is not None or probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    assert process.poll() is None, log.read_text()
    yield port
    process.terminate()
    process.wait(timeout=20)


@pytest.fixture
def cloud(server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """An empty account with two nodes of one subnet."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in environment(server, tmp_path).items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    base = f"http://127.0.0.1:{server}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    reset = urllib.request.Request(f"{base}/moto-api/reset", method="POST")  # noqa: S310 (our own server)
    opener.open(reset, timeout=20)
    client = boto3.client("ec2", endpoint_url=base, region_name=REGION)
    made = Cloud(server, tmp_path, client)
    made.vpc = made.network()
    made.subnet = made.make_subnet("10.50.1.0/24")
    made.launch("gpu1", "10.50.1.11")
    made.launch("gpu2", "10.50.1.12")
    return made

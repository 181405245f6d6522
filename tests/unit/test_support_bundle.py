"""The support bundle: no original is left, the rules still work on it, and it is bounded and reproducible."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import itertools
import json
import os
import random
import re
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
import records
import test_recorded_logs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_samples import build_result

from fullmesh import cli, codes
from fullmesh.play import run
from fullmesh.report import terminal
from fullmesh.result import read
from fullmesh.settings import ROOT
from fullmesh.support import archive
from fullmesh.support.addresses import PRIVATE4
from fullmesh.support.redact import Redactor
from fullmesh.verbs import report, support

RUN = "20260102T030405Z-abcd"
WORDS = ("alpine", "birch", "cedar", "dahlia", "elm", "fern", "gpu", "node", "ml", "train", "r2d2")


class Site:
    """A made-up site: everything in it identifies it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 (repeatable)
        pick = self.random.choice
        count = self.random.randint(2, 5)
        self.domain = f"{pick(WORDS)}{self.random.randint(10, 99)}.acme-{pick(WORDS)}.dev"
        self.hosts = self.distinct(
            count, lambda: f"{pick(WORDS)}{pick(('', '-', '_'))}{pick(WORDS)}{self.number(1, 99)}"
        )
        self.users = self.distinct(
            2, lambda: f"{pick(('zoe', 'bob', 'anna', 'x'))}{self.number(10, 999)}"
        )
        self.secrets = self.distinct(3, lambda: f"s{self.random.getrandbits(64):x}Q")
        networks = self.distinct(3, self.make_network)
        self.networks = [ipaddress.ip_network(one) for one in networks]
        self.addresses = [
            str(one[self.number(2, 60)]) for one in self.networks for _ in range(count)
        ]
        self.v6 = [
            ipaddress.IPv6Address(pick((0x2A01, 0xFD12)) << 112 | self.random.getrandbits(110))
            for _ in range(3)
        ]
        self.macs = [
            f"{pick((0x02, 0xA4, 0xB8)):02x}:{self.number(0, 255):02x}:5e:{self.number(1, 255):02x}:"
            f"{self.number(1, 255):02x}:{self.number(1, 255):02x}"
            for _ in range(3)
        ]
        self.guid = f"{self.random.getrandbits(63) | 1 << 62:016x}"
        digits = f"{self.random.getrandbits(127) | 1 << 124:032x}"
        self.uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        self.serial = f"SN{self.random.getrandbits(40):010X}"

    def number(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def distinct(self, count: int, make: object) -> list[str]:
        found: dict[str, None] = {}
        while len(found) < count:
            found[make()] = None  # type: ignore[operator]
        return list(found)

    def make_network(self) -> str:
        bits = self.random.choice((22, 24, 24, 26))
        first = self.random.choice(("10", "172.20", "192.168", "100.64", "51"))
        octets = first.split(".")
        octets += [str(self.number(1, 250)) for _ in range(4 - len(octets))]
        return str(ipaddress.ip_network(f"{'.'.join(octets)}/{bits}", strict=False))

    def spell_v6(self, address: ipaddress.IPv6Address) -> str:
        plain = self.random.choice((str(address), address.exploded, str(address).upper()))
        return plain

    def eui(self, mac: str) -> str:
        data = bytearray(bytes.fromhex(mac.replace(":", "")))
        data[0] ^= 2
        low = bytes(data[:3]) + b"\xff\xfe" + bytes(data[3:])
        return str(ipaddress.IPv6Address(0xFE80 << 112 | int.from_bytes(low)))

    def known_names(self) -> str:
        """A document with every name in its usual place."""
        return json.dumps(
            {
                "plan": {"nodes": {host: {"name": host} for host in self.hosts}},
                "hostname": f"{self.hosts[0]}.{self.domain}",
                "users": [{"user": user} for user in self.users],
                "serial": self.serial,
                "interfaces": [
                    {
                        "mac": self.macs[0],
                        "addresses": [f"{self.addresses[0]}/24", f"{self.eui(self.macs[0])}/64"],
                    }
                ],
                "nft": [
                    {
                        "prefix": {
                            "addr": str(self.networks[0][0]),
                            "len": self.networks[0].prefixlen,
                        }
                    }
                ],
                "db_password": self.secrets[0],
            }
        )

    def line(self) -> str:
        """A line of a log that says something about the site."""
        pick = self.random.choice
        host, user, address = pick(self.hosts), pick(self.users), pick(self.addresses)
        mac, v6 = pick(self.macs), pick(self.v6)
        mapped = ipaddress.IPv6Address(f"::ffff:{address}")
        dotted = mac.replace(":", "")
        return pick(
            (
                f"Nov 27 01:02:03 {host} sshd[1]: Accepted publickey for {user} from {address} port 22",
                f"{host}:12:13 [0] NCCL INFO NET/Socket : Using [0]eth1:{address}<0>",
                f"[{host}.{self.domain}]:29500 refused, http://{host}.{self.domain}:8080/x?y={address}",
                f"connect to https://{user}:{self.secrets[1]}@{host}:3128 failed",
                f"fatal: [{host}]: UNREACHABLE! {user}@{address}: Permission denied",
                f'{{"host": "{host}", "msg": "{{\\"peer\\": \\"{address}\\"}}"}}',
                f"path=/home/{user}/train.py on {host.upper()}, data in /scratch/{user}-runs/{host}.out",
                f"url={quote(f'http://{host}.{self.domain}/?a={address}&u={user}', safe='')}",
                f"escaped\\n{host}\\t{address} \\u00{ord(host[0]):02x}{host[1:]}",
                f"payload {base64.b64encode(f'{host} says {address} to {user}'.encode()).decode()}",
                f"short {base64.b64encode(host.encode()).decode().rstrip('=')} {host.encode().hex()}",
                f"link/ether {mac} brd ff:ff:ff:ff:ff:ff {mac.upper().replace(':', '-')} "
                f"{dotted[:4]}.{dotted[4:8]}.{dotted[8:]} 0x{dotted}",
                f"inet6 {self.spell_v6(v6)}/64 scope global, peer [{self.spell_v6(v6)}]:29500 {self.eui(mac)}%eth0",
                f"mapped ::ffff:{address} {mapped.exploded} hex {int(ipaddress.IPv4Address(address)):08X}",
                f"ip-{address.replace('.', '-')}.{self.domain} 10.0.0.0/8 tcpdump: IP {address}.50000 > {address}.22:",
                f"Node GUID 0x{self.guid} {':'.join(self.guid[at : at + 4] for at in (0, 4, 8, 12))}",
                f"GPU-{self.uuid} (UUID: {self.uuid.upper()}) Serial Number: {self.serial}",
                f"WANDB_API_KEY={self.secrets[2]} python train.py --token {self.secrets[1]} {self.secrets[0]}",
                f"---\nansible_password: {self.secrets[1]}\nprivate_key: |\n  {self.secrets[2]}\nhost: {host}",
                f"\x1b[31m{host}\x1b[0m {host}-ib0.{self.domain} ({host}_log) rank-{address}.log",
                f"-----BEGIN OPENSSH PRIVATE KEY-----\n{self.secrets[0]}\n-----END OPENSSH PRIVATE KEY-----",
            )
        )

    def members(self) -> list[archive.BundleMember]:
        lines = [self.line() for _ in range(60)]
        half = len(lines) // 2
        events = [
            json.dumps({"event": "answer", "host": self.hosts[0], "message": one})
            for one in lines[:half]
        ]
        return [
            archive.BundleMember("runs/a/result.json", "json", self.known_names()),
            archive.BundleMember("runs/a/events.jsonl", "jsonl", "\n".join(events)),
            archive.BundleMember("logs/001.log", "text", "\n".join(lines[half:])),
        ]


def decode_all(text: str, depth: int = 0) -> Iterator[str]:
    """Yield a text, and everything that is encoded in it."""
    yield text
    if depth > 3:
        return
    inner = {unquote(text), text.replace("\\n", " ").replace("\\t", " ").replace("\\", "")}
    inner |= {re.sub(r"\\u00([2-7][0-9a-f])", lambda found: chr(int(found[1], 16)), text)}
    for word in set(re.findall(r"[A-Za-z0-9+/_=-]{4,}", text)):
        for decode in (lambda one: base64.b64decode(one + "=" * (-len(one) % 4)), bytes.fromhex):
            with contextlib.suppress(ValueError):
                inner.add(decode(word.replace("-", "+").replace("_", "/")).decode("utf-8"))
    for one in inner - {text}:
        if one.isprintable() or "\n" in one:
            yield from decode_all(one, depth + 1)


def find_leaks(site: Site, text: str) -> list[str]:
    """Find originals in a text of the bundle, by other means than the code under test."""
    leaks = []
    names = [*site.hosts, *site.users, site.domain, site.serial]
    wanted = re.compile(
        "|".join(rf"(?<![^\W_]){re.escape(one)}(?![^\W_])" for one in names), re.IGNORECASE
    )
    wrong4 = set(site.addresses)
    wrong6 = {*site.v6, *(ipaddress.IPv6Address(site.eui(mac)) for mac in site.macs)}
    solid = [*site.secrets, site.guid, site.uuid, *(one.replace(":", "") for one in site.macs)]
    for one in set(decode_all(text)):
        leaks += wanted.findall(one)
        leaks += [found for found in re.findall(r"(?:\d+\.){3}\d+", one) if found in wrong4]
        leaks += [
            found
            for found in re.findall(r"(?:\d+-){3}\d+", one)
            if found.replace("-", ".") in wrong4
        ]
        for found in re.findall(r"[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+", one):
            with contextlib.suppress(ValueError):
                address = ipaddress.IPv6Address(found.strip("."))
                inner = address.ipv4_mapped
                leaks += [found] if address in wrong6 or (inner and str(inner) in wrong4) else []
        squeezed = re.sub(r"[:.-]", "", one.lower())
        leaks += [found for found in solid if found.lower().replace("-", "") in squeezed]
        leaks += [
            address
            for address in wrong4
            if re.search(
                rf"(?<![0-9a-z]){int(ipaddress.IPv4Address(address)):08x}(?![0-9a-z])", one.lower()
            )
        ]
    return leaks


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 32))
def test_no_original_is_left_in_any_member(seed: int) -> None:
    site = Site(seed)
    members = site.members()
    assert find_leaks(site, "\n".join(one.text for one in members))
    for one in archive.redact_members(members, Redactor()):
        assert find_leaks(site, one.text) == [], one.name


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_subnets_ranges_and_gateways_stay(seed: int) -> None:
    site = Site(seed)
    redactor = Redactor()
    networks = [*site.networks, *PRIVATE4]
    for one in site.networks:
        redactor.learn_text(f"{one} {one[0]} {one[1]} {one[-1]}")
    redactor.learn_text(" ".join([*site.addresses, *map(str, PRIVATE4)]))
    redactor.choose_replacements(lambda _word: False)
    new_networks = [ipaddress.ip_network(redactor.redact_text(str(one))) for one in networks]
    addresses = [ipaddress.ip_address(one) for one in dict.fromkeys(site.addresses)]
    new = [ipaddress.ip_address(redactor.redact_text(str(one))) for one in addresses]
    assert len(set(new)) == len(addresses)
    for (old_net, new_net), (old, fresh) in itertools.product(
        zip(networks, new_networks, strict=True), zip(addresses, new, strict=True)
    ):
        assert old_net.prefixlen == new_net.prefixlen
        assert (old in old_net) == (fresh in new_net), (old_net, old, new_net, fresh)
    for old_net, new_net in zip(site.networks, new_networks, strict=False):
        assert [redactor.redact_text(str(old_net[at])) for at in (0, 1, -1)] == [
            str(new_net[at]) for at in (0, 1, -1)
        ]
        inside = sorted(one for one in zip(addresses, new, strict=True) if one[0] in old_net)
        assert sorted(one[1] for one in inside) == [one[1] for one in inside]


def test_one_original_has_one_stand_in_everywhere() -> None:
    redactor = Redactor()
    members = [
        archive.BundleMember(
            "a", "text", "fe80::a426:9bff:fe9a:60dd a6:26:9b:9a:60:dd [cedar7]:29500 model1 cedar70"
        ),
        archive.BundleMember(
            "b", "text", "A6-26-9B-9A-60-DD CEDAR7 cedar7-ib0 ::ffff:10.9.8.7 10.9.8.7 0708090A"
        ),
    ]
    first, second = (one.text for one in archive.redact_members(members, redactor))
    host = re.search(r"\[([\w-]+)\]", first)[1]  # type: ignore[index]
    assert first == f"fe80::a426:9bff:fe00:1 a6:26:9b:00:00:01 [{host}]:29500 model1 cedar70"
    assert second == f"A6-26-9B-00-00-01 {host} {host}-ib0 ::ffff:10.0.0.7 10.0.0.7 0700000A"


def test_folders_of_the_controller_are_replaced() -> None:
    redactor = Redactor()
    folders = {"/srv/acme-llm/fullmesh": "/fullmesh", "/srv/acme-llm": "/start"}
    for path, stand_in in {**folders, "/opt/fullmesh": "/a", "/usr/local": "/b"}.items():
        redactor.learn_path(path, stand_in)
    text = (
        "included: /srv/acme-llm/fullmesh/playbooks/ask.yml /srv/acme-llm/fullmesh\n"
        "/srv/acme-llm/train.py /srv/acme-llm-2 /opt/fullmesh/venv /usr/local/cuda"
    )
    (made,) = archive.redact_members([archive.BundleMember("a", "text", text)], redactor)
    assert made.text == (
        "included: /fullmesh/playbooks/ask.yml /fullmesh\n"
        "/start/train.py /srv/acme-llm-2 /opt/fullmesh/venv /usr/local/cuda"
    )
    assert redactor.count_replaced()["folders"] == len(folders)


@pytest.mark.parametrize(
    "text",
    [
        "torch.distributed.elastic tokenizer=gpt2 tokens: 512 num_tokens=3 the token is here",
        "nvidia-cudnn-cu12==9.1.0.70 libcudnn9-9.1.0.70 version 9.1.0.70 c10::Error at::native 12:34:56",
        "127.0.0.1 0.0.0.0 255.255.255.0 169.254.169.254 ::1 ff02::1 00:00:00:00:00:00 10.0.0.0/8",
        "systemd fullmesh-job@mnist.service eth1@if12 https://download.pytorch.org/whl ask_pass: false",
        "connect to localhost as root on master: nodes, rank 0, private_key_file=/etc/ssh/key",
    ],
)
def test_ordinary_words_are_kept(text: str) -> None:
    (made,) = archive.redact_members([archive.BundleMember("a", "text", text)], Redactor())
    assert made.text == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("password=hunter22x", "password=[removed]"),
        ('{"db_password": "a\\"b c", "x": 1}', '{"db_password": "[removed]", "x": 1}'),
        ("mysql --password topsecret -u x", "mysql --password [removed] -u x"),
        ("Authorization: Bearer abc.def123456", "Authorization: Bearer [removed]"),
        ("cut off\n-----END RSA PRIVATE KEY-----\nrest", "[removed]\nrest"),
        ("-----BEGIN X PRIVATE KEY-----\nabc", "[removed]"),
        ("$ANSIBLE_VAULT;1.1;AES256\n3031323334353637\n38393031", "[removed]"),
        ("root:$6$salt$abcdefghijklmnop:1", "root:[removed]:1"),
        ("key AKIAABCDEFGHIJKLMNOP, hf_abcdefghijklmnopqrst", "key [removed], [removed]"),
        ("https://bob:pw12@proxy/", "https://[removed]@proxy/"),
    ],
)
def test_secrets_are_removed_also_with_keep_names(text: str, left: str) -> None:
    (made,) = archive.redact_members(
        [archive.BundleMember("a", "text", text)], Redactor(keep_names=True)
    )
    assert made.text == left


def test_everything_below_a_secret_is_removed() -> None:
    text = json.dumps({"credentials": {"data": ["abcdefg", 7, None]}, "token": 99, "x": "abcdefg"})
    (made,) = archive.redact_members([archive.BundleMember("a", "json", text)], Redactor())
    assert json.loads(made.text) == {
        "credentials": {"data": ["[removed]", "[removed]", None]},
        "token": "[removed]",
        "x": "[removed]",
    }


def codes_of(result: dict[str, object]) -> list[str]:
    return re.findall(r'"code": "([A-Z]{2}-\d{3})"', json.dumps(result["findings"]))


DIAGNOSES = sorted(path.name.split(".")[0] for path in (records.RECORDED / "diagnose").iterdir())


@pytest.mark.parametrize(
    "name", [one for one in DIAGNOSES if "plan" in records.load_diagnosis(one)]
)
def test_a_diagnosis_of_the_stand_ins_has_the_same_findings(name: str) -> None:
    held = records.load_diagnosis(name)
    redactor = Redactor()
    redactor.learn_value(held)
    redactor.choose_replacements(lambda _word: False)
    made = redactor.redact_value(held)
    assert made != held
    assert codes_of(records.diagnose_answers(made)) == codes_of(records.diagnose_answers(held))


@pytest.mark.parametrize(
    "name", [one for one in DIAGNOSES if "plan" in records.load_diagnosis(one)]
)
def test_nothing_of_the_lab_is_left_in_a_diagnosis(name: str) -> None:
    text = json.dumps(records.load_diagnosis(name))
    member = archive.BundleMember("node.json", "json", text)
    (made,) = archive.redact_members([member], Redactor())
    originals = {
        *re.findall(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", text),
        "el1",
        "gpu-el1",
        "gpu-ubuntu1",
    }
    originals |= set(re.findall(r"10\.7\d\.\d+\.\d+|fe80::[0-9a-f:]+", text))
    originals -= {"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"}
    assert len(originals) > 10
    left = {
        one
        for one in originals
        if re.search(rf"(?<![0-9a-z.:]){re.escape(one)}(?![0-9a-z:])", made.text)
    }
    assert left == set()


BUNDLES = sorted((records.RECORDED / "bundles").glob("*.zip"))


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.stem)
def test_a_recorded_bundle_is_read_as_it_was_packed(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bundle of real machines, put into this folder, becomes a test."""
    results = archive.read_bundle_results(path)
    assert results
    for data in results.values():
        result = read.parse_result(json.loads(data))
        assert set(codes_of(dict(result))) <= set(codes.collect_codes())
        assert terminal.format_summary(result)
    assert cli.main(["explain-log", "--json", str(path)]) in (cli.OK, cli.PROBLEM)
    assert json.loads(capsys.readouterr().out)["unread"] == []
    with zipfile.ZipFile(path) as opened:
        contents = json.loads(opened.read("contents.json"))
        members = [
            archive.BundleMember(one["name"], "text", opened.read(one["name"]).decode())
            for one in contents["members"]
        ]
    assert contents["names"] == "replaced"
    again = Redactor()
    archive.redact_members(members, again)
    assert again.secrets == set()


@pytest.mark.parametrize("job", test_recorded_logs.EXPECTED)
def test_the_logs_with_stand_ins_have_the_same_causes(job: str) -> None:
    paths = sorted(path for path in (test_recorded_logs.LOGS / job).rglob("*") if path.is_file())
    members = [
        archive.BundleMember(path.name, "text", path.read_text("utf-8", "replace"))
        for path in paths
    ]
    made = archive.redact_members(members, Redactor())
    verdict = test_recorded_logs.verdict_of(*((one.name, one.text.encode()) for one in made))
    heads = [head.code for head in verdict.heads]
    assert heads == test_recorded_logs.EXPECTED[job][0]


@pytest.mark.parametrize("unit", ["a", "1.", "ab:", "a@", "'", "-----BEGIN X KEY-----", "[", "\\"])
def test_the_time_grows_with_the_size_only(unit: str) -> None:
    def measure(size: int) -> float:
        text = f"{unit * (size // len(unit))} 100% %41"
        begun = time.process_time()
        archive.redact_members([archive.BundleMember("a", "text", text)], Redactor())
        return time.process_time() - begun

    assert measure(80_000) < 6 * measure(20_000) + 1.0


# ---- the archive and the verb


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one run and a log of a job."""
    folder = tmp_path / "runs" / RUN
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(build_result()), encoding="utf-8")
    (folder / "ansible.log").write_text(
        f"ok: [el1]\nchanged: [ubuntu1]\nincluded: {tmp_path}/tasks.yml\n", encoding="utf-8"
    )
    (tmp_path / "runs/latest").symlink_to(RUN)
    paths = (
        path for path in (test_recorded_logs.LOGS / "data-rejected").rglob("*") if path.is_file()
    )
    log = max(paths, key=lambda path: path.stat().st_size)
    (tmp_path / "rank0.log").write_bytes(log.read_bytes())
    for module in (support, report):
        monkeypatch.setattr(module, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(support, "STARTED_IN", tmp_path)
    return tmp_path


def test_report_and_explain_log_read_the_bundle(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["support-bundle", "-o", "x.zip", "rank0.log"]) == cli.OK
    assert "wrote" in capsys.readouterr().err
    path = home / "x.zip"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with zipfile.ZipFile(path) as opened:
        names = opened.namelist()
        contents = json.loads(opened.read("contents.json"))
        assert names == ["contents.json", *(one["name"] for one in contents["members"])]
        assert b"el1" not in opened.read(f"runs/{RUN}/result.json")
        assert b"included: /start/tasks.yml" in opened.read(f"runs/{RUN}/ansible.log")
    assert names[1:] == [f"runs/{RUN}/result.json", f"runs/{RUN}/ansible.log", "logs/001.log"]
    assert cli.main(["report", str(path), "--html"]) in (cli.OK, cli.PROBLEM)
    assert (home / "x" / RUN / "report.html").is_file()
    assert read.load_result(home / "x" / RUN / "result.json")["run"] == RUN
    capsys.readouterr()
    assert cli.main(["explain-log", str(path), "--json"]) == cli.PROBLEM
    said = json.loads(capsys.readouterr().out)
    assert {Path(one["name"]).name for one in said["logs"]} == {"ansible.log", "001.log"}
    assert '"LG-102"' in json.dumps(said["findings"])


def test_the_same_runs_make_the_same_bytes(home: Path) -> None:
    for name in ("x.zip", "y.zip"):
        assert cli.main(["support-bundle", "-o", name, "rank0.log"]) == cli.OK
    assert (home / "x.zip").read_bytes() == (home / "y.zip").read_bytes()


def test_a_preview_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(home.rglob("*"))
    assert cli.main(["support-bundle", "--dry-run"]) == cli.OK
    assert "ansible.log" in capsys.readouterr().out
    assert cli.main(["support-bundle", "--dry-run", "--json"]) == cli.OK
    said = json.loads(capsys.readouterr().out)
    assert said["replaced"]["host names"] >= 2
    assert sorted(home.rglob("*")) == before


def test_a_file_or_link_is_never_replaced(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "mine").write_text("mine")
    (home / "x.zip").symlink_to("mine")
    (home / "y.zip").symlink_to("nowhere")
    for name in ("mine", "x.zip", "y.zip"):
        assert cli.main(["support-bundle", "-o", name]) == cli.USAGE
        assert "[CL-127]" in capsys.readouterr().err
    assert (home / "mine").read_text() == "mine"
    assert not (home / "nowhere").exists()
    with pytest.raises(FileExistsError):
        archive.write_bundle(home / "y.zip", b"x")


def test_links_and_devices_are_left_out(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "private").write_text("zebra-content")
    (home / "linked.log").symlink_to("private")
    events = home / "runs" / RUN / "events.jsonl"
    events.symlink_to(home / "private")
    os.mkfifo(home / "pipe.log")
    assert (
        cli.main(["support-bundle", "-o", "x.zip", "linked.log", "pipe.log", "none.log"])
        == cli.PROBLEM
    )
    assert capsys.readouterr().out.count("left out") == 4
    with zipfile.ZipFile(home / "x.zip") as opened:
        assert not any(b"zebra" in opened.read(name) for name in opened.namelist())


def test_sizes_are_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_TEXT", 1000)
    monkeypatch.setattr(archive, "MOST_JSON", 1000)
    monkeypatch.setattr(archive, "MOST_TOTAL", 1500)
    for name in "ab":
        (home / f"{name}.log").write_text("".join(f"line {at}\n" for at in range(1000)))
    files = archive.CollectedFiles()
    archive.collect_runs(home / "runs", files)
    archive.collect_logs([home / "a.log", home / "b.log"], files)
    assert [one.name for one in files.members] == [f"runs/{RUN}/ansible.log", "logs/001.log"]
    assert files.members[1].text.startswith("line ")
    assert files.members[1].text.endswith("line 999\n")
    assert "of" in files.members[1].note
    assert set(files.left_out) == {f"runs/{RUN}/result.json", "logs/002.log"}


def test_only_the_newest_runs_are_packed(home: Path) -> None:
    for at in range(7):
        (home / f"runs/2027010{at}T000000Z-aaaa").mkdir()
        (home / f"runs/2027010{at}T000000Z-aaaa/ansible.log").touch()
    files = archive.CollectedFiles()
    archive.collect_runs(home / "runs", files)
    assert [one.name.split("/")[1][6:8] for one in files.members] == ["06", "05", "04", "03", "02"]


def test_no_node_answers(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def fake_run(command: list[str], *_args: object, **_more: object) -> run.RunOutcome:
        commands.append(command)
        return run.RunOutcome(4, home / "log")

    monkeypatch.setattr(run, "run_with_view", fake_run)
    (home / "inv").write_text("[torch_nodes]\n")
    assert cli.main(["support-bundle", "-i", str(home / "inv"), "-l", "n1"]) == cli.USAGE
    assert "[CL-128]" in capsys.readouterr().err
    assert commands[0][1] == "playbooks/support_bundle.yml"
    assert commands[0][-1] == "--limit=n1"
    monkeypatch.setattr(support, "HAS_PLAYBOOKS", False)
    assert cli.main(["support-bundle", "-i", str(home / "inv")]) == cli.USAGE
    assert "[CL-113]" in capsys.readouterr().err


JOURNAL = """#!/bin/sh
case $* in *--lines=2) exit 3;; *--lines=3) sleep 60;; esac
echo boom
"""


def test_only_a_missing_manifest_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "journalctl").write_text(JOURNAL)
    (tmp_path / "journalctl").chmod(0o755)
    nodes = {  # the manifest, lines of the journal, seconds
        "bare": (str(tmp_path / "absent"), 1, 60),
        "folder": (str(tmp_path), 1, 60),
        "refused": (str(tmp_path / "manifest.json"), 2, 60),
        "slow": (str(tmp_path / "manifest.json"), 3, 10),
    }
    names = ("__support_manifest_path", "__support_most_lines", "__support_seconds")
    given = {
        "support_folder": str(tmp_path / "nodes"),
        "nodes": nodes,
        "ansible_become": False,
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        **{name: f"{{{{ nodes[inventory_hostname][{at}] }}}}" for at, name in enumerate(names)},
    }
    (tmp_path / "inv").write_text("\n".join(["[torch_nodes]", *nodes]))
    command = ["ansible-playbook", "playbooks/support_bundle.yml", "-i", str(tmp_path / "inv")]
    done = subprocess.run(
        [*command, "-e", json.dumps(given)],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    files = archive.CollectedFiles()
    archive.collect_nodes(tmp_path / "nodes", files)
    answers = [json.loads(one.text) for one in files.members if one.form == "json"]
    failed = {one["hostname"]: one["failed"] for one in answers}
    assert failed["bare"] == ""
    assert failed["folder"].startswith("Read the manifest of the node: ")
    assert failed["refused"].startswith("Read the recent errors of the node: non-zero return code")
    assert "Timed out after 10 " in failed["slow"]
    assert sorted(files.left_out) == ["nodes/002", "nodes/003", "nodes/004"]
    logs = {one.name: one.text for one in files.members if one.form == "text"}
    assert logs == {"nodes/001/errors.log": "boom"}
    assert answers[2]["manifest"] == {}


def test_nothing_to_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(support, "RUNS", tmp_path / "runs")
    assert cli.main(["support-bundle", "--dry-run"]) == cli.USAGE
    assert "[CL-107]" in capsys.readouterr().err


def test_a_hostile_answer_of_a_node_is_left_out(tmp_path: Path) -> None:
    for at, text in enumerate(
        (
            "[1]",
            "{",
            '{"hostname": "cedar7", "errors": "boom cedar7", "manifest": "{\\"db_password\\": 7}"}',
        )
    ):
        (tmp_path / f"{at}.json").write_text(text)
    files = archive.CollectedFiles()
    archive.collect_nodes(tmp_path, files)
    assert sorted(files.left_out) == ["nodes/001", "nodes/002"]
    made = archive.redact_members(files.members, Redactor())
    assert [one.name for one in made] == ["nodes/003/node.json", "nodes/003/errors.log"]
    assert json.loads(made[0].text)["manifest"] == {"db_password": "[removed]"}
    assert "cedar7" not in made[0].text + made[1].text


@pytest.mark.parametrize("data", [b"PK\x03\x04", b"", b"PK\x05\x06" + b"\0" * 18])
def test_a_damaged_bundle_is_no_result(
    tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.zip").write_bytes(data)
    assert cli.main(["report", str(tmp_path / "x.zip")]) == cli.USAGE
    assert "[CL-1" in capsys.readouterr().err


def test_a_bundle_unpacks_only_its_results(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as opened:
        for name in (
            "contents.json",
            "runs/../result.json",
            "runs/a/b/result.json",
            "/runs/a/result.json",
        ):
            opened.writestr(name, "{}")
    assert archive.read_bundle_results(tmp_path / "x.zip") == {}

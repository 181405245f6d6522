"""`fullmesh-health`: verdicts are kept, Slurm gets only fit nodes, and each metric of a rule exists."""

from __future__ import annotations

import errno
import http.server
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fullmesh_check
import fullmesh_check_node as check_node
import fullmesh_health as health
import fullmesh_health_history as health_history
import pytest
import yaml
from ansible.module_utils.fullmesh.probe import observe

from fullmesh.diagnose import shape
from fullmesh.roles.node_health import find_node_health_faults
from fullmesh.settings import ROOT

NOW = 1_800_000_000
SETTINGS: dict[str, Any] = dict(health.DEFAULTS)


def verdict(*findings: tuple[str, tuple[str, ...]], fit: bool | None = True) -> dict[str, Any]:
    """A document of fullmesh-check: findings by code and peers."""
    found = [
        {"code": code, "text": f"{code} {' '.join(peers)}".strip(), "fix": "x", "peers": peers}
        for code, peers in findings
    ]
    fit = False if found else fit
    return {
        "node": "n2",
        "fit": fit,
        "status": {True: 0, False: 1, None: 2}[fit],
        "text": f"n2 {found}",
        "seconds": 0.1,
        "cpu_seconds": 0.05,
        "checks": {"links": {"state": "failed" if found else "ok", "why": "", "findings": found}},
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node whose files are in a folder."""
    monkeypatch.setattr(health_history, "HISTORY", str(tmp_path / "health/history.json"))
    for name in ("PACKAGE_DATA", "DPKG_LOG", "DNF_LOG"):
        value: Any = str(tmp_path / name)
        monkeypatch.setattr(health_history, name, (value,) if name == "PACKAGE_DATA" else value)
    for name in ("MANIFEST", "MODULE", "NODES"):
        monkeypatch.setattr(check_node, name, str(tmp_path / name))
    for name in ("DRAINED", "SETTINGS", "USUAL_FOLDER"):
        monkeypatch.setattr(health, name, str(tmp_path / name))
    monkeypatch.setattr(health, "PAIR_SECONDS", 0.0)
    monkeypatch.setattr(health, "AGAIN_SECONDS", 0.0)
    return tmp_path


# --- the history --------------------------------------------------------------------------------------


def test_equal_verdicts_are_one_span(home: Path) -> None:
    history = health_history.make_empty_history()
    differs = [
        health_history.add_verdict(history, one, {}, NOW + at * 60)
        for at, one in enumerate([verdict(), verdict(), verdict(("HC-161", ("n1",)))])
    ]
    assert differs == [True, False, True]
    assert [(one["count"], one["fit"]) for one in history["spans"]] == [(2, True), (1, False)]
    assert "not fit since" in health_history.describe_history(history)[0]


def test_the_history_says_what_changed_before_a_fault(home: Path) -> None:
    (home / "DPKG_LOG").write_text("x\n2030-01-01 00:00:00 upgrade libc6:amd64 2.39-1 2.39-2\n")
    history = health_history.make_empty_history()
    before = {"boot": "1", "kernel": "6.8.0-1", "packages": "5", "file /a": "1 bytes of 1"}
    after = {"boot": "2", "kernel": "6.8.0-2", "packages": "6", "file /a": "missing"}
    health_history.add_verdict(history, verdict(), before, NOW)
    health_history.add_verdict(history, verdict(), after, NOW + 60)
    health_history.add_verdict(history, verdict(("HC-104", ())), after, NOW + 120)
    text = "\n".join(health_history.describe_history(history))
    for words in (
        "the node restarted",
        "kernel: 6.8.0-1 -> 6.8.0-2",
        "packages: upgrade libc6:amd64 2.39-1 -> 2.39-2",
        "file /a is missing",
        "before: fit from",
    ):
        assert words in text


def test_packages_of_dnf_are_named_in_utc(home: Path) -> None:
    line = "2026-11-27T10:00:00+0100 SUBDEBUG Upgrade: kmod-nvidia-580.1-1.el9.x86_64"
    (home / "DNF_LOG").write_text(f"x\n{line}\n")
    at = 1_795_770_000  # 2026-11-27 09:00 UTC
    assert health_history.list_package_changes(at - 1) == [
        "packages: upgrade kmod-nvidia-580.1-1.el9.x86_64"
    ]
    assert health_history.list_package_changes(at) == []


def test_the_history_stays_bounded(home: Path) -> None:
    history = health_history.make_empty_history()
    for at in range(400):
        state = {"kernel": str(at)}
        health_history.add_verdict(history, verdict(fit=[True, None][at % 2]), state, NOW + at)
    assert len(history["spans"]) == health_history.MOST_SPANS
    assert len(history["changes"]) == health_history.MOST_CHANGES
    health_history.write_history(history)
    assert health_history.read_history() == history


def test_a_survey_reads_the_last_verdicts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "HEALTH", health_history.HISTORY)
    assert observe.observe_health() == []
    history = health_history.make_empty_history()
    verdicts = [verdict(), verdict(("HC-161", ("n1",))), verdict(fit=None)]
    for at in range(observe.MOST_SPANS + 2):
        health_history.add_verdict(history, verdicts[at % 3], {}, NOW + at)
    health_history.write_history(history)
    found = observe.observe_health()
    assert [one["first"] for one in found] == list(range(NOW + 2, NOW + 2 + observe.MOST_SPANS))
    assert [(one["state"], one["codes"]) for one in found[:3]] == [
        ("not checked", []),
        ("fit", []),
        ("not fit", ["HC-161"]),
    ]
    kept = shape.fit_or_default(shape.FACTS, {"addresses": {}, "health": found})
    assert kept == {"addresses": {}, "health": found}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema": 1, "spans": 7, "changes": {}, "state": []}',
        '{"schema": 1, "spans": [{"first": "x"}, 1], "changes": [{"time": true, "text": "x"}]}',
        '{"schema": 1, "spans": [{"first": 1, "last": 1, "count": 1, "fit": 1, "codes": [], "text": ""}]}',
        "{" * 100_000,
    ],
)
def test_a_damaged_history_is_an_empty_one(
    home: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "health").mkdir()
    (home / "health/history.json").write_text(text)
    monkeypatch.setattr(observe, "HEALTH", health_history.HISTORY)
    assert observe.observe_health() == []
    assert health_history.read_history() == health_history.make_empty_history()
    assert health_history.describe_history(health_history.read_history()) == [
        "no check is recorded"
    ]


# --- recording ----------------------------------------------------------------------------------------


def test_another_account_cannot_hold_the_lock(home: Path) -> None:
    assert health.record_verdict(verdict(), SETTINGS) == []
    assert (home / "health").stat().st_mode & 0o777 == 0o700
    assert [one.name for one in home.iterdir()] == ["health"]
    with health.lock_history():
        (failed,) = health.record_verdict(verdict(), SETTINGS)
    assert "another check is being recorded" in failed
    assert health_history.read_history()["spans"][0]["count"] == 1


def test_metrics_are_written_where_only_root_can(home: Path) -> None:
    folder = home / "USUAL_FOLDER"
    folder.mkdir(mode=0o755)
    assert health.record_verdict(verdict(("HC-161", ("n1",))), SETTINGS) == []
    text = (folder / health.TEXTFILE).read_text()
    assert "fullmesh_health_fit 0\n" in text
    assert 'fullmesh_health_finding{code="HC-161"} 1\n' in text
    assert [one.name for one in folder.iterdir()] == [health.TEXTFILE]
    folder.chmod(0o777)
    (failed,) = health.record_verdict(verdict(), SETTINGS)
    assert "other accounts can change" in failed
    assert "mode 0777" in failed
    assert "fullmesh_health_fit 0\n" in (folder / health.TEXTFILE).read_text()


def test_a_node_that_was_not_checked_has_no_metric_fit(home: Path) -> None:
    text = health_history.render_metrics(
        verdict(fit=None), health_history.make_empty_history(), NOW
    )
    assert "\nfullmesh_health_fit " not in text
    assert f"fullmesh_health_timestamp_seconds {NOW}\n" in text


def test_dashboard_and_alerts_use_only_metrics_that_exist() -> None:
    history = health_history.make_empty_history()
    health_history.add_verdict(history, verdict(("HC-161", ("n1",))), {}, NOW)
    text = health_history.render_metrics(verdict(("HC-161", ("n1",))), history, NOW)
    written = set(re.findall(r"^(fullmesh_health_\w+)[ {]", text, re.M))
    files = ROOT / "roles/node_health/files"
    dashboard = json.loads((files / "dashboard.json").read_text())
    expressions = [one["expr"] for panel in dashboard["panels"] for one in panel["targets"]]
    (group,) = yaml.safe_load((files / "alerts.yml").read_text())["groups"]
    expressions += [rule["expr"] for rule in group["rules"]]
    used = set(re.findall(r"fullmesh_\w+", " ".join(expressions)))
    assert used
    assert used <= written
    assert all(one.count("(") == one.count(")") for one in expressions)
    page = (ROOT / "roles/node_health/README.md").read_text()
    assert set(re.findall(r"^\| `(fullmesh_health_\w+)`", page, re.M)) == written
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[Any]]]:
    """An address, and what was sent to it."""
    sent: list[Any] = []

    class WebhookHandler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), WebhookHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", sent
        server.shutdown()


def test_the_webhook_gets_each_new_verdict_once(home: Path, webhook: tuple[str, list[Any]]) -> None:
    url, sent = webhook
    for one in (verdict(), verdict(), verdict(("HC-161", ("n1",))), verdict(("HC-161", ("n1",)))):
        assert health.record_verdict(one, {**SETTINGS, "webhook_url": url}) == []
    assert [one["fit"] for one in sent] == [False]
    health.record_verdict(verdict(), {**SETTINGS, "webhook_url": url})
    assert [one["fit"] for one in sent] == [False, True]


def test_a_webhook_that_fails_is_reported_and_recorded_all_the_same(home: Path) -> None:
    found = health.record_verdict(
        verdict(("HC-161", ("n1",))), {**SETTINGS, "webhook_url": "http://127.0.0.1:1/"}
    )
    assert "the webhook failed" in found[0]
    assert len(health_history.read_history()["spans"]) == 1


def test_a_full_disk_is_told_to_the_webhook_although_no_history_can_be_written(
    home: Path, webhook: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_history: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    url, sent = webhook
    health.record_verdict(verdict(), {**SETTINGS, "webhook_url": url})
    monkeypatch.setattr(health_history, "write_history", refuse)
    (failed,) = health.record_verdict(verdict(("HC-141", ())), {**SETTINGS, "webhook_url": url})
    assert failed == "the history cannot be written: [Errno 28] No space left on device"
    assert [one["fit"] for one in sent] == [False]


@pytest.mark.parametrize("url", ["http://[::1", "https:///x", "http://127.0.0.1:x/", "file:///x"])
def test_a_webhook_address_that_cannot_work_is_reported(home: Path, url: str) -> None:
    (found,) = health.record_verdict(verdict(("HC-161", ("n1",))), {**SETTINGS, "webhook_url": url})
    assert found.startswith(("the webhook failed: ", "the webhook is not http"))


@pytest.mark.parametrize("answer", [b"no protocol\x1b[2J\r\n\r\n", b"HTTP/1.0 500 \x1b[2J\r\n\r\n"])
def test_a_webhook_that_lies_is_reported_in_one_plain_line(
    home: Path, capfd: pytest.CaptureFixture[str], answer: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        health.report_failures(
            health.record_verdict(verdict(("HC-161", ("n1",))), {**SETTINGS, "webhook_url": url})
        )
        thread.join()
    text = capfd.readouterr().err
    assert text.startswith("fullmesh-health: the webhook failed: ")
    assert text.strip().isprintable()


@pytest.mark.parametrize("text", ["", "[]", '{"levels": "node", "webhook_url": 7}', "\xff"])
def test_damaged_settings_have_their_defaults(home: Path, text: str) -> None:
    (home / "SETTINGS").write_text(text)
    assert health.read_settings() == health.DEFAULTS


# --- Slurm --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("findings", "away", "reason", "pair"),
    [
        ([("HC-102", ())], [], "[HC-102]", False),
        ([("HC-151", ())], [], "", False),
        ([("HC-151", ()), ("HC-102", ())], [], "[HC-102]", False),
        ([("HC-161", ("n1",))], [], "[HC-161] HC-161 n1", True),
        ([("HC-161", ("n1",))], ["n1"], "", False),
        ([("HC-161", ("n1",)), ("HC-162", ("n3",))], [], "n3", False),
        ([("HC-161", ("n1", "n3", "n4"))], ["n3", "n4"], "n1", True),
        ([("HC-102", ()), ("HC-161", ("n1",))], ["n1"], "[HC-102]", False),
    ],
)
def test_a_node_leaves_for_its_own_faults_and_most_links(
    findings: list[tuple[str, tuple[str, ...]]], away: list[str], reason: str, pair: bool
) -> None:
    found = health.find_drain_reason(verdict(*findings), "n2", ["n1", "n2", "n3", "n4"], away)
    assert found[1] == pair
    assert reason in found[0]
    assert bool(found[0]) == bool(reason)


class FakeSlurm:
    """A controller: states by node, and the commands that it got."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.calls = home, home / "calls"
        self.set()
        script = (
            'echo "$@" >>{0}/calls; case "$*" in *RESUME*) echo "n2|idle|none" >{0}/nodes;; esac'
        )
        for name, text in (("sinfo", "cat {0}/nodes"), ("scontrol", script)):
            (home / name).write_text("#!/bin/sh\n" + text.format(home) + "\n")
            (home / name).chmod(0o755)
        monkeypatch.setattr(check_node, "PATH", f"{home}:{check_node.PATH}")
        monkeypatch.setenv("SLURMD_NODENAME", "n2")
        monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
        monkeypatch.setenv("SLURM_NODELIST", "n[1-3]")  # as in a prolog of Slurm 22.05

    def set(self, **nodes: str) -> None:
        states = {"n1": "idle|none", "n2": "allocated|none", "n3": "idle|none", **nodes}
        rows = [f"{name}|{one}\n" for name, one in states.items()]
        (self.home / "nodes").write_text("".join(rows))

    def read_calls(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def slurm(home: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    return FakeSlurm(home, monkeypatch)


def run_script(command: str, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(fullmesh_check, "run_levels", lambda *_, **__: document)
    return health.run_slurm_script(command, health.read_settings())


@pytest.mark.parametrize("command", ["slurm-prolog", "slurm-epilog", "slurm-check"])
def test_a_healthy_node_calls_no_program_of_slurm(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(health, "run_slurm", lambda *_: pytest.fail("Slurm was called"))
    assert run_script(command, verdict(), monkeypatch) == 0
    assert run_script(command, verdict(fit=None), monkeypatch) == 0


def test_a_faulty_node_is_drained_with_its_reason(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_script("slurm-prolog", verdict(("HC-102", ())), monkeypatch) == 1
    (call,) = slurm.read_calls()
    assert call == "update NodeName=n2 State=DRAIN Reason=fullmesh: [HC-102] HC-102"
    assert health_history.read_history()["spans"][0]["codes"] == ["HC-102"]


def test_a_drain_reason_has_no_control_characters(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = verdict(("HC-141", ()))
    document["checks"]["links"]["findings"][0]["text"] = "/mnt/a\0b\x1b[2J\udce9\nc is full"
    assert run_script("slurm-check", document, monkeypatch) == 1
    (call,) = slurm.read_calls()
    assert call.endswith("Reason=fullmesh: [HC-141] /mnt/a?b?[2J??c is full")


def test_a_drain_that_slurm_refuses_is_reported(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (slurm.home / "scontrol").write_text("#!/bin/sh\necho 'Invalid user id' >&2; exit 1\n")
    assert run_script("slurm-check", verdict(("HC-102", ())), monkeypatch) == 1
    assert "scontrol update NodeName=n2 State=DRAIN: Invalid user id" in capsys.readouterr().err


def test_a_resume_that_fails_is_tried_again(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_script("slurm-check", verdict(("HC-102", ())), monkeypatch)
    slurm.set(n2="drained|fullmesh: [HC-102] x")
    works = (slurm.home / "scontrol").read_text()
    (slurm.home / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    assert run_script("slurm-check", verdict(), monkeypatch) == 0
    assert "gets jobs again" not in capsys.readouterr().out
    (slurm.home / "scontrol").write_text(works)
    assert run_script("slurm-check", verdict(), monkeypatch) == 0
    assert slurm.read_calls()[1:] == ["update NodeName=n2 State=RESUME"]


def test_a_prolog_ignores_links_outside_its_job(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_script("slurm-prolog", verdict(("HC-161", ("n9",))), monkeypatch) == 0
    assert slurm.read_calls() == []


def test_a_node_whose_peer_has_left_stays(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.set(n1="draining|fullmesh: x")
    assert run_script("slurm-prolog", verdict(("HC-161", ("n1",))), monkeypatch) == 0
    assert slurm.read_calls() == []


def test_the_first_of_a_pair_waits_longer_than_the_last(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(health, "PAIR_SECONDS", 3.0)
    monkeypatch.setattr("time.sleep", waited.append)
    for peer in ("n1", "n3"):
        health.decide_drain(verdict(("HC-161", (peer,))), "n2", ["n1", "n2", "n3"])
    assert [one for one in waited if one > 1] == [3.0, 6.0]  # subprocess sleeps, too


def test_a_drain_of_others_keeps_its_reason(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.set(n2="drained|new memory")
    assert run_script("slurm-check", verdict(("HC-102", ())), monkeypatch) == 1
    assert run_script("slurm-check", verdict(), monkeypatch) == 0
    assert slurm.read_calls() == []


def test_a_repaired_node_returns_once(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    run_script("slurm-check", verdict(("HC-102", ())), monkeypatch)
    slurm.set(n2="drained|fullmesh: [HC-102] x")
    assert run_script("slurm-check", verdict(fit=None), monkeypatch) == 0
    assert len(slurm.read_calls()) == 1
    assert run_script("slurm-check", verdict(), monkeypatch) == 0
    assert run_script("slurm-check", verdict(), monkeypatch) == 0
    assert slurm.read_calls()[1:] == ["update NodeName=n2 State=RESUME"]


LOST = "fullmesh: [HC-161] n3 (192.0.2.3:1): no answer"


@pytest.fixture
def three(slurm: FakeSlurm) -> FakeSlurm:
    """A cluster of three nodes, of which n3 loses all packets that come in. n1 has drained itself for that."""
    nodes = [
        {"name": name, "names": [name], "address": f"192.0.2.{name[1]}"}
        for name in ("n1", "n2", "n3")
    ]
    (slurm.home / "NODES").write_text(json.dumps({"nodes": nodes}))
    slurm.set(n1=f"drained|{LOST}", n2=f"drained|{LOST}")
    return slurm


def test_a_peer_that_two_nodes_cannot_reach_is_drained_instead(
    three: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = verdict(("HC-161", ("n3",)))
    three.set(n1=f"drained|{LOST}", n2="idle|none")
    monkeypatch.setattr(health, "AGAIN_SECONDS", 0.0)
    assert run_script("slurm-check", lost, monkeypatch) == 0
    assert three.read_calls() == [
        "update NodeName=n2 State=DRAIN Reason=fullmesh: [HC-161] HC-161 n3",
        "update NodeName=n3 State=DRAIN Reason=fullmesh: unreachable: [HC-161] HC-161 n3",
    ]
    # now Slurm shows both drains
    three.set(
        n1=f"drained|{LOST}", n2=f"drained|{LOST}", n3=f"drained|fullmesh: unreachable: {LOST}"
    )
    assert run_script("slurm-check", lost, monkeypatch) == 0
    assert three.read_calls()[2:] == ["update NodeName=n2 State=RESUME"]
    three.set(n3="drained|fullmesh: unreachable: x")
    assert run_script("slurm-check", verdict(), monkeypatch) == 0
    assert run_script("slurm-check", verdict(), monkeypatch) == 0
    assert three.read_calls()[3:] == ["update NodeName=n3 State=RESUME"]


def test_a_node_with_another_name_in_slurm_is_no_second_witness(
    three: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "planned")
    monkeypatch.setattr(health, "get_short_name", lambda: "n2")
    three.set(n1="idle|none", n2=f"drained|{LOST}")
    assert run_script("slurm-check", verdict(("HC-161", ("n3",))), monkeypatch) == 1
    assert [one.split()[1] for one in three.read_calls()] == ["NodeName=n2"]


def test_a_prolog_stops_the_job_although_its_peer_is_at_fault(
    three: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_script("slurm-prolog", verdict(("HC-161", ("n3",))), monkeypatch) == 1
    assert three.read_calls()[1].startswith("update NodeName=n3 State=DRAIN")


@pytest.mark.parametrize(
    ("found", "n1"),
    [
        ((("HC-161", ("n3",)),), "drained|fullmesh: [HC-161] n4 (192.0.2.4:1): no answer"),
        ((("HC-161", ("n3",)),), "drained|n3 (was moved)"),
        ((("HC-161", ("n3",)), ("HC-102", ())), f"drained|{LOST}"),
    ],
    ids=["another-peer", "another-reason", "own-fault"],
)
def test_a_node_that_only_one_other_cannot_reach_stays(
    found: Any, n1: str, three: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    three.set(n1=n1)
    assert run_script("slurm-check", verdict(*found), monkeypatch) == 1
    assert [one.split()[1] for one in three.read_calls()] == ["NodeName=n2"]


def test_a_node_does_not_end_a_drain_of_a_peer_for_another_fault(
    three: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_script("slurm-check", verdict(("HC-161", ("n3",))), monkeypatch)
    three.set(n3="drained|fullmesh: [HC-102] a GPU does not answer")
    before = three.read_calls()
    assert run_script("slurm-check", verdict(), monkeypatch) == 0
    assert three.read_calls() == before
    assert health.read_drained() == []


def test_a_health_check_without_slurms_name_finds_the_node(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURMD_NODENAME")
    nodes = [{"name": "n2", "names": [os.uname().nodename], "address": "192.0.2.1"}]
    (slurm.home / "NODES").write_text(json.dumps({"nodes": nodes}))
    run_script("slurm-check", verdict(("HC-102", ())), monkeypatch)
    assert slurm.read_calls()[0].startswith("update NodeName=n2 State=DRAIN")
    (slurm.home / "NODES").unlink()
    slurm.set(**{health.get_short_name(): "idle|none"})
    run_script("slurm-check", verdict(("HC-102", ())), monkeypatch)
    assert f"NodeName={health.get_short_name()} " in slurm.read_calls()[1]


def test_a_repaired_node_stays_drained_without_the_setting(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    (slurm.home / "SETTINGS").write_text('{"slurm_resume": false}')
    run_script("slurm-check", verdict(("HC-102", ())), monkeypatch)
    slurm.set(n2="drained|fullmesh: [HC-102] x")
    run_script("slurm-check", verdict(), monkeypatch)
    assert len(slurm.read_calls()) == 1


def test_a_silent_controller_does_not_hold_up_the_prolog(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sinfo", "scontrol"):
        (slurm.home / name).write_text("#!/bin/sh\nsleep 60\n")
    monkeypatch.setattr(health, "SLURM_SECONDS", 0.2)
    assert run_script("slurm-prolog", verdict(("HC-161", ("n1",))), monkeypatch) == 1
    assert not os.path.exists(health.DRAINED) or health.resume_node("n2") is False


# --- settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"interval_minutes": 0},
        {"interval_minutes": "soon"},
        {"levels": []},
        {"levels": "node"},
        {"levels": ["node", "burn"]},
        {"textfile_dir": "metrics"},
        {"webhook_url": "ftp://example.org"},
        {"webhook_url": "https://"},
    ],
)
def test_settings_that_cannot_work_are_refused(change: dict[str, Any]) -> None:
    good = {
        "interval_minutes": "5",
        "levels": ["node"],
        "textfile_dir": "",
        "webhook_url": "https://example.org/x",
    }
    assert find_node_health_faults(**good) == []
    assert [one.code for one in find_node_health_faults(**{**good, **change})] == ["NH-101"]

"""Podman's configuration files, and the output of long steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from devtools.lab import console, nodes, plan, podman
from devtools.lab.errors import StepError
from devtools.lab.paths import Paths
from devtools.lab.state import Lab


def make_lab(kind: str = "lookalike") -> Lab:
    return Lab("demo", 1, False, kind, "", ["el"], plan.nodes("demo", 1, ("el",), 1, False))


def test_management_network_has_the_host_address() -> None:
    text = podman.network_config("fm-demo-mgmt", "fmlab1m", "10.77.1.0/24", "10.77.1.1", True)
    found = json.loads(text)
    assert found["subnets"] == [{"subnet": "10.77.1.0/24", "gateway": "10.77.1.1"}]
    assert found["internal"] is True
    assert found["network_interface"] == "fmlab1m"


def test_cluster_network_has_no_address() -> None:
    found = json.loads(podman.network_config("fm-demo-cluster", "fmlab1c", None, None, True))
    assert "subnets" not in found
    assert found["ipam_options"] == {"driver": "none"}


def test_storage_is_separate(paths: Paths) -> None:
    texts = podman.storage_conf(paths) + podman.containers_conf(paths, "cgroupfs", {"nofile": 9})
    assert str(paths.storage) in texts
    assert '"nofile=9:9"' in texts
    assert "/var/lib/containers" not in texts


def test_limits_are_finite() -> None:
    assert podman.hard_limits()["nofile"] > 0


@pytest.mark.parametrize(("kind", "expected"), [("lookalike", True), ("registry", False)])
def test_only_real_images_get_resolvers(kind: str, expected: bool, tmp_path: Path) -> None:
    argv = nodes.create_arguments(
        make_lab(kind), make_lab().nodes[0], "image", {tmp_path: "/srv/repo:ro"}
    )
    assert ("--dns=none" in argv) is expected
    assert "--hostname" in argv
    assert f"--volume={tmp_path}:/srv/repo:ro" in argv
    assert argv[-2:] == ["image", "/sbin/init"]
    # podman's own /run has mode 1777, which no machine has
    assert any(word.startswith("--tmpfs=/run:") and "mode=755" in word for word in argv)


def test_failed_step_shows_the_last_lines_and_the_log(tmp_path: Path) -> None:
    log = tmp_path / "step.log"
    with pytest.raises(StepError, match=r"(?s)exit 3.*reason.*step\.log"):
        console.step("x", [sys.executable, "-c", "print('reason'); exit(3)"], log, 20)


def test_slow_step_shows_progress_and_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "EVERY", 0.1)
    with pytest.raises(StepError, match="more than 0 s"):
        console.step("x", ["sleep", "30"], tmp_path / "step.log", 0.3)
    assert "x: 0 s" in capsys.readouterr().err


def test_timeout_shows_the_last_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "BOOT_SECONDS", 0.0)
    with pytest.raises(StepError, match="starting"):
        nodes.until("el1: systemd", lambda: "starting")


@pytest.mark.parametrize(
    "late", [StepError("podman: no answer after 180 s"), subprocess.TimeoutExpired(["ssh"], 30)]
)
def test_late_answer_is_retried(late: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "POLL_SECONDS", 0.0)
    answers = iter((late, "starting", late))

    def ready() -> str | None:
        answer = next(answers, None)
        if isinstance(answer, Exception):
            raise answer
        return answer

    nodes.until("el1: systemd", ready)
    assert next(answers, None) is None
    monkeypatch.setattr(nodes, "BOOT_SECONDS", 0.0)
    answers = iter((late,))
    with pytest.raises(StepError, match=r"el1: systemd: not ready after 0 s, last: .*(180|30) s"):
        nodes.until("el1: systemd", ready)

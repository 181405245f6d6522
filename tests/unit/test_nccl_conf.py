"""NCCL's own files, read as NCCL reads them: their order and their content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.survey import job, nccl_conf


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node whose files are all below here, and no variable of this shell."""
    monkeypatch.setattr(nccl_conf, "OF_ALL", str(tmp_path / "all.conf"))
    monkeypatch.setattr(job, "SYSTEMD", ())
    monkeypatch.setattr(job, "FILES", (str(tmp_path / "environment"),))
    for name in [one for one in os.environ if job.NAMES.match(one)]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("NCCL_NET=Socket\r\nNCCL_DEBUG=INFO", {"NCCL_NET": "Socket", "NCCL_DEBUG": "INFO"}),
        ("#NCCL_NET=Socket\nNCCL_NET\n", {}),
        (" NCCL_NET=IB\nexport NCCL_NET=IB\n", {}),  # NCCL does not read these names
        ("NCCL_SOCKET_IFNAME==eth1\n", {"NCCL_SOCKET_IFNAME": "=eth1"}),
        ("NCCL_NET='IB' # ours \n", {"NCCL_NET": "'IB' # ours "}),
        ("NCCL_NET=IB\nNCCL_NET=Socket\n", {"NCCL_NET": "IB"}),
        ("NCCL_X=" + "x" * 2000, {"NCCL_X": "x" * 1023}),
    ],
)
def test_lines_are_taken_as_nccl_takes_them(text: str, found: dict[str, str]) -> None:
    assert nccl_conf.parse_nccl_conf(text) == found


def test_the_environment_precedes_the_accounts_and_the_global_file(place: Path) -> None:
    (place / "environment").write_text("NCCL_NET=IB\n")
    (place / ".nccl.conf").write_text("NCCL_NET=Socket\nNCCL_DEBUG=WARN\n")
    (place / "all.conf").write_text("NCCL_NET=Socket\nNCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5_0\n")
    found = job.survey_environment()
    assert {name: held["value"] for name, held in found["values"].items()} == {
        "NCCL_NET": "IB",
        "NCCL_DEBUG": "WARN",
        "NCCL_IB_HCA": "mlx5_0",
    }
    assert found["values"]["NCCL_DEBUG"]["source"] == str(place / ".nccl.conf")
    assert found["files"][str(place / "all.conf")]["NCCL_NET"] == "Socket"


def test_a_named_file_takes_the_place_of_the_accounts(place: Path) -> None:
    named = place / "named.conf"
    (place / "environment").write_text(f"NCCL_CONF_FILE={named}\n")
    named.write_text("NCCL_NET=Socket\n")
    (place / ".nccl.conf").write_text("NCCL_NET=IB\n")
    assert job.survey_environment()["values"]["NCCL_NET"] == {
        "value": "Socket",
        "source": str(named),
    }
    assert "unread" not in job.survey_environment()
    named.unlink()  # then there is none, and NCCL says nothing of it
    assert "NCCL_NET" not in job.survey_environment()["values"]
    assert job.survey_environment()["unread"] == str(named)


@pytest.mark.parametrize(
    ("named", "unread"),
    [("", ""), ("relative.conf", ""), ("~/x.conf", "~/x.conf"), ("/", "/"), ("/dev/null", "")],
)
def test_an_unreadable_nccl_conf_is_reported(named: str, unread: str) -> None:
    assert nccl_conf.find_unreadable_conf({"NCCL_CONF_FILE": named}) == unread
    assert nccl_conf.find_unreadable_conf({}) == ""


def test_a_file_cannot_name_another_one(place: Path) -> None:
    (place / ".nccl.conf").write_text(f"NCCL_CONF_FILE={place / 'other.conf'}\n")
    (place / "other.conf").write_text("NCCL_NET=IB\n")
    assert job.survey_environment()["values"] == {}


def test_a_fifo_in_a_home_blocks_nothing(place: Path) -> None:
    os.mkfifo(place / ".nccl.conf")
    assert job.survey_environment()["values"] == {}


def test_root_by_sudo_is_not_the_job_account(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "root")
    assert nccl_conf.list_nccl_conf_files({}) == ["/root/.nccl.conf", str(place / "all.conf")]
    monkeypatch.setenv("SUDO_USER", "nobody-of-this-name")
    assert nccl_conf.list_nccl_conf_files({})[0] == str(place / ".nccl.conf")

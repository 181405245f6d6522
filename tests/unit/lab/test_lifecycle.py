"""The lab's requests, its recorded state and its command line."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import yaml

from devtools.lab import cli, lifecycle, locks, plan, source, state
from devtools.lab import paths as lab_paths
from devtools.lab.build import Builder
from devtools.lab.errors import LabError
from devtools.lab.lifecycle import Wish
from devtools.lab.paths import Paths
from devtools.lab.podman import Podman
from devtools.lab.state import Lab, Store

ROOT = Path(__file__).parents[3]
FOUND = source.Source("lookalike", "a note")


def make_lab(name: str = "demo", count: int = 2) -> Lab:
    return lifecycle.merge(Wish(name, count), None, 4, FOUND)


def test_default_lab_has_two_nodes() -> None:
    lab = lifecycle.merge(Wish("demo"), None, 4, FOUND)
    assert [node.name for node in lab.nodes] == ["el1", "ubuntu1"]
    assert (lab.image_source, lab.note, lab.controller) == ("lookalike", "a note", "10.77.4.1")


def test_missing_nodes_are_added() -> None:
    lab = lifecycle.merge(Wish("demo", 4), make_lab(), 4, FOUND)
    assert [node.name for node in lab.nodes] == ["el1", "ubuntu1", "el2", "ubuntu2"]


@pytest.mark.parametrize("count", [None, 1, 2])
def test_existing_nodes_are_kept(count: int | None) -> None:
    assert len(lifecycle.merge(Wish("demo", count), make_lab(count=3), 4, FOUND).nodes) == 3


def test_added_outsider_is_kept() -> None:
    lab = lifecycle.merge(Wish("demo", outsider=True), make_lab(), 4, FOUND)
    again = lifecycle.merge(Wish("demo", 3), lab, 4, FOUND)
    assert [node.name for node in again.nodes] == ["el1", "ubuntu1", "el2", "outsider"]


@pytest.mark.parametrize("wish", [Wish("demo", families=("ubuntu",)), Wish("demo", ipv6=True)])
def test_existing_lab_rejects_other_families(wish: Wish) -> None:
    with pytest.raises(LabError, match="LB-114"):
        lifecycle.merge(wish, make_lab(), 4, FOUND)


def test_saved_lab_is_loaded_unchanged(paths: Paths) -> None:
    store, lab = Store(paths, "demo"), make_lab()
    store.save(lab)
    assert store.load() == lab
    assert state.names(paths) == ["demo"]


def test_a_lab_without_a_record_of_images_has_lookalikes(paths: Paths) -> None:
    store, lab = Store(paths, "demo"), make_lab()
    store.save(lab)
    known = json.loads(store.file.read_text())
    del known["images"]
    store.file.write_text(json.dumps(known))
    assert store.load() == lab


def test_real_images_have_settings_of_their_own(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """group_vars leads look-alikes to the lab's Python and NCCL, which a real system does not have."""
    monkeypatch.setenv(source.VARIABLE, "rocky10")
    lab = lifecycle.merge(Wish("real", 1), None, 4, source.choose_image_source())
    (node,) = lab.nodes
    assert (node.name, lab.images["el"], lab.families) == ("el1", "rocky10", ["el"])
    Store(paths, "real").save(lab)
    assert Store(paths, "real").load() == lab
    found = lifecycle.status(paths, "real", {})
    assert (found["image_source"], found["nodes"][0]["os"]) == ("registry", "Rocky Linux 10")
    (file,) = Store(paths, "real").write_inventory(lab)
    (host,) = yaml.safe_load(file.read_text())["all"]["children"]["torch_nodes"]["hosts"].values()
    lookalikes: dict[str, object] = {}
    for name in ("nccl", "torch_runtime"):
        text = (ROOT / f"inventory/lab/group_vars/all/{name}.yml").read_text()
        lookalikes |= yaml.safe_load(text)
    assert {name: host[name] for name in lookalikes} == {
        "nccl_manage": False,
        "nccl_repository_key": "",
        "nccl_repository_url": "",
        "nccl_version": "",
        "torch_runtime_packages": [],
        "torch_runtime_python": "",
    }


def test_inventory_of_the_default_lab_is_in_the_checkout(paths: Paths) -> None:
    store = Store(paths, "demo")
    store.save(make_lab())
    own, common = store.write_inventory(make_lab())
    assert own.read_text() == common.read_text()
    assert common == paths.checkout / "inventory/lab/hosts.yml"
    assert (own.parent / "group_vars").resolve() == common.parent / "group_vars"


def test_inventory_of_another_lab_is_outside_the_checkout(paths: Paths) -> None:
    store = Store(paths, "other")
    store.save(make_lab("other"))
    assert len(store.write_inventory(make_lab("other"))) == 1
    assert not (paths.checkout / "inventory/lab/hosts.yml").exists()


def test_unknown_lab_is_reported(paths: Paths) -> None:
    with pytest.raises(LabError, match=r"LB-107.*'demo'"):
        lifecycle.require(Store(paths, "demo"))


def test_unknown_node_is_reported() -> None:
    with pytest.raises(LabError, match=r"LB-106.*'el9'.*el1, ubuntu1"):
        lifecycle.node_of(make_lab(), "el9")


def test_status_lists_running_nodes(paths: Paths) -> None:
    Store(paths, "demo").save(make_lab())
    found = lifecycle.status(paths, "demo", {"fm-demo-el1": "running", "fm-demo-ubuntu1": "exited"})
    assert [node["running"] for node in found["nodes"]] == [True, False]
    assert found["nodes"][0]["cluster_interface"] == "eth1"
    assert found["image_source"] == "lookalike"


def test_checkout_without_sources_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FULLMESH_CHECKOUT", str(tmp_path))
    with pytest.raises(LabError, match="LB-110"):
        lab_paths.find()


def test_each_home_has_its_own_run_folder(tmp_path: Path) -> None:
    assert Paths(tmp_path / "a", tmp_path).run != Paths(tmp_path / "b", tmp_path).run


def test_lock_fails_after_the_deadline(tmp_path: Path) -> None:
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with locks.held(tmp_path / "lock", "it", 1):
            taken.set()
            done.wait(5)

    other = threading.Thread(target=hold)
    other.start()
    taken.wait(5)
    with pytest.raises(LabError, match="LB-112"), locks.held(tmp_path / "lock", "it", 0.1):
        pass
    done.set()
    other.join()


class TestCommandLine:
    """Test exit codes and streams of the commands that need no container."""

    @pytest.fixture(autouse=True)
    def _here(self, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cli, "find", lambda: paths)

    @staticmethod
    def run(*argv: str) -> int:
        parser = cli.argparse.ArgumentParser()
        cli.add_verbs(parser.add_subparsers(required=True))
        args = parser.parse_args(["lab", *argv])
        code: int = args.func(args)
        return code

    @pytest.mark.parametrize(
        ("argv", "code"),
        [
            (["up", "--name", "No"], "LB-104"),
            (["up", "--nodes", "9"], "LB-105"),
            (["up", "--families", "arch"], "LB-113"),
            (["down"], "LB-107"),
            (["status", "--name", "gone"], "LB-107"),
            (["exec", "el1", "--", "true"], "LB-107"),
        ],
    )
    def test_invalid_arguments_are_reported(
        self,
        argv: list[str],
        code: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(lifecycle, "open_podman", lambda _paths: None)
        assert self.run(*argv) == 2
        assert code in capsys.readouterr().err

    def test_the_environment_sets_the_default_families(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        requests: list[Wish] = []

        def up(_paths: Paths, wish: Wish) -> Lab:
            requests.append(wish)
            return make_lab()

        monkeypatch.setattr(lifecycle, "up", up)
        monkeypatch.setenv(cli.FAMILIES_VARIABLE, "debian13")
        assert self.run("up") == self.run("up", "--families", "el") == 0
        assert [wish.families for wish in requests] == [("debian13",), ("el",)]
        monkeypatch.setenv(cli.FAMILIES_VARIABLE, "arch")
        assert self.run("up") == 2
        assert "LB-113" in capsys.readouterr().err

    @pytest.mark.parametrize("more", [(), ("--",), ("--name", "demo", "--", "true")])
    def test_exec_without_a_command_is_reported(
        self, more: tuple[str, ...], paths: Paths, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Store(paths, "demo").save(make_lab())
        assert self.run("exec", "el1", *more) == 2
        assert "LB-116" in capsys.readouterr().err

    def test_exec_on_an_unknown_node_is_reported(
        self, paths: Paths, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Store(paths, "demo").save(make_lab())
        assert self.run("exec", "nobody", "--", "true") == 2
        assert "LB-106" in capsys.readouterr().err

    def test_purge_with_remaining_labs_is_rejected(
        self, paths: Paths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Store(paths, "other").save(make_lab("other"))
        monkeypatch.setattr(lifecycle, "down", lambda _paths, _name: None)
        assert self.run("down", "--purge") == 2
        assert "LB-115" in capsys.readouterr().err

    def test_status_without_a_lab_is_empty(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run("status", "--json") == 0
        assert json.loads(capsys.readouterr().out) == []

    def test_packages_are_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run("packages") == 0
        assert "podman" in capsys.readouterr().out.split()

    def test_failed_step_gives_exit_code_1(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*_args: object) -> None:
            raise cli.StepError("the build failed; log: /x.log")

        monkeypatch.setattr(lifecycle, "up", fail)
        assert self.run("up") == 1
        assert "/x.log" in capsys.readouterr().err


def test_every_family_has_an_image_and_a_name() -> None:
    assert set(plan.IMAGES) == set(plan.SYSTEMS) == {*plan.FAMILIES, *plan.DEBIAN}


def test_an_image_is_built_only_if_a_node_needs_it(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Podman, "has_image", lambda _self, _image: False)
    usual = Builder(paths, Podman(paths), "lookalike")
    assert usual.missing() == ["el9", "ubuntu24.04", "repo"]
    debian = Builder(paths, Podman(paths), "debian", ("debian13",))
    assert debian.missing() == ["debian13", "repo", "debian13-archive"]
    assert debian.folders()["debian13-archive"] == "/srv/debian13"

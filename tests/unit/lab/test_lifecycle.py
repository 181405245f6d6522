"""What a wish becomes, what is recorded, what is refused."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from devtools.lab import cli, lifecycle, locks, plan, source, state
from devtools.lab import paths as lab_paths
from devtools.lab.build import Builder
from devtools.lab.errors import LabError
from devtools.lab.lifecycle import Wish
from devtools.lab.paths import Paths
from devtools.lab.podman import Podman
from devtools.lab.state import Lab, Store

FOUND = source.Source("lookalike", "a note")


def recorded(name: str = "demo", count: int = 2) -> Lab:
    return lifecycle.merge(Wish(name, count), None, 4, FOUND)


def test_default_wish() -> None:
    lab = lifecycle.merge(Wish("demo"), None, 4, FOUND)
    assert [node.name for node in lab.nodes] == ["el1", "ubuntu1"]
    assert (lab.image_source, lab.note, lab.controller) == ("lookalike", "a note", "10.77.4.1")


def test_missing_nodes_are_added() -> None:
    lab = lifecycle.merge(Wish("demo", 4), recorded(), 4, FOUND)
    assert [node.name for node in lab.nodes] == ["el1", "ubuntu1", "el2", "ubuntu2"]


@pytest.mark.parametrize("count", [None, 1, 2])
def test_nodes_are_never_dropped(count: int | None) -> None:
    assert len(lifecycle.merge(Wish("demo", count), recorded(count=3), 4, FOUND).nodes) == 3


def test_an_outsider_is_added_and_stays() -> None:
    lab = lifecycle.merge(Wish("demo", outsider=True), recorded(), 4, FOUND)
    again = lifecycle.merge(Wish("demo", 3), lab, 4, FOUND)
    assert [node.name for node in again.nodes] == ["el1", "ubuntu1", "el2", "outsider"]


@pytest.mark.parametrize("wish", [Wish("demo", families=("ubuntu",)), Wish("demo", ipv6=True)])
def test_existing_lab_does_not_become_another_one(wish: Wish) -> None:
    with pytest.raises(LabError, match="LB-114"):
        lifecycle.merge(wish, recorded(), 4, FOUND)


def test_lab_is_read_back_as_written(paths: Paths) -> None:
    store, lab = Store(paths, "demo"), recorded()
    store.save(lab)
    assert store.load() == lab
    assert state.names(paths) == ["demo"]


def test_inventory_of_the_default_lab_is_in_the_checkout(paths: Paths) -> None:
    store = Store(paths, "demo")
    store.save(recorded())
    own, common = store.write_inventory(recorded())
    assert own.read_text() == common.read_text()
    assert common == paths.checkout / "inventory/lab/hosts.yml"
    assert (own.parent / "group_vars").resolve() == common.parent / "group_vars"


def test_inventory_of_another_lab_does_not(paths: Paths) -> None:
    store = Store(paths, "other")
    store.save(recorded("other"))
    assert len(store.write_inventory(recorded("other"))) == 1
    assert not (paths.checkout / "inventory/lab/hosts.yml").exists()


def test_unknown_lab(paths: Paths) -> None:
    with pytest.raises(LabError, match=r"LB-107.*'demo'"):
        lifecycle.require(Store(paths, "demo"))


def test_unknown_node() -> None:
    with pytest.raises(LabError, match=r"LB-106.*'el9'.*el1, ubuntu1"):
        lifecycle.node_of(recorded(), "el9")


def test_status_lists_what_runs(paths: Paths) -> None:
    Store(paths, "demo").save(recorded())
    found = lifecycle.status(paths, "demo", {"fm-demo-el1": "running", "fm-demo-ubuntu1": "exited"})
    assert [node["running"] for node in found["nodes"]] == [True, False]
    assert found["nodes"][0]["cluster_interface"] == "eth1"
    assert found["image_source"] == "lookalike"


def test_checkout_without_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLMESH_CHECKOUT", str(tmp_path))
    with pytest.raises(LabError, match="LB-110"):
        lab_paths.find()


def test_homes_share_no_run_folder(tmp_path: Path) -> None:
    assert Paths(tmp_path / "a", tmp_path).run != Paths(tmp_path / "b", tmp_path).run


def test_lock_is_refused_after_the_deadline(tmp_path: Path) -> None:
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
    """Exit codes and streams of the commands that need no container."""

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
    def test_refusals(
        self,
        argv: list[str],
        code: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(lifecycle, "open_podman", lambda _paths: None)
        assert self.run(*argv) == 2
        assert code in capsys.readouterr().err

    def test_the_variable_changes_the_default_families(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wishes: list[Wish] = []

        def up(_paths: Paths, wish: Wish) -> Lab:
            wishes.append(wish)
            return recorded()

        monkeypatch.setattr(lifecycle, "up", up)
        monkeypatch.setenv(cli.FAMILIES_VARIABLE, "debian13")
        assert self.run("up") == self.run("up", "--families", "el") == 0
        assert [wish.families for wish in wishes] == [("debian13",), ("el",)]
        monkeypatch.setenv(cli.FAMILIES_VARIABLE, "arch")
        assert self.run("up") == 2
        assert "LB-113" in capsys.readouterr().err

    @pytest.mark.parametrize("more", [(), ("--",), ("--name", "demo", "--", "true")])
    def test_exec_without_a_command(
        self, more: tuple[str, ...], paths: Paths, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Store(paths, "demo").save(recorded())
        assert self.run("exec", "el1", *more) == 2
        assert "LB-116" in capsys.readouterr().err

    def test_exec_on_an_unknown_node(
        self, paths: Paths, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Store(paths, "demo").save(recorded())
        assert self.run("exec", "nobody", "--", "true") == 2
        assert "LB-106" in capsys.readouterr().err

    def test_purge_with_remaining_labs(
        self, paths: Paths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Store(paths, "other").save(recorded("other"))
        monkeypatch.setattr(lifecycle, "down", lambda _paths, _name: None)
        assert self.run("down", "--purge") == 2
        assert "LB-115" in capsys.readouterr().err

    def test_status_without_a_lab(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run("status", "--json") == 0
        assert json.loads(capsys.readouterr().out) == []

    def test_packages(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run("packages") == 0
        assert "podman" in capsys.readouterr().out.split()

    def test_failed_step_is_exit_code_1(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*_args: object) -> None:
            raise cli.StepError("the build failed; log: /x.log")

        monkeypatch.setattr(lifecycle, "up", fail)
        assert self.run("up") == 1
        assert "/x.log" in capsys.readouterr().err


def test_every_family_has_an_image_and_a_name() -> None:
    assert set(plan.IMAGES) == set(plan.SYSTEMS) == {*plan.FAMILIES, *plan.DEBIAN}


def test_a_lab_of_debian_only_is_not_called_a_lookalike(tmp_path: Path) -> None:
    assert source.choose_image_source(tmp_path / "none", ("debian12", "debian13")).kind == "debian"
    assert not (tmp_path / "none").exists()


def test_an_image_is_built_only_if_a_node_needs_it(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Podman, "has_image", lambda _self, _image: False)
    usual = Builder(paths, Podman(paths), "lookalike")
    assert usual.missing() == ["el9", "ubuntu24.04", "repo"]
    debian = Builder(paths, Podman(paths), "debian", ("debian13",))
    assert debian.missing() == ["debian13", "repo", "debian13-archive"]
    assert debian.folders()["debian13-archive"] == "/srv/debian13"

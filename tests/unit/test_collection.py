"""The Ansible collection that is built from the checkout: rewritten and unchanged files."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible.plugins.loader import filter_loader
from jinja2 import nodes

from devtools import collection
from fullmesh import __version__
from fullmesh.explain.pages import render_pages
from fullmesh.filters import cluster_plan, late
from fullmesh.settings import ROOT, RUNS

# Ansible takes these as expressions without braces.
BARE = ("when", "that", "until", "changed_when", "failed_when")


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """Every file of the collection."""
    return collection.contents()


def templates(value: Any, key: str = "") -> Iterator[str]:
    """Every template of a YAML file."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from templates(one, str(name))
    elif isinstance(value, list):
        for one in value:
            yield from templates(one, key)
    elif isinstance(value, str):
        yield f"{{{{ {value} }}}}" if key in BARE and "{{" not in value else value


def used_filters(text: str) -> Iterator[str]:
    """The filters of a template, those that are named to another filter (``map('…')``) among them."""
    for one in jinja2.Environment(extensions=["jinja2.ext.do"]).parse(text).find_all(nodes.Filter):  # noqa: S701 (nothing is rendered)
        yield one.name
        if one.name == "map" and one.args and isinstance(one.args[0], nodes.Const):
            yield str(one.args[0].value)


def filters_of(name: str, text: str) -> set[str]:
    """The filters of a file. Prometheus' rules have its own templates."""
    if name == "alerts.yml":
        return set()
    parts = [text] if name.endswith(".j2") else templates(list(yaml.safe_load_all(text)))
    return {used for part in parts for used in used_filters(part)}


# a regular expression of a role, as Jinja reads it
@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
def test_filters_have_their_full_name_in_a_collection(files: dict[str, bytes]) -> None:
    """Ansible's own parser of templates says which are used; the build only looks for a bar and a name."""
    ours, whole = set(collection.filter_names()), set()
    for name, content in files.items():
        if name.startswith(("playbooks/", "roles/")) and name.endswith((".yml", ".j2")):
            found = filters_of(Path(name).name, content.decode())
            assert not found & ours, name
            whole |= {one for one in found if one.startswith(collection.COLLECTION)}
    assert {one.rpartition(".")[2] for one in whole} <= ours
    assert len(whole) > 80


# a regular expression of a role, as Jinja reads it
@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
def test_the_table_of_filters_matches_the_templates() -> None:
    used: set[str] = set()
    for top in ("playbooks", "roles", "molecule"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in (".yml", ".j2") and path.is_file():
                used |= filters_of(path.name, path.read_text(encoding="utf-8"))
    known = set(jinja2.Environment(autoescape=True).filters)
    others = {
        name for name in used - known - late.FILTERS.keys() if not name.startswith("ansible.")
    }
    assert late.FILTERS.keys() - used == set()
    assert {name for name in others if filter_loader.get(name) is None} == set()


@pytest.mark.parametrize(("name", "place"), late.FILTERS.items())
def test_every_filter_of_the_table_has_its_function(name: str, place: str) -> None:
    assert callable(late.load_function(place, name))


def test_a_variable_that_has_a_filters_name_stays() -> None:
    text = 'x: "{{ peer_firewall_mode | peer_firewall_mode }}"\npeer_firewall_mode: ""\n'
    made = collection.of_collection("roles/x/vars/main.yml", text)
    assert made == text.replace("| peer", "| fullmesh.cluster.peer")


def test_modules_import_what_the_collection_contains(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        if name.startswith(("library/", "module_utils/")) and name.endswith(".py"):
            compile(content, name, "exec")
            assert b"import ansible.module_utils.fullmesh" not in content, name
            assert b"from ansible.module_utils.fullmesh" not in content, name
    node_facts = files["library/node_facts.py"].decode()
    assert "from ansible_collections.fullmesh.cluster.plugins.module_utils.fullmesh" in node_facts
    assert "\n  fullmesh.cluster.node_facts:\n" in node_facts


def test_nothing_else_changes(files: dict[str, bytes]) -> None:
    """Taken back, every file is the checkout's."""
    own = {"playbooks/site.yml", "ansible.cfg", "meta/runtime.yml"}
    made = render_pages()
    assert {name: files[name].decode() for name in made} == made
    for name in files.keys() - own - made.keys():
        back = files[name]
        for new, old in (
            (b"ansible_collections.fullmesh.cluster.plugins.module_utils", b"ansible.module_utils"),
            (b"fullmesh.cluster.", b""),
        ):
            if not name.startswith(("docs/", "src/")):
                back = back.replace(new, old)
        assert back == (ROOT / name).read_bytes(), name


def test_the_site_imports_files_from_its_folder(files: dict[str, bytes]) -> None:
    imported = [
        play["ansible.builtin.import_playbook"]
        for play in yaml.safe_load(files["playbooks/site.yml"])
    ]
    assert len(imported) == len(yaml.safe_load((ROOT / "site.yml").read_text()))
    assert all(f"playbooks/{one}" in files for one in imported)


def test_settings_without_the_checkouts_places(files: dict[str, bytes]) -> None:
    text = files["ansible.cfg"].decode()
    assert "callbacks_enabled = fullmesh.cluster.fullmesh_progress, " in text
    assert "stdout_callback = fullmesh.cluster.fullmesh_output\n" in text
    assert "pipelining = true" in text
    for name in ("inventory", "roles_path", "library", "module_utils", "filter_plugins"):
        assert f"{name} =" not in text


def test_the_versions_of_ansible_are_those_of_the_plan() -> None:
    assert yaml.safe_load(collection.runtime())["requires_ansible"] == ">=2.16.0,<2.23"


def test_links_have_a_target(files: dict[str, bytes]) -> None:
    for name, target in collection.links().items():
        inside = (ROOT / name).parent.joinpath(target).resolve().relative_to(ROOT)
        assert any(Path(one).is_relative_to(inside) for one in files), name


def test_a_play_stops_for_all_nodes_without_ansible_cfg() -> None:
    """Users of the collection have their own settings: a fault of one node must still stop the others in time."""
    for path in (ROOT / "playbooks").rglob("*.yml"):
        for play in yaml.safe_load(path.read_text()):
            if isinstance(play, dict) and "hosts" in play:
                assert "any_errors_fatal" in play, f"{path}: {play['name']}"
                assert play["gather_facts"] is False, f"{path}: {play['name']}"


def test_the_same_files_are_the_same_bytes(
    files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = collection.archive(files, collection.links(), collection.about())
    monkeypatch.setattr("time.time", lambda: 1.0)
    assert collection.archive(files, collection.links(), collection.about()) == made
    with tarfile.open(fileobj=io.BytesIO(made)) as tar:
        assert {(one.mtime, one.uid, one.uname) for one in tar} == {(0, 0, "")}
        manifest = json.load(tar.extractfile("MANIFEST.json") or io.BytesIO())
    about = manifest["collection_info"]
    assert about["version"] == __version__


def test_modules_with_defaults_have_their_full_name(files: dict[str, bytes]) -> None:
    main = files["roles/ec2_security_group/tasks/main.yml"].decode()
    assert "\n    fullmesh.cluster.ec2_revoked_rules: *chain\n" in main
    assert "\n  ec2_revoked_rules:\n" in files["roles/ec2_security_group/tasks/apply.yml"].decode()


def test_a_checkout_stores_its_runs_inside_itself() -> None:
    """A collection does so where Ansible was started (tests/install)."""
    assert cluster_plan.kept_path("runs") == str(RUNS) == str(ROOT / "runs")


def test_no_inventory_is_published(files: dict[str, bytes]) -> None:
    """The checkout's inventory/prod may have nodes with secrets."""
    assert not [name for name in files if "inventory/" in name]

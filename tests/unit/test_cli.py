"""The command line and the launcher: exit codes, coded errors."""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.cli.playbook import PlaybookCLI
from report_samples import build_result, make_dropped_link

from fullmesh import __version__, catalogue, cli
from fullmesh.faults import InvalidInputError
from fullmesh.play import options
from fullmesh.settings import ROOT
from fullmesh.shell.commands import find_subparsers
from fullmesh.verbs import about, playbook, report

LAUNCHER = ROOT / "fullmesh"


@pytest.mark.parametrize("verb", ["apply", "verify", "plan", "undo"])
def test_an_inventory_that_is_not_there(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([verb, "-i", "inventory/none"]) == cli.USAGE
    assert "[CL-106]" in capsys.readouterr().err


# Verbs that read an inventory, and those that run a playbook on its nodes.
READ = ("apply", "verify", "plan", "undo", "diagnose", "hang", "bundle")
RUN = ("apply", "verify", "undo")


@pytest.mark.parametrize("name", READ)
def test_no_inventory_is_given_and_none_exists(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("ROOT", "STARTED_IN"):
        monkeypatch.setattr(options, folder, tmp_path)
    monkeypatch.delenv(options.INVENTORY_VARIABLE, raising=False)
    assert cli.main([name, *(["--dry-run"] if name == "undo" else [])]) == cli.USAGE
    said = capsys.readouterr().err
    assert "[CL-117]" in said
    assert "./fullmesh init" in said


def test_the_default_inventory_is_the_variables_then_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, checkout = tmp_path / "here", tmp_path / "checkout"
    for folder in (here, checkout / "inventory/mine", checkout / "inventory/prod"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(options, "STARTED_IN", here)
    monkeypatch.setattr(options, "ROOT", checkout)
    mine, prod = checkout / "inventory/mine", checkout / "inventory/prod"
    assert options.find_inventory("", {}) == mine
    assert options.find_inventory("", {options.INVENTORY_VARIABLE: "inventory/prod"}) == prod
    assert (
        options.find_inventory("inventory/mine", {options.INVENTORY_VARIABLE: "inventory/prod"})
        == mine
    )
    (here / "nodes.yml").touch()
    assert options.find_inventory("nodes.yml", {}) == here / "nodes.yml"
    with pytest.raises(InvalidInputError, match=r"CL-106.*nodes\.txt.*from \$FULLMESH_INVENTORY"):
        options.find_inventory("", {options.INVENTORY_VARIABLE: "nodes.txt"})
    mine.rmdir()
    with pytest.raises(InvalidInputError, match="CL-117"):
        options.find_inventory("", {})


COMMON = "-l n1 -t network --skip-tags verify -e a=b -C -D -u bob -K -k --private-key /k -f 9 -b"
PASSED = (
    "--limit=n1 --tags=network --skip-tags=verify --extra-vars=a=b --check --diff --user=bob"
    " --ask-become-pass --ask-pass --private-key=/k --forks=9 --become"
)


@pytest.mark.parametrize("name", RUN)
def test_a_verb_takes_the_options_of_ansible(name: str) -> None:
    given = [*COMMON.split(), "-vvv", "-i", "mine", "--", "--flush-cache"]
    args = cli.build_parser(name).parse_args([name, *given])
    assert args.inventory == "mine"
    assert options.list_ansible_words(args) == [*PASSED.split(), "-v", "-v", "-v", "--flush-cache"]
    assert options.needs_raw_output(args)
    assert not options.needs_raw_output(
        cli.build_parser(name).parse_args([name, "--limit", "n1", "-K"])
    )


def test_an_option_path_is_relative_to_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "STARTED_IN", tmp_path)
    for name in ("key", "more.yml", "nodes"):
        (tmp_path / name).touch()
    typed = "apply --private-key key -e @more.yml -e @/etc/none -e key -l @nodes -l key"
    args = cli.build_parser("apply").parse_args(typed.split())
    assert options.list_ansible_words(args) == [
        f"--private-key={tmp_path}/key",
        f"--extra-vars=@{tmp_path}/more.yml",
        "--extra-vars=@/etc/none",
        "--extra-vars=key",
        f"--limit=@{tmp_path}/nodes",
        "--limit=key",
    ]


@pytest.mark.parametrize(
    ("name", "given", "passed"),
    [
        ("plan", "-l n1 -t network -D", "--limit=n1 --tags=network --diff"),
        ("diagnose", "--json -l n1 -u bob -K -vv", "--limit=n1 --user=bob --ask-become-pass -v -v"),
        ("hang", "-l n1 -e a=b --samples 3 -u bob", "--limit=n1 --extra-vars=a=b --user=bob"),
        ("init", "--hosts a -K -u bob", "--ask-become-pass"),
    ],
)
def test_each_verb_takes_those_that_fit_it(name: str, given: str, passed: str) -> None:
    args = cli.build_parser(name).parse_args([name, *given.split()])
    assert options.list_ansible_words(args) == passed.split()


def test_apply_takes_every_option_that_ansible_playbook_has() -> None:
    theirs = PlaybookCLI(["ansible-playbook"])
    theirs.init_parser()
    wanted = set(theirs.parser._option_string_actions) - {"--version", "--inventory-file"}
    applies = next(
        one.choices["apply"] for one in cli.build_parser()._actions if isinstance(one.choices, dict)
    )
    assert wanted <= set(applies._option_string_actions)


@pytest.mark.parametrize(
    ("typed", "usage", "meant"),
    [
        ("apply --limt n1", "usage: fullmesh apply ", "--limit"),
        ("undo -i mine --skiptags=x", "usage: fullmesh undo ", "--skip-tags"),
        ("diagnose --bandwith", "usage: fullmesh diagnose ", "--bandwidth"),
        ("hang --htm=x --jsn", "usage: fullmesh hang ", "--json"),
        ("lab up --nods 3", "usage: fullmesh lab up ", "--nodes"),
        ("report --agianst a", "usage: fullmesh report ", "--against"),
        ("--verison apply", "usage: fullmesh ", "--version"),
    ],
)
def test_an_unknown_option_is_named_with_the_nearest(
    typed: str, usage: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(typed.split())
    said = capsys.readouterr().err
    assert left.value.code == cli.USAGE
    assert said.startswith(usage)
    assert "[CL-119]" in said
    assert f"Did you mean {meant}?" in said


def test_an_unknown_argument_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["apply", "inventory/mine"])
    assert left.value.code == cli.USAGE
    assert "[CL-119] Unknown argument: inventory/mine." in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["report --html A B", "report A B --html"])
def test_options_come_before_or_after_arguments(typed: str) -> None:
    args = cli.build_parser("report").parse_args(typed.split())
    assert (args.run, args.html) == (["A", "B"], True)


class Keyboard(io.StringIO):
    """Standard input of a terminal."""

    def isatty(self) -> bool:
        return True


NODES = """
torch_nodes:
  hosts: {el1: , ubuntu1: , el2: }
  vars: {ansible_host: 203.0.113.1}
"""


@pytest.fixture
def undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """The calls of the playbook, which is not run; the inventory is hosts.yml."""
    (tmp_path / "hosts.yml").write_text(NODES)
    monkeypatch.setattr(options, "STARTED_IN", tmp_path)
    calls: list[argparse.Namespace] = []
    monkeypatch.setattr(
        playbook, "run_playbook_verb", lambda _name, _at, args, **_more: calls.append(args) or 0
    )
    monkeypatch.setattr(
        playbook, "preview_playbook", lambda _name, _at, args, _more: calls.append(args) or 0
    )
    return calls


def test_undo_without_a_terminal_needs_yes(
    undone: list[argparse.Namespace],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert cli.main(["undo", "-i", "hosts.yml"]) == cli.USAGE
    assert "[CL-118]" in capsys.readouterr().err
    assert undone == []
    capsys.readouterr()
    for more in (["--yes"], ["--dry-run"], ["--check"], ["--", "--list-tasks"]):
        assert cli.main(["undo", "-i", "hosts.yml", *more]) == cli.OK
    assert capsys.readouterr().err == ""
    assert cli.main(["undo", "-i", "hosts.yml", "--plan"]) == cli.OK
    assert "undo --plan is now undo --dry-run." in capsys.readouterr().err
    assert len(undone) == 5


def test_a_dry_run_of_apply_is_a_plan(
    undone: list[argparse.Namespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        playbook, "preview_playbook", lambda name, _at, _args, more: calls.append((name, more)) or 1
    )
    for words in (["plan"], ["apply", "--dry-run"]):
        assert cli.main([*words, "-i", "hosts.yml"]) == cli.PROBLEM
    assert calls == [("site.yml", ["--skip-tags", "verify"])] * 2
    assert undone == []


@pytest.mark.parametrize(
    ("answer", "goes_on"), [("y\n", True), ("\n", False), ("no\n", False), ("", False)]
)
def test_undo_names_nodes_and_roles_and_asks(
    answer: str,
    goes_on: bool,
    undone: list[argparse.Namespace],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", Keyboard(answer))
    more = ["--limit", "el*", "--tags", "launchers,time_sync"]
    assert cli.main(["undo", "-i", "hosts.yml", *more]) == (cli.OK if goes_on else cli.PROBLEM)
    assert len(undone) == goes_on
    said = capsys.readouterr().err
    assert "undo changes 2 nodes: el1, el2." in said
    assert "Roles, as far as they changed the node: launchers, time_sync." in said
    assert re.search(
        r"To preview: \./fullmesh undo --dry-run -i \S+hosts\.yml '--limit=el\*' --tags=launchers,time_sync\n",
        said,
    )
    assert ("Nothing was changed." in said) is not goes_on


def test_undo_names_every_role_that_its_playbook_undoes(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(NODES)
    listed = playbook.list_playbook_tasks(
        "playbooks/undo.yml", str(tmp_path / "hosts.yml"), ["-v", "--diff"]
    )
    assert listed.hosts == ("el1", "el2", "ubuntu1")
    tasks = yaml.safe_load((ROOT / "playbooks/undo.yml").read_text())[0]["tasks"]
    assert len(listed.roles) == sum(task["name"].startswith("Undo ") for task in tasks) > 10
    assert {"bundle", "static_ip", "peer_firewall"} <= set(listed.roles)


def test_undo_of_an_inventory_that_ansible_cannot_read(
    undone: list[argparse.Namespace],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", Keyboard("y\n"))
    assert cli.main(["undo", "-i", "hosts.yml", "--limit", "nosuch"]) == cli.USAGE
    assert "[CL-120]" in capsys.readouterr().err
    assert undone == []


def test_apply_of_nodes_that_ansible_cannot_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts.yml").write_text(NODES)
    monkeypatch.setattr(options, "STARTED_IN", tmp_path)
    assert cli.main(["apply", "-v", "-i", "hosts.yml", "-l", "nosuch"]) == cli.USAGE
    assert "[CL-120]" in capsys.readouterr().err


# Verbs that answer something; the others write files or pass an exit code on.
ANSWER = {"plan", "apply", "undo", "verify", "status", "diagnose", "doctor", "hang", "explain-log"}
ANSWER |= {"explain", "report", "version", "bundle", "init"}


def test_every_verb_that_answers_takes_json() -> None:
    for name in ANSWER:
        parser = find_subparsers(cli.build_parser(name))
        assert parser
        assert "--json" in parser.choices[name]._option_string_actions, name


@pytest.mark.parametrize("words", [["verify", "-v"], ["plan", "--diff"], ["apply", "--list-hosts"]])
def test_json_and_the_output_of_ansible_exclude_each_other(
    words: list[str], undone: list[argparse.Namespace], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*words, "--json", "-i", "hosts.yml"]) == cli.USAGE
    assert "[CL-126]" in capsys.readouterr().err
    assert undone == []


def test_the_offline_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--offline", "--json", "-i", "inventory/prod"]) == cli.OK
    out, _, rest = capsys.readouterr().out.partition("\n}\n")
    assert json.loads(f"{out}\n}}")["master"]["address"]
    assert rest == ""
    assert cli.main(["plan", "--offline", "--json", "-i", "inventory/prod", "-l", "no"]) != cli.OK
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["VC-202"], {"code", "meaning", "page"}),
        (["PF-102"], {"code", "meaning", "page"}),
        ([], {"VC-202", "CL-101"}),
    ],
)
def test_explain_as_json(
    words: list[str], shown: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", "--json", *words]) == cli.OK
    assert shown <= json.loads(capsys.readouterr().out).keys()
    assert cli.main(["explain", "--json", "XX-999"]) == cli.USAGE


def test_report_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "RUNS", tmp_path)
    for name, result in (("1", build_result()), ("2", make_dropped_link())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps(result))
    one, two = str(tmp_path / "1"), str(tmp_path / "2")
    assert cli.main(["report", "--json", one]) == cli.OK
    assert json.loads(capsys.readouterr().out)["comparison"] is None
    assert cli.main(["report", "--json", "--csv", one, two]) == cli.PROBLEM
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["result"]["verdict"] == "failed"
    assert found["comparison"]["changes"]
    assert "links.csv" in said.err
    (tmp_path / "2/result.json").write_text("{}")
    assert cli.main(["report", "--json", two]) == cli.USAGE
    assert "[CL-114]" in capsys.readouterr().err


def test_a_run_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "runs/none"]) == cli.USAGE
    assert "[CL-107]" in capsys.readouterr().err


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete -"), ("zsh", "#compdef")])
def test_completion_is_printed(shell: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What it is worth a real shell says (tests/docs)."""
    assert cli.main(["completion", shell]) == cli.OK
    assert word in capsys.readouterr().out
    assert cli.main(["completion", shell, "--", "explain-l"]) == cli.OK
    assert capsys.readouterr().out.partition(":")[0].strip() == "explain-log"


def test_dev_runs_a_command_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.main(["dev", "sh", "-c", 'test -f docs/CONTRIBUTING.md && exit "$0"', "7"]) == 7
    monkeypatch.setenv("SHELL", "/bin/true")
    assert cli.main(["dev"]) == 0


def test_no_verb_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == cli.USAGE
    said = capsys.readouterr()
    assert (said.out, "diagnose" in said.err) == ("", True)


@pytest.mark.parametrize("words", [["aply"], ["aply", "-i", "x"], ["help", "aply"]])
def test_a_verb_that_does_not_exist(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == cli.USAGE
    assert "[CL-125] Unknown verb: aply. Did you mean apply?" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["help"], ["-h"], ["--help"]])
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_overview_lists_every_verb_in_its_group(
    words: list[str],
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert cli.main(words) == cli.OK
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) < columns
    groups = [part.partition(":\n") for part in shown.split("\n\n")[2:-1]]
    listed = {title: re.findall(r"^  (\S+)  ", body, re.MULTILINE) for title, _, body in groups}
    assert listed["Set up"][1:5] == ["init", "plan", "apply", "undo"]
    assert listed["Troubleshoot"] == ["hang", "watch", "explain-log", "explain"]
    assert [name for names in listed.values() for name in names] == list(catalogue.VERBS)


@pytest.mark.parametrize("name", catalogue.VERBS)
def test_a_verb_has_a_help_text_an_example_and_exit_codes(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    entry = catalogue.VERBS[name]
    assert entry.text[0].isupper()
    assert not entry.text.endswith(".")
    assert 2 in entry.exits
    for words in (["help", name], [name, "--help"]):
        with pytest.raises(SystemExit) as left:
            cli.main(words)
        assert left.value.code == cli.OK
        shown = capsys.readouterr().out
        assert f"{entry.text}." in " ".join(shown.split())
        assert all(f"  ./fullmesh {example}\n" in shown for example in entry.examples)
        assert "\nexit codes:\n" in shown
        assert max(map(len, shown.splitlines())) <= 80
    for example in entry.examples:
        cli.build_parser(name).parse_args(shlex.split(example))


def test_the_overview_imports_no_verb() -> None:
    """Each verb is loaded when it is called, so the overview stays fast."""
    code = "import sys; from fullmesh import cli; cli.main(['--help']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=True,
        capture_output=True,
        text=True,
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert "fullmesh.catalogue" in loaded
    assert [one for one in loaded if one.startswith(("fullmesh.verbs.", "msgspec", "rich"))] == []


def test_version_names_the_software_below_fullmesh(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["version", "--json"]) == cli.OK
    found = json.loads(capsys.readouterr().out)
    assert found["fullmesh"] == __version__
    assert found["ansible_core"] == importlib.metadata.version("ansible-core")
    assert any(name.startswith("2.13.0-cuda") for name in found["torch_locks"])
    assert cli.main(["version"]) == cli.OK
    shown = capsys.readouterr().out
    assert f"fullmesh      {__version__} " in shown
    assert found["torch_locks"][0] in shown


def test_version_without_ansible_and_without_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", fail)
    monkeypatch.setattr(about, "TORCH_LOCKS", tmp_path)
    assert cli.main(["version"]) == cli.OK
    shown = capsys.readouterr().out
    assert "ansible-core  not installed\ntorch locks   none\n" in shown


def test_the_offline_plan_contacts_no_node() -> None:
    # documentation addresses: a connection attempt would hang until the test's deadline
    done = subprocess.run(
        [sys.executable, "-m", "fullmesh", "plan", "--offline", "-i", "inventory/prod"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=60,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "203.0.113.11" in done.stdout


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A directory for PATH with the few tools that the launcher needs, and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in (
        "bash",
        "env",
        "dirname",
        "flock",
        "cat",
        "sha256sum",
        "cut",
        "cp",
        "mkdir",
        "chmod",
    ):
        found = next(p for p in ("/usr/bin", "/bin") if Path(p, name).exists())
        (folder / name).symlink_to(Path(found, name))
    return folder


def tool(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)


def launch(
    tools: Path, tmp_path: Path, *words: str, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(LAUNCHER), *(words or ("--version",))],
        env={"PATH": str(tools), "FULLMESH_VENV": str(tmp_path / "venv"), **env},
        timeout=60,
        check=False,
        capture_output=True,
        text=True,
    )


def test_no_python_and_no_rights(tools: Path, tmp_path: Path) -> None:
    tool(tools, "id", "echo 1000\n")
    done = launch(tools, tmp_path)
    assert done.returncode == 2
    assert "[CL-101]" in done.stderr


def test_apt_fails(tools: Path, tmp_path: Path) -> None:
    tool(tools, "id", "echo 0\n")
    tool(tools, "apt-get", "exit 100\n")
    done = launch(tools, tmp_path)
    assert done.returncode == 2
    assert "[CL-102]" in done.stderr


def test_apt_brings_no_usable_python(tools: Path, tmp_path: Path) -> None:
    tool(tools, "id", "echo 0\n")
    tool(tools, "apt-get", "exit 0\n")
    done = launch(tools, tmp_path)
    assert done.returncode == 2
    assert "[CL-103]" in done.stderr


def test_pip_fails(tools: Path, tmp_path: Path) -> None:
    # a Python that is right for everything but pip
    script = (
        f'case "$*" in "-m pip "*) exit 1;; "-m venv "*) mkdir -p {tmp_path}/venv/bin;'
        f' cp "$0" {tmp_path}/venv/bin/python;; esac\n'
    )
    tool(tools, "python3.11", script)
    done = launch(tools, tmp_path)
    assert done.returncode == 2
    assert "[CL-104]" in done.stderr


def test_uv_cannot_read_the_lock(tools: Path, tmp_path: Path) -> None:
    """A developer's packages come from uv.lock, by the uv that pip installs first."""
    script = (
        f'echo "$*" >>{tmp_path}/calls; case "$*" in "-m venv "*) mkdir -p {tmp_path}/venv/bin;'
        f' cp "$0" {tmp_path}/venv/bin/python;; esac\n'
    )
    tool(tools, "python3.11", script)
    done = launch(tools, tmp_path, "test", "--list")
    assert done.returncode == 2
    assert "[CL-104] uv could not read uv.lock" in done.stderr
    (installed,) = [
        line for line in (tmp_path / "calls").read_text().splitlines() if "-m pip install" in line
    ]
    assert "--require-hashes" in installed
    assert installed.endswith(".config/uv.txt")


def test_another_process_holds_the_environment(tools: Path, tmp_path: Path) -> None:
    (tools / "flock").unlink()
    tool(tools, "flock", "exit 1\n")
    done = launch(tools, tmp_path)
    assert done.returncode == 2
    assert "[CL-105]" in done.stderr

"""NVIDIA's repository next to ours: which files name it, and which settings of a node hide NCCL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import node_manifest
import package_source
import pytest
from ansible.module_utils.fullmesh import manifest
from ansible.module_utils.fullmesh.bundle import packages as bundle_packages
from ansible.module_utils.fullmesh.packages import nccl, sources
from ansible.plugins.filter.core import to_bool
from hypothesis import given
from hypothesis import strategies as st

from fullmesh import settings
from fullmesh.roles import nccl as roles_nccl

DATA = Path(__file__).parent / "data/sources"
UBUNTU = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64"
RHEL = "https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64"
LIST = (DATA / "cuda-ubuntu2404-x86_64.list").read_text()  # from the package cuda-keyring
REPO = (DATA / "cuda-rhel9.repo").read_text()
THEIR_LIST = "etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.list"
THEIR_REPO = "etc/yum.repos.d/cuda-rhel9.repo"
OUR_LIST = "etc/apt/sources.list.d/fullmesh-nccl.sources"
OURS = f"# Ansible managed\nTypes: deb\nURIs: {UBUNTU}\nSuites: /\nSigned-By: /etc/apt/keyrings/fullmesh-nccl.gpg\n"
VERSION = "2.28.9-1+cuda12.9"
EL = ["libnccl", "libnccl-devel"]
DEB = ["libnccl2", "libnccl-dev"]


def write_files(root: Path, files: dict[str, str]) -> str:
    """Write these files on a node."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def list_sources(root: str, url: str) -> list[tuple[str, bool]]:
    """List the files that name it, and whether each counts. The machine is the one that the files are for."""
    found = sources.find_package_sources(url, root, "x86_64")
    return [(str(Path(one["path"]).relative_to(root)), one["enabled"]) for one in found]


def test_nvidias_own_files_are_found(tmp_path: Path) -> None:
    root = write_files(tmp_path, {THEIR_LIST: LIST, THEIR_REPO: REPO})
    assert list_sources(root, UBUNTU) == [(THEIR_LIST, True)]
    assert list_sources(root, RHEL) == [(THEIR_REPO, True)]
    assert list_sources(root, RHEL.replace("rhel9", "rhel10")) == []
    assert sources.find_package_sources(RHEL, root)[0]["section"] == "cuda-rhel9-x86_64"


@pytest.mark.parametrize(
    "line",
    [
        f"deb {UBUNTU} /",
        f"deb {UBUNTU}/ /",
        f"deb {UBUNTU.replace('https', 'http')}/ ./",
        f"deb [ arch=amd64 signed-by=/usr/share/keyrings/x.gpg ] {UBUNTU}/ / # CUDA",
        f"deb [trusted=yes] {UBUNTU.replace('x86_64', '')} x86_64/",
        f"  deb\t{UBUNTU.replace('https://developer', 'HTTPS://Developer').replace('.com/', '.com:443/')} /",
    ],
)
@pytest.mark.parametrize(
    "name", ["etc/apt/sources.list", "etc/apt/sources.list.d/some_thing.else.list"]
)
def test_a_line_is_found_in_any_file_and_spelling(tmp_path: Path, name: str, line: str) -> None:
    root = write_files(
        tmp_path, {name: f"deb http://archive.ubuntu.com/ubuntu noble main\n{line}\n"}
    )
    assert list_sources(root, UBUNTU) == [(name, True)]
    assert sources.find_package_sources(UBUNTU, root, "x86_64")[0]["usable"] == ""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (f"# {LIST}", [(THEIR_LIST, False)]),
        (f"#deb {UBUNTU} / # disabled on upgrade to noble", [(THEIR_LIST, False)]),
        (
            f"deb {UBUNTU} noble main",
            [],
        ),  # not the flat repository, but another path at the same address
        (f"deb {UBUNTU}/extra /", []),
        (f"see {UBUNTU} /", []),
        ("deb", []),
        ("deb http://[fd00::1/cuda /", []),
    ],
)
def test_lines_of_other_repositories_do_not_count(
    tmp_path: Path, line: str, found: list[tuple[str, bool]]
) -> None:
    assert list_sources(write_files(tmp_path, {THEIR_LIST: line}), UBUNTU) == found


def test_files_that_apt_ignores_are_ignored(tmp_path: Path) -> None:
    names = ("cuda.list.save", "cuda.list.distUpgrade", "cuda (1).list", "cuda.txt")
    root = write_files(tmp_path, {f"etc/apt/sources.list.d/{name}": LIST for name in names})
    assert list_sources(root, UBUNTU) == []


DEB822 = f"""\
# NVIDIA's, see the installation guide

Types: deb
URIs: https://mirror.example/other {UBUNTU}/
Suites: /
Architectures: amd64
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBGJmoxgBEADL
 -----END PGP PUBLIC KEY BLOCK-----
"""


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        (DEB822, True),
        (DEB822.replace("Types: deb", "Enabled: no\nTypes: deb deb-src"), False),
        (DEB822.replace("Types", "enabled: yes\ntypes").replace("URIs", "uris"), True),
        ("".join(f"# {line}\n" for line in DEB822.splitlines()).replace("# \n", "\n"), False),
    ],
)
def test_deb822_sources_are_read(tmp_path: Path, text: str, enabled: bool) -> None:
    name = "etc/apt/sources.list.d/cuda.sources"
    root = write_files(tmp_path, {name: text})
    assert list_sources(root, UBUNTU) == [(name, enabled)]
    assert list_sources(root, "http://mirror.example/other/") == [(name, enabled)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"deb [arch=arm64,i386] {UBUNTU} /", "for arm64, i386 only"),
        (f"deb-src {UBUNTU} /", "deb-src"),
    ],
)
def test_a_source_without_packages_for_this_machine_is_named(
    tmp_path: Path, line: str, why: str
) -> None:
    """It is used anyway, because apt would fail with ours next to it."""
    root = write_files(tmp_path, {THEIR_LIST: line})
    asked = {"manager": "apt", "names": DEB, "url": UBUNTU, "source": f"{root}/{OUR_LIST}"}
    around = nccl.inspect_repository(asked, VERSION, root)
    assert around["theirs"] == f"{root}/{THEIR_LIST}"
    assert why in around["in_the_way"][0]


@pytest.mark.parametrize(
    "text",
    [
        REPO.replace("x86_64\nenabled", "$basearch/\nenabled"),
        REPO.replace("rhel9/x86_64\nenabled", "rhel$releasever/${basearch}\nenabled"),
        REPO.replace("baseurl=", "baseurl=https://mirror.example/x,\n   "),
        REPO.replace("https://developer", "$scheme://developer").replace("enabled=1\n", ""),
        "[other]\nname=100% other\nbaseurl=https://x.example\n\n" + REPO,
        REPO.replace("=", " = ") + "no option at all\n",
    ],
)
def test_each_dnf_spelling_is_read(tmp_path: Path, text: str) -> None:
    files = {
        "etc/yum.repos.d/any-name.repo": text,
        "etc/os-release": 'NAME="Rocky Linux"\nVERSION_ID="9.6"\n',
        "etc/dnf/vars/scheme": "http\n",
    }
    assert list_sources(write_files(tmp_path, files), RHEL) == [
        ("etc/yum.repos.d/any-name.repo", True)
    ]


@pytest.mark.parametrize(
    "text",
    [
        REPO.replace("enabled=1", "enabled=0"),
        REPO.replace("enabled=1", "enabled = False"),
        "".join(f"#{line}\n" for line in REPO.splitlines()),
    ],
)
def test_a_disabled_dnf_repository_does_not_count(tmp_path: Path, text: str) -> None:
    assert list_sources(write_files(tmp_path, {THEIR_REPO: text}), RHEL) == [(THEIR_REPO, False)]


def test_a_repository_in_dnf_conf_counts(tmp_path: Path) -> None:
    root = write_files(tmp_path, {"etc/dnf/dnf.conf": "[main]\ngpgcheck=1\n" + REPO})
    assert list_sources(root, RHEL) == [("etc/dnf/dnf.conf", True)]


@given(st.text(max_size=300), st.sampled_from(["parse_apt_lines", "parse_apt_stanzas"]))
def test_no_source_of_apts_crashes_it(text: str, reader: str) -> None:
    assert list(getattr(sources, reader)(text, "/x", "x86_64")) is not None


@given(st.text(alphabet="[]=# \n\tabc:/,$%{}", max_size=200))
def test_no_source_of_dnfs_crashes_it(text: str) -> None:
    assert list(sources.parse_dnf_sections(text, "/x", [{"basearch": "x86_64"}])) is not None


# --- the role's decision
# ----------------------------------------------------------------------------


def inspect_sources(root: str, manager: str = "apt") -> dict[str, Any]:
    url, names = (UBUNTU, DEB) if manager == "apt" else (RHEL, EL)
    asked = {"manager": manager, "names": names, "url": url, "source": f"{root}/{OUR_LIST}"}
    return dict(nccl.inspect_repository(asked, VERSION, root))


def test_a_foreign_source_is_used_if_ours_is_absent(tmp_path: Path) -> None:
    root = write_files(tmp_path, {OUR_LIST: OURS})
    assert inspect_sources(root)["theirs"] == ""
    write_files(tmp_path, {THEIR_LIST: LIST})
    assert inspect_sources(root)["theirs"] == f"{root}/{THEIR_LIST}"


def test_the_package_survey_includes_the_sources(tmp_path: Path) -> None:
    root = write_files(tmp_path, {THEIR_REPO: REPO})
    version = VERSION.replace("-", "\t")
    said = "".join(f"{name}\t{version}\t0\tx86_64\n" for name in EL)
    asked = {"manager": "dnf", "names": EL, "url": RHEL, "version": "", "cuda": "", "source": ""}
    seen = nccl.observe_nccl_packages(lambda _: (0, said, ""), asked, root)
    assert seen["satisfied"]
    assert seen["repository"] == {
        "theirs": f"{root}/{THEIR_REPO}",
        "section": "cuda-rhel9-x86_64",
        "off": [],
        "in_the_way": [],
    }


def test_a_disabled_source_is_noted_and_unchanged(tmp_path: Path) -> None:
    root = write_files(tmp_path, {THEIR_LIST: "# " + LIST})
    seen = inspect_sources(root)
    assert (seen["theirs"], seen["off"]) == ("", [f"{root}/{THEIR_LIST}"])
    (note,) = roles_nccl.collect_nccl_notes(seen, UBUNTU, "/" + OUR_LIST)
    assert note["code"] == "NC-109"
    assert f"switched off in {root}/{THEIR_LIST}" in note["text"]
    write_files(tmp_path, {"etc/apt/sources.list": LIST})
    assert roles_nccl.collect_nccl_notes(inspect_sources(root), UBUNTU, "/" + OUR_LIST) == []


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("exclude=libnccl*", "exclude=libnccl* hides libnccl, libnccl-devel"),
        ("excludepkgs=cuda*, libnccl-2.28*", "hides libnccl"),
        (f"excludepkgs=libnccl-devel-{VERSION}.x86_64", "hides libnccl-devel"),
        ("excludepkgs=libnccl-0:2.28.9-*", "hides libnccl"),
        ("includepkgs=nvidia-driver*,\n cuda-drivers", "hides libnccl, libnccl-devel"),
        ("excludepkgs=nvidia-driver* libnccl-static libnccl-2.30*", ""),
        ("includepkgs=libnccl*", ""),
    ],
)
@pytest.mark.parametrize("where", ["their section", "main"])
def test_excludes_of_dnf_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, hidden: str, where: str
) -> None:
    """The cases are results of dnf 4.14 in the lab."""
    monkeypatch.setattr(sources.os, "uname", lambda: type("U", (), {"machine": "x86_64"}))
    files = {THEIR_REPO: REPO, "etc/dnf/dnf.conf": "[main]\nbest=True\n"}
    files[THEIR_REPO if where == "their section" else "etc/dnf/dnf.conf"] += line + "\n"
    way = inspect_sources(write_files(tmp_path, files), "dnf")["in_the_way"]
    assert len(way) == bool(hidden)
    assert all(hidden in sentence for sentence in way)
    assert all(("[main]" in sentence) == (where == "main") for sentence in way)


def test_packages_that_dnf_hides_are_refused_before_any_change(tmp_path: Path) -> None:
    root = write_files(tmp_path, {THEIR_REPO: REPO + "exclude=libnccl*\n"})
    listing = f'[["libnccl", "{VERSION}"], ["libnccl-devel", "{VERSION}"]]\n'
    asked = {"manager": "dnf", "names": EL, "url": RHEL, "version": "", "cuda": "", "source": ""}

    def run(argv: list[str]) -> tuple[int, str, str]:
        return (1, "", "") if argv[0] == "rpm" else (0, listing, "")

    with pytest.raises(
        nccl.NcclRepositoryError, match=r"\[NC-108\].*cuda-rhel9\.repo, \[cuda-rhel9"
    ) as said:
        nccl.observe_nccl_packages(run, asked, root)
    assert "exclude=libnccl* hides libnccl, libnccl-devel" in str(said.value)

    version = VERSION.replace("-", "\t")

    def installed(argv: list[str]) -> tuple[int, str, str]:
        return 0, "".join(f"{name}\t{version}\t0\tx86_64\n" for name in EL), ""

    assert nccl.observe_nccl_packages(installed, asked, root)["satisfied"]


PIN = "Package: {}\nPin: version 2.30.*\nPin-Priority: 1001\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (PIN.format("libnccl*"), "libnccl2, libnccl-dev"),
        ("Explanation: x\n\n" + PIN.format("libnccl-dev foo"), "libnccl-dev"),
        (PIN.format("/^libnccl[0-9]/"), "libnccl2"),
        ("# off\n\n#" + PIN.format("libnccl2").replace("\n", "\n#"), ""),
        # NVIDIA's own cuda-repository-pin-600 covers a whole repository and does not block an
        # explicit version
        ("Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n", ""),
        (PIN.format("/(/ foo"), ""),
    ],
)
def test_pins_of_apt_are_named(tmp_path: Path, text: str, named: str) -> None:
    root = write_files(tmp_path, {THEIR_LIST: LIST, "etc/apt/preferences.d/own": text})
    way = inspect_sources(root)["in_the_way"]
    expected = f"{root}/etc/apt/preferences.d/own pins {named} to version 2.30.* with priority 1001"
    assert way == ([expected] if named else [])


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        ({"msg": "no available installation candidate for libnccl2=2.28.9"}, "no available"),
        (
            {
                "msg": "non-zero return code",
                "stderr": "W: old\nE: The repository is not signed.\nE: x",
            },
            "E: The repository is not signed",
        ),
        ({}, "no output"),
    ],
)
def test_a_package_manager_refusal_names_the_obstacle(failed: dict[str, Any], said: str) -> None:
    seen = {"theirs": "/etc/apt/sources.list.d/cuda.list", "in_the_way": ["/etc/apt/x pins y"]}
    text = roles_nccl.explain_nccl_failure(failed, ["libnccl2=2.28.9"], seen)
    assert text.startswith(
        "[NC-108] libnccl2=2.28.9 cannot be installed from /etc/apt/sources.list.d/cuda.list"
    )
    assert said in text
    assert "Settings of this node that affect these packages: /etc/apt/x pins y. Fix: Allow" in text
    bare = roles_nccl.explain_nccl_failure(
        failed, ["libnccl2=2.28.9"], {"theirs": "", "in_the_way": []}
    )
    assert "Settings of this node" not in bare


# --- NVIDIA's repository was added after ours
# -------------------------------------------------------


def test_ours_is_removed_if_theirs_came_later(tmp_path: Path) -> None:
    root = write_files(tmp_path, {OUR_LIST: OURS})
    own_file = f"{root}/{OUR_LIST}"
    assert not package_source.plan_source_removal(own_file, root)["changed"]
    write_files(tmp_path, {"etc/apt/sources.list.d/off.list": "# " + LIST})
    assert not package_source.plan_source_removal(own_file, root)["changed"]
    write_files(tmp_path, {THEIR_LIST: LIST})
    plan = package_source.plan_source_removal(own_file, root)
    assert (plan["changed"], plan["duplicates"]) == (True, [f"{root}/{THEIR_LIST}"])
    assert plan["diff"]["before"] == OURS
    Path(own_file).unlink()
    assert not package_source.plan_source_removal(own_file, root)["changed"]


def test_two_of_our_sources_do_not_replace_each_other(tmp_path: Path) -> None:
    """A source without a comparable address does not replace another."""
    other = "deb http://archive.ubuntu.com/ubuntu noble main\n"
    root = write_files(
        tmp_path, {OUR_LIST: OURS.replace("Suites: /", "Suites: noble"), THEIR_LIST: other}
    )
    assert not package_source.plan_source_removal(f"{root}/{OUR_LIST}", root)["changed"]


def test_a_source_that_appears_or_disappears_is_drift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_files(tmp_path, {OUR_LIST: OURS})
    seen = sources.describe_active_sources
    monkeypatch.setattr(manifest.sources, "describe_active_sources", lambda url: seen(url, root))
    owned = manifest.merge_owned({"nccl": {"sources": [UBUNTU]}})
    then = manifest.observe_owned(owned)
    assert then["package source"] == {UBUNTU: f"{root}/{OUR_LIST}"}
    assert node_manifest.describe_missing_state(owned, then) == []
    write_files(tmp_path, {THEIR_LIST: LIST})
    (drift,) = manifest.describe_differences(then, manifest.observe_owned(owned))
    assert drift.startswith(f"package source {UBUNTU}: was {root}/{OUR_LIST}, is ")
    assert f"{root}/{THEIR_LIST} and {root}/{OUR_LIST}" in drift
    (tmp_path / THEIR_LIST).unlink()
    (tmp_path / OUR_LIST).unlink()
    gone = manifest.observe_owned(owned)
    assert node_manifest.describe_missing_state(owned, gone) == [
        f"package source {UBUNTU} is in no file"
    ]


def test_a_manifest_of_an_earlier_version_watches_no_source() -> None:
    owned = manifest.merge_owned({})
    del owned["sources"]
    assert manifest.observe_owned(owned)["package source"] == {}


def test_a_bundle_uses_the_existing_source(tmp_path: Path) -> None:
    root = write_files(tmp_path, {OUR_LIST: OURS})
    assert not bundle_packages.has_other_source(UBUNTU, root)
    write_files(tmp_path, {THEIR_LIST: LIST})
    assert bundle_packages.has_other_source(UBUNTU, root)


@pytest.mark.parametrize(
    ("own", "whole"),
    [
        ({}, "False"),
        ({"nvidia_driver_manage": "false"}, "False"),
        ({"nvidia_driver_manage": True}, "True"),
    ],
)
def test_dnf_sees_the_driver_in_our_source_if_managed(own: dict[str, Any], whole: str) -> None:
    """includepkgs= of our source hid it: ND-103 on every EL node without NVIDIA's own source."""
    environment = jinja2.Environment(autoescape=True)
    environment.filters["bool"] = to_bool
    wired = settings.load_setting_names().wired["nccl_whole_repository"]
    assert environment.from_string(wired).render(own) == whole
    template = settings.ROOT / "roles/nccl/templates/fullmesh-nccl.repo.j2"
    environment.filters["comment"] = str
    values = {"ansible_managed": "", "__nccl_pinned": ["libnccl-2.28.9"], "__nccl_key_address": ""}
    text = environment.from_string(template.read_text()).render(
        values | {"nccl_whole_repository": whole}
    )
    assert ("includepkgs=libnccl-2.28.9\n" in text) == (whole == "False")

"""Build the Ansible collection ``fullmesh.cluster`` from the roles, modules, filters and playbooks.

The archive keeps the checkout's own folders. ``plugins/`` has links to those that Ansible searches, so paths to the
core, the roles or the node programs also work in a collection. Names that ``collections:`` does not shorten are
rewritten: the import of module_utils, filters, and modules under ``module_defaults`` (Ansible's documentation, "Using
collections in a playbook"). Short names of roles and modules do not change: in a collection's roles and playbooks,
Ansible searches the collection first.

``ansible-galaxy collection build`` is not used, because its archives depend on the time and the order of files.
"""

from __future__ import annotations

import argparse
import configparser
import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from fullmesh import __version__
from fullmesh.catalogue import add_verb
from fullmesh.explain.pages import render_pages
from fullmesh.filters import late
from fullmesh.model.plan import HIGHEST_ANSIBLE, LOWEST_ANSIBLE
from fullmesh.settings import ROOT

OK = 0
HERE = Path.cwd()  # before the command line changes it
NAMESPACE, NAME = "fullmesh", "cluster"
COLLECTION = f"{NAMESPACE}.{NAME}"
# No inventory: users list their own nodes in inventory/prod.
TAKEN = (
    "action_plugins",
    "callback_plugins",
    "docs",
    "filter_plugins",
    "library",
    "module_utils",
    "node_programs",
    "playbooks",
    "roles",
    "src/fullmesh",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "requirements.txt",
)
# A bundle contains a checkout, which runs after it is unpacked.
LEFT_OUT = ("playbooks/bundle.yml", "playbooks/tasks/bundle_fetch.yml")
LINKS = {
    "plugins/action": "../action_plugins",
    "plugins/callback": "../callback_plugins",
    "plugins/filter": "../filter_plugins",
    "plugins/module_utils": "../module_utils",
    "plugins/modules": "../library",
}
UTILS, OURS = "ansible.module_utils.fullmesh", f"ansible_collections.{COLLECTION}.plugins"
IMPORT = re.compile(rf"^(\s*(?:from|import) ){re.escape(UTILS)}\b", re.MULTILINE)
EXAMPLE = re.compile(r'^EXAMPLES = r"""\n.*?^"""', re.MULTILINE | re.DOTALL)
DEFAULTS = re.compile(r"^( *)module_defaults:\n(?:\1 .*\n)+", re.MULTILINE)
# Settings for folders that only a checkout has.
PLACES = ("inventory", "roles_path", "library", "module_utils")


def filter_names() -> list[str]:
    """List the names of Fullmesh's filters."""
    return sorted(late.FILTERS)


@cache
def used_as_filter() -> re.Pattern[str]:
    """Match uses of Fullmesh's filters in a template. Built on first use, because `--help` does not need it."""
    return re.compile(rf"(\|\s*)({'|'.join(filter_names())})\b")


@cache
def module_key() -> re.Pattern[str]:
    """Match keys that are modules of Fullmesh."""
    names = "|".join(sorted(one.stem for one in (ROOT / "library").glob("*.py")))
    return re.compile(rf"^( +)({names})(?=:)", re.MULTILINE)


def of_collection(name: str, text: str) -> str:
    """Convert a file of the checkout for the collection."""
    top, suffix = Path(name).parts[0], Path(name).suffix
    if suffix == ".py" and top in ("library", "module_utils"):
        text = IMPORT.sub(rf"\1{OURS}.module_utils.fullmesh", text)
        own = re.compile(rf"^(\s+){Path(name).stem}:$", re.MULTILINE)
        return EXAMPLE.sub(lambda one: own.sub(rf"\1{COLLECTION}.{Path(name).stem}:", one[0]), text)
    if suffix in (".yml", ".j2") and top in ("playbooks", "roles"):
        whole = rf"\1{COLLECTION}.\2"
        text = DEFAULTS.sub(lambda one: module_key().sub(whole, one[0]), text)
        return used_as_filter().sub(whole, text)
    return text


def site(text: str) -> str:
    """Convert ``site.yml``, which is in the folder of the other playbooks in a collection."""
    return text.replace("import_playbook: playbooks/", "import_playbook: ")


def ansible_settings(text: str) -> str:
    """Convert ``ansible.cfg`` for users of the collection: remove the checkout's folders."""
    found = configparser.ConfigParser(interpolation=None)
    found.read_string(text)
    defaults = found["defaults"]
    for key in [key for key in defaults if key in PLACES or key.endswith("_plugins")]:
        del defaults[key]
    defaults["stdout_callback"] = f"{COLLECTION}.{defaults['stdout_callback']}"
    callbacks = defaults["callbacks_enabled"].split(",")
    defaults["callbacks_enabled"] = ", ".join(f"{COLLECTION}.{one.strip()}" for one in callbacks)
    made = io.StringIO()
    found.write(made)
    return made.getvalue().rstrip() + "\n"


def runtime() -> str:
    """Build ``meta/runtime.yml`` with the supported versions of Ansible."""
    lowest = ".".join(map(str, LOWEST_ANSIBLE))
    above = f"{HIGHEST_ANSIBLE[0]}.{HIGHEST_ANSIBLE[1] + 1}"
    return f'---\nrequires_ansible: ">={lowest}.0,<{above}"\n'


def taken(root: Path = ROOT) -> Iterator[str]:
    """List the files of the checkout that the collection includes."""
    for top in TAKEN:
        below = [root / top] if (root / top).is_file() else sorted((root / top).rglob("*"))
        for path in below:
            name = str(path.relative_to(root))
            if path.is_file() and "__pycache__" not in path.parts and not name.startswith(LEFT_OUT):
                yield name


def links(root: Path = ROOT) -> dict[str, str]:
    """Return the links of the collection: those of the checkout, and links from the folders that Ansible searches."""
    below = [one for top in TAKEN for one in sorted((root / top).rglob("*"))]
    # a link to a file is read as that file
    ours = [one for one in below if one.is_symlink() and one.is_dir()]
    return {**{str(one.relative_to(root)): str(one.readlink()) for one in ours}, **LINKS}


def contents(root: Path = ROOT) -> dict[str, bytes]:
    """Return every file of the collection."""
    files = {name: text.encode() for name, text in render_pages().items()}
    for name in taken(root):
        raw = (root / name).read_bytes()
        try:
            files[name] = of_collection(name, raw.decode()).encode()
        except UnicodeDecodeError:  # a picture
            files[name] = raw
    files["playbooks/site.yml"] = site((root / "site.yml").read_text(encoding="utf-8")).encode()
    settings = (root / "ansible.cfg").read_text(encoding="utf-8")
    files["ansible.cfg"] = ansible_settings(settings).encode()
    files["meta/runtime.yml"] = runtime().encode()
    return files


def folders(names: Iterable[str]) -> list[str]:
    """List the folders of files, parents first."""
    return sorted({str(one) for name in names for one in Path(name).parents} - {"."})


def entry(name: str, content: bytes | None = None) -> dict[str, str | int | None]:
    """Describe a file, or without content a folder, in the form of Ansible's manifest."""
    digest = None if content is None else hashlib.sha256(content).hexdigest()
    return {
        "name": name,
        "ftype": "dir" if content is None else "file",
        "chksum_type": None if content is None else "sha256",
        "chksum_sha256": digest,
        "format": 1,
    }


def about(root: Path = ROOT) -> dict[str, object]:
    """Return the values of galaxy.yml, from the files that already have them."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "namespace": NAMESPACE,
        "name": NAME,
        "version": __version__,
        "authors": ["Fullmesh contributors"],
        "readme": "README.md",
        "tags": ["pytorch", "cluster", "linux", "infrastructure"],
        "description": project["description"],
        "license": [],
        "license_file": "LICENSE",
        # requirements.txt installs them, with the Python packages that no collection can require
        "dependencies": {},
        "repository": None,
        "documentation": None,
        "homepage": None,
        "issues": None,
    }


def archive(
    files: Mapping[str, bytes], linked: Mapping[str, str], info: Mapping[str, object]
) -> bytes:
    """Build the collection's archive; the same files give the same bytes."""
    listed = [entry("."), *map(entry, [*folders([*files, *linked]), *linked])]
    listed += [entry(name, files[name]) for name in sorted(files)]
    index = json.dumps({"files": listed, "format": 1}, indent=1).encode()
    document = {
        "collection_info": info,
        "file_manifest_file": entry("FILES.json", index),
        "format": 1,
    }
    manifest = json.dumps(document, indent=1).encode()
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in folders([*files, *linked]):
            one = tarfile.TarInfo(name)
            one.type, one.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(one)
        for name, target in linked.items():
            one = tarfile.TarInfo(name)
            one.type, one.linkname = tarfile.SYMTYPE, target
            tar.addfile(one)
        for name, content in {"MANIFEST.json": manifest, "FILES.json": index, **files}.items():
            one = tarfile.TarInfo(name)
            one.size, one.mode = len(content), 0o644
            tar.addfile(one, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)


def run(args: argparse.Namespace) -> int:
    """Write the archive, and print how to install it."""
    info = about()
    folder = HERE / args.to
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{NAMESPACE}-{NAME}-{info['version']}.tar.gz"
    path.write_bytes(archive(contents(), links(), info))
    said = f"{path}\nInstall it: ansible-galaxy collection install {path}   (docs/collection.md)\n"
    sys.stdout.write(said)
    return OK


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb ``collection``."""
    parser = add_verb(verbs, "collection")
    parser.add_argument("--to", default=".", metavar="DIR", help="default: this directory")
    parser.set_defaults(func=run)

# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Fetch packages with their dependencies on a machine that reaches its repositories, and make a repository of them."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tarfile
import tempfile
from typing import TYPE_CHECKING, TypedDict
from xml.sax.saxutils import escape, quoteattr

from ansible.module_utils.urls import open_url

from ..files import hash_file
from ..openpgp import BEGIN, describe_mismatch
from ..packages import sources
from ..tools import dpkg, rpm

if TYPE_CHECKING:
    from typing import Callable

    Runner = Callable[..., tuple[int, str, str]]

# "Inst chrony [4.2-1] (4.3-2 Ubuntu:24.04 [amd64])"
APT_CHOSEN = re.compile(r"^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) ", re.MULTILINE)
APT_FIELDS = re.compile(r"^(Filename|Size|SHA256|MD5sum|SHA1):.*\n", re.MULTILINE)
# rpm's flags for <, > and = (RPMSENSE_LESS, _GREATER, _EQUAL in lib/rpmds.h), and those that only rpm provides
SENSE = {2: "LT", 4: "GT", 8: "EQ", 10: "LE", 12: "GE"}
SENSE_BITS = 14
RPMLIB = "rpmlib("
RELATIONS = ("provides", "requires", "conflicts", "obsoletes")
NAMESPACE = "http://linux.duke.edu/metadata/"

LARGEST = 1 << 20  # bytes of a key


class BundlePackagesParams(TypedDict):
    """The parameters of bundle_packages. The module documents them."""

    names: list[str]
    manager: str
    url: str
    key: str
    fingerprints: list[str]
    base: str


class BundleWork(BundlePackagesParams):
    """Parameters with a private folder and its subfolder for packages.

    ``key_path``: the key that signs the repository, "" for none.
    """

    work: str
    folder: str
    key_path: str


class FetchedPackages(TypedDict):
    """Packages in ``folder`` and in a ``tar``. ``already``: those that are installed on this machine."""

    changed: bool
    files: list[str]
    already: list[str]
    folder: str
    tar: str


class PackageFetchError(Exception):
    """A coded sentence for the user."""


def make_fetch_error(what: str, said: str) -> PackageFetchError:
    """Return the error for a failure of the package manager."""
    words = [line.strip() for line in said.splitlines() if line.strip()][-3:]
    return PackageFetchError(
        "[BN-105] {}: {}. Check: this machine's package sources, and the requested names and versions."
        "asked for.".format(what, " | ".join(words).rstrip(".") or "no output")
    )


def make_private_folder(base: str) -> str:
    """Create a folder with an unpredictable name and mode 0700, so that no other user can have created it."""
    try:
        info = os.stat(base)
    except OSError as exc:
        raise PackageFetchError(
            f"[BN-107] {base} cannot be used: {exc}. Fix: use a folder that belongs to root."
        ) from exc
    mode = stat.S_IMODE(info.st_mode)
    others = mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX
    if info.st_uid not in (0, os.geteuid()) or others:
        raise PackageFetchError(
            f"[BN-107] {base} belongs to user {info.st_uid} and has mode {mode:04o}: another user could place packages "
            f"or a key there. Fix: chown root {base} && chmod 1777 {base}"
        )
    return tempfile.mkdtemp(prefix="fullmesh-bundle-", dir=base)


def fetch_signing_key(params: BundleWork) -> str:
    """Fetch the key that signs the repository on each run, and compare its fingerprint with the expected ones."""
    if not params["key"]:
        return ""
    try:
        raw = bytes(open_url(params["key"], timeout=30, http_agent="fullmesh").read(LARGEST))
    except OSError as error:  # URLError is one
        raise make_fetch_error(
            "the key {} cannot be fetched".format(params["key"]), str(error)
        ) from error
    try:
        mismatch = describe_mismatch(raw, params["fingerprints"])
    except ValueError as error:
        raise PackageFetchError(
            "[BN-108] {} is not a key: {}. Fix: correct the address (nccl_repository_key).".format(
                params["key"], error
            )
        ) from error
    if mismatch:
        raise PackageFetchError(
            "[BN-108] {} {}. Nothing was fetched. Fix: compare the fingerprint seen with the one that the vendor "
            "publishes. If they are equal, set nccl_repository_fingerprints to it, as a list.".format(
                params["key"], mismatch
            )
        )
    # apt distinguishes armored and binary keys by the suffix
    path = os.path.join(params["work"], "key.asc" if BEGIN in raw else "key.gpg")
    with open(path, "wb") as stream:
        stream.write(raw)
    return path


def has_other_source(url: str, root: str = "/") -> bool:
    """Return whether an apt source other than Fullmesh's names the repository."""
    named = [one for one in sources.find_package_sources(url, root) if one["enabled"]]
    return any(not os.path.basename(one["path"]).startswith("fullmesh-") for one in named)


def fetch_apt_packages(run: Runner, params: BundleWork) -> None:
    """Download packages with lists and archives in a private folder. apt checks all signatures."""
    private = os.path.join(params["folder"], ".apt")
    os.makedirs(os.path.join(private, "lists/partial"))
    parts = os.path.join(private, "parts")
    # an earlier run's file for NCCL names the same repository with another key
    shutil.copytree("/etc/apt/sources.list.d", parts, ignore=shutil.ignore_patterns("fullmesh-*"))
    # a source that others configured serves as well
    if params["url"] and not has_other_source(params["url"]):
        with open(os.path.join(parts, "fullmesh-bundle.list"), "w") as stream:
            # only trusted without a signature if the user set nccl_repository_key: none
            trust = "signed-by=" + params["key_path"] if params["key_path"] else "trusted=yes"
            stream.write("deb [{}] {} /\n".format(trust, params["url"]))
    options = {
        "Dir::Etc::sourceparts": parts,
        "Dir::State::lists": os.path.join(private, "lists"),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "false",
    }
    flags = [part for key, value in options.items() for part in ("-o", key + "=" + value)]
    update = ["apt-get", *flags, "-o", "APT::Update::Error-Mode=any", "update"]
    rc, out, err = run(update)
    if rc:
        raise make_fetch_error("apt-get update", err or out)
    more = ["--simulate", "--reinstall", "--allow-downgrades", "--allow-change-held-packages"]
    rc, out, err = run(["apt-get", *flags, *more, "install", *params["names"]])
    if rc:
        raise make_fetch_error("apt-get install", err or out)
    chosen = ["{}={}".format(*found) for found in APT_CHOSEN.findall(out)]
    # Not --download-only: apt would leave packages from a file: source in place.
    rc, out, err = run(["apt-get", *flags, "download", *chosen], cwd=params["folder"])
    if rc:
        raise make_fetch_error("apt-get download", err or out)
    for name in os.listdir(params["folder"]):
        if "%" in name:  # an epoch as %3a, because a file: address is decoded once more
            where = os.path.join(params["folder"], name.replace("%3a", "_"))
            os.rename(os.path.join(params["folder"], name), where)
    shutil.rmtree(private)


def index_apt_packages(run: Runner, folder: str, files: list[str]) -> None:
    """Write a flat repository's ``Packages``: each package's control fields, path, size and checksum."""
    entries = []
    for name in files:
        path = os.path.join(folder, name)
        rc, out, err = run(["dpkg-deb", "--field", path])
        if rc:
            raise make_fetch_error(f"dpkg-deb {name}", err)
        fields = APT_FIELDS.sub("", out.rstrip("\n") + "\n")
        place = f"Filename: ./{name}\nSize: {os.path.getsize(path)}\nSHA256: {hash_file(path)}\n"
        entries.append(fields + place)
    with open(os.path.join(folder, "Packages"), "w") as stream:
        stream.write("\n".join(entries))


def fetch_dnf_packages(run: Runner, params: BundleWork) -> None:
    """Download packages with dnf, which checks signatures. Installed packages need a "reinstall"."""
    flags = ["--assumeyes", "--downloadonly", "--downloaddir=" + params["folder"]]
    flags += ["--setopt=install_weak_deps=False", "--setopt=keepcache=False"]
    if params["url"]:
        flags.append("--repofrompath=fullmesh-bundle," + params["url"])
        # unchecked only if the user set nccl_repository_key: none
        flags += ["--setopt=fullmesh-bundle.gpgcheck={:d}".format(bool(params["key_path"]))]
        if params["key_path"]:
            flags += ["--setopt=fullmesh-bundle.gpgkey=file://" + params["key_path"]]
        # Fullmesh's file only has one version and may exist from an earlier run
        flags.append("--disablerepo=fullmesh-nccl")
    there = [name for name in params["names"] if run(rpm.build_query_command([name]))[0] == 0]
    for verb, names in (
        ("install", [n for n in params["names"] if n not in there]),
        ("reinstall", there),
    ):
        if names:
            rc, out, err = run(["dnf", *flags, verb, *names])
            if rc:
                raise make_fetch_error(f"dnf {verb} --downloadonly", err or out)


def render_rpm_relations(run: Runner, path: str, kind: str) -> str:
    """Render one kind of a package's relations for primary.xml."""
    tag = kind.upper().rstrip("S")
    form = f"[%{{{tag}NAME}}\\t%{{{tag}FLAGS}}\\t%{{{tag}VERSION}}\\n]"
    _, out, _ = run(["rpm", "--query", "--nosignature", "--queryformat", form, "--package", path])
    found = []
    for line in out.splitlines():
        name, flags, version = [*line.split("\t"), "", ""][:3]
        if name in ("", "(none)") or name.startswith(RPMLIB):
            continue
        sense = SENSE.get(int(flags or 0) & SENSE_BITS, "")
        text = f"<rpm:entry name={quoteattr(name)}"
        if sense and version:
            epoch, colon, rest = version.partition(":")
            ver, _, rel = (rest if colon else version).partition("-")
            text += f' flags="{sense}" epoch="{epoch if colon else 0}" ver={quoteattr(ver)}'
            text += f" rel={quoteattr(rel)}" if rel else ""
        found.append(text + "/>")
    inside = "".join(sorted(set(found)))
    return f"<rpm:{kind}>{inside}</rpm:{kind}>" if inside else ""


def render_rpm_metadata(run: Runner, folder: str, name: str) -> tuple[str, str]:
    """Render a package's entries in primary.xml and filelists.xml."""
    path = os.path.join(folder, name)
    form = "%{NAME}\\t%{ARCH}\\t%{EPOCHNUM}\\t%{VERSION}\\t%{RELEASE}\\t%{SIZE}\\t%{SUMMARY}\\n[%{FILENAMES}\\n]"
    rc, out, err = run(
        ["rpm", "--query", "--nosignature", "--queryformat", form, "--package", path]
    )
    if rc:
        raise make_fetch_error(f"rpm {name}", err)
    head, *files = out.splitlines()
    pkg, arch, epoch, version, release, size, summary = head.split("\t")
    digest, when = hash_file(path), int(os.path.getmtime(path))
    evr = f'<version epoch="{epoch}" ver="{version}" rel="{release}"/>'
    listed = "".join(f"<file>{escape(f)}</file>" for f in files if f.startswith("/"))
    primary = (
        f'<package type="rpm"><name>{pkg}</name><arch>{arch}</arch>{evr}'
        f'<checksum type="sha256" pkgid="YES">{digest}</checksum><summary>{escape(summary)}</summary>'
        f'<description/><packager/><url/><time file="{when}" build="{when}"/>'
        f'<size package="{os.path.getsize(path)}" installed="{size}" archive="{size}"/>'
        f"<location href={quoteattr(name)}/><format><rpm:license/><rpm:vendor/>"
        + "".join(render_rpm_relations(run, path, kind) for kind in RELATIONS)
        + f"{listed}</format></package>"
    )
    lists = f'<package pkgid="{digest}" name="{pkg}" arch="{arch}">{evr}{listed}</package>'
    return primary, lists


def index_dnf_packages(run: Runner, folder: str, files: list[str]) -> None:
    """Write repodata for dnf: primary and filelists, uncompressed, and repomd with their checksums."""
    repodata = os.path.join(folder, "repodata")
    os.makedirs(repodata)
    entries = [render_rpm_metadata(run, folder, name) for name in files]
    data = []
    for number, (kind, root, more) in enumerate(
        (
            ("primary", "metadata", f'xmlns="{NAMESPACE}common" xmlns:rpm="{NAMESPACE}rpm"'),
            ("filelists", "filelists", f'xmlns="{NAMESPACE}filelists"'),
        )
    ):
        path = os.path.join(repodata, kind + ".xml")
        with open(path, "w") as stream:
            stream.write(
                f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} {more} packages="{len(files)}">\n'
            )
            stream.write("\n".join(entry[number] for entry in entries) + f"\n</{root}>\n")
        data.append(
            f'<data type="{kind}"><checksum type="sha256">{hash_file(path)}</checksum>'
            f'<location href="repodata/{kind}.xml"/><timestamp>1</timestamp>'
            f"<size>{os.path.getsize(path)}</size></data>"
        )
    with open(os.path.join(repodata, "repomd.xml"), "w") as stream:
        stream.write(
            f'<?xml version="1.0" encoding="UTF-8"?>\n<repomd xmlns="{NAMESPACE}repo">'
            f"<revision>1</revision>{''.join(data)}</repomd>\n"
        )


FETCH = {"apt": fetch_apt_packages, "dnf": fetch_dnf_packages}
INDEX = {"apt": index_apt_packages, "dnf": index_dnf_packages}
SUFFIX = {"apt": ".deb", "dnf": ".rpm"}


def list_installed_packages(run: Runner, params: BundlePackagesParams) -> list[str]:
    """Return the named packages that are already installed. Their installed dependencies are not fetched."""
    if params["manager"] == "dnf":
        return [name for name in params["names"] if run(rpm.build_query_command([name]))[0] == 0]
    names = [name.partition("=")[0] for name in params["names"]]
    found = dpkg.parse_packages(run(dpkg.build_query_command(names))[1])
    return [one.name for one in found if one.state == "installed"]


def describe_installed_warning(names: list[str]) -> str:
    """Return the warning that the folder may lack dependencies of these packages."""
    return (
        f"[BN-106] Installed here already: {', '.join(names)}. The bundle lacks their installed dependencies, "
        "so it only suits nodes that have them. Fix: use a machine with as few packages as the nodes."
    )


def fetch_package_bundle(run: Runner, params: BundlePackagesParams) -> FetchedPackages:
    """Fetch and index packages in a private folder, which is removed after an error."""
    work = make_private_folder(params["base"])
    try:
        folder = os.path.join(work, "packages")
        result = fill_package_folder(
            run, {**params, "work": work, "folder": folder, "key_path": ""}
        )
        # It is whole now. Others may read it, the account that ssh uses among them, and never write.
        os.chmod(work, 0o755)  # noqa: S103 (packages are no secret)
        return result
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def fill_package_folder(run: Runner, params: BundleWork) -> FetchedPackages:
    """Fetch the key and the packages, write the index and the archive."""
    params = {**params, "key_path": fetch_signing_key(params)}
    os.mkdir(params["folder"], 0o755)
    already = list_installed_packages(run, params)
    FETCH[params["manager"]](run, params)
    suffix = SUFFIX[params["manager"]]
    files = sorted(name for name in os.listdir(params["folder"]) if name.endswith(suffix))
    if len(files) < len(params["names"]):
        raise make_fetch_error(f"{params['manager']} gave {len(files)} files", ", ".join(files))
    INDEX[params["manager"]](run, params["folder"], files)
    path = os.path.join(params["work"], "packages.tar")
    with tarfile.open(path, "w") as tar:
        tar.add(params["folder"], arcname=".")
    os.chmod(path, 0o644)
    return {
        "changed": True,
        "files": files,
        "already": already,
        "folder": params["work"],
        "tar": path,
    }

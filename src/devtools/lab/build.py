"""Build images and repositories stage by stage. The digest of a stage's inputs names it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devtools.lab import digest, nccl, sources_list
from devtools.lab.console import say, step
from devtools.lab.locks import held
from devtools.lab.paths import Paths
from devtools.lab.plan import DEBIAN, FAMILIES, IMAGES, REAL
from devtools.lab.podman import Podman
from devtools.lab.sources_list import LOOKALIKE_SUITE

# Deadlines in seconds; a first build takes a few minutes on two cores.
STAGE_SECONDS = 1200.0
LOCK_SECONDS = 3600.0
# Stages keep their latest images, so work on two branches in turn does not rebuild them each time.
KEEP_IMAGES = 3
PREFIX = "localhost/fullmesh-lab"
LISTS = {
    "el9": ["packages/el-build.list", "packages/el-purge.list"],
    "ubuntu24.04": ["packages/ubuntu-build.list"],
}


def package_list(file: Path) -> list[str]:
    """Return the package names of a list, without comments and empty lines."""
    lines = (line.split("#")[0].strip() for line in file.read_text().splitlines())
    return [line for line in lines if line]


class Builder:
    """Builds the missing stages. A second run finds all of them and builds nothing."""

    def __init__(
        self,
        paths: Paths,
        podman: Podman,
        kind: str,
        families: Sequence[str] = FAMILIES,
        images: Mapping[str, str] = IMAGES,
    ) -> None:
        """*kind* is ``lookalike``, ``registry`` or ``debian``. It builds the images of *families*."""
        self.paths, self.podman, self.kind = paths, podman, kind
        self.stages = [images[family] for family in families]
        self.digests = self._digests()

    def _digest(self, inputs: list[str], *words: str) -> str:
        root = self.paths.sources
        return digest.stage(root, [root / name for name in inputs], words)

    def _digests(self) -> dict[str, str]:
        """Return the digest of every stage; it includes the stage's parents."""
        base = self._digest(["packages/base.list"], "mmdebstrap minbase", LOOKALIKE_SUITE)
        builder = self._digest(["packages/builder.list", "repo/Containerfile"], base)
        wheels = self._digest(["nccl-wheels.txt"], "device code zeroed")
        repo = self._digest(
            [
                *("repo/mkrepo.sh", "repo/deb2rpm.py", "repo/nvidia-ctk"),
                *("repo/el.list", "repo/ubuntu.list"),
            ],
            builder,
            wheels,
        )
        images = {
            "el9": self._lookalike_digest("el9", base, repo),
            "ubuntu24.04": self._lookalike_digest("ubuntu24.04", base, ""),
        }
        if self.kind == "registry":
            images = {name: self._real_digest(name) for name in REAL}
        for system, suite in DEBIAN.items():
            own = self._digest(["packages/debian.list"], "mmdebstrap important", suite)
            images[f"{system}-base"] = own
            images[system] = self._digest(
                ["common", "debian/finish.sh", "debian/Containerfile"], own
            )
            images[f"{system}-archive"] = self._digest(
                ["debian/archive.py", "debian/archive.list"], own
            )
        return {"base": base, "builder": builder, "nccl": wheels, "repo": repo, **images}

    def _lookalike_digest(self, stage: str, base: str, repo: str) -> str:
        inputs = ["common", "lookalike/base.sh", f"lookalike/{stage}", *LISTS[stage]]
        return self._digest(inputs, stage, base, repo)

    def _real_digest(self, stage: str) -> str:
        """Return the digest of a real image, which depends on neither base nor repositories."""
        image = REAL[stage]
        return self._digest(["common", f"real/{image.family}"], image.reference, *image.packages)

    def image(self, stage: str) -> str:
        """Return the full image name of a stage."""
        kind = f"{self.kind}-" if stage in LISTS or stage in REAL else ""
        return f"{PREFIX}/{kind}{stage}:{self.digests[stage]}"

    def folder(self, stage: str) -> Path:
        """Return the folder of a stage whose result is files."""
        return self.paths.cache / f"{stage}-{self.digests[stage]}"

    def missing(self) -> list[str]:
        """Return the stages that a node needs and that are not built."""
        images = [stage for stage in self.stages if not self.podman.has_image(self.image(stage))]
        return images + [name for name in self.folders() if not self.folder(name).is_dir()]

    def folders(self) -> dict[str, str]:
        """Return the stages that are folders of the nodes, with their paths on the nodes."""
        if self.kind == "registry":  # nodes reach the archives
            return {}
        archives = {f"{name}-archive": f"/srv/{name}" for name in self.stages if name in DEBIAN}
        return {"repo": "/srv/repo", **archives}

    def ensure(self) -> None:
        """Build the missing stages; only one lab command builds at a time."""
        if not self.missing():
            return
        with held(self.paths.home / "locks" / "build", "the image build", LOCK_SECONDS):
            if not self.missing():
                return
            say(f"building images and repositories ({self.kind}), once; cache: {self.paths.home}")
            if self.kind == "registry":
                for stage in self.stages:
                    self._real_image(stage)
            else:
                self._lookalikes()
            self._forget_old()

    def _lookalikes(self) -> None:
        """Build repositories, look-alikes and Debian from Debian's archive."""
        with ThreadPoolExecutor(2) as pool:
            both(pool, self._base_and_builder, self._nccl)
            both(pool, self._repo, lambda: self._lookalike("ubuntu24.04"))
        self._lookalike("el9")
        for system in [stage for stage in self.stages if stage in DEBIAN]:
            self._debian(system)

    def _forget_old(self) -> None:
        """Remove images that several newer ones have replaced; used ones stay."""
        listed = json.loads(self.podman.must("images", "--format", "json") or "[]")
        by_stage: dict[str, list[tuple[int, str]]] = {}
        for image in listed:
            for name in image.get("Names") or []:
                if name.startswith(f"{PREFIX}/"):
                    by_stage.setdefault(name.split(":")[0], []).append((image["Created"], name))
        current = {self.image(stage) for stage in self.digests}
        for found in by_stage.values():
            for _, name in sorted(found, reverse=True)[KEEP_IMAGES:]:
                if name not in current:
                    self.podman.run("rmi", name)

    def _log(self, stage: str) -> Path:
        return self.paths.logs / f"{stage}.log"

    def _build_image(self, stage: str, file: str, *options: str) -> None:
        """Run podman build; packages come through this host's network and apt sources."""
        if self.podman.has_image(self.image(stage)):
            return
        source = self.paths.sources
        argv = self.podman.argv("build", "--layers=false", "--network=host", "--pull=missing")
        # crun would load a device filter and raise its memlock limit for it, which root on a restricted host may not
        # do. A chroot needs neither.
        argv.append("--isolation=chroot")
        argv += [*options, "-t", self.image(stage), "-f", str(source / file), str(source)]
        step(f"image {stage}", argv, self._log(stage), STAGE_SECONDS)

    def _base_and_builder(self) -> None:
        if not self.folder("repo").is_dir() or self.kind == "lookalike":
            self._base()
        if not self.folder("repo").is_dir():
            self.builder()

    def builder(self) -> str:
        """Return the image with the tools for repositories. It is built if it is missing."""
        if not self.podman.has_image(self.image("builder")):
            self._base()
            base = f"BASE={self.image('base')}"
            self._build_image("builder", "repo/Containerfile", "--build-arg", base)
        return self.image("builder")

    def _base(self) -> None:
        """Bootstrap the common root of the look-alikes."""
        self._bootstrap("base", LOOKALIKE_SUITE, "packages/base.list", "--variant=minbase")

    def _bootstrap(self, stage: str, suite: str, packages: str, *options: str) -> None:
        """Bootstrap a release of Debian, even if this host runs another one."""
        if self.podman.has_image(self.image(stage)):
            return
        lines = sources_list.read_debian(suite)
        work = self.paths.cache / f"{stage}.work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        (work / "sources.list").write_text("\n".join(lines) + "\n")
        tar = work / "base.tar"
        included = ",".join(package_list(self.paths.sources / packages))
        argv = ["mmdebstrap", "--mode=root", f"--include={included}", *options]
        argv += [suite, str(tar), str(work / "sources.list")]
        step(f"bootstrap the system {stage}", argv, self._log(stage), STAGE_SECONDS)
        load = self.podman.argv("import", "--quiet", str(tar), self.image(stage))
        step(f"import the system {stage}", load, self._log(f"{stage}-import"), STAGE_SECONDS)
        shutil.rmtree(work, ignore_errors=True)

    def _debian(self, system: str) -> None:
        """Build a Debian release's node image and its signed archive, reduced to packages that nodes install."""
        options = ("--variant=important", "--dpkgopt=force-unsafe-io")
        for name in sorted({"debian12", system}):  # its Python is in the archive of each release
            self._bootstrap(f"{name}-base", DEBIAN[name], "packages/debian.list", *options)
        base = f"BASE={self.image(f'{system}-base')}"
        self._build_image(system, "debian/Containerfile", "--build-arg", base)
        argv = ["--mount", f"type=image,source={self.image('debian12-base')},destination=/in"]
        argv += ["-v", f"{self.paths.sources}/debian:/lab:ro", self.image(f"{system}-base")]
        self._folder(f"{system}-archive", [*argv, "python3", "/lab/archive.py"])

    def _nccl(self) -> None:
        """Download NVIDIA's wheels one after the other (300 MB each) and keep the slim libraries."""
        target = self.folder("nccl")
        if target.is_dir() or self.folder("repo").is_dir():
            return
        work = self.paths.cache / "nccl.work"
        shutil.rmtree(work, ignore_errors=True)
        for number, line in enumerate(package_list(self.paths.sources / "nccl-wheels.txt")):
            wheels = work / "wheel"
            wheels.mkdir(parents=True)
            (work / "requirement.txt").write_text(line + "\n")
            argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
            argv += ["--only-binary=:all:", "-d", str(wheels), "-r", str(work / "requirement.txt")]
            step(f"fetch {line.split()[0]}", argv, self._log(f"nccl-{number}"), STAGE_SECONDS)
            version = nccl.unpack(next(wheels.glob("*.whl")), work / "out")
            say(f"NCCL {version}: device code zeroed")
            shutil.rmtree(wheels)
        os.replace(work / "out", target)

    def _repo(self) -> None:
        """Build and sign the repositories in a container of the builder image."""
        argv = ["-v", f"{self.paths.sources}/repo:/lab:ro"]
        argv += ["-v", f"{self.folder('nccl')}:/in/nccl:ro", self.image("builder")]
        self._folder("repo", [*argv, "bash", "/lab/mkrepo.sh"])

    def _folder(self, stage: str, arguments: Sequence[str]) -> None:
        """Create a stage's folder with a command in a container, which writes to /out."""
        target = self.folder(stage)
        if target.is_dir():
            return
        work = self.paths.cache / f"{stage}.work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        argv = self.podman.argv("run", "--rm", "--network=host", "--privileged")
        argv += ["-v", f"{work}:/out", *arguments]
        step(f"signed repositories {stage}", argv, self._log(stage), STAGE_SECONDS)
        os.replace(work, target)

    def _lookalike(self, stage: str) -> None:
        """Build the look-alike of a requested family."""
        if stage not in self.stages:
            return
        options = ["-v", f"{self.folder('repo')}:/srv/repo:ro"] if stage == "el9" else []
        options += ["--build-arg", f"BASE={self.image('base')}"]
        self._build_image(stage, f"lookalike/{stage}/Containerfile", *options)

    def _real_image(self, stage: str) -> None:
        """Build a node image from the distribution's own image and archives."""
        image = REAL[stage]
        options = ["--build-arg", f"BASE={image.reference}"]
        options += ["--build-arg", f"PACKAGES={' '.join(image.packages)}"]
        self._build_image(stage, f"real/{image.family}/Containerfile", *options)


def both(pool: ThreadPoolExecutor, *jobs: Callable[[], None]) -> None:
    """Run two jobs at once; the first failure is raised after both have ended."""
    futures = [pool.submit(job) for job in jobs]
    for future in futures:
        future.exception()
    for future in futures:
        future.result()

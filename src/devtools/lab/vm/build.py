"""Build the machines' disks stage by stage. The digest of a stage's inputs names it."""

from __future__ import annotations

import os
import platform
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devtools.lab import host
from devtools.lab.build import LOCK_SECONDS, STAGE_SECONDS, Builder, both
from devtools.lab.console import say, step
from devtools.lab.errors import LabError
from devtools.lab.locks import held
from devtools.lab.paths import Paths
from devtools.lab.plan import FAMILIES, IMAGES
from devtools.lab.podman import Podman

# Debian package -> a program that it installs. You need them only to start machines.
PACKAGES = {
    "qemu-system-x86": "qemu-system-x86_64",
    "qemu-utils": "qemu-img",
    "e2fsprogs": "mke2fs",
}
# Space for the file system itself, in addition to the repositories' files, in KiB.
REPO_SPARE = 32 * 1024
KEEP_FOLDERS = 2


def require_x86(machine: str) -> None:
    """Raise LB-131 on other machines, because the disks are made of this machine's own packages."""
    if machine != "x86_64":
        raise LabError(
            "LB-131",
            f"this machine is {machine}, and the virtual machines are x86-64",
            "Use the lab's containers here, or an x86-64 machine.",
        )


class VmBuilder(Builder):
    """Adds three stages to the lab's: the machines' builder, the disks, a disk with the repositories.

    The machines are always look-alikes: a registry's images have neither a kernel nor package sources.
    """

    def __init__(self, paths: Paths, podman: Podman) -> None:
        """Compute the digests of all stages, without building any."""
        super().__init__(paths, podman, "lookalike")
        recipe = [
            "vm/Containerfile",
            "vm/packages.list",
            "vm/initramfs",
            "vm/modules",
            "vm/el/domains.cil",
        ]
        self.digests["vm"] = self._digest(recipe, self.digests["base"])
        for family in FAMILIES:
            inputs = ["vm/image.sh", "vm/root", f"vm/{family}"]
            self.digests[f"vm-{family}"] = self._digest(
                inputs, self.digests["vm"], self.digests[IMAGES[family]], self.digests["repo"]
            )
        self.digests["vm-repo"] = self._digest([], "mke2fs", self.digests["repo"])

    @property
    def repo_disk(self) -> Path:
        """The read-only disk that every machine finds at /srv/repo."""
        return self.folder("vm-repo") / "repo.img"

    def vm_missing(self) -> list[str]:
        """Return the stages that a machine needs and that are not built."""
        stages = ["vm-repo", *(f"vm-{family}" for family in FAMILIES)]
        return [stage for stage in stages if not self.folder(stage).is_dir()]

    def ensure_vm(self) -> None:
        """Build the missing stages; only one lab command builds at a time."""
        require_x86(platform.machine())
        host.ensure_packages(self.paths, PACKAGES)
        if not self.vm_missing():
            return
        self.ensure()
        with held(self.paths.home / "locks" / "build", "the image build", LOCK_SECONDS):
            if not self.vm_missing():
                return
            say("building the virtual machines' disks, once")
            base = f"BASE={self.image('base')}"
            self._base()
            self._build_image("vm", "vm/Containerfile", "--build-arg", base)
            self._repo_disk()
            with ThreadPoolExecutor(2) as pool:
                both(pool, lambda: self._disk("el"), lambda: self._disk("ubuntu"))
            self._forget_disks()

    def _work(self, stage: str) -> Path:
        """Return an empty folder with a unique name: a killed command's container may still write to its own."""
        for left in self.paths.cache.glob(f"{stage}.*.work"):
            shutil.rmtree(left, ignore_errors=True)
        work = self.paths.cache / f"{stage}.{os.getpid()}.work"
        work.mkdir(parents=True)
        return work

    def _repo_disk(self) -> None:
        target = self.folder("vm-repo")
        if target.is_dir():
            return
        work, repo = self._work("vm-repo"), self.folder("repo")
        used = sum(file.stat().st_size for file in repo.rglob("*") if file.is_file())
        size = f"{used * 5 // 4 // 1024 + REPO_SPARE}k"
        argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(repo), "-L", "fullmesh-repo"]
        step(
            "disk vm-repo",
            [*argv, str(work / "repo.img"), size],
            self._log("vm-repo"),
            STAGE_SECONDS,
        )
        os.replace(work, target)

    def _disk(self, family: str) -> None:
        """Make a family's disk in a container of the builder."""
        stage = f"vm-{family}"
        target = self.folder(stage)
        if target.is_dir():
            return
        work = self._work(stage)
        argv = self.podman.argv("run", "--rm", "--network=none", "--privileged")
        argv += ["--mount", f"type=image,source={self.image(IMAGES[family])},destination=/in"]
        argv += ["-v", f"{work}:/out", "-v", f"{self.folder('repo')}:/srv/repo:ro"]
        argv += ["-v", f"{self.paths.sources}/vm:/lab:ro", self.image("vm")]
        step(
            f"disk {stage}", [*argv, "sh", "/lab/image.sh", family], self._log(stage), STAGE_SECONDS
        )
        os.replace(work, target)

    def _forget_disks(self) -> None:
        """Remove disks that newer ones have replaced; a running machine keeps its open file."""
        for stage in ("vm-repo", *(f"vm-{family}" for family in FAMILIES)):
            found = sorted(
                self.paths.cache.glob(f"{stage}-" + "[0-9a-f]" * 16),
                key=lambda folder: folder.stat().st_mtime,
                reverse=True,
            )
            for folder in found[KEEP_FOLDERS:]:
                if folder != self.folder(stage):
                    shutil.rmtree(folder, ignore_errors=True)

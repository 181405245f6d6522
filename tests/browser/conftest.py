"""Brings the browser: Debian's and Ubuntu's package, installed once, as the lab installs what it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .chromium import Browser

# package -> a file that it brings. Without a font there is no text to look at.
PACKAGES = {
    "chromium": "/usr/bin/chromium",
    "chromium-driver": "/usr/bin/chromedriver",
    "libxml2-utils": "/usr/bin/xmllint",
    "fonts-dejavu-core": "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
}
SECONDS = 900


def install() -> None:
    """Install what is missing. A machine that cannot is a failure, never a skipped test."""
    wanted = [name for name, path in PACKAGES.items() if not Path(path).exists()]
    if not wanted:
        return
    assert shutil.which("apt-get"), f"install the counterparts of {wanted} yourself"
    assert os.geteuid() == 0, f"installing {wanted} needs root"
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-q", "-y"]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        [*apt, "update"],
        [*apt, "install", "--no-install-recommends", *wanted],
    ):
        subprocess.run(command, env=env, timeout=SECONDS, check=True, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def tools() -> None:
    """The packages are there."""
    install()


@pytest.fixture(scope="session")
def browser(tools: None) -> Iterator[Browser]:
    """One Chromium for all tests."""
    started = Browser()
    yield started
    started.driver.quit()


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where the screenshots are kept for people."""
    folder = Path(__file__).parents[2] / ".fullmesh/pictures"
    folder.mkdir(parents=True, exist_ok=True)
    return folder

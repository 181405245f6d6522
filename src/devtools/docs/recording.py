"""``python -m devtools.docs.recording``: record what the documentation shows, on a lab; nothing is written by hand.

``demo``: the film of the README's command. ``hour``: the commands of a first hour on two bare machines, with their
times. ``anew``: page and films from the recordings that are there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from devtools.docs import film, hour
from devtools.docs.cast import Cast, TypedCommand, load, record
from devtools.docs.pictures import PICTURES
from fullmesh.settings import ROOT, RUNS

RECORDINGS = ROOT / "docs/recordings"
HOUR = RECORDINGS / "first-hour.json"
PAGE = ROOT / "docs/tutorials/first-hour.md"
LAB = "hour"
LABS = Path("/var/lib/fullmesh-lab/labs")
WIDE, TALL = 118, 400
FILMS = {"demo": 34, "diagnose": 21}  # rows of each
PAGES = {"report": (1000, 1730), "finding": (1000, 760)}  # of reports: width and height of each


def on_terminal(typed: str, env: Mapping[str, str], answer: str = "") -> Cast:
    """Record a command of this checkout as it is typed, and its answer to a question."""
    return record(TypedCommand(["bash", "-c", typed], typed, answer), (WIDE, TALL), ROOT, env)


def films() -> None:
    """Draw each film."""
    for name, rows in FILMS.items():
        made = film.svg(load(RECORDINGS / f"{name}.cast"), rows)
        (PICTURES / f"{name}.svg").write_text(made, encoding="utf-8")


def keep(name: str, cast: Cast) -> None:
    """Write a recording down whole."""
    RECORDINGS.mkdir(exist_ok=True)
    (RECORDINGS / f"{name}.cast").write_text(cast.dump(), encoding="utf-8")


def photographed(report: Path, name: str) -> None:
    """A report as a browser shows it, from a copy: a packaged browser may not see every folder."""
    size = f"{PAGES[name][0]},{PAGES[name][1]}"
    flags = "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --force-color-profile=srgb"
    with tempfile.TemporaryDirectory() as folder:
        page, made = Path(folder, "report.html"), Path(folder, "made.png")
        shutil.copy(report, page)
        command = ["chromium", *flags.split(), f"--window-size={size}", f"--screenshot={made}"]
        subprocess.run([*command, page.as_uri()], check=True, capture_output=True)
        shutil.copy(made, PICTURES / f"{name}.png")


def demo() -> None:
    """The README's command, and its report."""
    keep("demo", on_terminal("./fullmesh demo", {}))
    photographed(RUNS / "latest/report.html", "report")
    films()


def nodes() -> dict[str, dict[str, str]]:
    """The lab's nodes, as its inventory has them."""
    text = (LABS / LAB / "inventory/hosts.yml").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = yaml.safe_load(text)["all"]["children"]["torch_nodes"][
        "hosts"
    ]
    return found


def ssh_settings(place: Path) -> dict[str, str]:
    """What lets ssh find a lab's nodes by their names, as a user's ``~/.ssh/config`` does."""
    lines = [f"Host {name}\n  HostName {one['ansible_host']}" for name, one in nodes().items()]
    key, known = LABS / LAB / "id_ed25519", LABS / LAB / "known_hosts"
    lines.append(f"Host *\n  User root\n  IdentityFile {key}\n  UserKnownHostsFile {known}")
    config = place / "ssh_config"
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"ANSIBLE_SSH_COMMON_ARGS": f"-F {config}"}


def give_addresses() -> None:
    """What somebody did by hand before: the cluster's cards have addresses until the next reboot."""
    for name, one in nodes().items():
        card, address = one["fullmesh_interface"], one["fullmesh_address"]
        typed = f"ip link set {card} up; ip address add {address} dev {card}"
        command = [str(ROOT / "fullmesh"), "lab", "exec", "--name", LAB, name, "--", "sh", "-c"]
        subprocess.run([*command, typed], check=True)


def first_hour() -> None:
    """Every command of a first hour, one after the other."""
    mine = ROOT / "inventory/mine"
    if mine.exists():
        raise SystemExit(
            f"{mine} is there: somebody's own inventory; the recording needs its place"
        )
    launcher = [str(ROOT / "fullmesh"), "lab"]
    subprocess.run([*launcher, "up", "--name", LAB], check=True)
    done = {}
    try:
        with tempfile.TemporaryDirectory() as place:
            env = ssh_settings(Path(place))
            give_addresses()
            for step in hour.STEPS:
                sys.stderr.write(f"$ {step.typed}\n")
                cast = on_terminal(step.typed, env, step.answer)
                if cast.code != step.code:
                    raise SystemExit(f"{step.typed}: exit code {cast.code}\n{film.text(cast)}")
                if step.name in FILMS:
                    keep(step.name, cast)
                    photographed(RUNS / "latest/report.html", "finding")
                done[step.name] = hour.Done(cast.typed, cast.code, cast.seconds, film.text(cast))
    finally:
        shutil.rmtree(mine, ignore_errors=True)
        subprocess.run([*launcher, "down", "--name", LAB], check=False)
    HOUR.write_text(hour.dump(done), encoding="utf-8")
    written()


def written() -> None:
    """The page of the first hour and the films, from their recordings."""
    PAGE.write_text(hour.page(hour.load(HOUR.read_text(encoding="utf-8"))), encoding="utf-8")
    films()


WAYS: Mapping[str, Callable[[], None]] = {"demo": demo, "hour": first_hour, "anew": written}


def main() -> int:
    """Record what is asked for."""
    os.environ.setdefault("LANG", "C.UTF-8")
    for word in sys.argv[1:]:
        WAYS[word]()
    return 0


if __name__ == "__main__":
    sys.exit(main())

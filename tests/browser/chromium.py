"""Chromium, driven over its debugging pipe: no driver, no websocket, nothing but the browser itself."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

SECONDS = 60.0
# Chromium wants its pipe at the descriptors 3 and 4, which may be taken by the very pipes that go there
PLUG = """
import fcntl, os, sys
given = [fcntl.fcntl(int(name), fcntl.F_DUPFD, 10) for name in sys.argv[1:3]]
for number, at in zip(given, (3, 4)):
    os.dup2(number, at)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A headless Chromium with one page."""

    def __init__(self, profile: Path) -> None:
        """Start it; *profile* is a directory of its own."""
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        command = [
            "chromium",
            "--headless=new",
            # the test runs as root in CI, where Chromium's own sandbox refuses to start
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            "--disable-background-networking",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        wrapped = [sys.executable, "-c", PLUG]
        self._process = subprocess.Popen(
            [*wrapped, str(to_read), str(to_write), *command],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(profile / "stderr").open("wb") if profile.is_dir() else subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        """Nothing more to do."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it and its helpers, which have a session of their own."""
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            self._session = ""
            self.ask("Browser.close")
            self._process.wait(timeout=10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                raise TimeoutError(f"Chromium said nothing for {SECONDS:g} s")
            chunk = os.read(self._from, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium ended")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\0", 1)
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; what else comes is kept in *events*."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            found = self._receive(deadline)
            if found.get("id") == self._number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                answer: dict[str, Any] = found["result"]
                return answer
            if "method" in found:
                self.events.append(found)

    def wait_for(self, event: str) -> None:
        """Wait until an event has come."""
        deadline = time.monotonic() + SECONDS
        while not any(found["method"] == event for found in self.events):
            found = self._receive(deadline)
            if "method" in found:
                self.events.append(found)

    def look(self, width: int, height: int, scheme: str, media: str = "") -> None:
        """Set the window's size, light or dark, screen or print."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        # a scroll that glides is still under way when the next look is taken
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)

    def open(self, path: Path, scripts: bool = True) -> float:
        """Load a file; returns the milliseconds until it was loaded and drawn once."""
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        started = time.monotonic()
        self.ask("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")
        self.ask("Page.captureScreenshot", format="jpeg", quality=1)
        return (time.monotonic() - started) * 1000

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        found = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def key(self, name: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=name)

    def picture(self, path: Path) -> bytes:
        """The whole page as PNG."""
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        data = base64.b64decode(found["data"])
        path.write_bytes(data)
        return data

    def pdf(self) -> bytes:
        """The page as it is printed."""
        found = self.ask(
            "Page.printToPDF", printBackground=False, paperWidth=8.27, paperHeight=11.7
        )
        return base64.b64decode(found["data"])

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and what the page's policy stopped."""
        said = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                said.append(str(params["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded":
                said.append(str(params["entry"]["text"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                said.append(str(params["args"]))
        return said

    def requests(self) -> list[str]:
        """Every address that the page asked for."""
        return [
            str(event["params"]["request"]["url"])
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

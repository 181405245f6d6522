"""Drive Chromium with one page through Selenium. Most steps are commands of its debugging protocol."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.wait import WebDriverWait
from selenium_axe_python import Axe

SECONDS = 60.0
OPTIONS = (
    "--headless=new",
    # the tests run as root in CI, where Chromium's own sandbox refuses to start
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


# axe's rules for WCAG 2.2, levels A and AA, and its advice beyond them
RULES = [*("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"), "best-practice"]


class Browser:
    """A headless Chromium with one page. ``quit`` ends it."""

    def __init__(self) -> None:
        """Start it."""
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for option in OPTIONS:
            options.add_argument(option)
        # a page without scripts never answers Selenium's query whether it is loaded
        options.page_load_strategy = "none"
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the debugging protocol. Return its answer."""
        found: dict[str, Any] = self.driver.execute_cdp_cmd(method, params)
        return found

    def has_seen(self, event: str) -> bool:
        """Read the new events. Return whether one of all events so far is *event*."""
        log = self.driver.get_log("performance")
        self.events += [json.loads(entry["message"])["message"] for entry in log]
        return any(found["method"] == event for found in self.events)

    def look(self, width: int, height: int, scheme: str, media: str = "") -> None:
        """Set the window's size, light or dark, screen or print."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        # smooth scrolling would still be running at the next picture
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)

    def open(self, path: Path, scripts: bool = True) -> float:
        """Load a file. Return the milliseconds until it was loaded and drawn once."""
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.complaints()
        self.has_seen("")
        self.events.clear()
        started = time.monotonic()
        self.driver.get(path.as_uri())
        WebDriverWait(self.driver, SECONDS, 0.02).until(
            lambda _: self.has_seen("Page.loadEventFired")
        )
        self.ask("Page.captureScreenshot", format="jpeg", quality=1)
        return (time.monotonic() - started) * 1000

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def key(self, name: str) -> None:
        """Press a key: its character, or one of ``selenium.webdriver.common.keys``."""
        ActionChains(self.driver).send_keys(name).perform()

    def picture(self, path: Path) -> bytes:
        """Return the whole page as PNG."""
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        data = base64.b64decode(found["data"])
        path.write_bytes(data)
        return data

    def pdf(self) -> bytes:
        """Return the printed page as PDF."""
        found = self.ask(
            "Page.printToPDF", printBackground=False, paperWidth=8.27, paperHeight=11.7
        )
        return base64.b64decode(found["data"])

    def complaints(self) -> list[str]:
        """Return errors and warnings of the console, exceptions, and violations of the page's policy."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def find_barriers(self) -> str:
        """Return what axe finds on the page: barriers to people who use a keyboard or see poorly."""
        axe = Axe(self.driver)
        axe.inject()
        found = axe.run(options={"runOnly": RULES, "resultTypes": ["violations"]})["violations"]
        return axe.report(found) if found else ""

    def requests(self) -> list[str]:
        """Return every address that the page requested."""
        self.has_seen("")
        return [
            str(event["params"]["request"]["url"])
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

"""A headless Chromium for tests, and what it noticed while it showed a page."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WIDE, PHONE = 1280, 390


def missing() -> str:
    """Why there is no browser to test with; empty when there is one."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed: pip install 'archmodel[browser]'"
    if not _chromium() or not _driver():
        return "no Chromium here; on Debian: apt-get install -y chromium chromium-driver"
    return ""


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


def _driver() -> str | None:
    return shutil.which("chromedriver")


class Browser:
    """One Chromium; `open` shows a page of a given width and waits until it is drawn."""

    def __init__(self, folder: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = str(_chromium())
        for flag in ("headless=new", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars", "no-first-run"):
            options.add_argument(f"--{flag}")
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options.add_argument("--no-sandbox")
        options.add_experimental_option("prefs", {"download.default_directory": str(folder)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.set_capability("unhandledPromptBehavior", "ignore")
        self.driver = webdriver.Chrome(options=options, service=Service(str(_driver())))
        self.driver.set_script_timeout(60)

    def open(self, page: Path, width: int = WIDE, *, dark: bool = False) -> None:
        """Shows `page`; console and network logs begin anew."""
        phone = width < 600
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": phone}
        self.command("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.command("Network.enable", {})
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(page.resolve().as_uri())
        self.until("return document.documentElement.dataset.ready === 'true'")

    def command(self, name: str, arguments: dict[str, Any]) -> Any:
        """A command of the Chrome DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, seconds: float = 30.0) -> None:
        """Waits until the script is true."""
        end = time.monotonic() + seconds
        while not self.run(script):
            if time.monotonic() > end:
                raise AssertionError(f"never came true: {script}; console: {self.console()}")
            time.sleep(0.05)

    def console(self) -> list[str]:
        """Warnings and errors of the console since the page was opened."""
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] in ("WARNING", "SEVERE")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened, besides the page and what it holds itself."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if not url.startswith(("file:", "data:", "blob:")):
                    found.append(url)
        return found

    def dialog(self) -> str | None:
        """Text of an open dialog."""
        from selenium.common.exceptions import NoAlertPresentException

        try:
            return str(self.driver.switch_to.alert.text)
        except NoAlertPresentException:
            return None

    def overflow(self) -> list[str]:
        """Elements that reach over the right edge of the window, those inside of a scrolling box left out."""
        found: list[str] = self.run(
            """
            const right = document.documentElement.clientWidth + 1;
            const scrolls = (e) => e.closest('.scroll') !== null;
            const wide = document.documentElement.scrollWidth > right ? ['the page'] : [];
            for (const e of document.querySelectorAll('body *')) {
              const box = e.getBoundingClientRect();
              if (box.width && box.right > right && !scrolls(e) && !e.closest('svg')) {
                wide.push(e.tagName + '.' + e.className + '#' + e.id);
              }
            }
            return wide;"""
        )
        return found

    def screenshot(self, file: Path) -> None:
        """The whole page as a picture."""
        import base64

        size = self.command("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.command("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        file.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def opened(folder: Path) -> Iterator[Browser]:
    """A browser that is closed at the end; skips the test where there is none."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    browser = Browser(folder)
    try:
        yield browser
    finally:
        browser.driver.quit()

"""Debian's Chromium, driven by playwright, and a broker whose page it opens."""

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import free_port

ROOT = Path(__file__).parents[2]
WAIT_MS = 20_000


def browser_parts() -> tuple[Any, str, str]:
    """Return playwright's entry, Chromium's path and axe-core, or skip."""
    directory, axe = os.environ.get("BARNABAS_PLAYWRIGHT"), os.environ.get("BARNABAS_AXE")
    chromium = shutil.which("chromium")
    if not directory or not axe or not chromium:
        pytest.skip("BARNABAS_PLAYWRIGHT, BARNABAS_AXE or chromium is missing: no page was opened")
    sys.path.append(directory)
    from playwright.sync_api import sync_playwright

    return sync_playwright, chromium, Path(axe).read_text()


@contextmanager
def launched() -> Iterator[Any]:
    """Give a browser, or skip."""
    entry, chromium, _ = browser_parts()
    with entry() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


class Served:
    """A broker in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.kafka, self.http = free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            sys.executable, "-m", "client.cli", "serve", "--data", str(self._directory),
            "--set", f"listeners=PLAINTEXT://127.0.0.1:{self.kafka}",
            "--set", f"barnabas.http.listener=127.0.0.1:{self.http}",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/readyz", timeout=5):
                    return
            except OSError:
                assert time.monotonic() < deadline, "the broker does not start"
                time.sleep(0.05)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)


class Watched:
    """A browser context whose errors and requests are kept."""

    def __init__(self, browser: Any, served: Served, width: int, theme: str) -> None:
        self.base = f"http://127.0.0.1:{served.http}/"
        self.context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=theme
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.problems: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.base, "blob:", "data:")):
            self.problems.append(f"foreign: {request.url}")

    def open(self, view: str) -> None:
        self.page.goto(f"{self.base}#/{view}")
        self.page.wait_for_selector("main h1:not(.sr)")
        self.page.wait_for_selector(".loading", state="detached")

    def close(self) -> None:
        self.context.close()

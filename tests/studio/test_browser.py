"""The studio in a real browser: from a table to its posterior by the keyboard alone, a refusal of
the ledger, narrow and wide, light and dark, and nothing for axe or the console to complain of.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from noisewise import Bins, families, release
from noisewise.curator.ledger import Ledger
from studio_client import EXAMPLES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(__file__).parent / "axe" / "axe.min.js"
FAULTS = """async () => (await axe.run(document)).violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => one.id + ": " + one.nodes.map((node) => node.html).join(" | "))"""
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")


@dataclass
class Studio:
    """A server, a browser, and what they were heard to say."""

    page: Any
    base: str
    folder: Path
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)

    def visit(self, address: str) -> None:
        self.page.goto(self.base + address)

    def here(self, name: str) -> None:
        """Remember where this page is."""
        self.places[name] = self.page.url.removeprefix(self.base)

    def tab_to(self, where: str) -> None:
        """By the Tab key alone, to the element that a selector names."""
        for _ in range(80):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("(where) => document.activeElement.matches(where)", where):
                return
        raise AssertionError(f"no Tab leads to {where}")

    def type(self, where: str, text: str) -> None:
        self.tab_to(where)
        self.page.keyboard.type(text)

    def press(self, where: str) -> None:
        self.tab_to(where)
        self.page.keyboard.press("Enter")

    def wait(self, words: str) -> None:
        self.page.get_by_text(words).first.wait_for(timeout=90_000)


def _read(file: Path) -> str:
    for _ in range(300):
        if file.exists():
            return file.read_text().strip()
        time.sleep(0.1)
    raise AssertionError(f"nothing was written to {file.name}")


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    from playwright.sync_api import sync_playwright

    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(EXAMPLES / "visits.csv", folder)
    run = "import sys; from noisewise.cli.main import run; sys.exit(run(sys.argv[1:]))"
    told, opens = tmp_path / "told", tmp_path / "browser"
    opens.write_text(f'#!/bin/sh\necho "$1" > {told}.part && mv {told}.part {told}\n')
    opens.chmod(0o700)
    screen = {"DISPLAY": ":0", "BROWSER": f"{opens} %s", "PYTHONUNBUFFERED": "1"}
    with (
        subprocess.Popen(
            [sys.executable, "-c", run, "studio", str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | screen,
        ) as process,
        sync_playwright() as playwright,
    ):
        assert process.stdout is not None
        link = re.search(r"http://\S+", "".join(process.stdout.readline() for _ in range(4)))
        assert link is not None
        given = _read(told)  # what the person's own browser was told to open
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1400, "height": 900})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        made = Studio(page, link[0].split("/?")[0], folder)
        assert given.startswith(f"{made.base}/?token=")
        page.on("console", lambda one: one.type == "error" and made.complaints.append(one.text))
        page.on("pageerror", lambda one: made.complaints.append(str(one)))
        page.on("request", lambda one: made.asked.append(one.url))
        page.goto(given)
        yield made
        browser.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def _walk(studio: Studio) -> None:
    """From a table to its posterior, by the keyboard alone, without having read anything."""
    page = studio.page
    assert page.url == f"{studio.base}/release"
    studio.press('.note a[href="/ledger"]')  # the page says that a ledger comes first
    page.wait_for_url("**/ledger")
    studio.type("#ledger", "budget.db")
    studio.type("#dataset", "visits-2026")
    studio.type("#epsilon", "2")
    studio.press('button[type="submit"]')
    studio.wait("Make a release")
    studio.press('a.button[href="/release"]')
    page.wait_for_url("**/release")
    studio.press("form.release .actions button")  # too early
    studio.wait("fields need another look")
    studio.type("#file", "v")
    studio.tab_to("#kind-one")
    studio.type("#column", "wait")
    studio.type("#family", "W")
    studio.type("#lower", "0")
    studio.type("#upper", "60")
    studio.type("#outside", "the")
    studio.type("#epsilon", "0.5")
    studio.type("#ledger", "b")
    studio.type("#dataset", "visits-2026")
    studio.type("#out", "wait.release.json")
    page.keyboard.press("Enter")
    studio.wait("Release this")
    studio.here("dry run")
    studio.press("a.spend")
    studio.wait("What is spent is spent for good")
    studio.here("question")
    studio.press("button.spend")
    studio.wait("The release is in")
    studio.here("released")
    studio.press('a.button[href^="/posterior"]')
    page.wait_for_url("**/posterior?*")
    studio.press('form[action="/posterior/ask"] button[type="submit"]')
    studio.wait("How far to trust it")
    studio.here("posterior")


def _arrived(studio: Studio) -> None:
    assert "with a probability of 90 % it lies between" in studio.page.content()
    (account,) = Ledger(studio.folder / "budget.db").accounts()
    assert (str(account.spent), account.releases) == ("0.5", 1)
    studio.visit(studio.places["released"])
    studio.page.reload()
    assert "The release is in" in studio.page.content()
    assert Ledger(studio.folder / "budget.db").accounts()[0].releases == 1


def _refused_by_the_ledger(studio: Studio) -> None:
    page = studio.page
    studio.visit(studio.places["dry run"])
    page.fill("#epsilon", "1.75")
    page.fill("#out", "more.json")
    page.click("form.release .actions button")
    studio.wait("refused")
    assert "has 1.5 of its limit 2 left, and this release costs 1.75" in page.content()
    assert page.input_value("#epsilon") == "1.75"  # to be mended, not typed again
    studio.here("refusal")


def _the_curve_moves(studio: Studio) -> None:
    page = studio.page
    studio.visit("/plan")
    line = page.get_attribute("polyline", "points")
    page.focus("#size")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("text=With 3 000 records")
    assert page.inner_text("#size-now") == "3000"
    assert page.get_attribute("polyline", "points") != line
    page.wait_for_selector("text=From 12 simulations each")
    page.reload()
    assert page.inner_text("#size-now") == "3000"
    page.click(".command .copy")
    page.wait_for_selector("text=Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.inner_text(".command code")
    assert copied.endswith("--n 3000 --epsilon 0.5")


def _work_is_cancelled(studio: Studio) -> None:
    page = studio.page
    studio.visit("/plan?family=normal")
    page.fill("#several", "500 1000 2000 5000 10000")
    page.fill("#costs", "0.1 0.2 0.5 1 2")
    page.click("text=Simulate the table")
    page.click("text=Cancel")
    studio.wait("It was stopped")
    studio.here("cancelled")


def _a_table_of_widths(studio: Studio) -> None:
    page = studio.page
    studio.visit("/plan")
    page.fill("#several", "500 2000")
    page.fill("#costs", "0.5 1")
    page.click("text=Simulate the table")
    page.wait_for_selector(".work table", timeout=90_000)
    studio.here("table of widths")


def _the_model_is_checked(studio: Studio) -> None:
    """A histogram at the price that is left, and the model's own posterior against it."""
    page = studio.page
    histogram = families.Table({"wait": Bins([0, 5, 10, 20, 60])})
    release(
        studio.folder / "visits.csv",
        family=histogram,
        epsilon="0.5",
        ledger=studio.folder / "budget.db",
        dataset="visits-2026",
        out=studio.folder / "bins.release.json",
    )
    studio.visit("/check")
    page.select_option("#release", "wait.release.json")
    page.select_option("#histogram", "bins.release.json")
    page.click('form[action="/check/ask"] button')
    page.wait_for_selector(".work table", timeout=90_000)
    assert "p = " in page.inner_text(".work")
    studio.here("checked")


def _every_page(studio: Studio) -> None:
    page = studio.page
    axe = AXE.read_text()
    names = ("/plan", "/release", "/posterior", "/check", "/ledger", *studio.places.values())
    for address in names:
        studio.visit(address)
        for width, scheme in ((1400, "light"), (360, "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, address
            page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, address
            page.evaluate(axe)
            assert page.evaluate(FAULTS) == [], (address, width)
    page.set_viewport_size({"width": 1400, "height": 900})


def _nothing_complained_of(studio: Studio) -> None:
    assert studio.complaints == []
    assert studio.asked
    assert [url for url in studio.asked if not url.startswith((f"{studio.base}/", "data:,"))] == []
    assert [url for url in studio.asked[1:] if "token" in url] == []


def test_the_studio_in_a_browser(studio: Studio) -> None:
    """One walk through one studio: each step goes on where the last one ended."""
    _walk(studio)
    _arrived(studio)
    _refused_by_the_ledger(studio)
    _the_curve_moves(studio)
    _work_is_cancelled(studio)
    _a_table_of_widths(studio)
    _the_model_is_checked(studio)
    _every_page(studio)
    _nothing_complained_of(studio)


def test_other_servers_on_this_machine_are_not_sent_the_cookie(studio: Studio) -> None:
    heard: list[str | None] = []

    class Listens(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("cookie"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<script>fetch('/again')</script>")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Listens) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("127.0.0.1", "localhost", "other.localhost"):
            before = len(heard)
            with studio.page.expect_response("**/again"):
                studio.page.goto(f"http://{name}:{server.server_port}/")
            assert len(heard) >= before + 2
        server.shutdown()
    assert set(heard) == {None}
    studio.page.goto(f"{studio.base}/release")
    assert "Open the link" not in studio.page.content()

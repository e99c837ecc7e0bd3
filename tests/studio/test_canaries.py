"""Nothing that the studio sends, prints, logs or writes holds a record, and no log holds its token.

A real server, logging at debug level, on tables with canaries among their records.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pandas as pd
import pytest

from curator.test_leaks import FAILING, NUMBERS, RUN, WORD, assert_silent
from noisewise.curator.ledger import Ledger
from noisewise.mechanism.privacy import pure
from studio_client import ASKED


class Browser:
    """Keeps all that it was sent."""

    def __init__(self, link: str) -> None:
        base = link.split("/?")[0]
        self.client = httpx2.Client(base_url=base, follow_redirects=True, timeout=60)
        self.client.headers |= {"origin": base, "sec-fetch-site": "same-origin"}
        self.heard = b""
        self.ask("GET", link)

    def ask(self, method: str, address: str, **sent: object) -> httpx2.Response:
        answer = self.client.request(method, address, **sent)  # type: ignore[arg-type]
        for one in (*answer.history, answer):
            self.heard += one.content + repr(one.headers.raw).encode()
        return answer

    def work(self, address: str, asked: dict[str, str]) -> httpx2.Response:
        """A form, and its job until that is over."""
        answer = self.ask("POST", address, data=asked)
        while 'hx-trigger="every' in answer.text:
            time.sleep(0.2)
            answer = self.ask("GET", str(answer.url))
        return answer


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str], str]]:
    folder, scratch = tmp_path / "folder", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    frame = pd.DataFrame({"x": [*NUMBERS * 20, 1.0], "y": [WORD] * 40 + ["a"]})
    frame.to_csv(folder / "visits.csv", index=False)
    for name, make in FAILING.items():
        make(folder / f"{name.replace(' ', '-')}.csv")
    Ledger(folder / "budget.db").set_limit("visits-2026", pure(100))
    with (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, "studio", str(folder), "--no-browser"],
            env=os.environ
            | {"TMPDIR": str(scratch), "PYTHONDEVMODE": "1", "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout is not None
    link = ""
    while not link:
        found = re.search(r"http://127\S+", process.stdout.readline())
        link = found[0] if found else ""
    try:
        yield folder, process, link
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_no_record_and_no_secret_is_seen(
    served: tuple[Path, "subprocess.Popen[str]", str], tmp_path: Path
) -> None:
    folder, process, link = served
    before = {path: path.read_bytes() for path in folder.rglob("*")}
    browser = Browser(link)
    asked = {**ASKED, "column": "x", "out": "x.json"}
    assert "this would happen" in browser.work("/release/rehearse", asked).text
    told = browser.work("/release/spend", asked | {"key": "1" * 32}).text
    assert "The release is in <strong>x.json</strong>" in told
    told = browser.work("/posterior/ask", {"release": "x.json", "prior": "weak"}).text
    assert "How far to trust it" in told
    tables = [path.name for path in folder.iterdir() if path.suffix in (".csv", ".parquet")]
    for name in set(tables) - {"visits.csv"}:
        asked = {**ASKED, "file": name, "column": "x", "out": "n.json"}
        assert "refused" in browser.work("/release/rehearse", asked).text
    assert "refused" in browser.work("/release/spend", asked | {"key": "k" * 32}).text
    for page in ("/plan", "/release", "/posterior", "/check", "/ledger", "/nothing"):
        browser.ask("GET", page)
    session = browser.client.cookies.get(f"noisewise-{link.split(':')[2].split('/')[0]}")
    browser.client.close()
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    said = process.stdout.read()
    assert process.wait(30) == 0
    assert "The studio is closed." in said
    logged = (tmp_path / "stderr").read_text()
    written = b"".join(
        path.name.encode() + path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and before.get(path) != path.read_bytes()
    )
    assert_silent(browser.heard + said.encode() + logged.encode() + written)
    token = link.split("token=")[1]
    assert session
    for secret in (token, session):
        assert secret not in said + logged
        assert secret.encode() not in written
    assert token.encode() not in browser.heard
    assert list((tmp_path / "scratch").iterdir()) == []

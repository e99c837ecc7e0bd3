"""The button that spends: asked twice, and charged once, however often it is pressed, in however
many tabs, studios and lives of the process.
"""

import html
import json
import os
import re
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import noisewise
from noisewise.curator.ledger import Ledger
from noisewise.mechanism.privacy import pure
from noisewise.studio.security import Keys
from studio_client import ASKED, finished, opened

KILLED = """
import os, sys
from noisewise.curator.publish import Prepared
from noisewise.studio import curating
Prepared._write = lambda *_: os.kill(os.getpid(), 9)
os.chdir(sys.argv[1])
curating.publish(eval(sys.argv[2]), lambda _: None, lambda: None)
"""


def rehearsed(client: TestClient, **changes: str) -> tuple[str, str]:
    """A dry run: where it stands, and what it says."""
    address = client.post("/release/rehearse", data=ASKED | changes).url.path
    return address, finished(client, address)


def asked(client: TestClient, address: str) -> dict[str, str]:
    """What the second question would send."""
    said = client.get(f"{address}/confirm").text
    assert "Yes, spend epsilon = 0.5 and release" in said
    pairs = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', said)
    return {name: html.unescape(value) for name, value in pairs}


def spent(folder: Path) -> tuple[Decimal, int]:
    (account,) = Ledger(folder / "budget.db").accounts()
    return account.spent, account.releases


def test_from_a_dry_run_to_a_release(client: TestClient, folder: Path) -> None:
    address, said = rehearsed(client)
    assert "exponential of column &#39;wait&#39;, n = 2000 (public)" in said
    assert "a suspicion of 50 % about what somebody" in said
    assert re.search(r"Left now</dt><dd>2 of 2, for visits-2026</dd>", said)
    assert re.search(r"Left after</dt><dd><strong>1.5</strong>", said)
    assert (spent(folder), (folder / "wait.release.json").exists()) == ((0, 0), False)
    form = asked(client, address)
    confirmed = client.get(f"{address}/confirm").text
    assert "2 of 2" in confirmed
    assert "<strong>1.5</strong>" in confirmed
    assert spent(folder) == (0, 0)
    after = client.post("/release/spend", data=form)
    told = finished(client, after.url.path)
    assert "The release is in <strong>wait.release.json</strong>" in told
    assert "has <strong>1.5</strong> left" in told
    made = noisewise.load(folder / "wait.release.json")
    assert made.privacy is not None
    assert Ledger(folder / "budget.db").paid(form["key"]) == made.privacy.spend
    for _ in range(2):  # pressed again, and the page loaded again
        again = client.post("/release/spend", data=form)
        assert again.url.path == after.url.path
        assert finished(client, again.url.path) == told
    assert spent(folder) == (Decimal("0.5"), 1)
    assert "paid for already" in client.get(f"{address}/confirm").text


def test_two_tabs_and_two_studios_at_once(client: TestClient, folder: Path) -> None:
    address, _ = rehearsed(client)
    form = asked(client, address)
    told = []
    with opened(folder, Keys(4712)) as other:
        other.headers["origin"] = "http://127.0.0.1:4712"

        def press(one: TestClient) -> None:
            told.append(finished(one, one.post("/release/spend", data=form).url.path))

        threads = [threading.Thread(target=press, args=(one,)) for one in (client, other) * 2]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert ["The release is in" in said for said in told] == [True] * 4
    assert spent(folder) == (Decimal("0.5"), 1)


def test_killed_between_payment_and_file(client: TestClient, folder: Path) -> None:
    """It stays paid for, is not charged again, and no second release is made for the payment."""
    address, _ = rehearsed(client)
    form = asked(client, address)
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), repr(form)], check=False)
    assert done.returncode == -9
    assert spent(folder) == (Decimal("0.5"), 1)
    said = finished(client, client.post("/release/spend", data=form).url.path)
    assert "Paid for, and lost" in said
    assert spent(folder) == (Decimal("0.5"), 1)
    assert not (folder / "wait.release.json").exists()


def test_a_studio_that_was_started_anew_knows_it(client: TestClient, folder: Path) -> None:
    address, _ = rehearsed(client)
    form = asked(client, address)
    finished(client, client.post("/release/spend", data=form).url.path)
    with opened(folder) as anew:
        assert "There is nothing here" in anew.get(address).text
        said = finished(anew, anew.post("/release/spend", data=form).url.path)
    assert "nothing was charged again" in said
    assert spent(folder) == (Decimal("0.5"), 1)


def test_the_ledger_refuses(client: TestClient, folder: Path) -> None:
    _, said = rehearsed(client, epsilon="3")
    assert "has 2 of its limit 2 left, and this release costs 3" in said
    address, _ = rehearsed(client)
    form = asked(client, address)
    Ledger(folder / "budget.db").set_limit("visits-2026", pure("0.1"))
    assert "too little left since the dry run" in client.get(f"{address}/confirm").text
    said = finished(client, client.post("/release/spend", data=form).url.path)
    assert "has 0.1 of its limit 0.1 left" in said
    Ledger(folder / "budget.db").set_limit("visits-2026", pure(1))
    said = finished(client, client.post("/release/spend", data=form).url.path)
    assert "has <strong>0.5</strong> left" in said


def test_a_release_that_is_called_off_costs_nothing(folder: Path) -> None:
    """The worker asks before it spends; a studio that is gone, or cancels, does not say go."""
    worker = subprocess.Popen(
        [sys.executable, "-P", "-m", "noisewise.studio.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    request = {"root": str(folder), "task": "publish", "arguments": ASKED | {"key": "k" * 32}}
    worker.stdin.write(json.dumps(request) + "\n")
    worker.stdin.flush()
    assert json.loads(worker.stdout.readline()) == {"ask": True}
    said, _ = worker.communicate()  # closes its input
    assert json.loads(said) == {"failed": "the release was called off, and nothing is spent."}
    assert spent(folder) == (0, 0)
    assert sorted(os.listdir(folder)) == ["budget.db", "visits.csv"]


@pytest.mark.parametrize("key", ["", "short", "k" * 65, "k" * 32 + "'"])
def test_a_spend_without_a_key_is_none(key: str, client: TestClient, folder: Path) -> None:
    assert client.post("/release/spend", data=ASKED | {"key": key}).status_code == 400
    assert spent(folder) == (0, 0)

"""The studio, and a browser that came by its link."""

import atexit
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.testclient import TestClient

from noisewise.studio.app import make_app
from noisewise.studio.security import Keys
from noisewise.studio.workers import Workers

EXAMPLES = Path(__file__).parents[1] / "examples"
KEYS = Keys(4711)
OWN = {"origin": "http://127.0.0.1:4711", "sec-fetch-site": "same-origin"}
"""What a browser says of a request by a page of the studio's."""
ASKED = {
    "file": "visits.csv",
    "kind": "one",
    "column": "wait",
    "family": "exponential",
    "lower": "0",
    "upper": "60",
    "outside": "clamp",
    "epsilon": "0.5",
    "ledger": "budget.db",
    "dataset": "visits-2026",
    "out": "wait.release.json",
}
"""A release, as it is filled in."""
WORKERS = Workers(eager=False)
"""Of all studios of the tests."""
atexit.register(WORKERS.close)


@contextmanager
def opened(folder: Path, keys: Keys = KEYS) -> Iterator[TestClient]:
    """A browser that came by the printed link."""
    site, guard = make_app(folder, keys, WORKERS)
    client = TestClient(guard, base_url=f"http://127.0.0.1:{keys.port}", headers=OWN)
    client.cookies.set(keys.cookie, keys.session, domain="127.0.0.1", path="/")
    try:
        yield client
    finally:
        site.jobs.close()


def finished(client: TestClient, address: str, seconds: float = 60) -> str:
    """The page of a job that is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        said = client.get(address).text
        if 'hx-trigger="every' not in said:
            return said
        time.sleep(0.1)
    raise AssertionError("the job did not end")

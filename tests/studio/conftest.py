"""A folder with a table, a ledger in it, and the studio open for it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from noisewise.curator.ledger import Ledger
from noisewise.mechanism.privacy import pure
from studio_client import EXAMPLES, opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    shutil.copy(EXAMPLES / "visits.csv", made)
    Ledger(made / "budget.db").set_limit("visits-2026", pure(2))
    return made


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    with opened(folder) as client:
        yield client

"""A small table beside a ledger that pays for many releases of it."""

from pathlib import Path

import pytest

from noisewise.curator.ledger import Ledger
from noisewise.mechanism.privacy import pure


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = Ledger(tmp_path / "budget.db")
    book.set_limit("d", pure(100_000))
    return book


@pytest.fixture
def folder(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("x\n1\n0\n")
    return tmp_path

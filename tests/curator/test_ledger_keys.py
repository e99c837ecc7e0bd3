"""A request that arrives twice is charged once: its key lies in the transaction that charges it."""

import sqlite3
import threading
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from noisewise.curator.ledger import Ledger
from noisewise.errors import AlreadySpent, BudgetExceeded
from noisewise.mechanism.privacy import pure

UNIT = "replace_one, 1 per person"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "budget.db")
    made.set_limit("visits", pure(1))
    return made


def test_a_key_is_charged_once(ledger: Ledger) -> None:
    assert ledger.paid("k") is None
    first = ledger.spend("visits", pure("0.3"), UNIT, "test", "k")
    assert ledger.paid("k") == first
    with pytest.raises(AlreadySpent, match="not charged again") as caught:
        ledger.spend("visits", pure("0.3"), UNIT, "test", "k")
    assert caught.value.spend == first
    ledger.spend("visits", pure("0.3"), UNIT, "test", "another")
    ledger.spend("visits", pure("0.3"), UNIT, "test")
    (account,) = ledger.accounts()
    assert (account.spent, account.releases) == (Decimal("0.9"), 3)


def test_it_is_told_of_its_spend_where_nothing_is_left(ledger: Ledger) -> None:
    ledger.spend("visits", pure(1), UNIT, "test", "k")
    with pytest.raises(AlreadySpent):
        ledger.spend("visits", pure(1), UNIT, "test", "k")


def test_a_refused_key_may_come_again(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded):
        ledger.spend("visits", pure(2), UNIT, "test", "k")
    assert ledger.paid("k") is None
    ledger.set_limit("visits", pure(2))
    ledger.spend("visits", pure(2), UNIT, "test", "k")


def test_many_at_once_are_charged_once(ledger: Ledger) -> None:
    told: list[str] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        try:
            told.append(ledger.spend("visits", pure("0.1"), UNIT, "test", "k"))
        except AlreadySpent as error:
            told.append(error.spend)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(told) == 8
    assert len(set(told)) == 1
    assert ledger.accounts()[0].releases == 1


def test_keys_come_with_a_ledger_of_format_4(ledger: Ledger) -> None:
    spent = ledger.spend("visits", pure("0.1"), UNIT, "test")
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.executescript("DROP TABLE keys; PRAGMA user_version = 4;")
    assert ledger.paid("k") is None
    assert ledger.spend("visits", pure("0.1"), UNIT, "test", "k") == ledger.paid("k") != spent
    assert ledger.accounts()[0].spent == Decimal("0.2")


@pytest.mark.parametrize("change", ["DELETE FROM keys", "UPDATE keys SET key = 'other'"])
def test_a_key_stays(change: str, ledger: Ledger) -> None:
    ledger.spend("visits", pure("0.1"), UNIT, "test", "k")
    with (
        closing(sqlite3.connect(ledger.path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="a key is never"),
    ):
        connection.execute(change)

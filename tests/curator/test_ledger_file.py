"""The ledger's file: a paid spend stays, whatever is renamed, linked, copied, put back or left
beside it by a killed process.
"""

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from noisewise import files
from noisewise.curator import ledger_file
from noisewise.curator.ledger import Ledger
from noisewise.errors import LedgerError
from noisewise.mechanism.privacy import pure

UNIT = "replace_one, 1 per person"
FORMAT_3 = """PRAGMA application_id = 1314540615; PRAGMA user_version = 3;
CREATE TABLE limits (position INTEGER PRIMARY KEY, dataset TEXT NOT NULL, amount TEXT NOT NULL, at TEXT NOT NULL,
                     currency TEXT NOT NULL DEFAULT 'epsilon');
CREATE TABLE spends (position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL, amount TEXT NOT NULL,
                     at TEXT NOT NULL, purpose TEXT NOT NULL, currency TEXT NOT NULL DEFAULT 'epsilon',
                     unit TEXT NOT NULL DEFAULT '');
CREATE TRIGGER spends_stay BEFORE DELETE ON spends BEGIN SELECT RAISE(ABORT, 'a spend is never deleted'); END;
CREATE TRIGGER spends_hold BEFORE UPDATE ON spends BEGIN SELECT RAISE(ABORT, 'a spend is never changed'); END;
INSERT INTO limits (dataset, amount, at) VALUES ('visits', '10', '2026-01-01T00:00:00.000000+00:00');"""  # noqa: E501
KILLED = (
    "INSERT INTO spends (id, dataset, amount, at, purpose, unit) VALUES ('killed', 'visits', "
    "'0.1', '2026', 'killed', ?)"
)


@pytest.fixture(params=["made today", "of format 3"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / "budget.db"
    if request.param == "of format 3":
        with closing(sqlite3.connect(made)) as connection:
            connection.executescript(FORMAT_3)
    else:
        Ledger(made).set_limit("visits", pure(10))
    return made


def beside(path: Path) -> Path:
    return path.with_name(path.name + "-journal")


def killed_while_the_journal_goes(path: Path) -> bytes:
    """A spend through SQLite whose process dies as the journal is removed: all is written, and the
    journal is there still.

    With synchronous = OFF the journal is complete as soon as the rows are changed, and a copy of it
    is what stays.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(KILLED, (UNIT,))
        journal = beside(path).read_bytes()
        connection.execute("COMMIT")
    beside(path).write_bytes(journal)
    return journal


def renamed(path: Path) -> str:
    other = path.with_name("other.db")
    path.rename(other)
    spend = Ledger(other).spend("visits", pure(1), UNIT, "paid")
    other.rename(path)
    return spend


def moved_and_back(path: Path) -> str:
    """Out of its folder, under its own name."""
    other = path.parent / "elsewhere" / path.name
    other.parent.mkdir()
    path.rename(other)
    spend = Ledger(other).spend("visits", pure(1), UNIT, "paid")
    other.rename(path)
    return spend


def backed_up_and_put_back(path: Path) -> str:
    """A copy is made elsewhere and used there, the original is lost, and the copy is put where the
    old journal lies.
    """
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    spend = Ledger(copy).spend("visits", pure(1), UNIT, "paid")
    path.unlink()
    shutil.copy(copy, path)
    return spend


def through_a_symbolic_link(path: Path) -> str:
    other = path.with_name("other.db")
    other.symlink_to(path)
    spend = Ledger(other).spend("visits", pure(1), UNIT, "paid")
    assert other.is_symlink()
    return spend


@pytest.mark.parametrize(
    "way", [renamed, moved_and_back, backed_up_and_put_back, through_a_symbolic_link]
)
def test_an_old_journal_takes_no_spend_back(way: Callable[[Path], str], path: Path) -> None:
    killed_while_the_journal_goes(path)
    spend = way(path)
    spends = {entry.spend for entry in Ledger(path).history() if entry.spend}
    assert spend in spends
    Ledger(path).spend("visits", pure(1), UNIT, "another")
    # what the killed process wrote may count
    assert Ledger(path).accounts()[0].spent in (Decimal("2.1"), Decimal(2))
    assert not beside(path).exists()
    # whoever looks at it by other means finds the same
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(
            "SELECT count(*) FROM spends WHERE id = ?", (spend,)
        ).fetchone() == (1,)


def test_a_second_hard_link_is_refused_and_nothing_is_lost(path: Path) -> None:
    killed_while_the_journal_goes(path)
    other = path.with_name("other.db")
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(LedgerError, match="a second name"):
            Ledger(name).spend("visits", pure(1), UNIT, "not paid")
        with pytest.raises(LedgerError, match="a second name"):
            Ledger(name).accounts()
    other.unlink()
    spend = Ledger(path).spend("visits", pure(1), UNIT, "paid")
    assert spend in {entry.spend for entry in Ledger(path).history()}


@contextmanager
def in_between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> Iterator[None]:
    """Something happens at the last instant before the new ledger takes the old one's place."""
    with monkeypatch.context() as patch:
        replace = os.replace

        def then(source: Path, target: Path) -> None:
            act()
            replace(source, target)

        patch.setattr(files.os, "replace", then)
        yield


@pytest.mark.parametrize("act", ["rename", "link"])
def test_another_name_at_the_last_instant_releases_nothing(
    act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other name has the ledger without the spend, so whoever asked for it must not get it."""
    path, other = tmp_path / "budget.db", tmp_path / "other.db"
    Ledger(path).set_limit("visits", pure(10))
    with (
        in_between(monkeypatch, lambda: getattr(os, act)(path, other)),
        pytest.raises(LedgerError, match="renamed or linked"),
    ):
        Ledger(path).spend("visits", pure(1), UNIT, "refused")
    assert Ledger(other).accounts()[0].spent == 0
    other.rename(path)
    Ledger(path).spend("visits", pure(1), UNIT, "paid")
    assert Ledger(path).accounts()[0].spent == 1


def test_who_waits_for_a_ledger_takes_the_one_that_has_the_name_then(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    Ledger(path).set_limit("visits", pure(1000))
    waiting = [
        threading.Thread(target=Ledger(path).spend, args=("visits", pure(1), UNIT, "thread"))
        for _ in range(12)
    ]
    with open(path, "r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for thread in waiting:
            thread.start()
        fcntl.flock(held, fcntl.LOCK_UN)
    for thread in waiting:
        thread.join()
    assert Ledger(path).accounts()[0].spent == 12
    assert os.listdir(tmp_path) == ["budget.db"]


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # where another test loaded JAX
def test_a_child_forked_meanwhile_does_not_hold_the_ledger(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the locked file open too, for as long as it lives; the lock ends with the transaction
    all the same.
    """
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.2)
    ends, children = os.pipe(), []

    def fork_and_fail() -> None:
        with ledger_file.LedgerFile(path).transaction():
            child = os.fork()
            if child == 0:
                os.close(ends[1])
                os.read(ends[0], 1)
                os._exit(0)
            children.append(child)
            raise ZeroDivisionError  # so that the file stays in its place

    try:
        with pytest.raises(ZeroDivisionError):
            fork_and_fail()
        Ledger(path).spend("visits", pure(1), UNIT, "paid")
    finally:
        for end in ends:
            os.close(end)
        for child in children:
            os.waitpid(child, 0)
    assert Ledger(path).accounts()[0].spent == 1


def test_a_process_that_holds_it_through_sqlite_is_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.2)
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('BEGIN IMMEDIATE'); print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(LedgerError, match="another process has held it"):
            Ledger(path).spend("visits", pure(1), UNIT, "refused")
        other.communicate("\n", timeout=60)
    Ledger(path).spend("visits", pure(1), UNIT, "paid")
    assert Ledger(path).accounts()[0].spent == 1


def test_an_older_ledger_that_was_left_half_written_is_refused(tmp_path: Path) -> None:
    """The killed process had written some of its pages. SQLite can settle that, but only a person
    knows whether it may.
    """
    path = tmp_path / "budget.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FORMAT_3)
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    before = path.read_bytes()
    journal = killed_while_the_journal_goes(path)
    after = path.read_bytes()
    changed = [
        at for at in range(0, len(after), size) if before[at : at + size] != after[at : at + size]
    ]
    assert len(changed) == 3  # the header, the spends, and the index of their ids
    path.write_bytes(after[: changed[-1]] + before[changed[-1] :])
    beside(path).write_bytes(journal)
    with pytest.raises(LedgerError, match=r"half-written.*sqlite3 .*integrity_check"):
        Ledger(path).spend("visits", pure(1), UNIT, "refused")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    Ledger(path).spend("visits", pure(1), UNIT, "paid")
    assert Ledger(path).accounts()[0].spent == 1


def test_a_ledger_in_another_mode_of_sqlite_is_refused(path: Path) -> None:
    """In WAL mode the last spends may stand in a second file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(KILLED, (UNIT,))
        copy, wal = path.read_bytes(), path.with_name(path.name + "-wal").read_bytes()
    path.write_bytes(copy)
    path.with_name(path.name + "-wal").write_bytes(wal)
    with pytest.raises(LedgerError, match="journal_mode = DELETE"):
        Ledger(path).accounts()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    assert Ledger(path).accounts()[0].spent == Decimal("0.1")


def test_the_new_file_keeps_the_permissions_of_the_old_one(path: Path) -> None:
    path.chmod(0o640)
    before = path.stat()
    Ledger(path).spend("visits", pure(1), UNIT, "paid")
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert after.st_ino != before.st_ino


def test_what_a_killed_process_left_is_no_hindrance(path: Path) -> None:
    path.with_name(path.name + "-next").write_bytes(b"half a ledger")
    Ledger(path).spend("visits", pure(1), UNIT, "paid")
    assert os.listdir(path.parent) == ["budget.db"]
    assert Ledger(path).owns(path.with_name("budget.db-next"))


@pytest.mark.parametrize(("mask", "mode"), [(0o027, 0o640), (0o002, 0o664), (0o077, 0o600)])
def test_a_new_ledger_has_the_permissions_of_any_new_file(
    mask: int, mode: int, tmp_path: Path
) -> None:
    """A release is for everybody to read; who may read or charge a ledger is for its owner."""
    before = os.umask(mask)
    try:
        Ledger(tmp_path / "new.db").set_limit("visits", pure(1))
    finally:
        os.umask(before)
    assert (tmp_path / "new.db").stat().st_mode & 0o777 == mode
    assert os.listdir(tmp_path) == ["new.db"]


def test_where_there_are_no_hard_links_no_ledger_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename might put an empty ledger in the place of one made and charged meanwhile."""

    def no_links(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(LedgerError, match="cannot create the ledger"):
        Ledger(tmp_path / "new.db").set_limit("visits", pure(1))
    assert os.listdir(tmp_path) == []

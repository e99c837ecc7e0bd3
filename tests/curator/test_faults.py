"""Whatever fails, whenever: no release and at most an over-count in the ledger, or a whole release
that the ledger knows.
"""

import fcntl
import os
import signal
from pathlib import Path

import pytest

import noisewise
from curator.forks import forks, publish
from noisewise.artifact import load_many
from noisewise.curator import ledger_file
from noisewise.curator.ledger import Ledger
from noisewise.errors import LedgerError
from noisewise.mechanism.privacy import pure


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    (tmp_path / "t.csv").write_text("x\n" + "".join(f"{i % 7}\n" for i in range(200)))
    book = Ledger(tmp_path / "budget.db")
    book.set_limit("visits", pure(1000))
    return book


def spends(book: Ledger) -> set[str]:
    return {entry.spend for entry in book.history() if entry.spend}


def spend_of(path: Path) -> str | None:
    """The spend that a file of releases names; a partial file would not load."""
    releases = load_many(path) if path.suffix == ".jsonl" else [noisewise.load(path)]
    assert len(releases) == (2 if path.suffix == ".jsonl" else 1)
    (spend,) = {made.privacy.spend for made in releases if made.privacy}
    return spend


def nameless(folder: Path) -> bool:
    """Whether files may be written here that have no name yet."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except (AttributeError, OSError):
        return False
    return True


@pytest.mark.thorough
def test_a_kill_at_any_step_leaves_no_release_that_the_ledger_does_not_know(
    ledger: Ledger, tmp_path: Path
) -> None:
    """SIGKILL before each line that publishing reaches: plain, private bounds, and by groups."""
    lines = 0
    for kind, killed in forks("steps", tmp_path).items():
        assert {status for _, status in killed} == {-signal.SIGKILL}
        there = [(tmp_path / name).exists() for name, _ in killed]
        assert not there[0]
        assert there[-1] == (kind == "plain")  # the others end with lines that were tried there
        assert there == sorted(there)  # once it is there it stays
        lines += len(killed)
    assert lines > 150
    files = [*tmp_path.glob("*.json"), *tmp_path.glob("*.jsonl")]
    assert {spend_of(path) for path in files} <= spends(ledger)
    # some were killed between the spend and the file, some before the spend
    assert len(files) < len(spends(ledger)) < lines
    assert ledger.accounts()[0].spent >= pure("0.1").amount * len(files)
    left = {path.name for path in tmp_path.iterdir() if path not in files} - {
        "t.csv",
        "budget.db",
        "budget.db-next",
    }
    # a paid release that did not get its name
    assert all(name.startswith(".noisewise-") for name in left)
    assert not left or not nameless(tmp_path)


def test_a_full_disk_leaves_whole_releases_that_the_ledger_knows(
    ledger: Ledger, tmp_path: Path
) -> None:
    """The operating system refuses to write more than so many bytes to a file: 33 sizes, from the
    start or from the spend on.
    """
    for when, outcomes in forks("full", tmp_path).items():
        assert set(outcomes) == {0, 7}  # never a traceback
        assert outcomes[-1] == 0
        files = list(tmp_path.glob(f"{when}-*.json"))
        assert len(files) == outcomes.count(0)
        assert {spend_of(path) for path in files} <= spends(ledger)
    assert list(tmp_path.glob(".*")) == []
    publish(tmp_path, tmp_path / "after.json")  # the ledger is whole


MODES = {
    "the folder of the release": ("out", 0o555, 7),
    "the ledger": ("budget.db", 0o444, 7),
    "the ledger's folder": (".", 0o555, 7),
    "the records": ("t.csv", 0o000, 7),
    "records that may only be read": ("t.csv", 0o444, 0),
}


@pytest.mark.parametrize("which", MODES)
def test_what_may_not_be_written_is_refused_for_nothing(
    which: str, ledger: Ledger, tmp_path: Path
) -> None:
    name, mode, outcome = MODES[which]
    (tmp_path / "out").mkdir()
    (tmp_path / name).chmod(mode)
    try:
        assert forks("closed", tmp_path) == {"outcome": outcome}
    finally:
        (tmp_path / name).chmod(0o755)
    assert len(spends(ledger)) == len(list((tmp_path / "out").iterdir())) == (0 if outcome else 1)


def test_a_ledger_that_another_process_holds_releases_nothing(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.2)
    with open(ledger.path, "r+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match="another process has held it"):
            publish(tmp_path, tmp_path / "r.json")
    assert not (tmp_path / "r.json").exists()
    publish(tmp_path, tmp_path / "r.json")
    assert {spend_of(tmp_path / "r.json")} == spends(ledger)


def test_a_ledger_taken_between_the_check_and_the_spend_releases_nothing(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.2)
    with open(ledger.path, "r+b") as other:
        check = Ledger.check

        def then_taken(*words: object) -> object:
            account = check(*words)  # type: ignore[arg-type]
            fcntl.flock(other, fcntl.LOCK_EX)
            return account

        monkeypatch.setattr(Ledger, "check", then_taken)
        with pytest.raises(LedgerError, match="another process has held it"):
            publish(tmp_path, tmp_path / "r.json")
    assert not (tmp_path / "r.json").exists()
    assert spends(ledger) == set()

"""What is refused costs nothing, and shows nothing of what it was given."""

import errno
import os
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import noisewise
from noisewise import Bounds, PrivateBounds, families
from noisewise.cli.main import run
from noisewise.curator.ledger import Ledger
from noisewise.errors import OutputError, RecordsError, UnsupportedCombination
from noisewise.mechanism.privacy import Cost, pure


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


def own(statistic: Any) -> families.Family:
    return type(
        "Odd",
        (families.Family,),
        {"kind": "odd", "support": (-np.inf, np.inf), "statistic": statistic},
    )()  # type: ignore[no-any-return]


COMMAND = (
    "release t.csv --column x --family bernoulli --epsilon 1 --ledger budget.db --dataset d --out"
)
UNPAID = "release t.csv --column x --family bernoulli --epsilon 1 --dataset d"


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@dataclass(frozen=True)
class WithField(families.Family):
    kind: ClassVar[str] = "with_field"
    support: ClassVar = (0.0, np.inf)
    field: Any

    def statistic(self, x, xp=np):  # type: ignore[no-untyped-def]
        return (x,)


@pytest.mark.parametrize(
    ("family", "bounds", "missing", "values"),
    [
        (
            families.Normal(),
            PrivateBounds(0, 100, epsilon=50, outside="clamp"),
            99.0,
            [1.0, 2.0] * 50,
        ),
        (
            families.Normal(mean=1e15),
            PrivateBounds(0, 1, epsilon=50, outside="clamp"),
            None,
            [0.5] * 50,
        ),
        (
            families.Poisson(),
            PrivateBounds(0, 1e12, epsilon=50, outside="redact"),
            None,
            [1e12] * 50,
        ),
    ],
)
def test_private_bounds_that_do_not_serve_still_give_a_release(
    family, bounds, missing, values, ledger: Ledger
) -> None:  # type: ignore[no-untyped-def]
    """None of them is refused, and each is charged; the first's missing value mostly lies beyond
    the chosen bounds, which must not send the release to the whole range. That all five choose the
    last of some thousand candidates has a probability of 10^-15.
    """
    frame = pd.DataFrame({"x": values})
    chosen = []
    for count in range(1, 6):
        made = noisewise.release(
            frame,
            column="x",
            family=family,
            bounds=bounds,
            missing=missing,
            epsilon=1,
            ledger=ledger.path,
            dataset="d",
        )
        assert made.bounds is not None
        assert bounds.lower <= made.bounds.lower < made.bounds.upper <= bounds.upper
        assert ledger.accounts()[0].spent == 51 * count
        chosen.append(made.bounds)
    assert any(one.upper < bounds.upper for one in chosen)


def test_a_headroom_refusal_of_private_bounds_costs_nothing(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x\n" + "1\n" * 20_000)
    bounds = PrivateBounds(0, 1e15, epsilon=100, outside="redact")
    for _ in range(3):
        with pytest.raises(ValueError, match="do not fit in 63 bits"):
            noisewise.release(
                path,
                column="x",
                family=families.Poisson(),
                bounds=bounds,
                epsilon=1,
                ledger=ledger.path,
                dataset="d",
            )
    assert ledger.accounts()[0].spent == 0


@pytest.mark.parametrize(
    "command",
    [
        f"{COMMAND} {'n' * 300}.json",
        f"{COMMAND} budget.db-journal",
        f"{COMMAND} budget.db-wal",
        f"{COMMAND} o.json --description \udc80",
        f"{COMMAND} /",
        f"release {'n' * 300}.csv --column x --family bernoulli --epsilon 1 --no-ledger --out "
        "o.json",
        f"release t.csv --column x --family bernoulli --epsilon 1 --ledger {'n' * 300} --dataset "
        "d --out o.json",
        f"ledger set-limit {'n' * 300} --dataset d --epsilon 1",
        f"release t.csv --column x --family gamma(shape=1{'0' * 400}) --bounds 0 1 --outside "
        "clamp --epsilon 1 --no-ledger --out o.json",
        "release t.csv --column x --family categorical(categories=1000000000,other=0) --epsilon 1 "
        "--no-ledger --out o.json",
        "release t.csv --column x --family normal(mean=(1,2)) --bounds 0 1 --outside clamp "
        "--epsilon 1 --no-ledger --out o.json",
        f"release t.csv --column x --family bernoulli --epsilon 0.{'1' * 60} --no-ledger --out "
        "o.json",
    ],
)
def test_refusals_cost_nothing_and_are_one_clean_line(
    command: str, folder: Path, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split(" ")) == 2
    line = capsys.readouterr().err
    assert line.startswith("noisewise: ")
    assert line.count("\n") == 1
    assert "truth value" not in line
    assert ledger.accounts()[0].spent == 0
    assert sorted(os.listdir()) == ["budget.db", "t.csv"]


def test_a_name_from_outside_steers_neither_terminal_nor_shell(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = [
        "release",
        "t.csv",
        "--column",
        "x",
        "--family",
        "bernoulli",
        "--epsilon",
        "1",
        "--out",
        "o",
    ]
    assert run([*plain, "--dataset", "a b; rm -rf ~", "--ledger", "\x1b[31m.db"]) == 2
    assert "\x1b" not in capsys.readouterr().err
    assert run([*plain, "--dataset", "a b; rm -rf ~", "--ledger", "budget.db"]) == 2
    assert "--dataset 'a b; rm -rf ~'" in capsys.readouterr().err


def test_an_object_given_by_mistake_is_not_shown(folder: Path) -> None:
    """Nor are the names of a frame's columns: of a file without a header they are a record."""
    secret = pd.DataFrame({"SECRET": ["SECRET", "1"]})
    good: dict[str, Any] = {
        "column": "x",
        "family": families.Bernoulli(),
        "epsilon": 1,
        "ledger": None,
    }
    mistakes = (
        "family",
        "epsilon",
        "ledger",
        "bounds",
        "missing",
        "records_per_person",
        "neighbours",
        "description",
        "dataset",
        "column",
        "out",
    )
    for mistake in mistakes:
        for table in ("t.csv", secret):
            with pytest.raises(ValueError) as caught:
                noisewise.release(table, **(good | {mistake: secret["SECRET"]}))
            assert "SECRET" not in str(caught.value), mistake
    for table in (
        secret,
        pa.Table.from_pandas(secret),
        duckdb.from_arrow(pa.Table.from_pandas(secret)),
    ):
        with pytest.raises(RecordsError, match="no column 'x'") as refused:
            noisewise.release(table, **good)
        assert "SECRET" not in str(refused.value)
    with pytest.raises(ValueError, match="two numbers, got Series") as caught:
        Bounds(secret["SECRET"], 1, outside="clamp")  # type: ignore[arg-type]
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("amount", ["-1", "0", "NaN"])
def test_the_ledger_takes_positive_amounts_only(amount: str, ledger: Ledger) -> None:
    bad = Cost("epsilon", Decimal(amount))
    with pytest.raises(ValueError, match="positive"):
        ledger.spend("d", bad, "one record", "test")
    if amount != "0":  # a limit of 0 freezes the dataset
        with pytest.raises(ValueError, match="positive"):
            ledger.set_limit("d", bad)
    assert len(ledger.history()) == 1


def test_out_is_checked_before_anything_is_spent(folder: Path, ledger: Ledger) -> None:
    settings: dict[str, Any] = {
        "column": "x",
        "family": families.Bernoulli(),
        "epsilon": 1,
        "ledger": ledger.path,
        "dataset": "d",
    }
    made = noisewise.release("t.csv", **settings, out="o.json")
    assert noisewise.load("o.json") == made
    with pytest.raises(OutputError, match="never overwritten"):
        noisewise.release("t.csv", **settings, out="o.json")
    for odd in (
        {"ledger": False},
        {"out": 3},
        {"family": families.Bernoulli},
        {"missing": "a"},
        {"bounds": "private"},
    ):
        with pytest.raises(ValueError, match="must be"):
            noisewise.release("t.csv", **(settings | odd))
    assert ledger.accounts()[0].releases == 1


@pytest.mark.parametrize(
    "statistic",
    [
        lambda self, x, xp=np: (x // 2.0,),
        lambda self, x, xp=np: (x % 3.0,),
        lambda self, x, xp=np: (1.0 // x,),
        lambda self, x, xp=np: (xp.sin(x),),
        lambda self, x, xp=np: (x if xp is np else 1.00001 * x,),  # off by six steps
    ],
)
@pytest.mark.parametrize(
    "bounds",
    [Bounds(-5, 10, outside="clamp"), PrivateBounds(-5, 10, epsilon=2, outside="clamp")],
    ids=["given", "private"],
)
def test_a_statistic_that_the_database_computes_otherwise_is_refused_for_nothing(
    statistic: Any, bounds: Any, folder: Path, ledger: Ledger
) -> None:
    with pytest.raises(
        UnsupportedCombination, match="does not run in the database as it does in NumPy"
    ):
        noisewise.release(
            "t.csv",
            column="x",
            family=own(statistic),
            bounds=bounds,
            epsilon=1,
            ledger=ledger.path,
            dataset="d",
        )
    assert ledger.accounts()[0].spent == 0


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        {1},
        Decimal(1),
        object(),
        "\ud800",
        np.arange(3),
        (1, 2),
        "x" * 40_000_000,
    ],
)
def test_a_family_that_no_file_can_hold_is_refused_for_nothing(
    value: object, folder: Path, ledger: Ledger
) -> None:
    with pytest.raises(UnsupportedCombination, match="cannot be written to a file and read back"):
        noisewise.release(
            "t.csv",
            column="x",
            family=WithField(value),
            bounds=Bounds(0, 9, outside="clamp"),
            epsilon=1,
            ledger=ledger.path,
            dataset="d",
        )
    assert ledger.accounts()[0].spent == 0


def test_no_path_to_the_ledgers_own_files_is_taken(folder: Path, ledger: Ledger) -> None:
    (folder / "sub").mkdir()
    os.symlink("budget.db", "link.db")
    for book, out in (
        ("link.db", "budget.db-journal"),
        ("budget.db", "sub/../budget.db-wal"),
        ("link.db", "sub/../budget.db-shm"),
    ):
        assert run([*UNPAID.split(), "--ledger", book, "--out", out]) == 2
    assert ledger.accounts()[0].spent == 0


def test_a_full_disk_is_noticed_before_the_spend(
    folder: Path,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert run([*COMMAND.split(), "o.json"]) == 2
    assert "No space left" in capsys.readouterr().err
    assert ledger.accounts()[0].spent == 0


def test_a_ledger_that_cannot_be_flushed_to_disk_releases_nothing(
    folder: Path,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "fsync", full)
    assert run([*COMMAND.split(), "o.json"]) == 2
    assert "the ledger budget.db cannot be used: No space left" in capsys.readouterr().err
    assert ledger.accounts()[0].spent == 0
    assert not Path("o.json").exists()
    assert not Path("budget.db-next").exists()

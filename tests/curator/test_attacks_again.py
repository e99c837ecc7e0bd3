"""A second round of attacks that once worked: re-typed labels, lenient CSVs, and releases that
could not be kept.
"""

import errno
import os
import threading
import warnings
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import noisewise
from noisewise import Bounds, PrivateBounds, families
from noisewise.cli.main import run
from noisewise.curator.ledger import Ledger
from noisewise.curator.shield import shielded
from noisewise.errors import RecordsError, UnsavedRelease, UnsupportedCombination
from noisewise.mechanism.lattice import lattice_for
from noisewise.mechanism.privacy import pure
from tables import exact_sums


def counts(table: Any, *labels: str) -> list[int]:
    family = families.Categorical(labels, other=labels[-1])
    return exact_sums(table, lattice_for(family, None))[0][1]


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("1.5", "1.5"),
        ("1.0", "1.0"),
        ("1e3", "1e3"),
        ("True", "true"),
        ("True", "True"),
        ("01", "01"),
        ("7", "7"),
    ],
)
def test_a_label_is_matched_alike_however_a_reader_typed_the_column(
    value: str, label: str, tmp_path: Path
) -> None:
    """One word among numbers makes text of a column; the other records must not change sides for
    that.
    """
    path = tmp_path / "s.csv"
    for first, others in ((value, 0), ("abc", 1)):
        path.write_text("x\n" + f"{first}\n" + f"{value}\n" * 99)
        expected = [100 - others, others]
        for table in (
            path,
            pd.read_csv(path),
            pd.read_csv(path, dtype=str),
            duckdb.sql(f"SELECT * FROM '{path}'"),
            pl.read_csv(path),
        ):
            assert counts(table, label, "o") == expected, (first, type(table))


def test_labels_that_mean_the_same_are_refused() -> None:
    for labels in (("1", "1.0"), ("true", "TRUE"), ("nan", "a")):
        with pytest.raises(UnsupportedCombination, match="categories must differ"):
            counts(pd.DataFrame({"x": [1]}), *labels)


@pytest.mark.parametrize(
    "broken",
    [
        "x,y\n1,2,\n1,3,\n",
        "x,y\n1,2,\n1,3,7\n",
        "x\n1,\n",
        "x,y\n1,2,,\n",
        "x\n1\n \r\n",
        "x\n1\n1\r\n",
        "x,y\r\n1,5\r\n1,5\r ,5\r\n",
        "x,y\n1\n2,3,4\n",
    ],
)
def test_what_duckdb_takes_or_leaves_by_its_values_is_refused(broken: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(broken.encode())
    with pytest.raises(RecordsError, match="not a well-formed CSV"):
        counts(tmp_path / "t.csv", "1", "2")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [True, False], ids=["ended", "unended"])
@pytest.mark.parametrize("chunk", [1, 3, 2**22])
def test_well_formed_files_of_every_kind_are_read(
    ending: str, bom: bytes, last: bool, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noisewise.curator.csvfile._CHUNK", chunk)
    lines = ['x,"y, z"', '1,"a, b"', '1,"c\n""\n"', '"2",', '"",""', "3,d"]
    (tmp_path / "t.csv").write_bytes(bom + (ending.join(lines) + (ending if last else "")).encode())
    assert counts(tmp_path / "t.csv", "1", "2", "o") == [2, 1, 2]


def test_names_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(RecordsError, match="only in case"):
        counts(duckdb.sql('SELECT 1 AS x, 2 AS "X"'), "1", "2")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = Ledger(tmp_path / "budget.db")
    book.set_limit("d", pure(100))
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


@pytest.mark.parametrize(
    "statistic",
    [
        lambda self, x, xp=np: (x // 2.0,),
        lambda self, x, xp=np: (x % 3.0,),
        lambda self, x, xp=np: (1.0 // x,),
        lambda self, x, xp=np: (xp.sin(x),),
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


@dataclass(frozen=True)
class WithField(families.Family):
    kind: ClassVar[str] = "with_field"
    support: ClassVar = (0.0, np.inf)
    field: Any

    def statistic(self, x, xp=np):  # type: ignore[no-untyped-def]
        return (x,)


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


def test_an_equal_number_of_another_type_is_stored_as_the_label(folder: Path) -> None:
    for other in (np.int64(1), Decimal(1), True):
        family = families.Categorical([0, 1], other=other)  # type: ignore[arg-type]
        assert type(family.other) is int


COMMAND = "release t.csv --column x --family bernoulli --epsilon 1 --dataset d"


def test_no_path_to_the_ledgers_own_files_is_taken(folder: Path, ledger: Ledger) -> None:
    (folder / "sub").mkdir()
    os.symlink("budget.db", "link.db")
    for book, out in (
        ("link.db", "budget.db-journal"),
        ("budget.db", "sub/../budget.db-wal"),
        ("link.db", "sub/../budget.db-shm"),
    ):
        assert run([*COMMAND.split(), "--ledger", book, "--out", out]) == 2
    assert ledger.accounts()[0].spent == 0


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_noticed_before_the_spend(
    folder: Path,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert run([*COMMAND.split(), "--ledger", "budget.db", "--out", "o.json"]) == 2
    assert "No space left" in capsys.readouterr().err
    assert ledger.accounts()[0].spent == 0


def test_a_ledger_that_cannot_be_flushed_to_disk_releases_nothing(
    folder: Path,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "fsync", full)
    assert run([*COMMAND.split(), "--ledger", "budget.db", "--out", "o.json"]) == 2
    assert "the ledger budget.db cannot be used: No space left" in capsys.readouterr().err
    assert ledger.accounts()[0].spent == 0
    assert not Path("o.json").exists()
    assert not Path("budget.db-next").exists()


def test_a_release_that_cannot_be_written_after_all_is_not_lost(
    folder: Path,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # of the release alone: the ledger has been written by then
    monkeypatch.setattr("noisewise.files._link_new", full)
    assert run([*COMMAND.split(), "--ledger", "budget.db", "--out", "o.json"]) == 2
    seen = capsys.readouterr()
    assert "The budget is spent" in seen.err
    assert noisewise.artifact.parse(seen.out).privacy.spend == ledger.history()[-1].spend  # type: ignore[attr-defined]
    with pytest.raises(UnsavedRelease) as caught:
        noisewise.release(
            "t.csv",
            column="x",
            family=families.Bernoulli(),
            epsilon=1,
            ledger=ledger.path,
            dataset="d",
            out="o.json",
        )
    assert caught.value.release.n == 2
    assert not Path("o.json").exists()


def test_an_interrupt_says_where_to_look(
    folder: Path,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("noisewise.mechanism.mechanisms.LaplaceMechanism.add_noise", interrupt)
    assert run([*COMMAND.split(), "--ledger", "budget.db", "--out", "o.json"]) == 130
    assert "noisewise ledger show" in capsys.readouterr().err
    assert ledger.accounts()[0].spent == 1
    assert not Path("o.json").exists()


def test_threads_leave_the_warning_filters_alone() -> None:
    before = list(warnings.filters)
    frame = pd.DataFrame({"x": [1, 0, "a"]})
    jobs = [
        threading.Thread(
            target=lambda: noisewise.release(
                frame, column="x", family=families.Bernoulli(), epsilon=1, ledger=None
            )
        )
        for _ in range(6)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert list(warnings.filters) == before


def test_even_a_panic_of_an_engine_is_shielded() -> None:
    class Panic(BaseException):
        pass

    def panic() -> None:
        raise Panic("a record: SECRET")

    with pytest.raises(RecordsError) as caught:
        shielded(panic)
    assert caught.value.__context__ is None
    with pytest.raises(KeyboardInterrupt):
        shielded(lambda: (_ for _ in ()).throw(KeyboardInterrupt))


@pytest.mark.parametrize(
    "table",
    [pl.Series([1]), pd.Series([1]), pa.chunked_array([[1]]), [1, 2], {"x": [1]}, None, 3],
    ids=lambda t: type(t).__name__,
)
def test_other_objects_are_refused_by_name(table: object) -> None:
    with pytest.raises(RecordsError, match="are not supported; give a path"):
        counts(table, "1", "2")


def test_subclasses_and_wide_integers_are_taken() -> None:
    class Frame(pd.DataFrame):
        pass

    assert counts(Frame({"x": [1, 2]}), "1", "2") == [1, 1]
    assert counts(pl.DataFrame({"x": [1, 2]}, {"x": pl.Int128}), "1", "2") == [1, 1]
    assert counts(pa.record_batch({"x": [1, 2]}), "1", "2") == [1, 1]


def test_a_closed_connection_is_a_plain_refusal() -> None:
    connection = duckdb.connect()
    relation = connection.sql("SELECT 1 AS x")
    connection.close()
    with pytest.raises(RecordsError):
        counts(relation, "1", "2")

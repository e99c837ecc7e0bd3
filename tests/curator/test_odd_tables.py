"""Odd types, labels, names and settings of others change no other record, and raise nothing."""

import decimal
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import noisewise
from noisewise import Bins, Bounds, families
from noisewise.curator.publish import prepare
from noisewise.curator.settings import Settings
from noisewise.curator.shield import shielded
from noisewise.errors import RecordsError, UnsupportedCombination
from noisewise.mechanism.counted import Counted
from noisewise.mechanism.lattice import lattice_for
from tables import exact_sums


def sums(
    records: Any,
    family: families.Family,
    bounds: Bounds | None = None,
    missing: float | None = None,
) -> tuple[int, list[int]]:
    return exact_sums(records, lattice_for(family, bounds, missing))[0]


def counts(table: Any, *labels: str) -> list[int]:
    family = families.Categorical(labels, other=labels[-1])
    return exact_sums(table, lattice_for(family, None))[0][1]


class Reciprocal(families.Family):
    kind = "reciprocal"
    support = (-np.inf, np.inf)

    def statistic(self, x, xp=np):  # type: ignore[no-untyped-def]
        return 1 / x, xp.log(x)


def test_a_collation_of_the_users_merges_no_labels() -> None:
    """Under NOCASE, one 'A' would become the key of the whole group of 'a' and move all counts."""
    with duckdb.connect() as connection:
        connection.execute("SET default_collation = 'nocase'")
        connection.execute("CREATE TABLE t (x VARCHAR COLLATE NOCASE)")
        connection.execute("INSERT INTO t VALUES ('A'), ('a'), ('a'), ('a')")
        assert sums(connection.table("t"), families.Categorical(["a", "b"], other="b")) == (
            4,
            [3, 1],
        )


@pytest.mark.parametrize("where", ["connection", "column", "macro"])
def test_a_collation_of_the_users_merges_no_persons(where: str) -> None:
    """Without accents, 'trúe' would be the 1 that true is, and keep another person's records."""
    with duckdb.connect() as connection:
        collation = ""
        if where == "connection":
            connection.execute("SET default_collation = 'noaccent'")
        elif where == "column":
            collation = "COLLATE noaccent"
        else:
            connection.execute("CREATE MACRO lower(x) AS 'true'")
        connection.execute(f"CREATE TABLE t (who VARCHAR {collation}, x DOUBLE)")
        connection.execute("INSERT INTO t VALUES ('1', 1), ('trúe', 1), ('0', 1), ('fálse', 1)")
        connection.execute("INSERT INTO t VALUES ('true', 1), ('é', 1), ('e', 1)")
        asked = Settings(
            column="x", family=families.Bernoulli(), person="who", records_per_person=1, epsilon=1
        )
        prepared = prepare(connection.table("t"), asked)
        assert prepared.rows.sums(prepared.plan.lattice)[0][0] == 6


def test_settings_of_the_users_connection_raise_nothing() -> None:
    """With IEEE arithmetic switched off, 1/0 would be an error that tells of a record."""
    with duckdb.connect() as connection:
        connection.execute("SET ieee_floating_point_ops = false")
        connection.execute(
            "CREATE TABLE t AS SELECT * FROM (VALUES (0.0::DOUBLE), (1.0), (-1.0)) AS v(x)"
        )
        n, _ = sums(connection.table("t"), Reciprocal(), Bounds(-1, 10, outside="clamp"))
        assert n == 3


@pytest.mark.parametrize(
    "value",
    [
        np.timedelta64(1, "D"),
        np.timedelta64("NaT", "D"),
        np.datetime64("2024-01-01"),
        np.longdouble("1e4000"),
        np.float16(2),
    ],
    ids=str,
)
def test_odd_numbers_in_pandas_raise_and_warn_nothing(value: object) -> None:
    frames = [pd.DataFrame({"x": pd.Series([1, 2, value], dtype=object)})]
    if isinstance(value, np.longdouble):
        frames.append(pd.DataFrame({"x": np.array([1, 2, value], dtype=np.longdouble)}))
    for frame in frames:
        assert sums(frame, families.Poisson(), Bounds(0, 9, outside="clamp"), missing=9)[0] == 3


def test_wide_decimals_and_halves_are_numbers_too() -> None:
    bounds = Bounds(0, 9, outside="clamp")
    wide = pa.table({"x": [decimal.Decimal(1), decimal.Decimal(10) ** 60, None]})
    assert pa.types.is_decimal256(wide.schema.field("x").type)
    assert sums(wide, families.Poisson(), bounds) == (3, [1 + 9 + 4])
    assert sums(
        pa.table({"x": pa.array([1, 2, None], pa.float16())}), families.Poisson(), bounds
    ) == (3, [1 + 2 + 4])


def test_a_folder_named_like_a_column_changes_no_record(tmp_path: Path) -> None:
    folder = tmp_path / "c0=50" / "x=7"
    folder.mkdir(parents=True)
    (folder / "a[1]*.csv").write_text("x\n1\n0\n")
    duckdb.from_arrow(pa.table({"x": [1, 0]})).write_parquet(str(tmp_path / "plain.parquet"))
    os.rename(tmp_path / "plain.parquet", folder / "a?.parquet")
    assert sums(folder / "a[1]*.csv", families.Bernoulli()) == (2, [1])
    assert sums(folder / "a?.parquet", families.Bernoulli()) == (2, [1])


SAID = ["pyarrow", "polars", "relation"]


def parquet(form: str, columns: dict[str, Any], folder: Path) -> Any:
    """A file that says of its columns how large the numbers are, NaN left out."""
    path = folder / "t.parquet"
    if form == "polars":
        pl.DataFrame(columns).write_parquet(path)
    else:
        arrays = {name: pa.array(x, from_pandas=False) for name, x in columns.items()}
        pq.write_table(pa.table(arrays), path)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert column.statistics.has_min_max
    assert column.statistics.max == np.nanmax(columns["x"])
    return duckdb.read_parquet(str(path)) if form == "relation" else path


@pytest.mark.parametrize("form", SAID)
@pytest.mark.parametrize("last", [30.0, 100.0, -5.0, np.nan])
@pytest.mark.parametrize("outside", ["clamp", "redact"])
@pytest.mark.parametrize(
    "family", [families.Normal(), families.Exponential(), families.Poisson(), families.LogNormal()]
)
def test_what_a_parquet_file_says_of_its_numbers_decides_nothing(
    family: families.Family, outside: Any, last: float, form: str, tmp_path: Path
) -> None:
    """One record beyond the bounds changed what a thousand missing ones contribute."""
    x = np.array([np.nan] * 1000 + [10.0, 20.0, 50.0, last])
    records = parquet(form, {"x": x}, tmp_path)
    lattice = lattice_for(family, Bounds(1, 60, outside=outside))
    for counted in (lattice, Counted(lattice, drop=True, replaced=True)):
        n, found = exact_sums(records, counted)[0]
        assert (n, found) == (len(x), [int(part.sum()) for part in counted.integers(x)])


@pytest.mark.parametrize("form", SAID)
def test_nor_of_persons_labels_bins_and_columns(form: str, tmp_path: Path) -> None:
    x = np.array([np.nan] * 6 + [0.0, 1.0, 1.0, 0.0])
    records = parquet(form, {"x": x, "y": x + 1, "who": x[::-1].copy()}, tmp_path)
    assert sums(records, families.Bernoulli(), missing=1.0)[1] == [8]
    labels = families.Categorical([0, 1, 2], other=2)
    assert exact_sums(records, lattice_for(labels, None))[0][1] == [2, 2, 6]
    bounds = Bounds(0, 5, outside="clamp")
    settings: dict[str, Any] = {"column": "x", "family": families.Normal(), "bounds": bounds}
    asked = Settings(person="who", records_per_person=1, epsilon=1, **settings)
    prepared = prepare(records, asked)
    assert prepared.rows.sums(prepared.plan.lattice)[0][0] == 2
    table = families.Table({"x": Bins([0, 1, 5]), "y": Bins([0, 2, 5])})
    for family, wanted in (
        (table, [2, 0, 0, 2]),
        (families.Moments({"x": bounds, "y": bounds}), [4]),
    ):
        prepared = prepare(records, Settings(family=family, epsilon=1))
        found = prepared.rows.sums(prepared.plan.lattice)[0][1]
        assert found[: len(wanted)] == wanted


def test_text_that_comes_late_in_a_column_of_objects_is_read() -> None:
    frame = pd.DataFrame({"x": pd.Series([None] * 100_000 + ["1"], dtype=object)})
    assert sums(frame, families.Bernoulli()) == (100_001, [1])
    assert sums(frame, families.Categorical(["1", "2"], other="2")) == (100_001, [1, 100_000])


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


def test_an_equal_number_of_another_type_is_stored_as_the_label() -> None:
    for other in (np.int64(1), Decimal(1), True):
        family = families.Categorical([0, 1], other=other)  # type: ignore[arg-type]
        assert type(family.other) is int


def test_names_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(RecordsError, match="only in case"):
        counts(duckdb.sql('SELECT 1 AS x, 2 AS "X"'), "1", "2")


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


def test_the_note_states_the_value_that_a_missing_record_really_has() -> None:
    bounds = Bounds(0.5, 3.5, outside="clamp")
    made = noisewise.release(
        pd.DataFrame({"x": [None]}),
        column="x",
        family=families.Poisson(),
        bounds=bounds,
        missing=1,
        epsilon=1,
        ledger=None,
    )
    assert "the value 1." in made.notes[0]
    # 1 is the offset
    assert sums(pd.DataFrame({"x": [None]}), families.Poisson(), bounds, 1) == (1, [0])

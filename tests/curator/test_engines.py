"""The same table gives the identical integers in every form, in any order, and those that the
lattice defines.
"""

import decimal
import math
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewise import Bounds, families
from noisewise.errors import RecordsError
from noisewise.mechanism.lattice import lattice_for
from tables import FORMS, exact_sums, table

NAN, INF = math.nan, math.inf
FLOATS = [
    1.5,
    None,
    3.25,
    NAN,
    INF,
    -INF,
    1e308,
    -1e308,
    0.1,
    2.5,
    7.0,
    -0.0,
    5e-324,
    59.99999,
    60.0,
    60.00001,
    12.345,
    0.5,
    1.0,
    0.0,
]
INTS = [1, 0, None, 3, 2**53 + 1, -(2**62), 7, 8, 9, 60, 61, 2, 2, 1, 0, 5]
BOOLS = [True, False, None, True, True, False]
DECIMALS = [
    decimal.Decimal("1.50"),
    None,
    decimal.Decimal("59.99"),
    decimal.Decimal("-3.00"),
    decimal.Decimal("1e15"),
    decimal.Decimal("0.00"),
]
TEXT = [
    "1.5",
    None,
    "3",
    "abc",
    "nan",
    "inf",
    "-inf",
    " 4 ",
    "1e400",
    "true",
    "False",
    "1_0",
    " true ",
    "0x10",
    "1,5",
    "é",
    "0",
    "1",
    "--1",
    "1e-400",
]
COLUMNS = {
    "floats": (FLOATS, pa.float64()),
    "ints": (INTS, pa.int64()),
    "bools": (BOOLS, pa.bool_()),
    "decimals": (DECIMALS, pa.decimal128(20, 2)),
    "text": (TEXT, pa.string()),
    "nothing": ([None, None, None], pa.float64()),
    "no-rows": ([], pa.float64()),
}
SETTINGS = [
    (families.Normal(), Bounds(0, 60, outside="clamp")),
    (families.Normal(), Bounds(0, 60, outside="redact")),
    (families.Exponential(), Bounds(0.1, 60, outside="clamp")),
    (families.Exponential(), Bounds(0.1, 60, outside="redact")),
    (families.Poisson(), Bounds(1, 7, outside="clamp")),
    (families.Geometric(), Bounds(1, 7, outside="redact")),
    (families.Normal(mean=3), Bounds(-5, 60, outside="redact")),
    (families.Bernoulli(), None),
]


def sums(records: Any, family: families.Family, bounds: Bounds | None) -> tuple[int, list[int]]:
    return exact_sums(records, lattice_for(family, bounds))[0]


def as_number(value: Any) -> float:
    """What a value means, written independently of the curator's code."""
    if value is None:
        return NAN
    if isinstance(value, str):
        lowered = value.strip().lower()
        known = {
            "true": 1.0,
            "false": 0.0,
            "nan": NAN,
            "inf": INF,
            "-inf": -INF,
            "1e400": INF,
            "1e-400": 0.0,
            "1_0": 10.0,
        }
        if lowered in known:
            return known[lowered]
        try:
            return float(lowered) if lowered.isascii() else NAN
        except ValueError:
            return NAN
    return float(value)


def expected(
    values: list[Any], family: families.Family, bounds: Bounds | None
) -> tuple[int, list[int]]:
    x = np.array([as_number(value) for value in values], dtype=float)
    with np.errstate(invalid="ignore", over="ignore"):
        return len(values), [int(np.sum(part)) for part in lattice_for(family, bounds).integers(x)]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_integers_of_the_lattice(
    form: str, column: str, tmp_path: Path
) -> None:
    values, kind = COLUMNS[column]
    records = table(form, values, kind, tmp_path)
    for family, bounds in SETTINGS:
        assert sums(records, family, bounds) == expected(values, family, bounds), (family, bounds)


anything = st.lists(
    st.one_of(st.none(), st.floats(width=64), st.sampled_from([0.0, 1.0, 10.0, 60.0, 0.1])),
    min_size=3,
    max_size=30,
)


@given(values=anything, data=st.data())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_generated_tables_agree_in_every_form_and_order(
    values: list[float | None], data: st.DataObject
) -> None:
    low = data.draw(st.floats(-100, 100))
    bounds = Bounds(
        low,
        low + data.draw(st.floats(0.01, 1000)),
        outside=data.draw(st.sampled_from(["redact", "clamp"])),
    )
    shuffled = data.draw(st.permutations(values))
    family = data.draw(st.sampled_from([families.Normal(), families.Normal(variance=1)]))
    truth = expected(values, family, bounds)
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            assert sums(table(form, values, pa.float64(), Path(folder)), family, bounds) == truth, (
                form
            )
        assert sums(table("parquet", shuffled, pa.float64(), Path(folder)), family, bounds) == truth


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=6),
        ),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_generated_text_agrees_in_every_form(values: list[str | None]) -> None:
    values = [value or None for value in values]  # a CSV cannot tell the empty text from nothing
    numeric, labels = families.Normal(), families.Categorical(["a", "1", "x y"], other="a")
    with tempfile.TemporaryDirectory() as folder:
        tables = {form: table(form, values, pa.string(), Path(folder)) for form in FORMS}
        for family, bounds in ((numeric, Bounds(-5, 5, outside="redact")), (labels, None)):
            found = {form: sums(records, family, bounds) for form, records in tables.items()}
            assert len(set(map(str, found.values()))) == 1, found


LABELLED = {
    "text": (
        ["a", "b", None, "c", "A", "", "a", " a"],
        pa.string(),
        ["a", "b", "c"],
        "c",
        [2, 1, 5],
    ),
    "ints": ([1, 2, None, 3, 1, 10, -1], pa.int64(), [1, 2, 3], 3, [2, 1, 4]),
    "ints-as-text": ([1, 2, None, 3, 1, 10], pa.int64(), ["1", "2", "other"], "other", [2, 1, 3]),
    "numbers-as-text": (
        ["1", "2.0", "1.0", " 1", None, "1.5", "01"],
        pa.string(),
        ["1", "2", "other"],
        "other",
        [4, 1, 2],
    ),
    "text-as-ints": (["1", "2", None, "x", "1", "2.0"], pa.string(), [1, 2, 0], 0, [2, 2, 2]),
    "floats-as-ints": ([1.0, 2.0, None, 2.5, 1.0, NAN], pa.float64(), [1, 2, 0], 0, [2, 1, 3]),
    "bools-as-text": ([True, False, None, True], pa.bool_(), ["true", "false"], "false", [2, 2]),
    "bools-as-ints": ([True, False, None, True], pa.bool_(), [1, 0], 0, [2, 2]),
}


@pytest.mark.parametrize("column", LABELLED)
@pytest.mark.parametrize("form", FORMS)
def test_categories_are_counted_alike_in_every_form(form: str, column: str, tmp_path: Path) -> None:
    values, kind, labels, other, counts = LABELLED[column]
    if form == "csv" and column == "bools-as-text":  # Python would write True
        values, kind = (
            [None if value is None else str(value).lower() for value in values],
            pa.string(),
        )
    records = table(form, values, kind, tmp_path)
    assert sums(records, families.Categorical(labels, other=other), None) == (len(values), counts)


def test_a_thousand_categories_are_counted(tmp_path: Path, rng: np.random.Generator) -> None:
    values = [int(v) for v in rng.integers(0, 1200, 5000)]
    n, counts = sums(
        table("parquet", values, pa.int64(), tmp_path), families.Categorical(1000, other=7), None
    )
    truth = np.bincount(values, minlength=1200)
    assert n == 5000
    assert sum(counts) == 5000
    assert counts[:7] == list(truth[:7])
    assert counts[7] == truth[7] + truth[1000:].sum()


def test_dictionary_and_category_columns_are_read_as_their_labels(tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl

    values = ["a", "b", None, "a"]
    family = families.Categorical(["a", "b", "c"], other="c")
    arrow = pa.table({"x": pa.array(values).dictionary_encode()})
    frames = [
        arrow,
        arrow.to_pandas(),
        pd.DataFrame({"x": pd.Series(values, dtype="string")}),
        pl.DataFrame({"x": values}, {"x": pl.Categorical}),
        pl.DataFrame({"x": values}, {"x": pl.Enum(["a", "b"])}),
    ]
    for frame in frames:
        assert sums(frame, family, None) == (4, [2, 1, 1])
    whole = pd.DataFrame({"x": pd.Series([1, 2, None, 1], dtype="category")})
    assert sums(whole, families.Categorical([1, 2, 0], other=0), None) == (4, [2, 1, 1])


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    """Each value means the same in every file, whatever the types and the other columns of the
    first one.
    """
    kinds = [
        "1 AS x, 'a' AS y",
        "2.5::DOUBLE AS x, 7 AS y",
        "'3.5' AS x",
        "9 AS z, 4.25::FLOAT AS x",
        "5 AS x, true AS y",
        "true AS x",
    ]
    for number, kind in enumerate(kinds):
        duckdb.sql(f"SELECT {kind}").write_parquet(str(tmp_path / f"{number}.parquet"))
    (tmp_path / "_SUCCESS").touch()
    bounds = Bounds(0, 64, outside="clamp")
    n, (total,) = sums(tmp_path, families.Exponential(), bounds)
    assert (n, total * lattice_for(families.Exponential(), bounds).step[0]) == (6, 17.25)
    duckdb.sql("SELECT 1 AS z").write_parquet(str(tmp_path / "6.parquet"))
    with pytest.raises(RecordsError, match="no column 'x'"):
        sums(tmp_path, families.Exponential(), bounds)
    (tmp_path / "6.parquet").rename(tmp_path / "more.csv")
    with pytest.raises(
        RecordsError,
        match=r"a folder and can be read if it holds \.parquet files "
        r"alone",
    ):
        sums(tmp_path, families.Exponential(), bounds)


def test_decimals_of_different_types_in_one_folder_keep_their_values(tmp_path: Path) -> None:
    """One record's digits set its file's type, and must not move the records of other files."""
    for first in ("1", "1.5", "12345.67"):
        for name, values in (
            ("a", [decimal.Decimal(first)]),
            ("b", [decimal.Decimal("0.4")] * 1000),
        ):
            pq.write_table(pa.table({"x": values}), tmp_path / f"{name}.parquet")
        n, (total,) = sums(tmp_path, families.Exponential(), Bounds(0, 64, outside="redact"))
        step = lattice_for(families.Exponential(), Bounds(0, 64, outside="redact")).step[0]
        inside = float(first) if float(first) < 64 else 0.0
        assert (n, total * step) == (1001, pytest.approx(400 + inside, abs=0.1))


def test_decimals_of_many_digits_are_rounded_as_shorter_ones_or_refused(tmp_path: Path) -> None:
    """One of more than 38 digits makes a column another type, in which the others must not be
    rounded otherwise.
    """
    bounds = Bounds(0, 0.022, outside="redact")  # 0.022 is on the bound, and an ulp above it is not
    plain = [decimal.Decimal("0.022")] * 100
    wide = pa.table({"x": pa.array([*plain, decimal.Decimal("1e-45")], pa.decimal256(60, 46))})
    narrow = pa.table({"x": pa.array([*plain, None], pa.decimal128(10, 3))})
    assert sums(wide, families.Exponential(), bounds) == sums(
        narrow, families.Exponential(), bounds
    )
    pq.write_table(wide, tmp_path / "t.parquet")
    with pytest.raises(RecordsError, match="more than 38 digits"):
        sums(tmp_path / "t.parquet", families.Exponential(), bounds)


def test_a_file_under_two_names_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "a.parquet")
    (tmp_path / "latest.parquet").symlink_to("a.parquet")
    with pytest.raises(RecordsError, match="would count twice"):
        sums(tmp_path, families.Bernoulli(), None)

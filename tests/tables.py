"""The same table in every form that `noisewise.release` takes, and the exact sums of any table."""

import csv
import io
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from noisewise.curator.reading import Reading
from noisewise.curator.sums import Held
from noisewise.mechanism.lattice import Lattice, Sums

FORMS = [
    "csv",
    "parquet",
    "pandas",
    "pandas-object",
    "pandas-nullable",
    "polars",
    "polars-lazy",
    "pyarrow",
    "pyarrow-chunked",
    "duckdb",
]


def table(form: str, values: list[Any], kind: pa.DataType, folder: Path) -> Any:
    """A column `x` of the values (None is missing), beside another column."""
    arrow = pa.table({"other": list(range(len(values))), "x": pa.array(values, kind)})
    if form == "csv":
        path = folder / "table.csv"
        path.write_text(csv_text(values))
        return path
    if form == "parquet":
        pq.write_table(arrow, folder / "table.parquet")
        return str(folder / "table.parquet")
    if form == "pandas":
        return arrow.to_pandas()
    if form == "pandas-object":
        return pd.DataFrame({"x": pd.Series(values, dtype=object)})
    if form == "pandas-nullable":
        return arrow.to_pandas(types_mapper=pd.ArrowDtype)
    if form == "polars":
        return pl.from_arrow(arrow)
    if form == "polars-lazy":
        return pl.from_arrow(arrow).lazy()  # type: ignore[union-attr]
    if form == "pyarrow":
        return arrow
    if form == "pyarrow-chunked":
        return pa.concat_tables([arrow.slice(0, 3), arrow.slice(3)])
    return duckdb.from_arrow(arrow)


def csv_text(values: list[Any]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["other", "x"])
    for index, value in enumerate(values):
        writer.writerow([index, "" if value is None else str(value)])
    return file.getvalue()


def exact_sums(
    records: Any,
    lattice: Lattice,
    column: str = "x",
    by: str | None = None,
    groups: tuple[Any, ...] | None = None,
) -> list[Sums]:
    """n and the sums of the column for each group, through the reading of a real release."""
    return Held.open(records, Reading(column, lattice.labels, by, groups)).sums(lattice)

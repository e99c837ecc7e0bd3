"""Records from wherever they are, as DuckDB columns of numbers or of text."""

import os
import sys
from pathlib import Path
from typing import Any

import duckdb

from noisewise.curator.frames import open_polars, open_pyarrow, open_relation
from noisewise.curator.pandas_frames import open_pandas
from noisewise.curator.reading import Columns
from noisewise.curator.record_files import open_file
from noisewise.curator.schema import Source
from noisewise.errors import RecordsError


def open_columns(records: Any, columns: Columns) -> Source:
    """The columns under our names: each a DOUBLE, or the key of a label as VARCHAR. NULL is
    missing, and so is NaN.
    """
    if isinstance(records, (str, os.PathLike)):
        return open_file(Path(records), columns)
    if isinstance(records, duckdb.DuckDBPyRelation):
        return open_relation(records, columns)
    for package, kinds, opened in (
        ("pandas", ("DataFrame",), open_pandas),
        ("polars", ("DataFrame", "LazyFrame"), open_polars),
        ("pyarrow", ("Table", "RecordBatch"), open_pyarrow),
    ):
        module = sys.modules.get(package)  # who holds such a table has imported it
        if module is not None and isinstance(
            records, tuple(getattr(module, kind) for kind in kinds)
        ):
            return opened(records, columns)
    raise RecordsError(
        f"records of type {type(records).__qualname__} are not supported; give a path to a .csv or "
        ".parquet file or to a folder of .parquet files, a pandas or polars frame, a pyarrow "
        "table, a DuckDB relation, a Spark or a Dask frame."
    )

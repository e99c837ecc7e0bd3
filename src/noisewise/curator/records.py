"""Records from wherever they are, as one DuckDB column of numbers or of text.

What a value means does not depend on the column's type, because one changed record can change that type (a null turns
pandas integers into floats, a word turns them into objects). As a number: true is 1, false is 0, text is parsed by
DuckDB, anything else is missing. As text: a whole number is its digits, a boolean is `true` or `false`.
"""

import csv
import glob
import numbers
import os
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar

import duckdb
import numpy as np

from noisewise.errors import RecordsError

Wanted = Literal["number", "text"]
T = TypeVar("T")

BROKEN_CSV = "not a well-formed CSV: it needs UTF-8, commas, one header line, and the same number of fields on every line."
UNREADABLE = "the records cannot be read; check that the file is whole and of the kind that its name says."
MAX_LINE = 16 * 2**20
_NUMERIC = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "BIGNUM")  # fmt: skip
_TEXT = ("VARCHAR", "ENUM", "NULL", '"NULL"')


def shielded(call: Callable[[], T], sentence: str = UNREADABLE) -> T:
    """Run an engine; whatever it raises becomes one fixed sentence, since its own message may quote a record."""
    with suppress(Exception):  # any class: what an engine raises, and why, may depend on a record
        return call()
    raise RecordsError(sentence)  # outside any handler, so that the engine's error is not chained to it


def open_column(records: Any, column: str, wanted: Wanted) -> duckdb.DuckDBPyRelation:
    """The column as a relation with one column `value`, lazily: DOUBLE or VARCHAR. NULL is missing, and so is NaN."""
    if not isinstance(column, str):
        raise RecordsError(f"column must be a column's name, got {column!r}.")
    if isinstance(records, (str, os.PathLike)):
        return _file(Path(records), column, wanted)
    if isinstance(records, duckdb.DuckDBPyRelation):
        return _typed(records, column, wanted)
    package = type(records).__module__.split(".")[0]
    if package == "pandas":
        return _pandas(records, column, wanted)
    if package == "polars":
        return _polars(records, column, wanted)
    if package == "pyarrow":
        _check_column(records.schema.names, column)
        return _typed(shielded(lambda: _connection().from_arrow(records.select([column]))), column, wanted)
    raise RecordsError(
        f"records of type {type(records).__qualname__} are not supported; give a path to a .csv or .parquet file, or a pandas, "
        "polars, pyarrow or DuckDB table."
    )


def _connection() -> duckdb.DuckDBPyConnection:
    # No spill to disk (records would outlive the process there) and no extension from elsewhere.
    safe = {"temp_directory": "", "autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    return duckdb.connect(":memory:", config=safe)


def _check_column(names: list[str], column: str) -> None:
    if names.count(column) != 1:
        fault = "there is no column" if column not in names else "there is more than one column"
        raise RecordsError(f"{fault} {column!r}; the columns are: {', '.join(map(str, names))}.")


def _file(path: Path, column: str, wanted: Wanted) -> duckdb.DuckDBPyRelation:
    if not path.is_file():
        raise RecordsError(f"there is no file {path}.")
    if not os.access(path, os.R_OK):
        raise RecordsError(f"the file {path} may not be read; check its permissions.")
    literal = glob.escape(str(path))  # a * in a file's name is no pattern
    if path.suffix.lower() in (".parquet", ".pq"):
        table = shielded(lambda: _connection().read_parquet(literal), f"{path} is not a readable Parquet file.")
        return _typed(table, column, wanted)
    if path.suffix.lower() == ".csv":
        return _csv(path, literal, column, wanted)
    raise RecordsError(f"{path} is neither .csv nor .parquet; convert it, or give a table from Python.")


def _csv(path: Path, literal: str, column: str, wanted: Wanted) -> duckdb.DuckDBPyRelation:
    """Every column as text in one fixed dialect. Sniffing is data-dependent: one row could change a type, or n."""

    def header() -> list[str]:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return next(csv.reader([file.readline(MAX_LINE)], strict=True))

    names = shielded(header, BROKEN_CSV)
    if not names:
        raise RecordsError(BROKEN_CSV)
    _check_column(names, column)
    types = {f"c{index}": "VARCHAR" for index in range(len(names))}
    dialect: dict[str, Any] = {"header": True, "sep": ",", "quotechar": '"', "escapechar": '"', "auto_detect": False}
    limits: dict[str, Any] = {"null_padding": False, "strict_mode": True, "max_line_size": MAX_LINE}
    table = shielded(lambda: _connection().read_csv(literal, columns=types, **dialect, **limits), BROKEN_CSV)
    return _typed(table, f"c{names.index(column)}", wanted)


def _polars(records: Any, column: str, wanted: Wanted) -> duckdb.DuckDBPyRelation:
    names = shielded(lambda: list(records.collect_schema().names()))
    _check_column(names, column)

    def arrow() -> duckdb.DuckDBPyRelation:
        one = records.lazy().select(column).collect()
        return _connection().from_arrow(one)

    return _typed(shielded(arrow, _wrong_type(column)), column, wanted)


def _typed(table: duckdb.DuckDBPyRelation, column: str, wanted: Wanted) -> duckdb.DuckDBPyRelation:
    """`value` from a column whose type is declared by a schema; a type that holds no numbers and no text is refused."""
    _check_column(list(table.columns), column)
    kind = str(table.types[table.columns.index(column)]).split("(")[0]
    if kind not in _NUMERIC and kind not in _TEXT:
        raise RecordsError(_wrong_type(column))
    name = '"' + column.replace('"', '""') + '"'
    if kind in _TEXT:
        text = f"CAST({name} AS VARCHAR)"
        value = text if wanted == "text" else _number_of_text(text)
    elif wanted == "number":
        value = name if kind == "DOUBLE" else f"TRY_CAST({name} AS DOUBLE)"
    elif kind == "BOOLEAN":
        value = f"CAST({name} AS VARCHAR)"
    else:
        value = _text_of_number(f"TRY_CAST({name} AS DOUBLE)")
    return shielded(lambda: table.project(f"{value} AS value"))


def _wrong_type(column: str) -> str:
    return f"column {column!r} has a type that holds neither numbers nor text; choose another column."


def _number_of_text(text: str) -> str:
    boolean = f"CASE lower({text}) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 END"
    return f"coalesce(TRY_CAST({text} AS DOUBLE), {boolean})"


def _text_of_number(number: str) -> str:
    whole = f"{number} = floor({number}) AND abs({number}) <= 9007199254740992"  # 2^53: beyond it floats skip numbers
    return f"CASE WHEN {whole} THEN CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR) END"


def _pandas(records: Any, column: str, wanted: Wanted) -> duckdb.DuckDBPyRelation:
    """pandas has no schema to trust: whatever the dtype, each value is taken for what it is, and nothing is refused."""
    import pandas

    if not isinstance(records, pandas.DataFrame):
        raise RecordsError("records from pandas must be a DataFrame; use series.to_frame('name').")
    _check_column(list(records.columns), column)
    series = records[column]

    def table() -> duckdb.DuckDBPyRelation:
        kind = getattr(series.dtype, "kind", "O")
        if kind in ("iuf" if wanted == "text" else "biuf"):
            columns = {"number": series.to_numpy(dtype="float64", na_value=np.nan)}
            number, text = "number", "NULL::VARCHAR"
        else:
            pairs = [_value(item, wanted) for item in series.to_numpy(dtype=object)]
            columns = {"number": np.array([number for number, _ in pairs], dtype="float64"), "text": _objects(pairs)}
            number, text = "number", "CAST(text AS VARCHAR)"
        number = f"CASE WHEN NOT isnan({number}) THEN {number} END"
        value = (
            f"coalesce({number}, {_number_of_text(text)})" if wanted == "number" else f"coalesce({_text_of_number(number)}, {text})"
        )
        return _connection().from_df(pandas.DataFrame(columns)).project(f"coalesce({value}) AS value")

    return shielded(table)


def _objects(pairs: list[tuple[float, str | None]]) -> Any:
    texts = np.empty(len(pairs), dtype=object)  # filled one by one: NumPy and pandas would guess a type
    texts[:] = [text for _, text in pairs]
    return texts


def _value(item: Any, wanted: Wanted) -> tuple[float, str | None]:
    """One Python object as (number, text); (NaN, None) is missing."""
    if isinstance(item, str):
        return np.nan, item if _encodes(item) else None
    if isinstance(item, (bool, np.bool_)):
        return (np.nan, str(bool(item)).lower()) if wanted == "text" else (float(item), None)
    if isinstance(item, (complex, np.complexfloating)) and item.imag == 0:  # one complex record makes the others so
        item = float(item.real)
    if isinstance(item, (numbers.Real, Decimal)):
        try:
            return float(item), None
        except OverflowError:
            return float(np.copysign(np.inf, 1 if item > 0 else -1)), None  # type: ignore[operator]
        except ValueError:  # Decimal("sNaN")
            return np.nan, None
    return np.nan, None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no CSV or Parquet file can hold
        return False
    return True

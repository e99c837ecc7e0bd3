"""Records in a pandas frame, which has no schema to trust: each value is taken for what it is."""

import numbers
from decimal import Decimal
from typing import Any

import numpy as np

from noisewise.curator.reading import Columns
from noisewise.curator.schema import Source, check_columns
from noisewise.curator.shield import shielded
from noisewise.curator.values import Form, of_number, of_text, person_of

EXACT = {"i": "BIGINT", "u": "UBIGINT"}
"""Whole numbers by the kind of their dtype, to DuckDB."""
LONGEST = 4300
"""Digits of a person's number at most: as many as Python writes out of an int."""


def open_pandas(records: Any, columns: Columns) -> Source:
    """Whatever the dtype, each value is taken for what it is, and nothing is refused."""
    import pandas

    check_columns(list(records.columns), columns)

    def values(column: str, wanted: Form) -> tuple[Any, Any]:
        series = records[column]
        kind = getattr(series.dtype, "kind", "O")
        if wanted == "person" and kind in "iu" and not series.hasnans:
            return series.to_numpy(dtype=f"{kind}8"), None
        if kind in {"number": "biuf", "text": "iuf", "person": "f", "key": ""}[wanted]:
            return series.to_numpy(dtype="float64", na_value=np.nan), None
        pairs = [_value(item, wanted) for item in series.to_numpy(dtype=object)]
        # filled one by one: NumPy and pandas would guess a type
        texts = np.empty(len(pairs), dtype=object)
        texts[:] = [text for _, text in pairs]
        return np.array([number for number, _ in pairs], dtype="float64"), texts

    parts: dict[str, Any] = {}
    chosen = []
    for ours, (column, wanted) in columns.items():
        numbers_of, texts = shielded(lambda column=column, wanted=wanted: values(column, wanted))  # type: ignore[misc]
        parts[f"{ours}_number"] = numbers_of
        if texts is not None:
            parts[f"{ours}_text"] = texts
        if numbers_of.dtype.kind in EXACT:  # persons, to the last digit
            whose = person_of(f"{ours}_number", EXACT[numbers_of.dtype.kind])
            chosen.append(f"{whose} AS {ours}")
            continue
        number = f"CASE WHEN NOT isnan({ours}_number) THEN {ours}_number END"
        text = "NULL::VARCHAR" if texts is None else f"CAST({ours}_text AS VARCHAR)"
        meant = [of_text(text, wanted)]
        if wanted != "key":
            meant.insert(0, of_number(number, wanted))
        chosen.append(f"coalesce({', '.join(meant)}) AS {ours}")
    frame = shielded(lambda: pandas.DataFrame(parts))
    return lambda connection: connection.from_df(frame).project(", ".join(chosen))


def _value(item: Any, wanted: Form) -> tuple[float, str | None]:
    """One Python object as (number, text); (NaN, None) is missing, and so is one whose own code
    fails.
    """
    try:
        return _number_or_text(item, wanted)
    except KeyboardInterrupt:
        raise
    except BaseException:  # any class: it is the record that raises
        return np.nan, None


def _digits(person: Decimal) -> str | None:
    """A person's number, written out; nobody where it is so long that one record would fill the
    memory.
    """
    return f"{person:f}" if abs(person.adjusted()) <= LONGEST else None


def _number_or_text(item: Any, wanted: Form) -> tuple[float, str | None]:
    if isinstance(item, str):
        text = str.__str__(item)  # of a subclass too, without running its code
        text.encode()  # fails for a lone surrogate, which no CSV or Parquet file can hold
        return np.nan, text
    if wanted == "person" and isinstance(item, (numbers.Integral, Decimal, np.bool_)):
        return np.nan, _digits(item) if isinstance(item, Decimal) else str(int(item))
    if isinstance(item, (bool, np.bool_)):
        return (np.nan, str(bool(item)).lower()) if wanted != "number" else (float(item), None)
    # one complex record makes complex numbers of a whole column
    if isinstance(item, (complex, np.complexfloating)) and item.imag == 0:
        item = float(item.real)
    # a duration and a signalling NaN have no float, and fail
    if isinstance(item, (numbers.Real, Decimal)):
        try:
            return float(item), None
        except OverflowError:
            return float(np.copysign(np.inf, 1 if item > 0 else -1)), None  # type: ignore[operator]
    return np.nan, None

"""A CSV file in one fixed dialect, every column as text.

Type sniffing is data-dependent: one row could change a column's type, or n. The shape of the file
(encoding, quotes, line ends, fields on a line, the length of a line) is a public fact, and a broken
one gives one fixed sentence. DuckDB alone is too lenient: it drops a last record whose quote is
never closed, takes extra fields if they are empty, and splits mixed line ends by what lies between
them. So the bytes are looked over first.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

MAX_LINE = 16 * 2**20
"""Bytes of a line at most, for DuckDB holds a line whole; BROKEN_CSV tells it as 16 MiB."""
BROKEN_CSV = (
    "not a well-formed CSV: it needs UTF-8, commas, one header line, the same number of fields on "
    'every line, line ends of one kind, quotes only around whole fields (and "" for one within), '
    "and no line over 16 MiB."
)
"""Said of any file of broken shape, whatever broke it."""
_CHUNK = 2**22
"""Bytes that are looked over at once: many enough for NumPy to be quick, few enough to hold."""
_QUOTE, _COMMA, _LF, _CR = b'",\n\r'
"""The bytes that shape a CSV file."""
_BORDERS = np.frombuffer(b',\r\n"', dtype=np.uint8)
"""What may stand before an opening quote and after a closing one."""


def header(path: Path) -> list[str]:
    """The names of the columns. A file of broken shape raises something; the caller says what."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        names = next(csv.reader([file.readline(MAX_LINE)], strict=True))
    shape = look_over(path)
    if (
        not names
        or not shape.whole_quotes
        or not shape.one_line_end
        or shape.commas != (len(names) - 1) * shape.lines
    ):
        raise ValueError
    return names


def read(
    connection: duckdb.DuckDBPyConnection, pattern: str, columns: int
) -> duckdb.DuckDBPyRelation:
    """The records as text columns c0, c1, ..."""
    dialect: dict[str, Any] = {
        "header": True,
        "sep": ",",
        "quotechar": '"',
        "escapechar": '"',
        "strict_mode": True,
    }
    # In parallel, DuckDB gives up where a quoted line break straddles two of its buffers.
    fixed: dict[str, Any] = {
        "auto_detect": False,
        "null_padding": False,
        "hive_partitioning": False,
        "parallel": False,
    }
    types = {f"c{index}": "VARCHAR" for index in range(columns)}
    return connection.read_csv(pattern, columns=types, max_line_size=MAX_LINE, **dialect, **fixed)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the bytes tell without parsing a value. Commas and line ends count outside quotes."""

    whole_quotes: bool
    """Quotes stand only around whole fields, doubled within, and the last one is closed."""
    one_line_end: bool
    """Every line ends with LF, or every one with CRLF, or every one with CR."""
    commas: int
    lines: int
    """Lines that are not empty, the header among them."""


def look_over(path: Path) -> Shape:
    """Pass over the file once. Quotes open and close in turns, whatever they stand around."""
    if path.stat().st_size == 0:
        return Shape(True, True, 0, 0)
    data = np.memmap(path, dtype=np.uint8, mode="r")
    start = 3 if data[:3].tobytes() == b"\xef\xbb\xbf" else 0
    whole, is_open, ended = True, False, True
    commas = lines = feeds = returns = pairs = 0
    for at in range(start, data.size, _CHUNK):
        chunk = np.asarray(data[at : at + _CHUNK])
        quotes = chunk == _QUOTE
        inside = np.zeros(chunk.size, dtype=bool)
        if is_open or quotes.any():
            # a sum mod 256 keeps its parity
            inside = (np.cumsum(quotes, dtype=np.uint8) & 1).astype(bool) ^ is_open
            whole = whole and _whole(data, start, at + np.flatnonzero(quotes), inside[quotes])
        feed, carriage = (chunk == _LF) & ~inside, (chunk == _CR) & ~inside
        ends = feed | carriage
        after_end = np.concatenate([[ended], ends[:-1]])
        commas += int(((chunk == _COMMA) & ~inside).sum())
        feeds += int(feed.sum())
        returns += int(carriage.sum())
        pairs += int((data[at - 1 + np.flatnonzero(feed & after_end)] == _CR).sum())
        lines += int((after_end & ~ends).sum())  # a line that is not empty begins here
        is_open, ended = bool(inside[-1]), bool(ends[-1])
    one_kind = feeds == 0 or returns == 0 or feeds == returns == pairs
    return Shape(whole and not is_open, one_kind, commas, lines)


def _whole(
    data: NDArray[np.uint8], start: int, at: NDArray[np.intp], opening: NDArray[np.bool_]
) -> bool:
    """An opening quote follows a border (or the closing one of a doubled pair); a closing one
    precedes a border.
    """
    follows = (at == start) | np.isin(data[np.maximum(at - 1, 0)], _BORDERS)
    precedes = (at == data.size - 1) | np.isin(data[np.minimum(at + 1, data.size - 1)], _BORDERS)
    return bool(np.where(opening, follows, precedes).all())

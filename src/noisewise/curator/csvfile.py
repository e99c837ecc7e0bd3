"""A CSV file in one fixed dialect, every column as text.

Type sniffing is data-dependent: one row could change a column's type, or n. The shape of the file (encoding, quotes,
fields on a line, the length of a line) is a public fact, and a broken one gives one fixed sentence.
"""

import csv
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

MAX_LINE = 16 * 2**20
BROKEN_CSV = (
    "not a well-formed CSV: it needs UTF-8, commas, one header line, the same number of fields on every line, quotes "
    'only around whole fields (and "" for one within), and no line over 16 MiB.'
)
_QUOTE, _BORDERS = ord('"'), np.frombuffer(b',\r\n"', dtype=np.uint8)
_CHUNK = 2**24


def header(path: Path) -> list[str]:
    """The names of the columns; raises whatever it likes on a file of broken shape."""
    if not quotes_are_whole(path):
        raise ValueError
    with open(path, encoding="utf-8-sig", newline="") as file:
        names = next(csv.reader([file.readline(MAX_LINE)], strict=True))
    if not names:
        raise ValueError
    return names


def read(connection: duckdb.DuckDBPyConnection, pattern: str, columns: int) -> duckdb.DuckDBPyRelation:
    """The records as text columns c0, c1, ..."""
    dialect: dict[str, Any] = {"header": True, "sep": ",", "quotechar": '"', "escapechar": '"', "strict_mode": True}
    # In parallel, DuckDB gives up where a quoted line break straddles two of its buffers.
    fixed: dict[str, Any] = {"auto_detect": False, "null_padding": False, "hive_partitioning": False, "parallel": False}
    types = {f"c{index}": "VARCHAR" for index in range(columns)}
    return connection.read_csv(pattern, columns=types, max_line_size=MAX_LINE, **dialect, **fixed)


def quotes_are_whole(path: Path) -> bool:
    """Whether quotes stand only around whole fields, doubled within, and the last one is closed.

    Read alone, DuckDB drops a last record whose quote is never closed, and says nothing. Quotes open and close in
    turns; an opening one must follow a border (or the closing one of a doubled pair), a closing one precede a border.
    """
    if path.stat().st_size == 0:
        return True
    data = np.memmap(path, dtype=np.uint8, mode="r")
    start = 3 if data[:3].tobytes() == b"\xef\xbb\xbf" else 0
    is_open = False
    for chunk in range(start, data.size, _CHUNK):
        at = chunk + np.flatnonzero(data[chunk : chunk + _CHUNK] == _QUOTE)
        opening = (np.arange(at.size) % 2 == 0) ^ is_open
        follows = (at == start) | np.isin(data[np.maximum(at - 1, 0)], _BORDERS)
        precedes = (at == data.size - 1) | np.isin(data[np.minimum(at + 1, data.size - 1)], _BORDERS)
        if not np.where(opening, follows, precedes).all():
            return False
        is_open ^= at.size % 2 == 1
    return not is_open

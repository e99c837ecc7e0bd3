"""A CSV file is read to its last record, or its shape is refused by one sentence."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisewise import Bounds, families
from noisewise.curator import csvfile
from noisewise.errors import RecordsError
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


def _quoted_fields(body: str, rows: list[list[str]]) -> int:
    """How many fields begin with a quote in the text, found by walking the rows through it."""
    position = quoted = 0
    for row in rows:
        if not row:
            position += 1
            continue
        for field in row:
            if body[position : position + 1] == '"':
                quoted += 1
                position += len(field) + field.count('"') + 2 + 1
            else:
                position += len(field) + 1
    return quoted


def test_a_quoted_line_break_anywhere_in_a_large_csv_is_read(tmp_path: Path) -> None:
    """DuckDB's parallel reader gave up where one straddled its 128 MiB buffer."""
    path = tmp_path / "large.csv"
    filler = "1," + "x" * 1000 + "\n"
    with open(path, "w") as file:
        file.write("x,y\n")
        for _ in range(132):
            file.write(filler * 990)
            file.write('2,"' + "6,7\n" * 6000 + '"\n')
    n, (total,) = sums(path, families.Poisson(), Bounds(0, 9, outside="clamp"))
    assert path.stat().st_size > 128 * 2**20
    assert (n, total) == (132 * 991, 132 * 992)


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 2**24])
def test_quotes_are_judged_as_a_strict_reader_does(
    chunk: int, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against Python's own csv reader in strict mode, plus the rule that no quote stands in an
    unquoted field.
    """
    monkeypatch.setattr(csvfile, "_CHUNK", chunk)
    path = tmp_path / "q.csv"
    verdicts = set()
    for _ in range(400):
        body = "".join(rng.choice(list('""",\nab'), rng.integers(1, 12)))
        path.write_text(body)
        try:
            rows = list(csv.reader(io.StringIO(body, newline=""), strict=True))
            # A quote that survives parsing without a doubled one in the text stood in an unquoted
            # field.
            whole = sum(field.count('"') for row in rows for field in row) * 2 + 2 * _quoted_fields(
                body, rows
            ) == body.count('"')
        except csv.Error:
            whole = False
        verdicts.add(whole)
        assert csvfile.look_over(path).whole_quotes == whole, body
    assert verdicts == {True, False}


def test_the_length_of_a_line_is_part_of_a_csvs_public_shape(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1," + "z" * (15 << 20) + "\n")
    assert sums(path, families.Bernoulli()) == (1, [1])
    path.write_text("x,y\n1," + "z" * (17 << 20) + "\n")
    with pytest.raises(RecordsError, match="no line over 16 MiB"):
        sums(path, families.Bernoulli())


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

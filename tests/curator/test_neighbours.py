"""Nothing but the noise depends on a record: pairs of neighbouring tables through the command line
and through pandas.
"""

import datetime
import decimal
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import noisewise
from noisewise import Bounds, PrivateBounds, families
from noisewise.cli.main import run
from noisewise.mechanism.lattice import lattice_for
from tables import exact_sums

CHANGED = [
    "",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "1e308",
    "-1e999",
    "9" * 400,
    "abc",
    "NULL",
    "true",
    "2024-01-01",
    "3.5.1",
    "0x1F",
    "½",
    "é" * 50,
    "x" * 100_000,
    "-",
    "1e",
    "#",
    "'",
    "\\",
    "\x00",
    "\t",
    "123456789012345678901234567890",
    "0.1",
    "60",
    "-5",
    "1_000",
    " 7 ",
]
LONG = 45_000  # rows: more than twice what DuckDB would sniff

COMMANDS = {
    "exponential-redact": ["--family", "exponential", "--bounds", "0", "60", "--outside", "redact"],
    "normal-clamp": ["--family", "normal", "--bounds", "0", "60", "--outside", "clamp"],
    "poisson-clamp": ["--family", "poisson", "--bounds", "0", "60", "--outside", "clamp"],
    "bernoulli": ["--family", "bernoulli"],
    "categorical": ["--family", "categorical(categories=['1.5', 'abc', 'other'], other='other')"],
    "private-bounds": [
        "--family",
        "normal",
        "--bounds",
        "private",
        "--bounds-range",
        "0",
        "100",
        "--bounds-epsilon",
        "1",
        "--outside",
        "clamp",
    ],
}


def outcome(
    path: Path, out: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> tuple[Any, ...]:
    """Everything that a person or a script can see of a release, but for the noisy numbers."""
    out.unlink(missing_ok=True)
    status = run(
        [
            "release",
            str(path),
            "--column",
            "x",
            *COMMANDS[command],
            "--epsilon",
            "1",
            "--no-ledger",
            "--out",
            str(out),
        ]
    )
    seen = capsys.readouterr()
    content = json.loads(out.read_text()) if out.exists() else None
    if content is not None:
        for noisy in ("statistic", "sha256"):
            content.pop(noisy)
        if command == "private-bounds":  # the bounds are noisy too
            for noisy in ("bounds", "notes"):
                content.pop(noisy)
    return status, seen.out, seen.err, content


def write(path: Path, rows: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in ["id,x,y", *rows]).encode())
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_one_changed_value_in_a_csv_changes_nothing_visible(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{i},{i % 50}.5,z" for i in range(60)]
    base = outcome(write(tmp_path / "t.csv", rows), tmp_path / "o.json", command, capsys)
    assert base[0] == 0
    for value in CHANGED:
        changed = [*rows[:17], f"17,{value},z", *rows[18:]]
        assert (
            outcome(write(tmp_path / "t.csv", changed), tmp_path / "o.json", command, capsys)
            == base
        ), value[:40]


@pytest.mark.parametrize("position", [0, LONG - 1], ids=["early", "late"])
def test_one_changed_value_early_or_late_in_a_long_csv_changes_nothing_visible(
    position: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{i},{i % 50},z" for i in range(LONG)]
    base = outcome(write(tmp_path / "t.csv", rows), tmp_path / "o.json", "normal-clamp", capsys)
    assert base[0] == 0
    assert base[3]["n"] == LONG
    for value in ("", "abc", "1e999", "2024-01-01", "true", "0.5", "x" * 3_000_000):
        changed = list(rows)
        changed[position] = f"{position},{value},z"
        assert (
            outcome(write(tmp_path / "t.csv", changed), tmp_path / "o.json", "normal-clamp", capsys)
            == base
        ), value[:40]


OBJECTS = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    10**400,
    2**53 + 1,
    -(2**70),
    "abc",
    "",
    "7",
    "true",
    True,
    pd.NA,
    pd.NaT,
    decimal.Decimal("1.5"),
    datetime.date(2024, 1, 1),
    pd.Timestamp("2024-01-01"),
    b"bytes",
    [1, 2],
    {"a": 1},
    3 + 4j,
    np.float32(2.5),
    np.int8(3),
    np.bool_(True),
    object(),
    "\ud800",
    "x" * 1000,
]
SETTINGS = [
    (families.Normal(), Bounds(0, 60, outside="clamp")),
    (families.Exponential(), Bounds(0, 60, outside="redact")),
    (families.Poisson(), Bounds(0, 9, outside="clamp")),
    (families.Bernoulli(), None),
    (families.Categorical(["1", "true", "x"], other="x"), None),
    (families.Categorical([0, 1, 5], other=5), None),
]
BASES = {
    "ints": [1, 0, 5, 30, 1],
    "floats": [1.5, 0.0, 59.9, 1.0, 70.0],
    "bools": [True, False, True, True, False],
    "text": ["1", "true", "3.5", "no", "x"],
}


@pytest.mark.parametrize("base", BASES)
def test_one_changed_value_in_pandas_moves_no_other_record(base: str) -> None:
    """Whatever dtype the change gives the column, n stands and the sums move by at most the
    sensitivity.
    """
    before = pd.DataFrame({"x": BASES[base]})
    unchanged = [exact_sums(before, lattice_for(family, bounds))[0] for family, bounds in SETTINGS]
    for value in OBJECTS:
        values = list(BASES[base])
        values[2] = value
        frames = [pd.DataFrame({"x": pd.Series(values, dtype=object)})]
        # pandas itself refuses a column of text with it
        if not (isinstance(value, str) and value == "\ud800"):
            frames.append(pd.DataFrame({"x": values}))
        for after in frames:
            for (family, bounds), (n0, s0) in zip(SETTINGS, unchanged, strict=True):
                lattice = lattice_for(family, bounds)
                n1, s1 = exact_sums(after, lattice)[0]
                assert n0 == n1 == 5
                assert (
                    sum(abs(a - b) for a, b in zip(s0, s1, strict=True))
                    <= lattice.sensitivity.pair.l1
                ), (
                    value,
                    after.dtypes,
                    family,
                )


@pytest.mark.parametrize(
    "value", OBJECTS, ids=lambda v: str(v)[:20].encode("unicode_escape").decode()
)
def test_one_changed_value_in_pandas_changes_nothing_visible(value: object) -> None:
    def visible(values: list[Any]) -> tuple[Any, ...]:
        made = noisewise.release(
            pd.DataFrame({"x": values}),
            column="x",
            family=families.Normal(),
            bounds=Bounds(0, 60, outside="clamp"),
            epsilon=1,
            ledger=None,
        )
        return made.n, made.noise, made.bounds, made.notes, made.privacy, made.coordinates

    assert visible([1, 2, value, 4]) == visible([1, 2, 3, 4])


@pytest.mark.parametrize(
    "broken",
    [
        "id,x,y\n1,SECRET,z\n2,3\n",
        "id,x,y\n1,SECRET,z\n2,3,z,extra\n",
        'id,x,y\n1,"SECRET,z\n2,3,z\n',
        b"id,x,y\n1,SECRET\xff,z\n",
        "id,x,y\n1,SECRET,z\r\n2,3,z\n",
        "",
        'id,"x,y\n',
        'id,x,y\n1,SECRET,z\n2,3,"z',
        'id,x,y\n1,a"b,z\n2,SECRET,"z',
        "id,x,y\n1,5'11\",z\n2,SECRET,z\n",
        'id,x,y\n1,"SECRET"q,z\n2,3,z\n',
        'id,x,y\n1,"SECRET" ,z\n',
    ],
)
@pytest.mark.parametrize("command", ["normal-clamp", "categorical"])
def test_a_broken_csv_gives_the_one_fixed_sentence(
    broken: str | bytes, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
    status, out, err, content = outcome(path, tmp_path / "o.json", command, capsys)
    assert (status, out, content) == (2, "", None)
    assert err.startswith("noisewise: not a well-formed CSV")
    assert err.count("\n") == 1
    assert "SECRET" not in err
    assert list(tmp_path.iterdir()) == [path]


def test_an_engines_own_error_is_neither_shown_nor_chained(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ["1,SECRET,z", "2,3"])
    with pytest.raises(noisewise.errors.RecordsError) as caught:  # type: ignore[attr-defined]
        noisewise.release(path, column="x", family=families.Bernoulli(), epsilon=1, ledger=None)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "SECRET" not in str(caught.value)


def test_a_signalling_nan_is_missing() -> None:
    """pandas guesses no dtype for it, so it comes as an object."""
    column = pd.Series([decimal.Decimal("sNaN"), decimal.Decimal("2")], dtype=object).to_frame("x")
    family, bounds = families.Poisson(), Bounds(0, 9, outside="clamp")
    assert exact_sums(column, lattice_for(family, bounds, 3))[0] == (2, [5])


def test_private_bounds_never_raise_whatever_the_records(tmp_path: Path) -> None:
    for values in (
        [],
        [None] * 5,
        [1e308] * 5,
        [-math.inf] * 4,
        ["x"],
        [3.0] * 50,
        [math.nan, 5.0],
    ):
        for family in (families.Normal(), families.Poisson()):
            bounds = PrivateBounds(0, 100, epsilon=0.1, outside="redact")
            made = noisewise.release(
                pd.DataFrame({"x": values}),
                column="x",
                family=family,
                bounds=bounds,
                epsilon=1,
                ledger=None,
            )
            assert made.bounds is not None
            assert 0 <= made.bounds.lower < made.bounds.upper <= 100

"""Attacks that once worked, each kept as a test: settings of others, odd types, and budgets spent
for nothing.
"""

import csv
import decimal
import io
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import noisewise
from noisewise import Bounds, PrivateBounds, families
from noisewise.cli.main import run
from noisewise.curator import csvfile
from noisewise.curator.ledger import Ledger
from noisewise.errors import OutputError, RecordsError
from noisewise.mechanism import privacy
from noisewise.mechanism.lattice import lattice_for
from noisewise.mechanism.privacy import Cost, pure
from tables import exact_sums


def sums(
    records: Any,
    family: families.Family,
    bounds: Bounds | None = None,
    missing: float | None = None,
) -> tuple[int, list[int]]:
    return exact_sums(records, lattice_for(family, bounds, missing))[0]


def test_a_collation_of_the_users_merges_no_labels() -> None:
    """Under NOCASE, one 'A' would become the key of the whole group of 'a', and move
    every count.
    """
    with duckdb.connect() as connection:
        connection.execute("SET default_collation = 'nocase'")
        connection.execute("CREATE TABLE t (x VARCHAR COLLATE NOCASE)")
        connection.execute("INSERT INTO t VALUES ('A'), ('a'), ('a'), ('a')")
        assert sums(connection.table("t"), families.Categorical(["a", "b"], other="b")) == (
            4,
            [3, 1],
        )


class Reciprocal(families.Family):
    kind = "reciprocal"
    support = (-np.inf, np.inf)

    def statistic(self, x, xp=np):  # type: ignore[no-untyped-def]
        return 1 / x, xp.log(x)


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


def test_the_length_of_a_line_is_part_of_a_csvs_public_shape(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1," + "z" * (15 << 20) + "\n")
    assert sums(path, families.Bernoulli()) == (1, [1])
    path.write_text("x,y\n1," + "z" * (17 << 20) + "\n")
    with pytest.raises(RecordsError, match="no line over 16 MiB"):
        sums(path, families.Bernoulli())


def test_a_folder_named_like_a_column_changes_no_record(tmp_path: Path) -> None:
    folder = tmp_path / "c0=50" / "x=7"
    folder.mkdir(parents=True)
    (folder / "a[1]*.csv").write_text("x\n1\n0\n")
    duckdb.from_arrow(pa.table({"x": [1, 0]})).write_parquet(str(tmp_path / "plain.parquet"))
    os.rename(tmp_path / "plain.parquet", folder / "a?.parquet")
    assert sums(folder / "a[1]*.csv", families.Bernoulli()) == (2, [1])
    assert sums(folder / "a?.parquet", families.Bernoulli()) == (2, [1])


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = Ledger(tmp_path / "budget.db")
    book.set_limit("d", pure(100_000))
    return book


@pytest.mark.parametrize(
    ("family", "bounds", "missing", "values"),
    [
        (
            families.Normal(),
            PrivateBounds(0, 100, epsilon=50, outside="clamp"),
            99.0,
            [1.0, 2.0] * 50,
        ),
        (
            families.Normal(mean=1e15),
            PrivateBounds(0, 1, epsilon=50, outside="clamp"),
            None,
            [0.5] * 50,
        ),
        (
            families.Poisson(),
            PrivateBounds(0, 1e12, epsilon=50, outside="redact"),
            None,
            [1e12] * 50,
        ),
    ],
)
def test_private_bounds_that_do_not_serve_still_give_a_release(
    family, bounds, missing, values, ledger: Ledger
) -> None:  # type: ignore[no-untyped-def]
    frame = pd.DataFrame({"x": values})
    for _ in range(5):
        try:
            made = noisewise.release(
                frame,
                column="x",
                family=family,
                bounds=bounds,
                missing=missing,
                epsilon=1,
                ledger=ledger.path,
                dataset="d",
            )
        except ValueError:  # refused from public facts alone, every time, and for nothing
            assert ledger.accounts()[0].spent == 0
            continue
        assert made.bounds is not None
        assert ledger.accounts()[0].spent > 0


def test_a_headroom_refusal_of_private_bounds_costs_nothing(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x\n" + "1\n" * 20_000)
    bounds = PrivateBounds(0, 1e15, epsilon=100, outside="redact")
    for _ in range(3):
        with pytest.raises(ValueError, match="do not fit in 63 bits"):
            noisewise.release(
                path,
                column="x",
                family=families.Poisson(),
                bounds=bounds,
                epsilon=1,
                ledger=ledger.path,
                dataset="d",
            )
    assert ledger.accounts()[0].spent == 0


COMMAND = (
    "release t.csv --column x --family bernoulli --epsilon 1 --ledger budget.db --dataset d --out"
)


@pytest.fixture
def folder(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("x\n1\n0\n")
    return tmp_path


def test_a_long_but_legal_name_is_written(folder: Path) -> None:
    name = "n" * 250 + ".json"
    assert run([*COMMAND.split(), name]) == 0
    assert noisewise.load(name).n == 2


@pytest.mark.parametrize(
    "command",
    [
        f"{COMMAND} {'n' * 300}.json",
        f"{COMMAND} budget.db-journal",
        f"{COMMAND} budget.db-wal",
        f"{COMMAND} o.json --description \udc80",
        f"{COMMAND} /",
        f"release {'n' * 300}.csv --column x --family bernoulli --epsilon 1 --no-ledger --out "
        "o.json",
        f"release t.csv --column x --family bernoulli --epsilon 1 --ledger {'n' * 300} --dataset d "
        "--out o.json",
        f"ledger set-limit {'n' * 300} --dataset d --epsilon 1",
        f"release t.csv --column x --family gamma(shape=1{'0' * 400}) --bounds 0 1 --outside clamp "
        "--epsilon 1 --no-ledger --out o.json",
        "release t.csv --column x --family categorical(categories=1000000000,other=0) --epsilon 1 "
        "--no-ledger --out o.json",
        "release t.csv --column x --family normal(mean=(1,2)) --bounds 0 1 --outside clamp "
        "--epsilon 1 --no-ledger --out o.json",
        f"release t.csv --column x --family bernoulli --epsilon 0.{'1' * 60} --no-ledger --out "
        "o.json",
    ],
)
def test_refusals_cost_nothing_and_are_one_clean_line(
    command: str, folder: Path, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split(" ")) == 2
    line = capsys.readouterr().err
    assert line.startswith("noisewise: ")
    assert line.count("\n") == 1
    assert "truth value" not in line
    assert ledger.accounts()[0].spent == 0
    assert sorted(os.listdir()) == ["budget.db", "t.csv"]


def test_a_name_from_outside_steers_neither_terminal_nor_shell(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = [
        "release",
        "t.csv",
        "--column",
        "x",
        "--family",
        "bernoulli",
        "--epsilon",
        "1",
        "--out",
        "o",
    ]
    assert run([*plain, "--dataset", "a b; rm -rf ~", "--ledger", "\x1b[31m.db"]) == 2
    assert "\x1b" not in capsys.readouterr().err
    assert run([*plain, "--dataset", "a b; rm -rf ~", "--ledger", "budget.db"]) == 2
    assert "--dataset 'a b; rm -rf ~'" in capsys.readouterr().err


def test_an_object_given_by_mistake_is_not_shown(folder: Path) -> None:
    """Nor are the names of a frame's columns: read from a file without a header, they
    are a record.
    """
    secret = pd.DataFrame({"SECRET": ["SECRET", "1"]})
    good: dict[str, Any] = {
        "column": "x",
        "family": families.Bernoulli(),
        "epsilon": 1,
        "ledger": None,
    }
    mistakes = (
        "family",
        "epsilon",
        "ledger",
        "bounds",
        "missing",
        "records_per_person",
        "neighbours",
        "description",
        "dataset",
        "column",
        "out",
    )
    for mistake in mistakes:
        for table in ("t.csv", secret):
            with pytest.raises(ValueError) as caught:
                noisewise.release(table, **(good | {mistake: secret["SECRET"]}))
            assert "SECRET" not in str(caught.value), mistake
    for table in (
        secret,
        pa.Table.from_pandas(secret),
        duckdb.from_arrow(pa.Table.from_pandas(secret)),
    ):
        with pytest.raises(RecordsError, match="no column 'x'") as refused:
            noisewise.release(table, **good)
        assert "SECRET" not in str(refused.value)
    with pytest.raises(ValueError, match="two numbers, got Series") as caught:
        Bounds(secret["SECRET"], 1, outside="clamp")  # type: ignore[arg-type]
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("shell", ["{} > /dev/full", "PYTHONIOENCODING=ascii {}"])
def test_a_release_that_is_made_is_a_success_whatever_happens_to_the_report(
    shell: str, folder: Path, ledger: Ledger
) -> None:
    command = f"{sys.executable} -c 'from noisewise.cli.main import main; main()' {COMMAND} é.json"
    done = subprocess.run(["bash", "-c", shell.format(command)], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert noisewise.load("é.json").privacy.spend == ledger.history()[-1].spend  # type: ignore[union-attr]


def test_amounts_are_exact_whatever_the_decimal_context() -> None:
    with decimal.localcontext() as context:
        context.prec = 2
        assert privacy.compose(
            privacy.half(Decimal("0.1119")), privacy.half(Decimal("0.1119"))
        ) == Decimal("0.1119")
    many_nines = Decimal("0." + "9" * 45)
    assert privacy.compose(privacy.half(many_nines), privacy.half(many_nines)) == many_nines
    assert privacy.text(privacy.exact_epsilon(np.float64(0.1))) == "0.1"


@pytest.mark.parametrize("amount", ["-1", "0", "NaN"])
def test_the_ledger_takes_positive_amounts_only(amount: str, ledger: Ledger) -> None:
    bad = Cost("epsilon", Decimal(amount))
    with pytest.raises(ValueError, match="positive"):
        ledger.spend("d", bad, "one record", "test")
    if amount != "0":  # a limit of 0 freezes the dataset
        with pytest.raises(ValueError, match="positive"):
            ledger.set_limit("d", bad)
    assert len(ledger.history()) == 1


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


def test_out_is_checked_before_anything_is_spent(folder: Path, ledger: Ledger) -> None:
    settings: dict[str, Any] = {
        "column": "x",
        "family": families.Bernoulli(),
        "epsilon": 1,
        "ledger": ledger.path,
        "dataset": "d",
    }
    made = noisewise.release("t.csv", **settings, out="o.json")
    assert noisewise.load("o.json") == made
    with pytest.raises(OutputError, match="never overwritten"):
        noisewise.release("t.csv", **settings, out="o.json")
    for odd in (
        {"ledger": False},
        {"out": 3},
        {"family": families.Bernoulli},
        {"missing": "a"},
        {"bounds": "private"},
    ):
        with pytest.raises(ValueError, match="must be"):
            noisewise.release("t.csv", **(settings | odd))
    assert ledger.accounts()[0].releases == 1


def test_text_comes_late_in_a_column_of_objects() -> None:
    frame = pd.DataFrame({"x": pd.Series([None] * 100_000 + ["1"], dtype=object)})
    assert sums(frame, families.Bernoulli()) == (100_001, [1])
    assert sums(frame, families.Categorical(["1", "2"], other="2")) == (100_001, [1, 100_000])


@pytest.mark.parametrize(
    "make",
    [
        "pandas.DataFrame({'x': [1, 0, None]})",
        "polars.DataFrame({'x': [1, 0, None]})",
        "pyarrow.table({'x': [1, 0, None]})",
        "duckdb.sql('SELECT 1 AS x')",
        "'t.csv'",
    ],
)
def test_nothing_is_printed_at_exit(make: str, folder: Path) -> None:
    """DuckDB's bindings can report leaked objects when a process ends."""
    module = make.split(".")[0] if "(" in make else "sys"
    code = (
        f"import noisewise, {module}\nnoisewise.release({make}, column='x', "
        "family=noisewise.families.Bernoulli(), epsilon=1, ledger=None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

"""Nothing that stands in a release, a ledger, a table or a command can steer the terminal that it
is shown on.
"""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import noisewise
from noisewise import Bounds, families, noise
from noisewise.cli.main import run
from noisewise.curator.ledger import Ledger
from noisewise.mechanism.privacy import pure

EVIL = "a\x1b[31mb\x9b2Jc\u202ed\u2066e\x07f\r\ng\u200bh"


def harmless(capsys: pytest.CaptureFixture[str]) -> str:
    held = capsys.readouterr()
    both = held.out + held.err
    assert all(letter.isprintable() or letter == "\n" for letter in both)
    return both


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_no_text_of_a_release_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    plain = noisewise.observe(
        family=families.Exponential(),
        n=2000,
        statistic=24_700.0,
        noise=noise.Laplace(120.0),
        bounds=Bounds(0, 60, outside="clamp"),
    )
    evil = replace(
        plain, dataset=EVIL, column=EVIL, description=EVIL, notes=(EVIL,), group=(EVIL, EVIL)
    )
    evil.save("evil.json")
    Path("many.jsonl").write_text(evil.to_json(indent=None))
    for name in ("evil.json", "many.jsonl"):
        assert run(["infer", name, "--prior", "gamma(shape=2, rate=20)"]) == 0
        assert run(["infer", name, "--prior", "gamma(shape=2, rate=20)", "--json"]) == 0
        said = harmless(capsys)
        assert (r"a\x1b[31mb\x9b2Jc\u202ed\u2066e\x07f\r\ng\u200bh" in said) == (
            name == "many.jsonl"
        )
    twice = replace(evil, n=1)
    twice.save("twice.json")
    # one dataset, not independent
    assert run(["infer", "evil.json", "twice.json", "--prior", "gamma(shape=2, rate=20)"]) == 2
    harmless(capsys)


def test_no_label_of_a_release_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    law = noise.Laplace(1.0)
    noisewise.observe(
        family=families.Categorical([EVIL, "b"]), n=9, statistic=[3.0, 6.0], noise=law
    ).save("evil.json")
    assert (
        run(["infer", "evil.json", "--prior", "dirichlet(concentration=[1, 1])", "--draws", "50"])
        == 0
    )
    said = harmless(capsys)
    assert r"probabilities[a\x1b[31mb" in said
    assert "\ng" not in said  # a label stays on its line


def test_no_text_of_a_ledger_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Ledger(Path("budget.db")).set_limit("d", pure(1))
    with closing(sqlite3.connect("budget.db")) as connection:
        connection.execute(
            "INSERT INTO limits (dataset, amount, at) VALUES (?, '1', ?)", (EVIL, EVIL)
        )
        connection.execute(
            "INSERT INTO spends (id, dataset, amount, at, purpose) VALUES (?, ?, '0.1', ?, ?)",
            (EVIL, EVIL, EVIL, EVIL),
        )
        connection.commit()
    assert run(["ledger", "show", "budget.db"]) == run(["ledger", "history", "budget.db"]) == 0
    assert run(["ledger", "set-limit", "budget.db", "--dataset", EVIL, "--epsilon", "2"]) == 0
    assert run(["ledger", "history", "budget.db", "--dataset", "absent"]) == 2
    assert harmless(capsys).count(r"a\x1b[31mb") >= 5


def test_no_name_of_a_column_or_file_steers_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    column, name = "x\u202ey", "out\x1b[31m\u202e.json"
    pd.DataFrame({column: [0, 1, 1]}).to_parquet("t.parquet")
    Ledger(Path("b\x1b.db")).set_limit("d", pure(9))
    command = [
        "release",
        "t.parquet",
        "--family",
        "bernoulli",
        "--epsilon",
        "1",
        "--ledger",
        "b\x1b.db",
        "--dataset",
        "d",
    ]
    # a column's name must be printable
    assert run([*command, "--column", column, "--out", name]) == 2
    pd.DataFrame({"x": [0, 1, 1], EVIL: [0, 1, 1]}).to_parquet("t.parquet")
    assert run([*command, "--column", "x", "--out", name, "--dry-run"]) == 0
    assert run([*command, "--column", "x", "--out", name]) == 0
    assert run([*command, "--column", "absent", "--out", "o.json"]) == 2
    assert run([*command, "--column", "x", "--out", name]) == 2
    assert Path(name).exists()
    assert r"\x1b[31m\u202e.json" in harmless(capsys)


def test_a_release_that_cannot_be_written_is_printed_as_the_same_release(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from noisewise.curator import publish
    from noisewise.errors import OutputError

    def full(*_: object) -> None:
        raise OutputError("the disk is full.")

    pd.DataFrame({"x": ["b"]}).to_parquet("t.parquet")
    monkeypatch.setattr(publish.Release, "save", full)
    family = f"categorical(categories=[{EVIL!r}, 'b'], other='b')"
    assert (
        run(
            [
                "release",
                "t.parquet",
                "--column",
                "x",
                "--family",
                family,
                "--epsilon",
                "1",
                "--no-ledger",
                "--out",
                "o.json",
            ]
        )
        == 2
    )
    held = capsys.readouterr()
    assert all(letter.isprintable() or letter == "\n" for letter in held.out + held.err)
    assert noisewise.artifact.parse(held.out).family == families.Categorical([EVIL, "b"], other="b")  # type: ignore[attr-defined]
    assert json.loads(held.out)["n"] == 1

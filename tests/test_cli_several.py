"""Several columns from the command line: what is typed, what is said, and one line for what is
wrong.
"""

from pathlib import Path

import pytest

import noisewise
from noisewise import Bins, Bounds, families
from noisewise.cli.main import run

MOMENTS = "--moments bp:60:220 age:0:100:clamp sex:f,m"
TABLE = "--table sex:f,m ward:a,b,c age:0:18:65:100"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{60 + j},{j % 90},{'fm'[j % 2]},{'abc'[j % 3]}" for j in range(160)]
    (tmp_path / "patients.csv").write_text("\n".join(["bp,age,sex,ward", *rows]) + "\n")
    (tmp_path / "wards.txt").write_text("a\nb\nc\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_moments_are_released_and_paid_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ledger", "set-limit", "b.db", "--dataset", "patients", "--epsilon", "2"]) == 0
    command = f"release patients.csv {MOMENTS} --epsilon 1 --ledger b.db --dataset patients"
    assert run([*command.split(), "--out", "m.json"]) == 0
    shown = capsys.readouterr().out
    assert "moments of columns 'bp', 'age', 'sex', n = 160, cost epsilon = 1" in shown
    assert "1 left of 2" in shown
    made = noisewise.load("m.json")
    assert made.family == families.Moments(
        {
            "bp": Bounds(60, 220, outside="redact"),
            "age": Bounds(0, 100, outside="clamp"),
            "sex": ["f", "m"],
        },
        less=0.5,
    )
    assert made.n == 160
    assert made.count is not None
    assert made.column is None


def test_tables_are_released_by_groups(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"release patients.csv {TABLE} --rho 0.5 --no-ledger"
    assert run([*command.split(), "--out", "t.json"]) == 0
    assert "table of columns 'sex', 'ward', 'age', 18 cells" in capsys.readouterr().out
    made = noisewise.load("t.json")
    assert made.family == families.Table(
        {"sex": ["f", "m"], "ward": ["a", "b", "c"], "age": Bins([0, 18, 65, 100])}
    )
    assert (made.n, made.count) == (None, None)
    groups = "--by ward --groups-file wards.txt --sizes released --out g.jsonl"
    grouped = f"release patients.csv --table sex:f,m --epsilon 1 --no-ledger {groups}"
    assert run(grouped.split()) == 0
    assert [one.group for one in noisewise.load_many("g.jsonl")] == [
        ("ward", ward) for ward in "abc"
    ]


def test_a_dry_run_speaks_in_the_columns_own_units(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"release patients.csv {MOMENTS} --epsilon 1 --no-ledger --dry-run".split()) == 0
    shown = capsys.readouterr().out
    sd = 2**0.5 * 25 / 3  # the sensitivity of two numbers and a factor is 25/3
    assert f"noise of sd {sd * 80 / 160:.3g} on its mean" in shown
    assert f"noise of sd {sd * 50 / 160:.3g} on its mean" in shown
    assert f"noise of sd {sd / 160:.3g} on the share" in shown
    assert "Cost: epsilon = 1." in shown
    unknown = f"release patients.csv {MOMENTS} --epsilon 1 --no-ledger --dry-run"
    assert run([*unknown.split(), "--neighbours", "add_remove"]) == 0
    assert "with 1000 records" in capsys.readouterr().out
    assert run(f"release patients.csv {TABLE} --epsilon 1 --no-ledger --dry-run".split()) == 0
    assert "the counts of 18 cells. Sensitivity 2" in capsys.readouterr().out
    assert sorted(path.name for path in folder.iterdir()) == ["patients.csv", "wards.txt"]


@pytest.mark.parametrize("what", ["--moments bp:60:220 sex:f,m", "--table=sex:f,m ward:a,b"])
def test_an_audit_attacks_both(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"audit {what} --epsilon 4 --runs 400".split()) == 0
    assert "no more is seen to be spent" in capsys.readouterr().out


BAD = {
    "--moments": "--moments needs columns, such as",
    "--table --epsilon 1": "--table needs columns, such as",
    "--moments bp": "'bp' is no column of --moments",
    "--moments bp:60": "two numbers",
    "--moments age:0:18:65": "two numbers",
    "--moments sex:f,m:clamp": "levels take no",
    "--moments bp:60:high": "must be a finite number",
    "--moments bp:220:60": "lower bound must be below",
    "--moments bp:60:220 bp:0:1": "named twice",
    "--moments bp:60:220 patients.csv": "the file of records comes before",
    "--moments bp:60:220 --column bp": "leave column=",
    "--moments bp:60:220 --bounds 0 1 --outside clamp": "leave bounds=",
    "--moments bp:60:220 --table sex:f,m": "say what to release",
    "--moments bp:60:220 --family normal": "say what to release",
    "--moments weight:0:1": "'weight' once",
    "--column bp": "say what to release",
    "--family bernoulli": "say which column",
    "--table sex:f,,m": "a level is empty",
    "--table age:5": "the edges of bins",
    "--table age:5:1": "edges must increase",
    "--table sex:f": "the table has 1 cells",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_gives_one_line_that_says_what_to_type(
    words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"release patients.csv {words} --epsilon 1 --no-ledger --out o.json"
    assert run(command.split()) == 2
    shown = capsys.readouterr()
    assert BAD[words] in shown.err
    assert shown.err.count("\n") == 1
    assert not shown.out
    assert not (folder / "o.json").exists()

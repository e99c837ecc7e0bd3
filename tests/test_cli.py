"""The command line as a person meets it: commands as printed, and one clear line for whatever is
wrong.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import noisewise
from noisewise.cli.main import run

CSV = "wait,sick,way,when\n" + "".join(
    f"{i % 40}.5,{i % 3 == 0},{'abc'[i % 3]},2024-01-0{i % 9 + 1}\n" for i in range(300)
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(CSV)
    return tmp_path


RELEASE = (
    "release visits.csv --column wait --family exponential --bounds 0 60 --outside redact "
    "--epsilon 0.5"
)
CHARGED = f"{RELEASE} --ledger budget.db --dataset visits-2026 --out wait.release.json"


def test_the_printed_commands_work_in_a_real_process(folder: Path) -> None:
    for command in (
        "ledger set-limit budget.db --dataset visits-2026 --epsilon 2",
        CHARGED,
        "ledger show budget.db",
        "ledger history budget.db",
    ):
        done = subprocess.run(
            [sys.executable, "-c", "from noisewise.cli.main import main; main()", *command.split()],
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, ""), command
    assert "visits-2026" in done.stdout
    made = noisewise.load("wait.release.json")
    assert made.n == 300
    assert made.privacy is not None
    assert made.privacy.spend in done.stdout


def test_dry_run_spends_nothing_and_says_what_would_happen(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["ledger", "set-limit", "budget.db", "--dataset", "visits-2026", "--epsilon", "2"])
    before = sorted(os.listdir())
    assert (
        run([*RELEASE.split(), "--ledger", "budget.db", "--dataset", "visits-2026", "--dry-run"])
        == 0
    )
    said = capsys.readouterr().out
    for fact in (
        "n = 300",
        "sensitivity 60",
        "scale 120",
        "Sampling error",
        "2 left for visits-2026, 1.5 after",
        "Cost: epsilon = 0.5",
        "noise of sd 0.566 on its mean",  # sqrt(2) 60 / 0.5 / 300, in minutes
        "a suspicion of 50 % about what somebody's record says rises to at most 62.2 %",
    ):
        assert fact in said
    assert sorted(os.listdir()) == before
    run(["ledger", "show", "budget.db"])
    assert "2      0      2     0" in capsys.readouterr().out


def test_private_bounds_are_paid_for_and_noted(folder: Path) -> None:
    command = (
        "release visits.csv --column wait --family normal --bounds private --bounds-range 0 1000 "
        "--bounds-epsilon 0.1 --quantiles 0.01 0.99"
    )
    assert (
        run(
            [
                *command.split(),
                "--outside",
                "clamp",
                "--epsilon",
                "1",
                "--no-ledger",
                "--out",
                "w.json",
            ]
        )
        == 0
    )
    content = json.loads(Path("w.json").read_text())
    assert content["privacy"]["total_epsilon"] == "1.1"
    assert content["privacy"]["quantiles"] == [0.01, 0.99]
    assert any("chosen privately" in note for note in content["notes"])
    assert any("not recorded" in note for note in content["notes"])


@pytest.mark.parametrize(
    ("family", "column", "more"),
    [
        ("bernoulli", "sick", []),
        ("categorical(categories=['a','b','z'], other='z')", "way", []),
        ("poisson", "wait", ["--bounds", "0", "60", "--outside", "clamp", "--missing", "3"]),
        ("geometric", "wait", ["--bounds", "1", "60", "--outside", "redact"]),
        ("gamma(shape=2)", "wait", ["--bounds", "0", "60", "--outside", "clamp"]),
        ("normal(mean=20)", "wait", ["--bounds=-10", "60", "--outside", "clamp"]),
        ("normal(variance=4)", "wait", ["--bounds", "-10", "60", "--outside", "clamp"]),
        (
            "normal",
            "wait",
            ["--bounds", "-10", "60", "--outside", "redact", "--records-per-person", "3"],
        ),
    ],
)
def test_every_family_is_released_from_the_command_line(
    family: str, column: str, more: list[str], folder: Path
) -> None:
    command = [
        "release",
        "visits.csv",
        "--column",
        column,
        "--family",
        family,
        *more,
        "--epsilon",
        "1",
        "--no-ledger",
        "--out",
        "o.json",
    ]
    if more and more[0] == "--bounds=-10":
        command[command.index("--bounds=-10") :] = [
            "--bounds",
            "-10",
            *command[command.index("--bounds=-10") + 1 :],
        ]
    assert run(command) == 0
    assert noisewise.load("o.json").n == 300


BAD = {
    "missing file": (
        "release nothing.csv --column wait --family bernoulli --epsilon 1 --no-ledger --out o.json",
        "there is no file nothing.csv",
    ),
    "a folder": (
        "release . --column wait --family bernoulli --epsilon 1 --no-ledger --out o.json",
        "is a folder and can be read if",
    ),
    "wrong suffix": (
        "release budget.db --column wait --family bernoulli --epsilon 1 --no-ledger --out o.json",
        "neither .csv nor .parquet",
    ),
    "not Parquet": (
        "release fake.parquet --column wait --family bernoulli --epsilon 1 --no-ledger --out "
        "o.json",
        "not a readable Parquet",
    ),
    "wrong type": (
        "release dates.parquet --column when --family bernoulli --epsilon 1 --no-ledger --out "
        "o.json",
        "neither numbers nor text",
    ),
    "missing column": (
        "release visits.csv --column weight --family bernoulli --epsilon 1 --no-ledger --out "
        "o.json",
        "must name the column 'weight' once",
    ),
    "bounds reversed": (
        f"{RELEASE.replace('0 60', '60 0')} --no-ledger --out o.json",
        "lower bound must be below",
    ),
    "bounds no numbers": (f"{RELEASE.replace('0 60', 'a b')} --no-ledger --out o.json", "bounds"),
    "infinite bounds": (f"{RELEASE.replace('0 60', '0 inf')} --no-ledger --out o.json", "finite"),
    "no bounds": (
        "release visits.csv --column wait --family exponential --epsilon 1 --no-ledger --out "
        "o.json",
        "needs bounds",
    ),
    "no outside": (
        "release visits.csv --column wait --family normal --bounds 0 1 --epsilon 1 --no-ledger "
        "--out o.json",
        "--outside redact",
    ),
    "odd outside": (
        f"{RELEASE.replace('redact', 'drop')} --no-ledger --out o.json",
        "'redact' or 'clamp'",
    ),
    "epsilon zero": (
        f"{RELEASE.replace('0.5', '0')} --no-ledger --out o.json",
        "epsilon must be a positive number",
    ),
    "epsilon negative": (
        f"{RELEASE.replace('0.5', '-1')} --no-ledger --out o.json",
        "epsilon must be a positive number",
    ),
    "epsilon word": (
        f"{RELEASE.replace('0.5', 'small')} --no-ledger --out o.json",
        "epsilon must be a number",
    ),
    "unknown family": (
        f"{RELEASE.replace('exponential', 'cauchy')} --no-ledger --out o.json",
        "unknown family 'cauchy'; known are",
    ),
    "no other": (
        "release visits.csv --column way --family categorical(categories=['a','b']) --epsilon 1 "
        "--no-ledger --out o.json",
        "needs other=",
    ),
    "not a ledger": (
        f"{RELEASE} --ledger visits.csv --dataset d --out o.json",
        "not a noisewise ledger",
    ),
    "absent ledger": (
        f"{RELEASE} --ledger absent.db --dataset d --out o.json",
        "set-limit absent.db",
    ),
    "no limit": (
        f"{RELEASE} --ledger budget.db --dataset unknown --out o.json",
        "set-limit budget.db --dataset unknown",
    ),
    "too expensive": (
        f"{RELEASE.replace('0.5', '3')} --ledger budget.db --dataset visits-2026 --out o.json",
        "has 2 of its limit 2 left",
    ),
    "no dataset": (f"{RELEASE} --ledger budget.db --out o.json", "needs --dataset NAME"),
    "no ledger said": (f"{RELEASE} --out o.json", "--no-ledger"),
    "both ledgers": (
        f"{RELEASE} --ledger budget.db --dataset visits-2026 --no-ledger --out o.json",
        "say either",
    ),
    "no out": (f"{RELEASE} --no-ledger", "--out FILE"),
    "unwritable out": (
        f"{RELEASE} --ledger budget.db --dataset visits-2026 --out nowhere/o.json",
        "cannot write to nowhere/o.json",
    ),
    "out exists": (
        f"{RELEASE} --ledger budget.db --dataset visits-2026 --out visits.csv",
        "never overwritten",
    ),
    "half private bounds": (
        f"{RELEASE.replace('0 60', 'private')} --no-ledger --out o.json",
        "--bounds-range",
    ),
    "one bound": (
        f"{RELEASE.replace('0 60', '0')} --no-ledger --out o.json",
        "two numbers, LOWER UPPER",
    ),
    "stray quantiles": (
        f"{RELEASE} --quantiles 0.1 0.9 --no-ledger --out o.json",
        "go with --bounds private",
    ),
    "dry run to a file that exists": (
        f"{RELEASE} --no-ledger --out visits.csv --dry-run",
        "never overwritten",
    ),
    "decimal comma": (f"{RELEASE.replace('0.5', '0,5')} --no-ledger --out o.json", "decimal point"),
    "weibull without shape": (
        f"{RELEASE.replace('exponential', 'weibull')} --no-ledger --out o.json",
        "weibull(shape=...)",
    ),
    "log of nothing": (
        f"{RELEASE.replace('exponential', 'gamma')} --no-ledger --out o.json",
        "the lower bound must be above 0",
    ),
    "labels in one text": (
        "release visits.csv --column way --family categorical(categories='abc',other='a') "
        "--epsilon 1 --no-ledger --out o.json",
        "a list of labels",
    ),
    "fractional missing": (
        "release visits.csv --column wait --family poisson --bounds 0 9 --outside clamp --missing "
        "1.5 --epsilon 1 --no-ledger --out o.json",
        "whole number",
    ),
    "ledger dataset": ("ledger history budget.db --dataset nope", "known are: visits-2026"),
    "stray range": (
        f"{RELEASE} --bounds-range 0 1 --no-ledger --out o.json",
        "go with --bounds private",
    ),
    "neighbours": (
        f"{RELEASE} --neighbours swap_two --no-ledger --out o.json",
        "one of: replace_one, add_remove",
    ),
    "per person": (
        f"{RELEASE} --records-per-person 0 --no-ledger --out o.json",
        "records_per_person",
    ),
    "tiny epsilon": (f"{RELEASE.replace('0.5', '1e-30')} --no-ledger --out o.json", "64-bit"),
    "no such option": (f"{RELEASE} --colour red", "No such option"),
    "no such command": ("publish", "No such command"),
    "no arguments": ("release", "Missing"),
    "ledger epsilon": ("ledger set-limit budget.db --dataset d --epsilon -1", "positive"),
    "ledger of text": ("ledger show visits.csv", "not a noisewise ledger"),
    "ledger absent": ("ledger history absent.db", "there is no ledger"),
    "ledger folder": (
        "ledger set-limit nowhere/budget.db --dataset d --epsilon 1",
        "cannot create the ledger",
    ),
    "ledger name": ("ledger set-limit budget.db --dataset \x1b[31m --epsilon 1", "printable"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_line_and_status_2_and_changes_nothing(
    case: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "fake.parquet").write_text("no parquet")
    pq.write_table(pa.table({"when": pa.array([0, 1], pa.date32())}), folder / "dates.parquet")
    run(["ledger", "set-limit", "budget.db", "--dataset", "visits-2026", "--epsilon", "2"])
    capsys.readouterr()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    command, message = BAD[case]
    assert run(command.split(" ")) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.count("\n") == 1
    assert seen.err.startswith("noisewise: ")
    assert message in seen.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_csv_without_a_header_shows_no_record(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bare.csv").write_text("SECRET,1.5,ambulance\nx,2,y\n")
    assert (
        run(
            [
                "release",
                "bare.csv",
                "--column",
                "wait",
                "--family",
                "bernoulli",
                "--epsilon",
                "1",
                "--no-ledger",
                "--out",
                "o.json",
            ]
        )
        == 2
    )
    line = capsys.readouterr().err
    assert "SECRET" not in line
    assert "1.5" not in line


@pytest.mark.parametrize(
    ("part", "status"),
    [
        ("curator.publish.check_headroom", 1),
        ("mechanism.mechanisms.LaplaceMechanism.add_noise", 2),
    ],
)
def test_a_fault_of_ours_shows_no_traceback(
    part: str,
    status: int,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a record: SECRET")

    monkeypatch.setattr(f"noisewise.{part}", fail)
    assert run([*RELEASE.split(), "--no-ledger", "--out", "o.json"]) == status
    seen = capsys.readouterr()
    assert "SECRET" not in seen.err + seen.out
    assert seen.err.count("\n") == 1
    assert not Path("o.json").exists()


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip()[0].isdigit()

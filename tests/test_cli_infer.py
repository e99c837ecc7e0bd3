"""`noisewise infer` as a person meets it."""

import csv
import json
from pathlib import Path

import pytest

import noisewise
from noisewise import Bounds, families, noise
from noisewise.cli.main import run

GAMMA = ["--prior", "gamma(shape=2, rate=20)"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    bounds = Bounds(0, 60, outside="clamp")
    release = noisewise.observe(
        family=families.Exponential(),
        n=2000,
        statistic=24_700.0,
        noise=noise.Laplace(120.0),
        bounds=bounds,
        dataset="visits",
    )
    release.save("wait.release.json")
    return tmp_path


def test_a_table_a_picture_and_a_line_on_trust(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["infer", "wait.release.json", *GAMMA]) == 0
    said = capsys.readouterr().out
    for part in (
        "mean",
        "95%",
        "rate",
        "█",
        "90 % interval",
        "exact: no approximation",
        "numerical error",
    ):
        assert part in said


def test_infer_writes_draws_figure_and_json(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "infer",
        "wait.release.json",
        *GAMMA,
        "--json",
        "--out",
        "w.nc",
        "--plot",
        "w.svg",
        "--seed",
        "3",
        "--draws",
        "50",
    ]
    assert run(command) == 0
    held = json.loads(capsys.readouterr().out)
    assert held["method"] == "exact"
    assert held["summary"][0]["name"] == "rate"
    assert held["certificate"]["numerical_error"] < 0.01
    assert "<svg" in Path("w.svg").read_text()
    import xarray

    with xarray.open_dataset("w.nc", group="posterior") as draws:
        assert draws["rate"].shape == (4, 12)
        assert draws.attrs["prior"] == "gamma(shape=2, rate=20)"
    assert run(command) == 0  # a second run replaces them


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_release_as_a_table_has_the_rows_that_it_has_among_several(
    folder: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    import duckdb

    assert run(["infer", "wait.release.json", *GAMMA, "--out", f"one.{ending}"]) == 0
    assert f"wrote one.{ending}: 2 rows" in capsys.readouterr().out
    assert run(["infer", "wait.release.json", "--each", *GAMMA, "--out", f"many.{ending}"]) == 0
    one, many = (duckdb.sql(f"FROM '{name}.{ending}'").fetchall() for name in ("one", "many"))
    assert one == many
    names = duckdb.sql(f"SELECT dataset, n, name FROM 'one.{ending}'").fetchall()
    assert names == [("visits", 2000, "rate"), ("visits", 2000, "mean")]


def test_releases_that_are_combined_have_what_they_share_in_the_table(folder: Path) -> None:
    bounds = Bounds(0, 60, outside="clamp")
    noisewise.observe(
        family=families.Exponential(),
        n=500,
        statistic=6_100.0,
        noise=noise.Laplace(120.0),
        bounds=bounds,
        dataset="others",
    ).save("other.json")
    assert run(["infer", "wait.release.json", "other.json", *GAMMA, "--out", "both.csv"]) == 0
    with open("both.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(row["dataset"], row["n"], row["name"]) for row in rows] == [
        ("", "2500", "rate"),
        ("", "2500", "mean"),
    ]


def test_no_prior_says_which_and_weak_needs_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["infer", "wait.release.json"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "gamma(shape=2, rate=20)" in said
    assert "--prior weak" in said
    assert run(["infer", "wait.release.json", "--prior", "weak"]) == 0


def test_many_groups_as_csv_and_parquet(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("groups").mkdir()
    with open("many.releases.jsonl", "w") as file:
        for j in range(30):
            release = noisewise.observe(
                family=families.Bernoulli(), n=100 + j, statistic=30.0, noise=noise.Laplace(3.0 + j)
            )
            file.write(release.to_json(indent=None) + "\n")
            release.save(f"groups/{j:02d}.json")
    prior = ["--prior", "beta(alpha=1, beta=1)"]
    assert run(["infer", "many.releases.jsonl", *prior, "--out", "t.csv"]) == 0
    assert run(["infer", "groups", *prior, "--out", "t.parquet"]) == 0
    capsys.readouterr()
    assert run(["infer", "groups", *prior]) == 0
    printed = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    with open("t.csv") as file:
        rows = list(csv.DictReader(file))
    assert rows == printed
    assert len(rows) == 30
    import duckdb

    means = [mean for (mean,) in duckdb.sql("SELECT mean FROM 't.parquet'").fetchall()]
    assert means == pytest.approx([float(row["mean"]) for row in rows])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["wait.release.json", "--prior", "beta(alpha=1, beta=1)"], "takes a gamma prior"),
        (["wait.release.json", "--prior", "gamma(shape=-2, rate=1)"], "must be positive"),
        (["wait.release.json", "--prior", "gamma(shape=[2], rate=20)"], "must be one number"),
        (["wait.release.json", "--prior", "gamma(shape=2"], "cannot read the prior"),
        (["wait.release.json", *GAMMA, "--method", "magic"], "unknown method"),
        (
            ["wait.release.json", *GAMMA, "--method", "gibbs", "--variant", "paper"],
            "redacted records only",
        ),
        (["wait.release.json", "wait.release.json", *GAMMA], "given twice"),
        (["absent.json", *GAMMA], "cannot read"),
        (["cut.json", *GAMMA], "cut file"),
        (["edited.json", *GAMMA], "checksum"),
        (["wait.release.json", "other.json", *GAMMA], "one dataset"),
        (["wait.release.json", "coin.json", *GAMMA], "different families"),
        (["wait.release.json", *GAMMA, "--out", "w.txt"], "must end in"),
        (["wait.release.json", *GAMMA, "--plot", "absent/w.svg"], "cannot write"),
        (["empty.jsonl", *GAMMA], "holds no release"),
    ],
)
def test_whatever_is_wrong_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    text = Path("wait.release.json").read_text()
    Path("cut.json").write_text(text[:200])
    Path("edited.json").write_text(text.replace("24700.0", "24701.0"))
    Path("empty.jsonl").write_text("\n")
    noisewise.observe(
        family=families.Bernoulli(), n=10, statistic=3.0, noise=noise.Laplace(1.0)
    ).save("coin.json")
    bounds = Bounds(0, 60, outside="clamp")
    law = noise.Laplace(60.0)
    noisewise.observe(
        family=families.Exponential(),
        n=2000,
        statistic=24_000.0,
        noise=law,
        bounds=bounds,
        dataset="visits",
    ).save("other.json")
    assert run(["infer", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert words in captured.err

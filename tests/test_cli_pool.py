"""`noisewise pool` and `noisewise infer --difference`."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from inference.test_pooling import bernoulli
from noisewise.cli.main import run


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.chdir(tmp_path)
    said = [("North", 120, 50.0), ("South", 80, 11.0), ("East", 200, 61.0), ("West", 15, 2.0)]
    releases = [replace(bernoulli(n, y), dataset="d", group=("ward", name)) for name, n, y in said]
    Path("groups.jsonl").write_text("".join(r.to_json(None) + "\n" for r in releases))
    paths = [Path(f"{name}.json") for name, _, _ in said]
    for path, one in zip(paths, releases, strict=True):
        one.save(path)
    return paths


def test_pool_writes_table_and_forest(groups: list[Path], capsys: pytest.CaptureFixture) -> None:
    command = ["pool", "groups.jsonl", "--out", "pooled.csv", "--plot", "forest.svg", "--seed", "1"]
    assert run(command) == 0
    said = capsys.readouterr().out
    assert "population of probability, from 4 groups" in said
    assert "exchangeable" in said
    rows = list(csv.DictReader(Path("pooled.csv").read_text().splitlines()))
    assert [row["group"] for row in rows] == ["North", "South", "East", "West"]
    assert all(0 <= float(row["above_average"]) <= 1 for row in rows)
    assert Path("forest.svg").read_text().count("<path") > 20
    assert run(["pool", *map(str, groups), "--json"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in held["population"]] == ["mean", "spread"]
    assert len(held["groups"]) == 4


def test_pool_refuses_in_one_line(groups: list[Path], capsys: pytest.CaptureFixture) -> None:
    assert run(["pool", "groups.jsonl", "--out", "pooled.nc"]) == 2
    assert run(["pool", "North.json", "North.json"]) == 2
    assert "disjoint" in capsys.readouterr().err


def test_difference_of_releases_that_do_not_say_whose_records_they_are(
    groups: list[Path], capsys: pytest.CaptureFixture
) -> None:
    bernoulli(30, 4.0).save("Somewhere.json")
    pair = ["infer", "--each", "North.json", "Somewhere.json", "--difference", "--prior", "weak"]
    assert run(pair) == 0
    assert "taken to be of different records" in capsys.readouterr().out
    assert run([*pair, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["assumptions"]) == 1


def test_difference(groups: list[Path], capsys: pytest.CaptureFixture) -> None:
    pair = ["infer", "--each", "North.json", "South.json", "--difference", "--prior", "weak"]
    assert run([*pair, "--plot", "gap.png", "--seed", "2"]) == 0
    said = capsys.readouterr().out
    assert "a = North, b = South" in said
    assert "P(a > b) = " in said
    assert Path("gap.png").stat().st_size > 5000
    assert run([*pair, "--json", "--seed", "2"]) == 0
    held = json.loads(capsys.readouterr().out)
    (row,) = held["difference"]
    assert row["probability_above_0"] > 0.99
    assert [one["method"] for one in held["certificates"]] == ["exact", "exact"]
    assert held["assumptions"] == []  # they are groups of one dataset
    assert run([arg for arg in pair if arg != "--each"]) == 2
    assert run([*pair[:3], "--difference", "--prior", "weak"]) == 2

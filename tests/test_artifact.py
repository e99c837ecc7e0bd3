"""The release file: exact round trips, and every way of spoiling it is refused with a sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import noisewise
from cases import CASES, Case, name
from noisewise import Bounds, families, noise
from noisewise.artifact import Privacy, Release, parse
from noisewise.artifact.json_text import digest
from noisewise.errors import OutputError, ReleaseFormatError

SPEND = "01234567-89ab-4def-8123-456789abcdef"
RELEASE = Release(
    families.Exponential(),
    100,
    (12.375,),
    noise.DiscreteLaplace(120.0, 2.0**-20),
    Bounds(0, 60, outside="redact"),
    dataset="d",
    column="wait",
    description="Größe",
    notes=("a", "b"),
    privacy=Privacy(
        "0.5", "0.6", "replace_one", 1, "one record", (60.0,), "0.1", (0.01, 0.99), SPEND
    ),
)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_every_family_round_trips_exactly(case: Case, tmp_path: Path) -> None:
    d = case.family.dimension
    for law in (
        noise.Laplace(0.1),
        noise.DiscreteLaplace(0.3, 0.125),
        noise.Gaussian([1 / 3] * d),
        noise.DiscreteGaussian(7.0, [0.5] * d),
    ):
        for index, bounds in enumerate(case.bounds("redact")):
            made = noisewise.observe(
                family=case.family, n=10**12, statistic=[0.1 + 0.2] * d, noise=law, bounds=bounds
            )
            path = tmp_path / f"{law.kind}{index}.json"
            made.save(path)
            assert noisewise.load(path) == made


def test_a_full_release_round_trips_and_reads_well(tmp_path: Path) -> None:
    RELEASE.save(tmp_path / "r.json")
    assert noisewise.load(str(tmp_path / "r.json")) == RELEASE
    content = json.loads((tmp_path / "r.json").read_text())
    assert content["bounds"] == {"lower": 0.0, "upper": 60.0, "outside": "redact"}
    assert content["noise"] == {"kind": "discrete_laplace", "scale": [120.0], "step": [2.0**-20]}
    assert "Größe" in (tmp_path / "r.json").read_text()


def spoiled(change: Callable[[dict[str, Any]], None], resign: bool = True) -> str:
    content = json.loads(RELEASE.to_json())
    change(content)
    if resign:
        content.pop("sha256", None)
        content["sha256"] = digest(content)
    return json.dumps(content)


def put(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    *path, last = key.split(".")

    def change(content: dict[str, Any]) -> None:
        for part in path:
            content = content[part]
        content[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("n", -1), "n must be a whole number from 0"),
        (put("n", 1.5), "field n"),
        (put("n", "7"), "field n"),
        (put("n", True), "field n"),
        (put("n", 10**25), "n must be a whole number"),
        (put("statistic", [1.0, 2.0]), "statistic has 2 numbers"),
        (put("statistic", []), "statistic has 0 numbers"),
        (put("statistic", ["1"]), "field statistic.0"),
        (put("noise.scale", [0.0]), "scale must be positive"),
        (put("noise.scale", [-1.0]), "scale must be positive"),
        (put("noise.step", [0.0]), "step must be positive"),
        (put("noise.scale", [1.0, 2.0]), "2 numbers for 1 statistics"),
        (put("noise.kind", "cauchy"), "noise kind 'cauchy' is not known"),
        (put("noise.kind", "laplace"), "step"),
        (put("bounds.lower", 60.0), "lower bound must be below"),
        (put("bounds.outside", "drop"), "field bounds.outside"),
        (put("bounds", None), "needs bounds"),
        (put("bounds.lower", -1.0), "reach outside"),
        (put("coordinates", "polar"), "field coordinates"),
        (put("coordinates", "standardised"), "plain coordinates"),
        (put("family.kind", "student"), "family kind 'student' is not known here"),
        (put("family", {"kind": "gamma", "shape": -1}), "shape of the gamma family"),
        (put("family", {"kind": "exponential", "rate": 3}), "rate"),
        (put("version", 4), "release format 4 is not known"),
        (put("format", "other"), "not a noisewise release"),
        (put("extra", 1), "field extra"),
        (put("privacy.extra", 1), "field privacy.extra"),
        (lambda content: content.pop("n"), "field n"),
        (lambda content: content["privacy"].pop("spend"), "field privacy.spend"),
    ],
)
def test_impossible_values_are_refused(
    change: Callable[[dict[str, Any]], None], message: str
) -> None:
    with pytest.raises(ReleaseFormatError, match=message):
        parse(spoiled(change))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1, 2]", "not a noisewise release"),
        ("null", "not a noisewise release"),
        (RELEASE.to_json()[:-40], "not JSON, or a cut file"),
        (RELEASE.to_json().replace('"n": 100', '"n": 100, "n": 100'), "stands twice"),
        (RELEASE.to_json().replace("12.375", "NaN"), "not finite"),
        (RELEASE.to_json().replace("12.375", "-Infinity"), "not finite"),
        (RELEASE.to_json().replace("12.375", "1e999"), "not finite"),
        (RELEASE.to_json().replace('"n": 100', '"n": 1' + "0" * 300), "too long"),
        (RELEASE.to_json().replace("12.375", "12.5"), "checksum"),
        (RELEASE.to_json().replace('"n": 100', '"n": 101'), "checksum"),
        (RELEASE.to_json().replace("Größe", "Grösse"), "checksum"),
        (RELEASE.to_json().replace('"0.5"', '"0.4"'), "total_epsilon must be the sum"),
        ("[" * 100_000, "not JSON"),
        ('{"a":' * 50_000, "not JSON"),
    ],
)
def test_spoiled_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ReleaseFormatError, match=message):
        parse(text)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(ReleaseFormatError, match="cannot read '"):
            noisewise.load(path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00\x01" * 10)
    with pytest.raises(ReleaseFormatError, match=r"binary.json: this is not JSON"):
        noisewise.load(tmp_path / "binary.json")


def test_a_release_is_never_overwritten_by_another(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    RELEASE.save(path)
    RELEASE.save(path)  # the same content: nothing to lose
    other = noisewise.observe(
        family=families.Bernoulli(), n=3, statistic=1.0, noise=noise.Laplace(1.0)
    )
    with pytest.raises(OutputError, match="holds something else"):
        other.save(path)
    with pytest.raises(OutputError, match="cannot write"):
        other.save(tmp_path / "no-folder" / "r.json")
    assert noisewise.load(path) == RELEASE
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": -1}, "n must be"),
        ({"n": 2.5}, "n must be"),
        ({"statistic": [float("nan")]}, "finite"),
        ({"statistic": [1, 2]}, "2 numbers"),
        ({"noise": noise.Laplace([1, 2, 3])}, "3 numbers for 1"),
        ({"bounds": None}, "needs bounds"),
        ({"family": "exponential"}, "family must be a family"),
        ({"coordinates": "standardised"}, "plain coordinates"),
    ],
)
def test_observe_refuses_the_impossible(settings: dict[str, Any], message: str) -> None:
    good = {
        "family": families.Exponential(),
        "n": 5,
        "statistic": [1.0],
        "noise": noise.Laplace(1.0),
        "bounds": Bounds(0, 9, outside="clamp"),
    }
    noisewise.observe(**good)
    with pytest.raises(ValueError, match=message):
        noisewise.observe(**(good | settings))

"""Every kind of release that the curator makes is read back; one field that contradicts the others,
or means nothing, is refused.
"""

import copy
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest

import noisewise
from cases import CASES, Case, name
from noisewise import Bounds, PrivateBounds, families
from noisewise.artifact import load_many, parse
from noisewise.artifact.json_text import digest
from noisewise.curator.ledger import Ledger
from noisewise.errors import ReleaseFormatError
from noisewise.mechanism.opendp import concentrated_within
from noisewise.mechanism.privacy import concentrated, implied_epsilon, pure

OLD = sorted((Path(__file__).parents[1] / "releases").glob("*.json"))
"""Written by earlier versions of noisewise, in formats 1 and 2."""
FRAME = pd.DataFrame({"x": [0.0, 1.0, 1.0, 2.0, 3.0, 1.0], "g": ["a", "b", "a", "a", "b", "c"]})
COSTS: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": "0.123456789"},
    "large epsilon": {"epsilon": 40},
    "rho": {"rho": "0.07"},
    "delta": {"epsilon": "0.7", "delta": "1e-5"},
}
OUTSIDE: tuple[Literal["redact", "clamp"], ...] = ("redact", "clamp")
WHOM: dict[str, dict[str, Any]] = {
    "replace": {},
    "people": {"records_per_person": 3},
    "add": {"neighbours": "add_remove"},
    "add people": {"neighbours": "add_remove", "records_per_person": 2},
    "public groups": {"by": "g", "groups": ["a", "b", "z"], "sizes": "public"},
    "released groups": {
        "by": "g",
        "groups": ["a", "b", "z"],
        "sizes": "released",
        "records_per_person": 2,
    },
    "added groups": {
        "by": "g",
        "groups": ["a", "b"],
        "sizes": "released",
        "neighbours": "add_remove",
    },
}


def made(case: Case, whom: str, cost: str, folder: Path, bounds: Any) -> list[noisewise.Release]:
    """Releases that were charged, written, and read."""
    book = Ledger(folder / f"{whom} {cost}.db")
    book.set_limit("d", pure(1000) if cost.endswith("epsilon") else concentrated(1000))
    out = folder / f"{len(list(folder.iterdir()))}.jsonl"
    settings = {"column": "x", "family": case.family, "bounds": bounds} | COSTS[cost] | WHOM[whom]
    got: Any = noisewise.release(
        FRAME, **settings, ledger=book.path, dataset="d", description="Größe", out=out
    )
    releases = got if isinstance(got, list) else [got]
    assert [parse(one.to_json()) for one in releases] == releases
    assert (load_many(out) if "by" in WHOM[whom] else [noisewise.load(out)]) == releases
    return releases


def kinds_of_bounds(case: Case, whom: str) -> list[Any]:
    if not case.intervals:
        return [None]
    given = [bounds for outside in OUTSIDE for bounds in case.bounds(outside)[:2]]
    if "by" in WHOM[whom]:
        return given
    low, high = case.intervals[0]
    return given + [
        PrivateBounds(low, high, epsilon="0.0123", quantiles=(0, 1), outside=outside)
        for outside in OUTSIDE
    ]


@pytest.mark.parametrize("whom", WHOM)
@pytest.mark.parametrize("case", CASES, ids=name)
def test_every_kind_is_read_back(case: Case, whom: str, tmp_path: Path) -> None:
    """With every cost and every kind of bounds; over all families and neighbours, each pair."""
    every = kinds_of_bounds(case, whom)
    turn = CASES.index(case) + list(WHOM).index(whom)
    for j in range(max(len(every), len(COSTS))):
        cost = list(COSTS)[(j + turn) % len(COSTS)]
        made(case, whom, cost, tmp_path, every[j % len(every)])


@pytest.mark.thorough
@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("whom", WHOM)
@pytest.mark.parametrize("case", CASES, ids=name)
def test_every_kind_is_read_back_at_every_cost(
    case: Case, whom: str, cost: str, tmp_path: Path
) -> None:
    for bounds in kinds_of_bounds(case, whom):
        made(case, whom, cost, tmp_path, bounds)


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_files_of_earlier_versions_are_read(path: Path) -> None:
    assert len(OLD) == 16
    content = json.loads(path.read_text())
    assert content["version"] == int(path.stem[1])
    release = noisewise.load(path)
    assert release.privacy is not None
    assert release.privacy.total_epsilon == content["privacy"]["total_epsilon"]


# Of every field, values that no release of the curator's has there. {x} stands for what is there.
WRONG: dict[str, list[Any]] = {
    "n": [-1, 1.5, "7"],
    "coordinates": ["plain", "standardised", "polar"],
    "column": [None, 3],
    "dataset": [None, 3],
    "group": [None, {"by": "g", "name": "a"}, {"by": "g"}],
    "bounds": [None, {"lower": 0.0, "upper": 9.0, "outside": "clamp"}],
    "count": [
        None,
        {"value": 1.0, "noise": {"kind": "discrete_laplace", "scale": [1.0], "step": [1.0]}},
    ],
    "count.value": [None, "1"],
    "count.noise.kind": ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"],
    "count.noise.scale": [2.0, 0.5, 1.000001, 0.0, -1.0],
    "count.noise.step": [2.0, 0.5, 0.0, -1.0],
    "noise.kind": ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"],
    "noise.scale": [2.0, 0.5, 1.000001, 0.0, -1.0],
    "noise.step": [3.0, 2.0**60, 0.0, -1.0],
    "privacy.epsilon": ["0.001", "1000", None, "0", "-1", "nan", "1_0", "٣", ""],
    "privacy.total_epsilon": ["0.001", "1000", None, "0", "7_0"],
    "privacy.delta": ["7", "1", "0", "-1", "1e-9", "0.1", None],
    "privacy.rho": ["0.001", "1000", None, "0"],
    "privacy.total_rho": ["0.001", "1000", None, "0"],
    "privacy.neighbours": ["banana", "move", "", "replace_one", "add_remove"],
    "privacy.records_per_person": [0, -1, 7, 10**7, True, 1.0],
    "privacy.unit": [
        "banana",
        "",
        "one record",
        "one record, within its group",
        "one record, of whatever group",
        "one person with at most 3 records",
    ],
    "privacy.sensitivity": [2.0, 0.5, 1.000001, 0.0, -1.0],
    "privacy.count_sensitivity": [-1.0, 0.0, 0.5, 2.0, 1.000001, None],
    "privacy.bounds_epsilon": ["0.001", "0", "-1", "1000", None],
    "privacy.quantiles": [
        [0.9, 0.1],
        [0.1, 0.1],
        [-0.1, 0.9],
        [0.1, 1.1],
        [0.1],
        [0.1, 0.5, 0.9],
        None,
        [],
    ],
    "privacy.spend": [
        "s",
        "",
        "01234567-89AB-4def-8123-456789abcdef",
        "{01234567-89ab-4def-8123-456789abcdef}",
    ],
}
LISTS = (
    "noise.scale",
    "noise.step",
    "count.noise.scale",
    "count.noise.step",
    "privacy.sensitivity",
)


def variants(content: dict[str, Any], key: str) -> list[Any]:
    """The wrong values of a field. Those of a list of numbers are factors: of each of its numbers
    alone, and of all of them.
    """
    *path, last = key.split(".")
    held: Any = content
    for part in path:
        held = held[part]
        if held is None:
            return []
    there = held.get(last)
    if key in LISTS or (key == "privacy.count_sensitivity" and there is not None):
        numbers = there if isinstance(there, list) else [there]
        factors = [factor for factor in WRONG[key] if factor is not None]
        found: list[Any] = [
            [x * f if i in (j, None) else x for j, x in enumerate(numbers)]
            for f in factors
            for i in (*range(len(numbers)), None)
        ]
        found += [numbers + numbers, [], [str(numbers[0])]]
        return (
            [one[0] for one in found if len(one) == 1] + [None]
            if key == "privacy.count_sensitivity"
            else found
        )
    return [value for value in WRONG[key] if value != there or type(value) is not type(there)]


def put(content: dict[str, Any], key: str, value: Any) -> str:
    changed = copy.deepcopy(content)
    *path, last = key.split(".")
    held = changed
    for part in path:
        held = held[part]
    held[last] = value
    changed.pop("sha256")
    return json.dumps(changed | {"sha256": digest(changed)})


def refused(text: str) -> bool:
    try:
        parse(text)
    except ReleaseFormatError:
        return True
    return False


# What is no contradiction: these files are releases too, of another column, dataset, group or
# bounds.
def possible(content: dict[str, Any], key: str, value: Any) -> bool:
    privacy = content["privacy"]
    if key == "dataset":
        return value is None and privacy["spend"] is None
    if key == "group":
        return isinstance(value, dict) and len(value) == 2 and content["group"] is not None
    if key == "bounds":
        return (value is None) == (content["bounds"] is None)
    if key == "count.value":
        return False
    return key == "noise.step" and value == content["noise"]["step"]


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("whom", WHOM)
@pytest.mark.parametrize("kind", ["exponential", "normal", "bernoulli", "categorical", "private"])
def test_one_wrong_field_is_refused(kind: str, whom: str, cost: str, tmp_path: Path) -> None:
    if kind == "private" and "by" in WHOM[whom]:
        pytest.skip("private bounds do not go with groups")
    case = next(
        case for case in CASES if case.family.kind == ("exponential" if kind == "private" else kind)
    )
    bounds: Any = case.bounds("clamp")[0] if case.intervals else None
    if kind == "private":
        bounds = PrivateBounds(0, 9, epsilon="0.0123", outside="redact")
    content = json.loads(made(case, whom, cost, tmp_path, bounds)[0].to_json())
    tried = 0
    for key in WRONG:
        for value in variants(content, key):
            if possible(content, key, value):
                continue
            tried += 1
            assert refused(put(content, key, value)), f"{key} = {value!r} was read"
    assert tried > 60
    # the way of changing is sound
    assert parse(put(content, "description", "another")).description == "another"


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_one_wrong_field_of_an_earlier_file_is_refused(path: Path) -> None:
    content = json.loads(path.read_text())
    for key in (
        "privacy.epsilon",
        "privacy.total_epsilon",
        "privacy.neighbours",
        "privacy.unit",
        "privacy.sensitivity",
        "noise.scale",
    ):
        wrong = list(variants(content, key))
        assert wrong
        for value in wrong:
            with pytest.raises(ReleaseFormatError):
                parse(put(content, key, value))


def test_a_statistic_between_lattice_points_is_refused(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.family == families.Poisson())
    content = json.loads(
        made(case, "replace", "epsilon", tmp_path, Bounds(0, 8, outside="clamp"))[0].to_json()
    )
    with pytest.raises(ReleaseFormatError, match="whole number of lattice steps"):
        parse(put(content, "statistic", [content["statistic"][0] + 0.5]))


@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "1", "7", "60"])
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-12", "1e-80"])
def test_the_epsilon_that_a_rho_implies_is_the_one_that_opendp_certifies(
    epsilon: str, delta: str
) -> None:
    """rho has six digits; where epsilon is far below delta's reach, there is no conversion to
    check.
    """
    try:
        rho = concentrated_within(Decimal(epsilon), Decimal(delta)).amount
    except noisewise.errors.UnsupportedCombination:  # type: ignore[attr-defined]
        assert Decimal(epsilon) < 100 * Decimal(delta)
        return
    assert implied_epsilon(rho, Decimal(delta)) == pytest.approx(float(epsilon), rel=2e-5)

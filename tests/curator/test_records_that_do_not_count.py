"""Records without a value that are dropped, and so many records of each person at most: what is
released never moves further than the noise is for, and the answer is that of the records that
count.
"""

import itertools
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import noisewise
from noisewise import Bounds, PrivateBounds, families
from noisewise.cli.main import run
from noisewise.curator.publish import exact_numbers, prepare
from noisewise.curator.settings import Settings
from noisewise.errors import NoisewiseError

NAN = float("nan")
COLUMNS = {"x": Bounds(0, 4, outside="redact"), "y": Bounds(-1, 1, outside="clamp")}
ONE_COLUMN = [
    (families.Exponential(), Bounds(0, 4, outside="clamp")),
    (families.Exponential(), Bounds(1, 4, outside="redact")),
    (families.Normal(), Bounds(0, 4, outside="clamp")),
    (families.Normal(), Bounds(0, 4, outside="redact")),
    (families.Normal(variance=1.0), Bounds(-3, 1, outside="clamp")),
    (families.Poisson(), Bounds(0, 4, outside="clamp")),
    (families.LogNormal(), Bounds(0.5, 4, outside="clamp")),
    (families.Gamma(), Bounds(0.5, 4, outside="redact")),
    (families.Weibull(shape=2.0), Bounds(0, 4, outside="clamp")),
    (families.Bernoulli(), None),
]
CORNERS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 9.0, -5.0, float("inf"), NAN]
COSTS: list[dict[str, Any]] = [{"epsilon": 1}, {"rho": 0.5}]
RELATIONS: list[dict[str, Any]] = [
    {},
    {"neighbours": "add_remove"},
    {"by": "g", "groups": ["a", "b"], "sizes": "released"},
]


def named(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{value[0].kind}-{value[1].outside if value[1] else 'own'}"
    return "-".join(map(str, value.values())) if isinstance(value, dict) else str(value)


def exact(frame: pd.DataFrame, settings: Settings) -> tuple[np.ndarray, Any]:
    """What noise is added to, through the real reading; and the plan."""
    prepared = prepare(frame, settings)
    sums = prepared.rows.sums(prepared.plan.lattice)
    numbers = [number for n, group in sums for number in exact_numbers(prepared.plan, n, group)]
    return np.array(numbers, dtype=float), prepared.plan


def distance(one: np.ndarray, other: np.ndarray, plan: Any) -> float:
    return float(np.linalg.norm(one - other, ord=plan.mechanism.order))


@pytest.mark.parametrize("relation", RELATIONS, ids=named)
@pytest.mark.parametrize("cost", COSTS, ids=named)
@pytest.mark.parametrize(("family", "bounds"), ONE_COLUMN, ids=named)
def test_no_dropped_or_changed_record_moves_more_than_the_noise_is_for(
    family: Any, bounds: Bounds | None, cost: dict[str, Any], relation: dict[str, Any]
) -> None:
    settings = Settings(
        column="x", family=family, bounds=bounds, missing="drop", **cost, **relation
    )
    rest = [(1.0, "a"), (NAN, "a"), (2.0, "b")]
    places = ("a", "b") if relation.get("by") else ("a",)
    single = [(x, g) for g in places for x in CORNERS]
    if relation.get("neighbours") == "add_remove":
        tables = [rest, *([*rest, one] for one in single)]
        pairs = [(0, k) for k in range(1, len(tables))]
    else:
        tables = [[*rest, one] for one in single]
        pairs = list(itertools.combinations(range(len(tables)), 2))
    found = [exact(pd.DataFrame(rows, columns=["x", "g"]), settings) for rows in tables]
    plan = found[0][1]
    far = max(distance(found[i][0], found[j][0], plan) for i, j in pairs)
    assert far <= plan.sensitivity * (1 + 1e-12)
    # the roundings of two statistics, and of their logarithms, leave a little
    assert (
        far >= 0.9 * plan.sensitivity if family.kind != "gamma" else far >= 0.7 * plan.sensitivity
    )


@pytest.mark.parametrize("cost", COSTS, ids=named)
def test_a_dropped_category_moves_no_more_than_a_changed_one(cost: dict[str, Any]) -> None:
    family = families.Categorical(["p", "q", "r"])
    settings = Settings(column="x", family=family, missing="drop", **cost)
    tables = [pd.DataFrame({"x": ["p", "q", value]}) for value in ("p", "q", "r", "s", None)]
    found = [exact(frame, settings) for frame in tables]
    plan = found[0][1]
    far = max(distance(a[0], b[0], plan) for a, b in itertools.combinations(found, 2))
    assert far == pytest.approx(plan.sensitivity)
    assert found[3][0].tolist() == found[4][0].tolist() == [1, 1, 0]  # unlisted, and missing


def test_dropped_records_leave_the_answer_of_the_others(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """300 skin folds of which 98 are missing: with missing values in the middle the mean is that of
    another table.
    """
    fold = np.clip(rng.normal(29.2, 8, 300), 7, 60)
    fold[:98] = NAN
    frame = pd.DataFrame({"fold": fold})
    common: dict[str, Any] = {"column": "fold", "family": families.Normal(), "epsilon": 40}
    common |= {"bounds": Bounds(0, 100, outside="clamp"), "ledger": None}
    dropped = noisewise.release(frame, missing="drop", **common)
    counted = noisewise.release(frame, **common)
    assert dropped.n is None
    assert dropped.count is not None
    assert dropped.count.value == pytest.approx(202, abs=3)
    dropped.save(tmp_path / "r.json")
    assert noisewise.load(tmp_path / "r.json") == dropped
    # sds of the records' mean are 0.6, of the noise 0.1: six of them
    assert noisewise.infer(dropped, "weak").mean("mean") == pytest.approx(np.nanmean(fold), abs=4)
    assert noisewise.infer(counted, "weak").mean("mean") > 33


def people(rng: np.random.Generator, persons: int) -> pd.DataFrame:
    """Persons with one to nine records in any group."""
    rows = []
    for person in range(persons):
        many = int(rng.integers(1, 10))
        x = rng.choice([0.0, 1.0, 4.0, NAN, 9.0, 2.2, 0.7], many)
        y = rng.choice([-1.0, 1.0, 0.3, NAN], many)
        group = rng.choice(["a", "b", "c"], many)
        rows += [(person, *row) for row in zip(x, y, group, strict=True)]
    return pd.DataFrame(rows, columns=["who", "x", "y", "g"])


SEVERAL = [
    ({"family": families.Moments(COLUMNS)}, "moments"),
    ({"family": families.Table({"g": ["a", "b"], "x": noisewise.Bins([0, 1, 4])})}, "table"),
    ({"family": families.Categorical(["a", "b"], other="b"), "column": "g"}, "categorical"),
    ({"family": families.Exponential(), "column": "x", "bounds": ONE_COLUMN[0][1]}, "clamp"),
    (
        {
            "family": families.Normal(),
            "column": "x",
            "bounds": ONE_COLUMN[3][1],
            "missing": "drop",
        },
        "drop",
    ),
]


@pytest.mark.parametrize("relation", RELATIONS, ids=named)
@pytest.mark.parametrize("cost", COSTS, ids=named)
@pytest.mark.parametrize("asked", [a for a, _ in SEVERAL], ids=[name for _, name in SEVERAL])
def test_no_person_moves_more_than_the_noise_is_for(
    asked: dict[str, Any], cost: dict[str, Any], relation: dict[str, Any], rng: np.random.Generator
) -> None:
    if relation.get("by") and "g" in (
        asked.get("column"),
        *getattr(asked["family"], "columns", ()),
    ):
        relation = {**relation, "by": "h"}
    settings = Settings(person="who", records_per_person=3, **asked, **cost, **relation)
    others = people(rng, 6).assign(h=lambda frame: frame["g"])
    ends = [(0.0, -1.0), (4.0, 1.0), (NAN, NAN), (4.0, -1.0), (1.5, -1 / 3)]
    own = [pd.DataFrame([], columns=["x", "y", "g"])]
    for (x, y), g, many in itertools.product(ends, ("a", "b"), (3, 8)):
        own.append(pd.DataFrame([(x, y, g)] * many, columns=["x", "y", "g"]))
    own += [people(rng, 1).drop(columns="who") for _ in range(4)]
    tables = [pd.concat([others, one.assign(who=77, h=one["g"])], ignore_index=True) for one in own]
    found = [exact(frame, settings) for frame in tables]
    plan = found[0][1]
    pairs = (
        [(0, k) for k in range(1, len(found))]
        if relation.get("neighbours") == "add_remove"
        else list(itertools.combinations(range(len(found)), 2))
    )
    far = max(distance(found[i][0], found[j][0], plan) for i, j in pairs)
    assert far <= plan.sensitivity * (1 + 1e-12)
    assert far >= 0.5 * plan.sensitivity


def kept(records: Any, most: int, **more: Any) -> np.ndarray:
    """The sums and the number of records that count, of x within [0, 100]."""
    settings = Settings(
        column="x",
        family=families.Exponential(),
        bounds=Bounds(0, 100, outside="clamp"),
        epsilon=1,
        person="who",
        records_per_person=most,
        **more,
    )
    return exact(records, settings)[0]


def test_each_person_keeps_so_many_records_and_no_other_has_a_say(rng: np.random.Generator) -> None:
    frame = pd.DataFrame({"who": rng.integers(0, 40, 300), "x": rng.exponential(20, 300).round(3)})
    for most in (1, 3, 50):
        whole = kept(frame, most)
        alone = [kept(part, most) for _, part in frame.groupby("who")]
        assert whole.tolist() == np.sum(alone, axis=0).tolist()
        shuffled = frame.sample(frac=1, random_state=1)
        assert kept(shuffled, most).tolist() == whole.tolist()
        number = np.minimum(frame.groupby("who").size(), most).sum()
        assert exact_count(whole, frame, most) == number


def exact_count(numbers: np.ndarray, frame: pd.DataFrame, most: int) -> float:
    """The released count in records: one record alone says what it is worth."""
    one = kept(frame.head(1), most)
    return float(numbers[0] / one[0])


def test_records_of_nobody_do_not_count() -> None:
    frame = pd.DataFrame({"who": ["a", None, "b"], "x": [1.0, 50.0, 3.0]})
    known = frame.dropna()
    assert kept(frame, 2).tolist() == kept(known, 2).tolist()


def test_which_records_are_kept_does_not_depend_on_the_form_of_the_table(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    frame = pd.DataFrame({"who": rng.integers(0, 30, 400), "x": rng.exponential(20, 400).round(2)})
    arrow = pa.Table.from_pandas(frame)
    frame.to_csv(tmp_path / "t.csv", index=False)
    pq.write_table(arrow, tmp_path / "t.parquet")
    wanted = kept(frame, 4).tolist()
    for form in (
        tmp_path / "t.csv",
        tmp_path / "t.parquet",
        pl.from_pandas(frame),
        pl.from_pandas(frame).lazy(),
        arrow,
        duckdb.from_arrow(arrow),
        frame.astype({"who": str}),
        frame.astype({"who": float}),
        frame.astype(object),
    ):
        assert kept(form, 4).tolist() == wanted


def test_the_kept_records_are_as_good_as_drawn(rng: np.random.Generator) -> None:
    """Of persons with records 0 and 10 and of such with 0, 0 and 10, one is kept each: 4.5 sds."""
    persons = 3000
    for values, share in (([0.0, 10.0], 0.5), ([0.0, 0.0, 10.0], 1 / 3)):
        frame = pd.DataFrame({"who": np.repeat(np.arange(persons), len(values))})
        frame["x"] = values * persons
        ten = kept(frame.head(len(values)).assign(x=10.0), 1)[1]
        found = kept(frame, 1)[1] / ten / persons
        assert abs(found - share) < 4.5 * 0.5 / np.sqrt(persons)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"bounds": PrivateBounds(0, 9, epsilon=1, outside="clamp"), "person": "who"},
            "private bounds do not go with person=",
        ),
        (
            {"person": "who", "by": "g", "groups": ["a"], "sizes": "public"},
            "sizes='released'",
        ),
        (
            {"missing": "drop", "by": "g", "groups": ["a"], "sizes": "public"},
            "sizes='released'",
        ),
        ({"missing": "leave"}, "a number or 'drop'"),
        ({"person": "\n"}, "person must be printable text"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, Any], words: str) -> None:
    frame = pd.DataFrame({"who": [1], "x": [1.0], "g": ["a"]})
    common = {"bounds": Bounds(0, 9, outside="clamp"), **settings}
    with pytest.raises(NoisewiseError, match=words):
        noisewise.release(
            frame, column="x", family=families.Exponential(), epsilon=1, ledger=None, **common
        )
    with pytest.raises(NoisewiseError, match="leave other= out"):
        noisewise.release(
            frame,
            column="g",
            family=families.Categorical(["a", "b"], other="b"),
            missing="drop",
            epsilon=1,
            ledger=None,
        )


def test_persons_and_dropped_records_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rng: np.random.Generator
) -> None:
    frame = pd.DataFrame({"who": rng.integers(0, 90, 400), "wait": rng.exponential(20, 400)})
    frame.loc[::3, "wait"] = NAN
    frame.to_csv(tmp_path / "t.csv", index=False)
    command = ["release", str(tmp_path / "t.csv"), "--column", "wait", "--family", "exponential"]
    command += ["--bounds", "0", "60", "--outside", "clamp", "--epsilon", "2", "--no-ledger"]
    command += ["--missing", "drop", "--person", "who", "--records-per-person", "2"]
    assert run([*command, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "one person, of whose records at most 2 are kept" in said
    assert "n is not public" in said
    out = tmp_path / "r.json"
    assert run([*command, "--out", str(out)]) == 0
    capsys.readouterr()
    made = noisewise.load(out)
    assert made.n is None
    assert made.privacy is not None
    assert made.privacy.enforced
    assert any("'who'" in note for note in made.notes)
    assert run(["infer", str(out), "--prior", "weak"]) == 0


def test_releases_for_persons_add_up_whatever_number_is_kept(tmp_path: Path) -> None:
    frame = pd.DataFrame({"who": [1, 1, 2], "x": [1.0, 2.0, 3.0]})
    limit = ["ledger", "set-limit", str(tmp_path / "l.db"), "--dataset", "d", "--epsilon", "3"]
    assert run(limit) == 0
    common: dict[str, Any] = {"column": "x", "family": families.Exponential(), "epsilon": 1}
    common |= {"bounds": Bounds(0, 9, outside="clamp"), "ledger": tmp_path / "l.db", "dataset": "d"}
    for most in (1, 2):
        noisewise.release(frame, person="who", records_per_person=most, **common)
    with pytest.raises(NoisewiseError):
        noisewise.release(frame, **common)  # of records: another unit

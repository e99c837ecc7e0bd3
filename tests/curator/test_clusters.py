"""The same table gives the identical integers on Spark and on Dask as in pandas, whatever the
partitioning.
"""

import logging
import math
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import noisewise
from noisewise import Bins, Bounds, PrivateBounds, families
from noisewise.curator import spark_frames, spark_namespace, sums
from noisewise.curator.clusters import SILENCE, Spread, Work, open_rows
from noisewise.curator.plan import Plan
from noisewise.curator.reading import Persons, Reading
from noisewise.curator.settings import Settings
from noisewise.errors import RecordsError, UnsupportedCombination
from noisewise.mechanism.counted import Counted
from noisewise.mechanism.lattice import lattice_for
from tables import exact_sums

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
INF = math.inf
NUMBERS = [
    1.5,
    None,
    3.25,
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    -1e308,
    0.1,
    7.0,
    -0.0,
    59.99999,
    60.0,
    60.00001,
    1.0,
    0.0,
] * 3
WORDS = ["a", "b", None, "c", "1", "1.0", "true", "nan", " a", "b"] * 4
WHOLE = [1, 0, None, 3, -5, 60, 61, 2, 2**53 + 1] * 4
UP_TO_60 = Bounds(0, 60, outside="redact")
CASES = [
    ("double", NUMBERS, families.Exponential(), UP_TO_60),
    ("double", NUMBERS, families.Exponential(), Bounds(0.5, 60, outside="clamp")),
    ("double", NUMBERS, families.Normal(), Bounds(-3, 60, outside="clamp")),
    ("double", NUMBERS, families.Bernoulli(), None),
    ("bigint", WHOLE, families.Poisson(), Bounds(0, 60, outside="redact")),
    ("double", NUMBERS, families.Normal(), Bounds(0.1, 60, outside="redact")),
    ("double", NUMBERS, families.Normal(mean=3), Bounds(-5, 60, outside="redact")),
    ("double", [None] * 3, families.Normal(), Bounds(-3, 60, outside="clamp")),
    ("double", [], families.Exponential(), Bounds(0, 60, outside="redact")),
    ("bigint", [*WHOLE, -(2**63), 2**63 - 1], families.Normal(), Bounds(0, 7, outside="clamp")),
    ("float", [1.5, 0.1, None, math.nan, math.inf, -3e38], families.Exponential(), UP_TO_60),
    ("tinyint", [1, None, -128, 127], families.Geometric(), Bounds(1, 7, outside="clamp")),
    ("decimal(20,2)", [Decimal("1.10"), None, Decimal("1e15")], families.Exponential(), UP_TO_60),
    ("boolean", [True, None, False, True] * 5, families.Bernoulli(), None),
    ("string", WORDS, families.Categorical(["a", "b", "1", "true"], other="b"), None),
    (
        "string",
        ["1.5", "x", None, "60", "inf"] * 5,
        families.Exponential(),
        Bounds(0, 60, outside="redact"),
    ),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    if shutil.which("java") is None:
        pytest.skip(
            "Spark needs Java 17: apt-get install openjdk-17-jre-headless, or from adoptium.net"
        )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        options = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": "1g",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.log.level": "OFF",
        }
        builder = SparkSession.builder.master("local[2]")
        for name, value in options.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        warnings.catch_warnings(),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, protocol="tcp"
        ) as cluster,
        Client(cluster),
    ):
        import dask.dataframe

        yield dask.dataframe


def in_pandas(values: list[Any], family: Any, bounds: Any) -> Any:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    return exact_sums(frame, lattice_for(family, bounds))


@pytest.mark.parametrize("parts", [1, 3, 7])
@pytest.mark.parametrize(("kind", "values", "family", "bounds"), CASES)
def test_spark_gives_the_sums_of_pandas(
    spark: Any, kind: str, values: list[Any], family: Any, bounds: Any, parts: int
) -> None:
    frame = spark.createDataFrame(
        [(v, "other") for v in values], f"x {kind}, `y ``z` string"
    ).repartition(parts)
    column = open_rows(frame, Reading("x", lattice_for(family, bounds).labels))
    assert isinstance(column, Spread)
    assert column.sums(lattice_for(family, bounds)) == in_pandas(values, family, bounds)
    assert column.count() == len(values)


@pytest.fixture(params=["true", "false"])
def own_arithmetic(
    request: pytest.FixtureRequest, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A Spark that does without Python on its workers, and for which an overflow is an error or is
    not.
    """
    monkeypatch.setattr(spark_frames, "_in_columns", None)
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    spark.conf.unset("spark.sql.ansi.enabled")


def test_spark_sums_plain_numbers_itself(own_arithmetic: Any, rng: np.random.Generator) -> None:
    """All over the doubles, and halfway between lattice points."""
    bits = rng.integers(-(2**63), 2**63, 1000, dtype=np.int64).view(np.float64)
    halves = (rng.integers(-(2**19), 2**19, 1000) + 0.5) * (31.5 / 2**19) + 28.5
    ends = [-3.0, 60.0, 2.0**53, -(2.0**53), 2.0**63, -(2.0**63), 1e308, -INF, INF, math.nan]
    values = np.concatenate([bits, halves, *(np.nextafter(ends, to) for to in (-INF, 0, INF))])
    plain = pd.DataFrame({"x": values, "y": rng.permutation(values)})
    plain["k"] = rng.integers(-4, 70, len(values))
    frame = own_arithmetic.createDataFrame(
        [*plain.itertuples(index=False)], "x double, y double, k bigint"
    )
    for outside in ("redact", "clamp"):
        bounds = Bounds(-3, 60, outside=outside)
        for family in (families.Normal(), families.Normal(mean=2), families.Normal(variance=2)):
            settings = Settings(family=family, column="x", bounds=bounds, epsilon=1)
            assert_same(frame, plain, settings)
        columns = {"x": bounds, "y": Bounds(-3, 60, outside="redact"), "k": bounds}
        assert_same(frame, plain, Settings(family=families.Moments(columns), epsilon=1))


def assert_same(frame: Any, plain: pd.DataFrame, settings: Settings) -> None:
    plan = Plan.widest(settings)
    wanted = open_rows(plain, plan.reading).sums(plan.lattice)
    assert open_rows(frame, plan.reading).sums(plan.lattice) == wanted
    columns = [plain[one.name] for one in plan.lattice.columns] or plain["x"]
    with np.errstate(all="ignore"):
        parts = plan.lattice.integers(columns)
    assert wanted == [(len(plain), [int(part.sum()) for part in parts])]


def test_too_many_records_for_sums_of_floats_are_summed_as_integers(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = pd.DataFrame({"x": [1.5, 2.0, None, 61.0], "g": ["a", "b", "a", "a"]})
    frame = spark.createDataFrame([*plain.itertuples(index=False)], "x double, g string")
    lattice = lattice_for(families.Normal(), UP_TO_60)
    readings = [Reading("x"), Reading("x", (), "g", ("a", "b", "c"))]
    wanted = [open_rows(plain, reading).sums(lattice) for reading in readings]
    assert sums.exact_as_floats(2**34, lattice)
    assert not sums.exact_as_floats(2**34 + 1, lattice)
    monkeypatch.setattr(sums, "LARGEST", 3 * lattice.most)
    used = []
    monkeypatch.setattr(
        sums.db, "astype", lambda k, kind: used.append(kind) or k.cast({"int64": "BIGINT"}[kind])
    )
    assert [open_rows(plain, reading).sums(lattice) for reading in readings] == wanted
    assert used  # without groups there is one record too many, and in no group
    through_arrow = spark_frames._in_columns
    monkeypatch.setattr(
        spark_frames, "_in_columns", lambda *part: used.append("arrow") or through_arrow(*part)
    )
    assert open_rows(frame, readings[0]).sums(lattice) == wanted[0]
    assert used[-1] == "arrow"


def test_spark_rounds_and_compares_as_numpy_does(spark: Any) -> None:
    values = [0.5, -0.5, 2.0**53 - 0.5, 2.0**62, -(2.0**63), 1e308, INF, -INF, math.nan, None]
    frame = spark.createDataFrame([(v,) for v in values], "x double")
    x = frame["x"]
    found = frame.select(
        spark_namespace.floor(x), spark_namespace.isnan(x), spark_namespace.isfinite(x)
    ).collect()
    for value, (floor, isnan, isfinite) in zip(values, found, strict=True):
        if value is None:
            assert (floor, isnan, isfinite) == (None, None, None)
        else:
            assert floor == pytest.approx(np.floor(value), abs=0, rel=0, nan_ok=True)
            assert (isnan, isfinite) == (np.isnan(value), np.isfinite(value))


@pytest.mark.parametrize("parts", [1, 3, 20])
@pytest.mark.parametrize(("kind", "values", "family", "bounds"), CASES)
def test_dask_gives_the_sums_of_pandas(
    dask: Any, kind: str, values: list[Any], family: Any, bounds: Any, parts: int
) -> None:
    plain = pd.Series(values, dtype=float) if kind == "double" else pd.Series(values, dtype=object)
    frame = dask.from_pandas(
        pd.DataFrame({"x": plain, "y": "other"}), npartitions=parts, sort=False
    )
    column = open_rows(frame, Reading("x", lattice_for(family, bounds).labels))
    assert isinstance(column, Spread)
    assert column.sums(lattice_for(family, bounds)) == in_pandas(values, family, bounds)
    assert column.count() == len(values)


@pytest.mark.parametrize("engine", ["spark", "dask"])
def test_a_release_of_a_cluster_is_that_of_a_table(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, rng: np.random.Generator
) -> None:
    """With private bounds: counts of a thousand candidates come from the engine too."""
    made_in = request.getfixturevalue(engine)
    plain = pd.DataFrame({"x": rng.exponential(10, 5000)})
    frame = (
        made_in.createDataFrame(plain)
        if engine == "spark"
        else made_in.from_pandas(plain, npartitions=4)
    )
    common: dict[str, Any] = {
        "column": "x",
        "family": families.Exponential(),
        "epsilon": 50,
        "ledger": None,
    }
    bounds = PrivateBounds(0, 100, epsilon=50, outside="clamp")
    found = noisewise.release(frame, bounds=bounds, out=tmp_path / "r.json", **common)
    wanted = noisewise.release(plain, bounds=bounds, **common)
    assert found.n == 5000
    assert found.bounds is not None
    assert wanted.bounds is not None
    assert found.bounds.upper == pytest.approx(wanted.bounds.upper, abs=3)
    assert found.statistic[0] == pytest.approx(
        plain["x"].clip(upper=found.bounds.upper).sum(), rel=0.01
    )


def test_groups_are_the_same_on_clusters(spark: Any, dask: Any) -> None:
    plain = pd.DataFrame({"x": NUMBERS, "g": (["Kent", "7", None, "else"] * 12)[: len(NUMBERS)]})
    family, groups = families.Exponential(), ("Kent", 7, "empty")
    lattice = lattice_for(family, Bounds(0.5, 60, outside="clamp"))
    wanted = exact_sums(plain, lattice, by="g", groups=groups)
    assert [n for n, _ in wanted] == [12, 12, 0]
    on_spark = spark.createDataFrame(
        [*plain.astype(object).itertuples(index=False)], "x double, g string"
    ).repartition(3)
    on_dask = dask.from_pandas(plain, npartitions=5, sort=False)
    for frame in (on_spark, on_dask):
        assert open_rows(frame, Reading("x", (), "g", groups)).sums(lattice) == wanted


def test_wrong_columns_of_a_cluster_are_refused(spark: Any, dask: Any) -> None:
    frame = spark.createDataFrame([([1.0], 1.0)], "x array<double>, y double")
    with pytest.raises(RecordsError, match="neither numbers nor text"):
        open_rows(frame, Reading("x"))
    with pytest.raises(RecordsError, match="there is no column 'z'"):
        open_rows(frame, Reading("z"))
    with pytest.raises(UnsupportedCombination, match="groups must differ"):
        open_rows(frame, Reading("y", (), "y", ("1", "1.0")))
    with pytest.raises(RecordsError, match="there is no column 'z'"):
        open_rows(dask.from_pandas(pd.DataFrame({"x": [1.0]}), npartitions=1), Reading("z"))


def test_a_failure_in_the_cluster_says_nothing_of_a_record(
    spark: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = spark.createDataFrame([("4711canary",)], "x string").selectExpr(
        "CAST(x AS double) AS "
        # fails when it is run
        "x"
    )
    with pytest.raises(RecordsError, match="cannot be read") as caught:
        open_rows(frame, Reading("x")).count()
    assert "canary" not in str(caught.value) + str(caught.value.__context__) + "".join(
        capfd.readouterr()
    )


def test_a_part_that_cannot_be_read_comes_back_as_a_value(dask: Any) -> None:
    """A worker that raised would log the part, with its records; so the failure comes back as a
    value.
    """

    def doubled(part: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([part, part], axis=1)

    plain = pd.DataFrame({"x": [4711.0, 1.0]})
    frame = dask.from_pandas(plain, npartitions=2).map_partitions(doubled, meta=plain)
    with pytest.raises(RecordsError, match="cannot be read"):
        open_rows(frame, Reading("x")).count()
    assert Work(Reading("x"))(doubled(plain)) is None
    assert Work(Reading("x"))(plain) == [2]


def test_logging_is_off_while_any_thread_is_within() -> None:
    before = logging.root.manager.disable
    with SILENCE:
        with SILENCE:
            pass
        assert logging.root.manager.disable == logging.CRITICAL
    assert logging.root.manager.disable == before


SEVERAL = [
    families.Moments(
        {
            "x": Bounds(0, 60, outside="clamp"),
            "f": ["a", "b", "1"],
            "k": Bounds(0, 3, outside="redact"),
        }
    ),
    families.Table({"f": ["a", "b", "true"], "x": Bins([-1, 0, 1, 60]), "k": [0, 1, 2]}),
    families.Table({"k": list(range(-50, 70)), "x": Bins([j / 10 for j in range(100)])}),
]


@pytest.mark.parametrize("engine", ["spark", "dask"])
def test_several_columns_have_the_sums_of_pandas(
    engine: str, request: pytest.FixtureRequest
) -> None:
    """By groups as well; of a table of thousands of cells, too."""
    made_in = request.getfixturevalue(engine)
    n = min(len(NUMBERS), len(WORDS), len(WHOLE))
    columns = {"x": NUMBERS[:n], "f": WORDS[:n], "k": WHOLE[:n], "g": (["u", "v", None] * n)[:n]}
    plain = pd.DataFrame({name: pd.Series(v, dtype=object) for name, v in columns.items()})
    if engine == "spark":
        rows = list(zip(*columns.values(), strict=True))
        frame = made_in.createDataFrame(rows, "x double, f string, k bigint, g string")
        frame = frame.repartition(3)
    else:
        frame = made_in.from_pandas(plain, npartitions=4, sort=False)
    grouped: dict[str, Any] = {"by": "g", "groups": ["v", "u", "w"], "sizes": "released"}
    for family, groups in zip(SEVERAL, (grouped, {}, {}), strict=True):
        plan = Plan.widest(Settings(family=family, epsilon=1, **groups))
        wanted = open_rows(plain, plan.reading).sums(plan.lattice)
        found = open_rows(frame, plan.reading)
        assert isinstance(found, Spread)
        assert found.sums(plan.lattice) == wanted


def test_the_same_records_of_each_person_are_kept_on_clusters(
    spark: Any, dask: Any, rng: np.random.Generator
) -> None:
    """Whose a record is may be written in several ways: 7 and 7.0 are one person."""
    number = rng.integers(0, 25, 300)
    who = [str(k) if j % 3 else f"{k}.0" for j, k in enumerate(number)]
    plain = pd.DataFrame({"x": rng.exponential(10, 300).round(2), "who": who})
    lattice = Counted(
        lattice_for(families.Exponential(), Bounds(0.5, 60, outside="clamp")), True, True
    )
    reading = Reading("x", persons=Persons("who", 4))
    wanted = open_rows(plain, reading).sums(lattice)
    assert wanted[0][0] == np.minimum(np.bincount(number), 4).sum()
    on_spark = spark.createDataFrame(
        [*plain.astype(object).itertuples(index=False)], "x double, who string"
    ).repartition(5)
    on_dask = dask.from_pandas(plain, npartitions=5, sort=False)
    for frame in (on_spark, on_dask):
        assert open_rows(frame, reading).sums(lattice) == wanted


def test_one_person_among_many_keeps_no_more_in_large_parts(spark: Any, dask: Any) -> None:
    """One has half of the records, all 1, and the others a 0 each: of ones a single one is kept."""
    half = 200_000
    who = ["many", *(f"p{person}" for person in range(half))]
    plain = pd.DataFrame({"x": [1.0] * half + [0.0] * half, "who": who[:1] * half + who[1:]})
    lattice = lattice_for(families.Bernoulli(), None)
    reading = Reading("x", persons=Persons("who", 1))
    for frame in (spark.createDataFrame(plain).coalesce(1), dask.from_pandas(plain, npartitions=1)):
        ((n, sums),) = open_rows(frame, reading).sums(lattice)
        assert (n, sums) == (half + 1, [1])

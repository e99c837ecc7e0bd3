"""Moments and tables of several columns: the same integers from every form of a table, and those
that a slow computation in Python's whole numbers gives.
"""

import json
import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import dask
import dask.dataframe
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import noisewise
from noisewise import Bins, Bounds, NoisyCount, PrivateBounds, families, noise
from noisewise.artifact import load_many, parse
from noisewise.artifact.json_text import digest
from noisewise.curator.clusters import open_rows
from noisewise.curator.ledger import Ledger
from noisewise.curator.neighbours import Statistics, _neighbouring
from noisewise.curator.publish import prepare
from noisewise.curator.settings import Settings
from noisewise.errors import (
    LedgerError,
    NoisewiseError,
    RecordsError,
    ReleaseFormatError,
    UnsupportedCombination,
)
from noisewise.mechanism.lattice import Lattice
from noisewise.mechanism.privacy import pure
from noisewise.mechanism.products import Cells, Products

NAN, INF, TOP = math.nan, math.inf, 2**19
COLUMNS: dict[str, tuple[list[Any], pa.DataType]] = {
    "bp": (
        [60.0, 220.0, 140.1, None, NAN, INF, 59.9, 1e308, 93.3, 71.25, 200.0, 61.0],
        pa.float64(),
    ),
    "age": ([0, 100, 33, 44, 101, -3, 5, 17, None, 2**53 + 1, 99, 1], pa.int64()),
    "sex": (["f", "m", "m", "f", "F", None, "m", "m", "f", "m", "f", ""], pa.string()),
    "ward": (["1", "2", "2.0", "x", "3", "1", "2", None, "1", "3", " 1", "1"], pa.string()),
    "kids": ([0, 1, 2, 1, 0, 7, None, 1, 0, 2, 2, 1], pa.int64()),
    "smokes": ([True, False, None, *[True, False] * 4, True], pa.bool_()),
    "weight": (
        [None if w is None else Decimal(w) for w in ("50.5", "80.1", "99.9", None, *["70.2"] * 8)],
        pa.decimal128(10, 2),
    ),
}
FORMS = [
    "csv",
    "parquet",
    "folder",
    "pandas",
    "pandas-object",
    "pandas-nullable",
    "polars",
    "polars-lazy",
    "pyarrow",
    "duckdb",
    "dask",
]
MOMENTS = {
    "one number": families.Moments({"bp": Bounds(60, 220, outside="redact")}),
    "clamped": families.Moments(
        {"bp": Bounds(60, 220, outside="clamp"), "age": Bounds(0, 50, outside="clamp")}
    ),
    "mixed": families.Moments(
        {
            "bp": Bounds(60, 220, outside="clamp"),
            "sex": ["f", "m"],
            "age": Bounds(0, 100, outside="redact"),
            "ward": ["1", "2", "3"],
        }
    ),
    "whole levels": families.Moments(
        {"kids": [2, 0, 1], "weight": Bounds(50, 81.3, outside="redact"), "sex": ["m"]}
    ),
    "factors": families.Moments({"smokes": ["true", "false"], "sex": ["m", "f"]}),
}
TABLES = {
    "levels": families.Table({"sex": ["f", "m"], "ward": ["1", "2", "3"]}),
    "bins": families.Table(
        {"age": Bins([0, 5, 17, 99]), "kids": [0, 1, 2], "bp": Bins([60, 93.3, 220])}
    ),
    "flags": families.Table({"smokes": ["false", "true"], "weight": Bins([0, 80.1, 200])}),
}
ALL = MOMENTS | TABLES
EXACT = 10**7
"""An epsilon at which the noise is nothing beside what is compared."""


def forms(form: str, folder: Path) -> Any:
    """The whole table in some form."""
    arrow = pa.table({name: pa.array(values, kind) for name, (values, kind) in COLUMNS.items()})
    plain = {name: pd.Series(values, dtype=object) for name, (values, _) in COLUMNS.items()}
    if form == "csv":
        path = folder / "table.csv"
        lines = zip(*(values for values, _ in COLUMNS.values()), strict=True)
        text = [",".join("" if v is None else str(v) for v in line) for line in lines]
        path.write_text("\n".join([",".join(COLUMNS), *text]) + "\n")
        return path
    if form == "parquet":
        pq.write_table(arrow, folder / "table.parquet")
        return folder / "table.parquet"
    if form == "folder":
        (folder / "parts").mkdir()
        for at in (0, 5):
            pq.write_table(
                arrow.slice(at, 5 if at == 0 else 99), folder / "parts" / f"{at}.parquet"
            )
        return folder / "parts"
    return {
        "pandas": arrow.to_pandas,
        "pandas-object": lambda: pd.DataFrame(plain),
        "pandas-nullable": lambda: arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": lambda: pl.from_arrow(arrow),
        "polars-lazy": lambda: pl.from_arrow(arrow).lazy(),  # type: ignore[union-attr]
        "pyarrow": lambda: arrow,
        "duckdb": lambda: duckdb.from_arrow(arrow),
        "dask": lambda: dask.dataframe.from_pandas(pd.DataFrame(plain), npartitions=3, sort=False),
    }[form]()


def planned(records: Any, family: families.Family, **more: Any) -> tuple[Lattice, list[Any]]:
    """The lattice of a real release, and the sums that it reads."""
    ready = prepare(records, Settings(family=family, epsilon=1, **more))
    with dask.config.set(scheduler="synchronous"):
        return ready.plan.lattice, ready.rows.sums(ready.plan.lattice)


def as_number(value: Any) -> float:
    return NAN if value is None or value == "" else float(value)


def matches(value: Any, level: Any) -> bool:
    """Whether a value is a level, written independently of the curator's code."""
    if value is None:
        return False
    if isinstance(value, bool):
        return str(value).lower() == level
    try:
        return float(value) == float(level)
    except ValueError:
        return str(value) == level


def expected(family: Any, rows: list[dict[str, Any]]) -> list[int]:
    return slow_counts(family, rows) if family.kind == "table" else slow_moments(family, rows)


def slow_moments(family: Any, rows: list[dict[str, Any]]) -> list[int]:
    total = [0] * (1 + family.dimension)
    for row in rows:
        z: list[int] = []
        owners: list[Any] = []
        for one in family.parts:
            value = row[one.name]
            if hasattr(one, "bounds"):
                low, high, x = one.bounds.lower, one.bounds.upper, as_number(value)
                if math.isnan(x) or (one.bounds.outside == "redact" and not low <= x <= high):
                    break
                x = min(max(x, low), high)
                radius = (high - low) / 2
                z.append(math.floor((x - (low + high) / 2) * (TOP / radius) + 0.5))
                owners.append(None)
            else:
                levels = [matches(value, level) for level in one.levels]
                if not any(levels):
                    break
                z += [TOP * level for level in levels[1:]]
                owners += [one.name] * (len(levels) - 1)
        else:
            numbers = [1, *z]
            for j in range(len(z)):
                for k in range(j, len(z)):
                    if owners[j] is None or owners[j] != owners[k]:
                        rounded = (z[j] * z[k] + TOP // 2) // TOP
                        numbers.append(rounded - (TOP // 2 if j == k else 0))
            total = [a + b for a, b in zip(total, numbers, strict=True)]
    return total


def slow_counts(family: Any, rows: list[dict[str, Any]]) -> list[int]:
    cells = dict.fromkeys(product(*(range(len(one.levels)) for one in family.parts)), 0)
    for row in rows:
        cell: list[int] = []
        for one in family.parts:
            value = row[one.name]
            if hasattr(one, "bins"):
                x, edges = as_number(value), one.bins.edges
                holds = [a <= x < b for a, b in pairwise(edges)]
                holds[-1] = holds[-1] or x == edges[-1]
            else:
                holds = [matches(value, level) for level in one.levels]
            if not any(holds):
                break
            cell.append(holds.index(True))
        else:
            cells[tuple(cell)] += 1
    return list(cells.values())


ROWS = [
    dict(zip(COLUMNS, line, strict=True))
    for line in zip(*(values for values, _ in COLUMNS.values()), strict=True)
]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_integers(form: str, tmp_path: Path) -> None:
    records = forms(form, tmp_path)
    for name, family in ALL.items():
        lattice, sums = planned(records, family)
        assert sums == [(len(ROWS), expected(lattice.family, ROWS))], name  # type: ignore[attr-defined]
        if name in ("mixed", "bins"):
            groups = {"by": "kids", "groups": [1, 0, 9], "sizes": "released"}
            of = [[row for row in ROWS if row["kids"] == kids] for kids in (1, 0, 9)]
            _, sums = planned(records, family, **groups)
            assert sums == [(len(rows), expected(family, rows)) for rows in of]


def test_the_lattice_in_numpy_is_that_of_the_database(rng: np.random.Generator) -> None:
    """Random records, negative products among them; NumPy sees the index of a level."""
    n = 400
    x, y = rng.uniform(-7, 7, n), rng.normal(size=n)
    x[::17], y[::31] = NAN, INF
    level = rng.integers(0, 4, n)
    frame = pd.DataFrame({"x": x, "y": y, "f": [*"abcd"[:4]] * (n // 4)})
    frame["f"] = [["a", "b", "c", "?"][i] for i in level]
    index = np.where(level < 3, level, NAN)
    moments = families.Moments(
        {
            "x": Bounds(-5, 5, outside="redact"),
            "f": ["a", "b", "c"],
            "y": Bounds(-1, 2, outside="clamp"),
        }
    )
    lattice, ((_, sums),) = planned(frame, moments)
    with np.errstate(invalid="ignore"):
        assert sums == [int(part.sum()) for part in lattice.integers([x, index, y])]
    table = families.Table({"x": Bins([-5, -1, 0, 0.5, 5]), "f": ["a", "b", "c"]})
    lattice, ((_, sums),) = planned(frame, table)
    assert sums == [int(part.sum()) for part in lattice.integers([x, index])]


@pytest.mark.parametrize("cost", [{"epsilon": EXACT}, {"rho": 10**12}], ids=["epsilon", "rho"])
@pytest.mark.parametrize("whom", [{}, {"neighbours": "add_remove"}, {"records_per_person": 3}])
def test_a_release_says_what_its_statistics_mean(
    whom: dict[str, Any], cost: dict[str, Any], tmp_path: Path
) -> None:
    """With next to no noise: N, sums of z and of products, squares less half of N."""
    frame = pd.DataFrame({"a": [0.0, 10.0, 5.0, 12.0, None], "s": ["m", "f", "m", "m", "f"]})
    family = families.Moments({"a": Bounds(0, 10, outside="redact"), "s": ["f", "m"]})
    made = noisewise.release(frame, family=family, ledger=None, **cost, **whom)
    assert made.n == (None if "neighbours" in whom else 5)
    assert made.count is not None
    assert made.column is None
    assert made.count.value == pytest.approx(3, abs=1e-3)
    assert made.family == families.Moments(family.columns, less=0.5)
    # u is -1, 1 and 0; a square is 1, 1 and 0, less 1/2 each; u times [s = m] is -1 and 0
    assert made.statistic == pytest.approx([0, 2, 0.5, -1], abs=1e-3)
    assert parse(made.to_json()) == made
    made.save(tmp_path / "m.json")
    assert noisewise.load(tmp_path / "m.json") == made
    assert json.loads(made.to_json())["version"] == 3

    counts = noisewise.release(
        frame,
        family=families.Table({"s": ["f", "m"], "a": Bins([0, 5, 10])}),
        ledger=None,
        **cost,
        **whom,
    )
    assert (counts.n, counts.count, counts.column) == (None, None, None)
    assert counts.statistic == (0, 1, 1, 1)
    assert parse(counts.to_json()) == counts
    assert counts.privacy is not None
    apart = 1 if "neighbours" in whom else 2
    apart = apart if "epsilon" in cost else apart**0.5
    assert counts.privacy.sensitivity[0] == pytest.approx(apart * whom.get("records_per_person", 1))


@pytest.mark.parametrize("name", ["mixed", "bins"])
@pytest.mark.parametrize("sizes", ["public", "released"])
def test_groups_cost_what_one_does(name: str, sizes: str, tmp_path: Path) -> None:
    book = Ledger(tmp_path / "budget.db")
    book.set_limit("d", pure(10))
    made = noisewise.release(
        forms("pyarrow", tmp_path),
        family=ALL[name],
        epsilon=2,
        ledger=book.path,
        dataset="d",
        by="kids",
        groups=[0, 1],
        sizes=sizes,
        out=tmp_path / "g.jsonl",
    )
    assert load_many(tmp_path / "g.jsonl") == made
    public = sizes == "public" and name == "mixed"
    assert [one.n for one in made] == ([3, 4] if public else [None, None])
    assert book.accounts()[0].spent == 2
    assert any(
        "'bp'" in str(line) and "by 'kids' in 2 groups" in str(line) for line in book.history()
    )


def test_the_ledger_pays_once_and_refuses_what_is_beyond_it(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "budget.db")
    book.set_limit("d", pure(1))
    settings: dict[str, Any] = {
        "family": MOMENTS["mixed"],
        "ledger": book.path,
        "dataset": "d",
        "epsilon": "0.7",
    }
    made = noisewise.release(forms("polars", tmp_path), **settings)
    assert made.privacy is not None
    assert made.privacy.spend is not None
    with pytest.raises(LedgerError):
        noisewise.release(forms("polars", tmp_path), **settings)
    assert book.accounts()[0].spent == Decimal("0.7")


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    "values",
    [[], [3.0] * 7, [None] * 4, [99.0] * 5],
    ids=["no records", "constant", "all missing", "all outside"],
)
def test_odd_tables_have_a_release_like_any_other(values: list[Any], neighbours: str) -> None:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=float)})
    frame["copy"], frame["f"] = frame["x"], "only"
    columns: dict[str, Any] = {
        "x": Bounds(0, 10, outside="redact"),
        "copy": Bounds(0, 10, outside="redact"),
        "f": ["only"],
    }
    made = noisewise.release(
        frame,
        family=families.Moments(columns),
        epsilon=EXACT,
        ledger=None,
        neighbours=neighbours,
    )
    kept = 7 if values[:1] == [3.0] else 0
    u = -0.4
    assert made.count is not None
    assert made.count.value == pytest.approx(kept, abs=1e-3)
    assert made.statistic == pytest.approx(
        [kept * u, kept * u, *[kept * (u * u - 0.5)], kept * u * u, kept * (u * u - 0.5)], abs=1e-2
    )
    cells = families.Table({"f": ["only", "other"], "x": Bins([0, 10])})
    made = noisewise.release(frame, family=cells, epsilon=EXACT, ledger=None, neighbours=neighbours)
    assert made.statistic == (kept, 0)


def test_a_large_table_and_many_levels(rng: np.random.Generator) -> None:
    """20 000 cells: levels by the hundred, bins by the hundred."""
    n = 5000
    x, f = rng.uniform(-1, 101, n), rng.integers(0, 205, n)
    frame = pd.DataFrame({"x": x, "f": [f"level {i}" for i in f]})
    family = families.Table(
        {"f": [f"level {i}" for i in range(200)], "x": Bins(np.arange(101.0).tolist())}
    )
    _, ((total, counts),) = planned(frame, family)
    inside = (x >= 0) & (x <= 100) & (f < 200)
    wanted = np.zeros((200, 100), dtype=int)
    np.add.at(wanted, (f[inside], np.floor(x[inside]).astype(int)), 1)
    assert total == n
    assert counts == wanted.ravel().tolist()


@pytest.mark.parametrize(
    "edges",
    [
        [0.1 * j for j in range(500)],
        np.linspace(-3, 1e9, 300).tolist(),
        np.arange(-1000.0, 1000.0, 3).tolist(),
        [1e6 + j * 2.0**-20 for j in range(200)],
        np.geomspace(1, 1e6, 90).tolist(),
        [0.0, 0.5, 7.0],
        [2.0, 3.0],
    ],
)
def test_a_bin_holds_its_lower_edge_and_the_last_one_both(edges: list[float]) -> None:
    """Evenly spaced edges, or not, to the last bit of a float."""
    cuts = np.array(edges)
    x = np.concatenate([cuts, np.nextafter(cuts, INF), np.nextafter(cuts, -INF), [NAN, INF, -INF]])
    _, ((_, counts),) = planned(
        pd.DataFrame({"x": x, "f": "a"}), families.Table({"x": Bins(edges), "f": ["a", "b"]})
    )
    inside = x[(x >= cuts[0]) & (x <= cuts[-1])]
    place = np.minimum(np.searchsorted(cuts, inside, side="right") - 1, len(cuts) - 2)
    assert counts[::2] == np.bincount(place, minlength=len(cuts) - 1).tolist()
    assert not any(counts[1::2])


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "column": (lambda: {"family": MOMENTS["mixed"], "column": "bp"}, "leave column="),
    "bounds": (
        lambda: {"family": TABLES["bins"], "bounds": Bounds(0, 1, outside="clamp")},
        "leave bounds=",
    ),
    "private bounds": (
        lambda: {
            "family": MOMENTS["mixed"],
            "bounds": PrivateBounds(0, 1, epsilon=1, outside="clamp"),
        },
        "leave bounds=",
    ),
    "private bounds within": (
        lambda: {
            "family": families.Moments({"x": PrivateBounds(0, 1, epsilon=1, outside="clamp")})
        },
        "private bounds of 'x'",
    ),
    "missing": (lambda: {"family": MOMENTS["mixed"], "missing": 3.0}, "leave missing="),
    "no column": (lambda: {"family": families.Bernoulli()}, "say which column"),
    "unknown column": (
        lambda: {"family": families.Moments({"nope": Bounds(0, 1, outside="clamp")})},
        "no column 'nope'",
    ),
    "nothing": (lambda: {"family": families.Moments({"sex": ["f"]})}, "nothing to release"),
    "levels alike": (
        lambda: {"family": families.Moments({"ward": ["1", "1.0"]})},
        "levels of 'ward' must differ",
    ),
    "a level that is missing": (
        lambda: {"family": families.Table({"ward": ["1", "nan"]})},
        "levels of 'ward' must differ",
    ),
    "too many columns": (
        lambda: {
            "family": families.Moments({f"x{j}": Bounds(0, 1, outside="clamp") for j in range(13)})
        },
        "13 columns are too many",
    ),
    "too many cells": (
        lambda: {"family": families.Table({"a": list(range(201)), "b": list(range(100))})},
        "20100 cells",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_before_anything_is_spent(name: str, tmp_path: Path) -> None:
    settings, message = BAD[name]
    with pytest.raises((NoisewiseError, ValueError), match=message) as refused:
        noisewise.release(forms("pandas", tmp_path), epsilon=1, ledger=None, **settings())
    assert "\n" not in str(refused.value)


def test_a_column_of_another_kind_is_refused_by_its_name(tmp_path: Path) -> None:
    table = pa.table({"bp": [1.0], "when": pa.array([0], pa.timestamp("s"))})
    family = families.Moments({"bp": Bounds(0, 1, outside="clamp"), "when": ["a", "b"]})
    with pytest.raises(RecordsError, match="'when'"):
        noisewise.release(table, family=family, epsilon=1, ledger=None)


def test_names_that_differ_in_case_are_two_columns_or_refused() -> None:
    frame = {"A": [0.0, 1.0], "a": [1.0, 1.0]}
    family = families.Moments(
        {"A": Bounds(0, 1, outside="clamp"), "a": Bounds(0, 1, outside="clamp")}
    )
    _, expected_sums = planned(pd.DataFrame(frame), family)
    for records in (pa.table(frame), pl.DataFrame(frame)):
        try:
            _, sums = planned(records, family)
        except RecordsError:
            continue
        assert sums == expected_sums


def changed(made: noisewise.Release, change: Callable[[Any], None]) -> str:
    content = json.loads(made.to_json())
    change(content)
    content.pop("sha256")
    return json.dumps(content | {"sha256": digest(content)})


def put(path: str, value: Any) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        *parents, last = path.split(".")
        for part in parents:
            content = content[part]
        content[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", 2, "came with version 3"),
        ("count", None, "count"),
        ("n", None, "n is public"),
        ("column", "bp", "of a column"),
        ("family.less", 0.0, "less must be 0.5"),
        ("privacy.neighbours", "add_remove", "n is public"),
        ("bounds", {"lower": 0.0, "upper": 1.0, "outside": "clamp"}, "own bounds"),
        ("privacy.unit", "one record, of whatever group", "unit"),
    ],
)
def test_moments_whose_parts_contradict_are_refused(path: str, value: Any, message: str) -> None:
    made = noisewise.release(
        pd.DataFrame({"a": [1.0, 2.0]}),
        family=families.Moments({"a": Bounds(0, 10, outside="redact")}),
        epsilon=1,
        ledger=None,
    )
    with pytest.raises(ReleaseFormatError, match=message):
        parse(changed(made, put(path, value)))


def test_moments_with_too_little_noise_are_refused() -> None:
    """A sensitivity below that of the columns, and noise to match."""
    made = noisewise.release(
        pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]}),
        family=families.Moments(
            {"a": Bounds(0, 10, outside="redact"), "b": Bounds(0, 10, outside="redact")}
        ),
        epsilon=1,
        ledger=None,
    )

    def smaller(content: Any) -> None:
        steps = 5 * TOP  # of 5.33 TOP
        privacy, count = content["privacy"], content["count"]
        factor = steps / TOP / privacy["sensitivity"][0]
        privacy["sensitivity"] = [steps / TOP] * len(privacy["sensitivity"])
        privacy["count_sensitivity"] *= factor
        content["noise"]["scale"] = [s * factor for s in content["noise"]["scale"]]
        count["noise"]["scale"] = [s * factor for s in count["noise"]["scale"]]

    with pytest.raises(ReleaseFormatError, match="not that of these neighbours"):
        parse(changed(made, smaller))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", 1, "came with version 3"),
        ("n", 2, "does not tell n"),
        ("privacy.neighbours", "add_remove", "not that of these neighbours"),
        ("privacy.unit", "one record, within its group", "unit"),
    ],
)
def test_tables_whose_parts_contradict_are_refused(path: str, value: Any, message: str) -> None:
    made = noisewise.release(
        pd.DataFrame({"a": ["x", "y"]}),
        family=families.Table({"a": ["x", "y"]}),
        epsilon=1,
        ledger=None,
    )
    with pytest.raises(ReleaseFormatError, match=message):
        parse(changed(made, put(path, value)))


WHOM: dict[str, dict[str, Any]] = {
    "replace": {},
    "add": {"neighbours": "add_remove"},
    "move": {"by": "g", "groups": ["a", "b"], "sizes": "released"},
}


@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": 1}], ids=["L1", "L2"])
@pytest.mark.parametrize(
    ("whom", "numbers", "factors"),
    [
        *(("replace", q, 0) for q in range(1, 7)),
        ("replace", 1, 2),
        ("add", 1, 1),
        ("add", 6, 0),
        ("move", 3, 0),
    ],
)
def test_neighbouring_tables_through_the_real_reading(
    whom: str, numbers: int, factors: int, cost: dict[str, Any]
) -> None:
    """Tables that differ in one record, which may be missing: never further apart than declared,
    and within 10 % of it.
    """
    columns: dict[str, Any] = {
        f"x{j}": Bounds(-3 - j, 5, outside="redact") for j in range(numbers)
    } | {f"f{j}": ["u", "v", "w"][: 2 + j] for j in range(factors)}
    settings = Settings(family=families.Moments(columns), **cost, **WHOM[whom])
    ready = cache(lambda records: Statistics.of(records, settings))
    pairs = [(ready(one), ready(other)) for one, other in _neighbouring(settings)]
    plan = pairs[0][0].plan
    apart = [np.linalg.norm(a.exact - b.exact, ord=plan.mechanism.order) for a, b in pairs]
    assert max(apart) <= plan.sensitivity
    assert plan.sensitivity <= 1.1 * max(apart)


HOSTILE = [None, True, 10**400, 1e308, 5e-324, "", [], {}, ["x"], [[1]], -1, 0.3, [10**400, 1]]


def places(content: Any) -> list[tuple[Any, ...]]:
    """The path of every part of a family."""
    inner = content.items() if isinstance(content, dict) else enumerate(content)
    return [
        path
        for key, value in inner
        for path in (
            (key,),
            *((key, *rest) for rest in (places(value) if isinstance(value, dict | list) else [])),
        )
    ]


@pytest.mark.parametrize("family", [MOMENTS["mixed"], TABLES["bins"]], ids=["moments", "table"])
def test_a_family_with_anything_in_it_is_read_or_refused(family: Any) -> None:
    made = noisewise.release(
        forms("pyarrow", Path()), family=family, epsilon=1, ledger=None, description="d"
    )
    described = json.loads(made.to_json())["family"]
    for path in places(described):
        for value in HOSTILE:
            content = json.loads(json.dumps(described))
            part = content
            for key in path[:-1]:
                part = part[key]
            part[path[-1]] = value
            with suppress(ReleaseFormatError):
                parse(changed(made, put("family", content)))


def test_observed_moments_and_tables_are_written_and_read() -> None:
    """As other tools publish them: n or a count, squares as they are."""
    columns = {"a": Bounds(0, 1, outside="clamp")}
    for size in ({"n": 9}, {"count": NoisyCount(9, noise.Laplace(2))}):
        seen: Any = noisewise.observe(
            family=families.Moments(columns), statistic=[1.0, 2.0], noise=noise.Laplace(3), **size
        )
        assert parse(seen.to_json()) == seen
    cells = families.Table({"f": ["u", "v"]})
    seen = noisewise.observe(family=cells, statistic=[3, 4], noise=noise.Laplace(1))
    assert parse(seen.to_json()) == seen


def test_lattices_are_what_is_released() -> None:
    plan = prepare(
        pd.DataFrame({"a": [1.0]}),
        Settings(family=families.Moments({"a": Bounds(0, 10, outside="clamp")}), epsilon=1),
    ).plan
    assert isinstance(plan.lattice, Products)
    plan = prepare(
        pd.DataFrame({"a": [1]}), Settings(family=families.Table({"a": [1, 2]}), epsilon=1)
    ).plan
    assert isinstance(plan.lattice, Cells)
    assert open_rows(pd.DataFrame({"a": [1]}), plan.reading).count() == 1
    with pytest.raises(UnsupportedCombination, match=r"less=0\.5"):
        Products(families.Moments({"a": Bounds(0, 10, outside="clamp")}))

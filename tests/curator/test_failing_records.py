"""A record for which something fails is a missing record: none decides whether a release is made,
in whatever form it comes.
"""

import math
import numbers
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import noisewise
from noisewise import Bounds, PrivateBounds, families
from noisewise.curator.clusters import open_rows
from noisewise.curator.ledger import Ledger
from noisewise.curator.reading import Reading
from noisewise.curator.sums import rehearse
from noisewise.mechanism.lattice import lattice_for
from noisewise.mechanism.privacy import pure
from tables import FORMS, exact_sums, table

HOLE = 0.123456789


def pole(x: Any) -> Any:
    """DuckDB refuses to divide by 0 so; NumPy does not, and no evenly spaced point finds it."""
    return 1.0 // ((x - HOLE) ** 2)


class Pole(families.Family):
    kind = "pole"
    support = (0.0, math.inf)

    def statistic(self, x: Any, xp: Any = np) -> tuple[Any, ...]:
        return (pole(x),)


class Poles(families.Family):
    """A part that fails and stands twice, within a statistic and between two: DuckDB computes such
    a part once, beforehand.
    """

    kind = "poles"
    support = (0.0, math.inf)

    def statistic(self, x: Any, xp: Any = np) -> tuple[Any, ...]:
        return pole(x) * pole(x), pole(x) + pole(x) * xp.sqrt(x), x, xp.abs(pole(x))


class SecondPole(families.Family):
    """The first statistic is there where the second fails: such a record is missing from both."""

    kind = "second_pole"
    support = (0.0, math.inf)

    def statistic(self, x: Any, xp: Any = np) -> tuple[Any, ...]:
        return x, pole(x)


class Overflow(families.Family):
    kind = "overflow"
    support = (0.0, math.inf)

    def statistic(self, x: Any, xp: Any = np) -> tuple[Any, ...]:
        return (xp.astype(xp.where((x > 3.14159) & (x < 3.1416), 1e30, x), "int64") * 1.0,)


OWN = [Pole(), Poles(), Overflow()]
FAILS = [HOLE, HOLE, 3.141595]


@pytest.mark.parametrize("outside", ["redact", "clamp"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("family", "fails"),
    [*zip(OWN, FAILS, strict=True), (SecondPole(), HOLE)],
    ids=lambda value: getattr(value, "kind", None),
)
def test_a_record_whose_statistic_fails_is_missing(
    family: Any, fails: float, form: str, outside: str, tmp_path: Path
) -> None:
    lattice = lattice_for(family, Bounds(0, 9, outside=outside))  # type: ignore[arg-type]
    values: list[Any] = [1.0, fails, 2.5, None, 12.0, fails]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    found = exact_sums(table(form, values, pa.float64(), tmp_path / "a"), lattice)
    without = [None if value == fails else value for value in values]
    assert found == exact_sums(table(form, without, pa.float64(), tmp_path / "b"), lattice)
    assert found[0][0] == 6


@pytest.mark.parametrize("family", OWN[:2], ids=lambda family: family.kind)
def test_a_family_that_fails_for_some_records_is_released(family: Any, tmp_path: Path) -> None:
    rehearse(family, lattice_for(family, Bounds(0, 9, outside="clamp")))
    book = Ledger(tmp_path / "budget.db")
    book.set_limit("d", pure(9))
    frame = pd.DataFrame({"x": [1.0, HOLE, 2.0], "g": ["a", "a", "b"]})
    settings: dict[str, Any] = {
        "column": "x",
        "family": family,
        "epsilon": 1,
        "ledger": book.path,
        "dataset": "d",
    }
    noisewise.release(frame, bounds=Bounds(0, 9, outside="clamp"), **settings)
    noisewise.release(frame, bounds=PrivateBounds(0, 9, epsilon=1, outside="redact"), **settings)
    noisewise.release(
        frame,
        bounds=Bounds(0, 9, outside="redact"),
        by="g",
        groups=["a", "b", "c"],
        sizes="public",
        **settings,
    )
    assert book.accounts()[0].spent == 4


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::UserWarning",
    "ignore::FutureWarning",
    "ignore::ResourceWarning",
)
def test_a_record_whose_statistic_fails_is_missing_on_clusters_too() -> None:
    """Dask and Spark run the same code on every part. Here this process computes them."""
    import dask
    import dask.dataframe as dd

    lattice = lattice_for(OWN[1], Bounds(0, 9, outside="clamp"))
    frame = pd.DataFrame({"x": [1.0, HOLE, 2.5, np.nan, 12.0, HOLE]})
    with dask.config.set(scheduler="synchronous"):
        spread = open_rows(dd.from_pandas(frame, npartitions=3), Reading("x"))
        assert spread.sums(lattice) == exact_sums(frame, lattice)


def raising(kind: type[BaseException]) -> Any:
    def fail(*_: object) -> Any:
        raise kind("the record speaks")

    return fail


class Plain:
    """No number to Python."""

    def __float__(self) -> float:
        raise RuntimeError("the record speaks")


class Number(Plain):
    """Said to be a number."""


numbers.Real.register(Number)
FAILURES = [
    ZeroDivisionError,
    RuntimeError,
    MemoryError,
    RecursionError,
    StopIteration,
    SystemExit,
    GeneratorExit,
    UnicodeError,
]
OBJECTS: list[Any] = [Plain(), Number(), Decimal("sNaN"), object(), 1j, "\ud800"]
for failure in FAILURES:
    OBJECTS.append(type("Float", (float,), {"__float__": raising(failure)})(1.5))
    OBJECTS.append(type("Int", (int,), {"__float__": raising(failure)})(1))
    OBJECTS.append(
        type("Huge", (int,), {"__float__": raising(OverflowError), "__gt__": raising(failure)})(1)
    )
    OBJECTS.append(type("Classless", (), {"__class__": property(raising(failure))})())
    OBJECTS.append(type("Complex", (complex,), {"imag": property(raising(failure))})(1))
    OBJECTS.append(type("Fraction", (Decimal,), {"__float__": raising(failure)})("1.5"))


@pytest.mark.parametrize("wanted", ["number", "label", "group"])
@pytest.mark.parametrize(
    "odd", range(len(OBJECTS)), ids=lambda odd: f"{odd}-{type(OBJECTS[odd]).__name__}"
)
def test_an_object_whose_own_code_fails_is_missing(odd: int, wanted: str) -> None:
    def sums(item: Any) -> Any:
        values = pd.Series([1.5, item, "a", 3], dtype=object)
        frame = pd.DataFrame({"x": values, "y": [1.0, 2.0, 3.0, 4.0]})
        if wanted == "number":
            family, bounds = families.Exponential(), Bounds(0, 9, outside="clamp")
            return exact_sums(frame, lattice_for(family, bounds))
        if wanted == "label":
            labels = families.Categorical(["a", "3", "b"], other="b")
            return exact_sums(frame, lattice_for(labels, None))
        family, bounds = families.Exponential(), Bounds(0, 9, outside="clamp")
        return exact_sums(frame, lattice_for(family, bounds), column="y", by="x", groups=("a", 3))

    assert sums(OBJECTS[odd]) == sums(None)


def test_text_of_a_class_of_its_own_is_text() -> None:
    parts = {
        name: raising(RuntimeError)
        for name in ("encode", "__str__", "__repr__", "__eq__", "__len__", "__iter__")
    }
    odd = type("Text", (str,), parts | {"__hash__": str.__hash__})("a")
    labels = families.Categorical(["a", "b"], other="b")
    frame = pd.DataFrame({"x": pd.Series([odd, "b"], dtype=object)})
    assert exact_sums(frame, lattice_for(labels, None)) == [(2, [1, 1])]

"""The columns of a release of several: numbers within public bounds, factors with public levels,
and numbers cut at public edges.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

from noisewise.model.bounds import Bounds, Outside, PrivateBounds

Level = str | int
"""A label of a factor."""


@final
@dataclass(frozen=True, slots=True)
class Number:
    """A numeric column: u = (x - centre)/radius of its bounds lies between -1 and 1."""

    name: str
    bounds: Bounds

    @property
    def names(self) -> tuple[str, ...]:
        """Of the numbers that stand for it."""
        return (self.name,)

    def describe(self) -> dict[str, Any]:
        bounds = self.bounds
        return {
            "name": self.name,
            "lower": bounds.lower,
            "upper": bounds.upper,
            "outside": bounds.outside,
        }


@final
@dataclass(frozen=True, slots=True)
class Factor:
    """A column with public levels: one indicator, 0 or 1, for each level after the first."""

    name: str
    levels: tuple[Level, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the numbers that stand for it."""
        return tuple(f"{self.name}[{level}]" for level in self.levels[1:])

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "levels": list(self.levels)}


@final
@dataclass(frozen=True, slots=True)
class Bins:
    """As a column of a table: a number cut at public edges. A bin holds its lower edge; the last
    one holds both.
    """

    edges: Sequence[float]

    def __post_init__(self) -> None:
        edges = tuple(float(edge) for edge in self.edges)
        if len(edges) < 2 or not all(math.isfinite(edge) for edge in edges):
            raise ValueError(f"edges must be at least two finite numbers, got {list(self.edges)}.")
        if not all(low < high for low, high in pairwise(edges)):
            raise ValueError(f"edges must increase, got {list(self.edges)}.")
        object.__setattr__(self, "edges", edges)

    @property
    def levels(self) -> tuple[str, ...]:
        """What each bin is called."""
        pairs = list(pairwise(self.edges))
        ends = ")" * (len(pairs) - 1) + "]"
        return tuple(f"[{a:.15g}, {b:.15g}{end}" for (a, b), end in zip(pairs, ends, strict=True))


@final
@dataclass(frozen=True, slots=True)
class Cut:
    """A numeric column of a table, in bins."""

    name: str
    bins: Bins

    @property
    def levels(self) -> tuple[Level, ...]:
        """What each bin is called."""
        return self.bins.levels

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "edges": list(self.bins.edges)}


Column = Number | Factor | Cut
Given = Mapping[str, Any] | Sequence[Any]
"""Columns as a person writes them, {name: what}, or as a file holds them."""


def columns_of(given: Given, example: str) -> tuple[Column, ...]:
    """The columns that a person or a file names; what is none is refused with an example."""
    if isinstance(given, Mapping):
        found = tuple(_written(name, what, example) for name, what in given.items())
    elif isinstance(given, Sequence) and not isinstance(given, str):
        found = tuple(_filed(one, example) for one in given)
    else:
        raise ValueError(f"columns must be given by name, such as {example}.")
    names = [one.name for one in found]
    if not names:
        raise ValueError(f"there is no column; give at least one, such as {example}.")
    for name in names:
        if not (isinstance(name, str) and name and name.isprintable()):
            raise ValueError(f"the name of a column must be printable text, got {name!r}.")
    if len(set(names)) < len(names):
        raise ValueError("a column is named twice; name each once.")
    return found


def _written(name: str, what: Any, example: str) -> Column:
    if isinstance(what, Bounds):
        return Number(name, what)
    if isinstance(what, PrivateBounds):
        raise ValueError(
            f"private bounds of {name!r} do not go with several columns: every column's bounds "
            "must be known before any is read. Release them first, each by itself, or give Bounds."
        )
    if isinstance(what, Bins):
        return Cut(name, what)
    if isinstance(what, Sequence) and not isinstance(what, str):
        return _factor(name, tuple(what))
    raise ValueError(f"column {name!r} has neither bounds nor levels; write it like {example}.")


def _filed(one: Any, example: str) -> Column:
    if isinstance(one, Number | Factor | Cut):
        return one
    if isinstance(one, Mapping):
        fields = set(one)
        name: Any = one.get("name")
        if fields == {"name", "lower", "upper", "outside"}:
            outside: Outside = one["outside"]
            return Number(name, Bounds(one["lower"], one["upper"], outside=outside))
        if fields == {"name", "levels"} and isinstance(one["levels"], Sequence):
            return _factor(name, tuple(one["levels"]))
        if fields == {"name", "edges"}:
            return Cut(name, Bins(one["edges"]))
    raise ValueError(f"columns must be given by name, such as {example}.")


def _factor(name: str, levels: tuple[Level, ...]) -> Factor:
    kinds = {type(level) for level in levels}
    if kinds not in ({str}, {int}):
        raise ValueError(f"the levels of {name!r} must be all text or all whole numbers.")
    if len(set(levels)) < len(levels):
        raise ValueError(f"a level of {name!r} is named twice; name each once.")
    if kinds == {int} and not all(abs(int(level)) <= 2**53 for level in levels):
        raise ValueError(f"whole-number levels of {name!r} must lie within 2^53.")
    return Factor(name, levels)

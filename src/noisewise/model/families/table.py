"""A table of counts: how many records have each combination of levels."""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.columns import Cut, Factor, Given, Level, Number, columns_of
from noisewise.model.family import Family, Parameter, StatisticKind
from noisewise.model.priors import Dirichlet, Prior

MOST_COLUMNS = 12
"""A table of more has no reader."""
MOST_CELLS = 20_000
"""Each has noise of its own: of more, hardly one is more than noise."""
EXAMPLE = "{'sex': ['f', 'm'], 'ward': ['a', 'b', 'c']}"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Table(Family):
    """A record falls in one cell, a combination of one level of every column; the statistic is the
    count of every cell, in the order of the columns, the last varying fastest.

    A record that is missing in any column, or of a level that is not listed, falls in no cell.
    """

    kind: ClassVar[str] = "table"
    statistic_kind: ClassVar[StatisticKind] = "counts"
    complete: ClassVar = False
    integer: ClassVar = True
    bounded: ClassVar = True
    prior: ClassVar = Dirichlet
    columns: Given

    def __post_init__(self) -> None:
        found = columns_of(self.columns, EXAMPLE)
        for one in found:
            if isinstance(one, Number):
                raise ValueError(
                    f"a table counts levels; give {one.name!r} bins, such as Bins([0, 10, 20]), or "
                    "use families.Moments."
                )
        if len(found) > MOST_COLUMNS:
            raise ValueError(
                f"{len(found)} columns are too many for a table, {MOST_COLUMNS} at most."
            )
        cells = math.prod(len(one.levels) for one in found if not isinstance(one, Number))
        if not 2 <= cells <= MOST_CELLS:
            raise ValueError(
                f"the table has {cells} cells; it must have 2 to {MOST_CELLS}: each has noise of "
                "its own. Leave columns out, or join levels."
            )
        object.__setattr__(self, "columns", found)

    @property
    def parts(self) -> tuple[Factor | Cut, ...]:
        """The columns, in order."""
        return tuple(self.columns)

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "columns": [one.describe() for one in self.parts]}

    @property
    def shape(self) -> tuple[int, ...]:
        """How many levels each column has."""
        return tuple(
            len(one.bins.edges) - 1 if isinstance(one, Cut) else len(one.levels)
            for one in self.parts
        )

    @property
    def cells(self) -> tuple[tuple[Level, ...], ...]:
        """The levels of each cell, in the order of the counts."""
        return tuple(product(*(one.levels for one in self.parts)))

    @property
    def labels(self) -> tuple[str, ...]:
        """What each cell is called."""
        return tuple(", ".join(str(level) for level in cell) for cell in self.cells)

    @property
    def dimension(self) -> int:
        return math.prod(self.shape)

    @property
    def support(self) -> tuple[float, float]:  # type: ignore[override]
        """The index of a cell."""
        return (0.0, self.dimension - 1.0)

    @property
    def parameters(self) -> tuple[Parameter, ...]:  # type: ignore[override]
        """One probability for each cell."""
        return (Parameter("probabilities", 0, 1, self.dimension),)

    def position(self, name: str) -> int:
        """Which of the columns has that name; refused if none has."""
        for j, one in enumerate(self.parts):
            if one.name == name:
                return j
        known = ", ".join(one.name for one in self.parts)
        raise UnsupportedCombination(f"the table has no column {name!r}; it has: {known}.")

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return tuple(x == j for j in range(self.dimension))

    def weak_prior(self, bounds: Bounds | None) -> Prior:
        """As many records as the largest column has levels, spread evenly over the cells: one for
        each cell would make every margin look even.
        """
        return Dirichlet([max(self.shape) / self.dimension] * self.dimension)

    def check_bounds(self, bounds: Bounds | None) -> None:
        if bounds is not None:
            raise UnsupportedCombination(
                "a table has levels and no bounds; give numbers bins, such as Bins([0, 10, 20])."
            )

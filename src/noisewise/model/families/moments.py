"""Sums and sums of products of several columns: every regression among them, their means, spreads
and correlations.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.columns import Column, Factor, Given, Number, columns_of
from noisewise.model.family import Family, Parameter, StatisticKind

MOST_COLUMNS = 12
"""The noise grows with the square of their number: with more of them nothing is left."""
MOST_NUMBERS = 64
"""That stand for the columns, indicators counted one by one."""
EXAMPLE = "{'bp': Bounds(60, 220, outside='redact'), 'sex': ['f', 'm']}"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Moments(Family):
    """A record is several columns. z is u = (x - centre)/radius of a numeric column, and an
    indicator for each level of a factor after the first. The statistic: the sum of every z_j, then
    of z_j z_k for j <= k, row by row, without what is known: the square of an indicator is itself,
    and two indicators of one factor never meet.

    A record that is missing in any column, outside the bounds under redact, or of a level that is
    not listed contributes nothing. `less` is subtracted from the square of a numeric column for
    every record that counts.
    """

    kind: ClassVar[str] = "moments"
    statistic_kind: ClassVar[StatisticKind] = "moments"
    complete: ClassVar = False
    bounded: ClassVar = True
    support: ClassVar = (-1.0, 1.0)
    columns: Given
    less: float = 0.0

    def __post_init__(self) -> None:
        found = columns_of(self.columns, EXAMPLE)
        if not all(isinstance(one, Number | Factor) for one in found):
            raise ValueError("bins belong in families.Table; here a number has Bounds.")
        if len(found) > MOST_COLUMNS:
            raise ValueError(
                f"{len(found)} columns are too many, {MOST_COLUMNS} at most: the noise grows with "
                "the square of their number. Release what belongs together."
            )
        numbers = sum(len(one.names) for one in found if isinstance(one, Number | Factor))
        if numbers > MOST_NUMBERS:
            raise ValueError(
                f"the columns have {numbers} numbers, levels counted one by one, {MOST_NUMBERS} at "
                "most; join levels of the factors."
            )
        if not (isinstance(self.less, (int, float)) and 0 <= self.less <= 1):
            raise ValueError(f"less must be a number from 0 to 1, got {self.less}.")
        object.__setattr__(self, "columns", found)
        object.__setattr__(self, "less", float(self.less))

    @property
    def parts(self) -> tuple[Number | Factor, ...]:
        """The columns, in order."""
        return tuple(self.columns)

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "columns": [one.describe() for one in self.parts],
            "less": self.less,
        }

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of z, in order."""
        return tuple(name for one in self.parts for name in one.names)

    @property
    def owners(self) -> tuple[Number | Factor, ...]:
        """The column that each z stands for."""
        return tuple(one for one in self.parts for _ in one.names)

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """The pairs j <= k of z whose products are released, in order."""
        owners = self.owners
        return tuple(
            (j, k)
            for j in range(len(owners))
            for k in range(j, len(owners))
            if isinstance(owners[j], Number) or owners[j] is not owners[k]
        )

    @property
    def dimension(self) -> int:
        return len(self.numbers) + len(self.products)

    @property
    def numeric(self) -> tuple[Number, ...]:
        """The numeric columns."""
        return tuple(one for one in self.parts if isinstance(one, Number))

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors of which something can be told: those with several levels."""
        return tuple(one for one in self.parts if isinstance(one, Factor) and len(one.levels) > 1)

    @property
    def parameters(self) -> tuple[Parameter, ...]:  # type: ignore[override]
        """The means, sds and correlations of numeric columns, and the shares of levels."""
        q = len(self.numeric)
        found = []
        if q:
            found += [Parameter("mean", -np.inf, np.inf, q), Parameter("sd", 0, np.inf, q)]
        if q > 1:
            found.append(Parameter("correlation", -1, 1, q * (q - 1) // 2))
        shares = [Parameter(f"share[{f.name}]", 0, 1, len(f.levels)) for f in self.factors]
        return (*found, *shares)

    def labels_of(self, parameter: str) -> tuple[str, ...]:
        """What each number of a parameter is called."""
        names = [one.name for one in self.numeric]
        if parameter == "correlation":
            return tuple(f"{a}, {b}" for j, a in enumerate(names) for b in names[j + 1 :])
        for one in self.parts:
            if isinstance(one, Factor) and parameter == f"share[{one.name}]":
                return tuple(str(level) for level in one.levels)
        return tuple(names)

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        """Of z, a sequence of columns."""
        squares = {j for j, one in enumerate(self.owners) if isinstance(one, Number)}
        return (
            *x,
            *(
                x[j] * x[k] - (self.less if j == k and j in squares else 0.0)
                for j, k in self.products
            ),
        )

    def column(self, name: str) -> Column:
        """The column of that name; refused if there is none."""
        for one in self.parts:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.parts)
        raise UnsupportedCombination(f"the release has no column {name!r}; it has: {known}.")

    def check_bounds(self, bounds: Bounds | None) -> None:
        if bounds is not None:
            raise UnsupportedCombination(
                "the columns of families.Moments have their own bounds; leave bounds out."
            )

"""The posterior of a table: shares, shares within a level, odds ratios, Cramer's V."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.inference.posterior import Posterior
from noisewise.inference.value import Value
from noisewise.model.arrays import FloatArray
from noisewise.model.families.table import Table


@final
class TablePosterior(Posterior):
    """Of a table's cell probabilities, and of what follows from them."""

    family: Table

    @property
    def _cells(self) -> FloatArray:
        """The draws as a table, (draws, levels of the first column, of the second, ...)."""
        draws = self.draws["probabilities"]
        return draws.reshape(len(draws), *self.family.shape)

    def share(
        self,
        column: str | None = None,
        *,
        given: Mapping[str, Any] | None = None,
        **levels: Any,
    ) -> Value:
        """share(sex="f"): of the records, the share with that level, or with several.
        share("ward", given={"sex": "f"}): of each level of a column, among the records with the
        given ones.
        """
        if (column is None) == (not levels):
            raise UnsupportedCombination(
                'name a level, as in share(sex="f"), or a column, as in share("ward").'
            )
        among = self._where(given or {})
        whole = _total(among)
        if column is None:
            both = [name for name in levels if name in (given or {})]
            if both:
                raise UnsupportedCombination(f"{both[0]!r} is asked for and given; leave one out.")
            return Value(_total(self._where({**(given or {}), **levels})) / whole)
        place = self.family.position(column)
        others = tuple(1 + j for j in range(len(self.family.parts)) if j != place)
        labels = tuple(str(level) for level in self.family.parts[place].levels)
        return Value(among.sum(axis=others) / whole[:, None], labels)

    def odds_ratio(self, one: str, other: str, *, given: Mapping[str, Any] | None = None) -> Value:
        """How many times the odds of each level of `other`, against its first, are those at the
        first level of `one`, for each other level of `one`.
        """
        pair, first, second = self._pair(one, other, given)
        log = np.log(np.maximum(pair, 1e-300))
        ratio = log[:, 1:, 1:] - log[:, 1:, :1] - log[:, :1, 1:] + log[:, :1, :1]
        labels = tuple(
            f"{one}={a}, {other}={b}" for a in first.levels[1:] for b in second.levels[1:]
        )
        draws = np.exp(np.clip(ratio, -700, 700)).reshape(len(ratio), -1)
        return Value(draws[:, 0]) if draws.shape[1] == 1 else Value(draws, labels)

    def association(self, one: str, other: str, *, given: Mapping[str, Any] | None = None) -> Value:
        """Cramer's V of two columns: 0 where neither tells of the other, 1 where one tells all."""
        pair, _, _ = self._pair(one, other, given)
        pair = pair / pair.sum(axis=(1, 2), keepdims=True)
        even = pair.sum(axis=2, keepdims=True) * pair.sum(axis=1, keepdims=True)
        square = ((pair - even) ** 2 / np.maximum(even, 1e-300)).sum(axis=(1, 2))
        return Value(np.sqrt(np.minimum(square / (min(pair.shape[1:]) - 1), 1.0)))

    def _pair(
        self, one: str, other: str, given: Mapping[str, Any] | None
    ) -> tuple[FloatArray, Any, Any]:
        """The joint probabilities of two columns, (draws, levels of one, levels of the other)."""
        a, b = self.family.position(one), self.family.position(other)
        if a == b:
            raise UnsupportedCombination(f"{one!r} is named twice; name two columns.")
        for place in (a, b):
            column = self.family.parts[place]
            if column.name in (given or {}):
                raise UnsupportedCombination(
                    f"{column.name!r} is asked for and given; leave one out."
                )
            if len(column.levels) < 2:
                raise UnsupportedCombination(f"{column.name!r} has one level, and no odds.")
        cells = self._where(given or {})
        others = tuple(1 + j for j in range(len(self.family.parts)) if j not in (a, b))
        pair = cells.sum(axis=others)
        pair = pair if a < b else pair.swapaxes(1, 2)
        return pair, self.family.parts[a], self.family.parts[b]

    def _where(self, levels: Mapping[str, Any]) -> FloatArray:
        """The cells with given levels; the others are 0."""
        cells = self._cells.copy()
        for name, level in levels.items():
            place = self.family.position(name)
            known = self.family.parts[place].levels
            if level not in known:
                said = ", ".join(repr(one) for one in known)
                raise UnsupportedCombination(
                    f"{name!r} has no level {level!r}; its levels: {said}."
                )
            others = np.array([one != level for one in known])
            np.moveaxis(cells, 1 + place, 0)[others] = 0.0
        return cells


def _total(cells: FloatArray) -> FloatArray:
    return np.asarray(cells.reshape(len(cells), -1).sum(axis=1))

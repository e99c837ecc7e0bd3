"""The means of several columns, as a page shows them: without a family, unless a prior is stated.

The weak prior of `infer` expects columns that fill a good part of their bounds; `noisewise.mean`
needs no such thing, and a page leads with its answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from noisewise.artifact import Release
from noisewise.inference.columns.joint import prior_for
from noisewise.inference.mean import mean
from noisewise.inference.posterior import Posterior, Summary
from noisewise.model.families.moments import Moments
from noisewise.report.prior_curves import TAILS, mean_intervals

SEED = 0
"""A page of the same release is the same page."""
ANY_SHAPE = (
    "Means are those of noisewise mean, whatever the columns' shapes; sds and correlations take "
    "them for normal."
)
"""Below the numbers of columns without a stated prior."""


@final
@dataclass(frozen=True, slots=True)
class ColumnMean:
    """One column's mean, and where it lay before the release."""

    figures: dict[str, float | None]
    """As a row of a summary has them."""
    before: tuple[float, float]
    warnings: tuple[str, ...] = ()
    """What a careful reader must know of it."""

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Of the 90 % interval."""
        return self.figures["5%"], self.figures["95%"]


def unstated(prior: Any, family: Moments) -> bool:
    """Whether the prior is the weak one."""
    return bool(prior == prior_for("weak", family))


def means_of(posterior: Posterior, prior: Any, releases: Sequence[Release]) -> list[ColumnMean]:
    """Of every numeric column, in the family's order."""
    family = posterior.family
    assert isinstance(family, Moments)
    if unstated(prior, family):
        return [_any_shape(one.name, one.bounds, releases) for one in family.numeric]
    rows = [row for row in posterior.summary() if row["name"].startswith("mean")]
    before = mean_intervals(prior, family)
    return [
        ColumnMean({name: row[name] for name in Summary.COLUMNS}, before[one.name])
        for one, row in zip(family.numeric, rows, strict=True)
    ]


def _any_shape(name: str, bounds: Any, releases: Sequence[Release]) -> ColumnMean:
    found = mean(list(releases), name, seed=SEED)
    row = found.posterior.summary()[0]
    low, high = bounds.lower + (bounds.upper - bounds.lower) * np.array(TAILS)
    figures = {name: row[name] for name in Summary.COLUMNS}
    return ColumnMean(figures, (float(low), float(high)), found.warnings)

"""`mean` and `mean_many`: the mean of one released column with an interval, in its own units."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.apart import assumption, check_together
from noisewise.inference.columns import solve
from noisewise.inference.columns.asked import Asked, alike
from noisewise.inference.columns.cautions import mostly_prior, records_kept
from noisewise.inference.columns.joint import refusal
from noisewise.inference.columns.mean_of_records import MeanOfRecords
from noisewise.inference.columns.target import Target
from noisewise.inference.methods.base import Progress, Unsolved
from noisewise.inference.posterior import Posterior
from noisewise.inference.streams import Streams
from noisewise.model.arrays import IntArray
from noisewise.model.columns import Number
from noisewise.model.families.moments import Moments

REASON = "noisy sums of one column, and of its squares"
"""Why this method."""
ASSUMPTION = (
    "the mean of the records is normal about that of the population, by the central limit theorem; "
    "it is the mean of records that count, within their bounds"
)
"""Of every mean."""


@final
@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a column, of the records that count and within its bounds."""

    column: Number
    level: float
    mean: float | None
    low: float | None
    high: float | None
    """The mean lies between low and high with probability `level`; None where there is none."""
    sd: float | None
    """Of one record."""
    posterior: Posterior

    @property
    def sentence(self) -> str:
        """In words."""
        if self.mean is None:
            return f"{self.column.name}: no mean; {self.posterior.certificate.reason}."
        return (
            f"{self.column.name}: mean {self.mean:.4g}, {self.level:.0%} between {self.low:.4g} "
            f"and {self.high:.4g}; one record's sd is {self.sd:.4g}."
        )

    @property
    def meaning(self) -> str:
        """Whose mean it is."""
        bounds, (low, high) = self.column.bounds, self._ends
        beyond = (
            f"a value beyond {low} to {high} counts as the nearer of the two"
            if bounds.outside == "clamp"
            else f"a record outside {low} to {high} is left out"
        )
        kept = self.posterior.certificate.records_kept
        share = "" if kept is None else f"; between {kept[0]:.1%} and {kept[1]:.1%} counted"
        return f"The mean of the records that count: {beyond}, a missing one is left out{share}."

    @property
    def _ends(self) -> tuple[str, str]:
        return f"{self.column.bounds.lower:g}", f"{self.column.bounds.upper:g}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a careful reader must know before using it."""
        return self.posterior.certificate.warnings

    def row(self) -> dict[str, Any]:
        """The figures by name."""
        return {
            "column": self.column.name,
            "mean": self.mean,
            "low": self.low,
            "high": self.high,
            "level": self.level,
            "sd": self.sd,
        }

    def plot(self) -> Any:
        """The densities of the mean and of one record's sd; returns the matplotlib figure."""
        return self.posterior.plot()

    def __repr__(self) -> str:
        return f"Mean({self.sentence})"


def mean(
    release: Release | Sequence[Release],
    column: str | None = None,
    *,
    level: float = 0.9,
    draws: int = 4000,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Mean:
    """The mean of a numeric column of a release of families.Moments; of several releases of
    different records, that of all their records. `column` may be left out where there is one.

    Nothing is assumed of the column's shape but that the mean of its records obeys the central
    limit theorem. Before the release, every mean within the bounds is as likely as any other, and
    so is every sd that records of that mean can have.
    """
    releases = [release] if isinstance(release, Release) else list(release)
    number = _number(releases, column, level)
    check_together(releases)
    (found,) = _posteriors([releases], number, draws, seed, progress)
    if found.method == "none":
        raise UnsupportedCombination(f"{found.certificate.reason}.")
    return _of(number, level, found)


def mean_many(
    releases: Sequence[Release],
    column: str | None = None,
    *,
    level: float = 0.9,
    draws: int = 4000,
    seed: int | None = None,
    progress: Progress | None = None,
) -> list[Mean]:
    """One mean for each release, of groups with means of their own, all in one batch."""
    number = _number(releases, column, level)
    groups = [[one] for one in releases]
    return [_of(number, level, one) for one in _posteriors(groups, number, draws, seed, progress)]


def _posteriors(
    groups: Sequence[Sequence[Release]],
    column: Number,
    draws: int,
    seed: int | None,
    progress: Progress | None,
) -> list[Posterior]:
    """Groups alike in one batch; one that cannot be solved says why."""
    streams, own = Streams(seed, groups), Moments({column.name: column.bounds})
    asked = Asked.of(_family(groups[0][0]), [column], [])
    out: dict[int, Posterior] = {}
    together: dict[Any, list[int]] = {}
    for place, group in enumerate(groups):
        why = refusal(group)
        if why is None:
            together.setdefault(alike(group), []).append(place)
        else:
            seeds = partial(streams.of, place)
            out[place] = Posterior(own, Unsolved(own, why), "none", draws, seeds, releases=group)
    for members in together.values():
        chosen = [groups[place] for place in members]
        target = Target(asked.cone(), MeanOfRecords(), asked.data(chosen))
        generators = [streams.sampler(place) for place in members]
        found = solve.run(target, generators, draws, progress)
        for place, sampled in zip(members, found, strict=True):
            seeds, group = partial(streams.of, place), groups[place]
            solution = _solution(asked, column, group, sampled)
            out[place] = Posterior(own, solution, solve.NAME, draws, seeds, releases=group)
    return [out[place] for place in range(len(groups))]


def _solution(
    asked: Asked, column: Number, group: Sequence[Release], sampled: solve.Sampled
) -> solve.Draws:
    """In the column's own units."""
    bounds = column.bounds
    _, covariance = sampled.point.pooled()
    sds = np.sqrt(np.einsum("bii->bi", covariance))
    rows = _with_few_missing(group, sampled)
    middle, sd = (one.reshape(-1, 1)[rows] for one in sampled.parameters)  # (steps, chains, 1)
    return solve.Draws(
        [bounds.middle + bounds.radius * middle, bounds.radius * sd],
        REASON,
        tuple(mostly_prior(asked, sds)),
        (ASSUMPTION, *assumption(group)),
        records_kept(group, sampled.point.size[rows.ravel()]),
    )


def _with_few_missing(group: Sequence[Release], sampled: solve.Sampled) -> IntArray:
    """Which of the draws to take, (steps, chains), so that the number of records that do not count
    has the prior 1/(1 + k), and not the sampler's flat one: of a column most records count, and
    under a flat prior a noisy count alone would say that some do not. Within each chain draws are
    chosen anew, in order.
    """
    steps, chains, _ = sampled.parameters[0].shape
    every = np.arange(steps * chains).reshape(steps, chains)
    if any(one.n is None or one.count is None for one in group):
        return every
    public = np.array([float(one.n or 0) for one in group])
    missing = np.maximum(public - sampled.point.size, 0.0)
    weight = np.prod(1 / (1 + missing), axis=1).reshape(steps, chains)
    below = np.cumsum(weight, axis=0) / weight.sum(axis=0)
    at = (np.arange(steps) + 0.5) / steps
    step = np.stack([np.searchsorted(below[:, c], at) for c in range(chains)], axis=1)
    return np.asarray(every[np.minimum(step, steps - 1), np.arange(chains)])


def _of(column: Number, level: float, posterior: Posterior) -> Mean:
    if posterior.method == "none":
        return Mean(column, level, None, None, None, None, posterior)
    low, high = posterior.interval("mean", level)
    return Mean(column, level, posterior.mean("mean"), low, high, posterior.mean("sd"), posterior)


def _number(releases: Sequence[Release], column: str | None, level: float) -> Number:
    """The column that is asked for; refused if there is none, or several."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}; such as 0.9.")
    if not releases:
        raise UnsupportedCombination("there is no release to infer from.")
    family = _family(releases[0])
    if any(_family(one) != family for one in releases):
        raise UnsupportedCombination(
            "the releases have different columns or bounds; ask of each by itself."
        )
    if column is None:
        if len(family.numeric) != 1:
            known = ", ".join(one.name for one in family.numeric) or "none"
            raise UnsupportedCombination(
                f"say which column's mean is asked for; the release has numeric columns: {known}."
            )
        return family.numeric[0]
    found = family.column(column)
    if not isinstance(found, Number):
        raise UnsupportedCombination(
            f"{column!r} has levels and no mean; `noisewise infer` gives the share of each."
        )
    return found


def _family(release: Release) -> Moments:
    if not isinstance(release, Release):
        raise UnsupportedCombination(
            f"release must be a noisewise release, got {type(release).__name__}; load() reads one."
        )
    if not isinstance(release.family, Moments):
        raise UnsupportedCombination(
            f"the release is of the {release.family.kind} family, whose mean `noisewise infer` "
            "gives if the family is right; a mean of any shape needs a release with "
            "--moments COLUMN:LOWER:UPPER:clamp."
        )
    return release.family

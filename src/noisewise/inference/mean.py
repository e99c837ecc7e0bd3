"""`mean` and `mean_many`: the mean of one released column with an interval, in its own units."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.apart import assumption, check_together
from noisewise.inference.certificate import Certificate
from noisewise.inference.chains import Chains
from noisewise.inference.columns import mean_of_records
from noisewise.inference.columns.asked import Asked, strange
from noisewise.inference.columns.cautions import mostly_prior, records_kept
from noisewise.inference.columns.mean_of_records import LEAST, records_of
from noisewise.inference.methods.base import Progress, Unsolved
from noisewise.inference.posterior import Posterior
from noisewise.inference.solution import Solution
from noisewise.inference.streams import Streams
from noisewise.model.columns import Number
from noisewise.model.families.moments import Moments

NAME = "quadrature"
"""Of the method, in the certificate."""
REASON = "noisy sums of one column, and of its squares"
"""Why this method."""
ASSUMPTION = (
    "the mean of the records is normal about that of the population, by the central limit theorem; "
    "it is the mean of records that count, within their bounds"
)
"""Of every mean."""
CONTRADICTION = (
    "the noisy sums and the noisy count contradict each other: no records give them, but with "
    "noise that hardly ever comes; check the bounds, n and the noise's scale, and do not use this "
    "mean."
)
"""Where nothing explains a release."""
UNDECIDED, APART = 0.05, 0.75
"""Whether records are missing is not decided where either answer has more than this probability,
and matters where the two means are so many sds of the mean apart.
"""


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
        said = f"The mean of the records that count: {beyond}, a missing one is left out{share}."
        persons = self.posterior.certificate.persons
        return said if persons is None else f"{said} {persons[0].upper()}{persons[1:]}."

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
    """One after the other; one that cannot be solved says why."""
    streams, own = Streams(seed, groups), Moments({column.name: column.bounds})
    asked = Asked.of(_family(groups[0][0]), [column], [])
    out = []
    for place, group in enumerate(groups):
        seeds, why = partial(streams.of, place), _refusal(group)
        solution: Solution
        if why is None:
            solution = _solution(asked, column, group, draws, streams.sampler(place))
        else:
            solution = Unsolved(own, why)
        method = NAME if why is None else "none"
        out.append(Posterior(own, solution, method, draws, seeds, releases=group))
        if progress is not None:
            progress((place + 1) / len(groups))
    return out


def _refusal(group: Sequence[Release]) -> str | None:
    """Why there is no mean of these releases, if there is none."""
    for one in group:
        if one.n is not None and one.n < LEAST:
            return f"{one.n} records cannot tell how a column varies; at least {LEAST} are needed"
    return next((why for one in group if (why := strange([one])) is not None), None)


def _solution(
    asked: Asked,
    column: Number,
    group: Sequence[Release],
    draws: int,
    rng: np.random.Generator,
) -> "Drawn":
    """In the column's own units."""
    records = [records_of(asked.data([[one]])) for one in group]
    found = mean_of_records.Drawn.together([one.draw(rng, draws) for one in records])
    contradicted = [CONTRADICTION] if any(one.contradicted for one in records) else []
    bounds = column.bounds
    middle, sd = (one.reshape(-1, 1, 1) for one in (found.population, found.spread))
    return Drawn(
        [bounds.middle + bounds.radius * middle, bounds.radius * sd],
        (
            *contradicted,
            *mostly_prior(asked, found.sd[:, None]),
            *_undecided(column, group, found),
        ),
        (ASSUMPTION, *assumption(group)),
        records_kept(group, found.size),
    )


def _undecided(column: Number, group: Sequence[Release], found: mean_of_records.Drawn) -> list[str]:
    """Where the mean hangs on whether every record counts, and the release does not tell."""
    public = [one.n for one in group if one.n is not None]
    if len(public) < len(group):
        return []
    every = (found.size == np.array(public)).all(axis=1)
    if not UNDECIDED < every.mean() < 1 - UNDECIDED:
        return []
    mean = column.bounds.middle + column.bounds.radius * found.population
    complete, other = float(mean[every].mean()), float(mean[~every].mean())
    if abs(complete - other) < APART * mean.std():
        return []
    beforehand = mean_of_records.ALL_COUNT ** len(group)
    return [
        f"the release does not tell whether records are missing, and the mean hangs on it: it is "
        f"about {complete:.4g} if every record counts (with probability {every.mean():.2f}, "
        f"beforehand {beforehand:.2g}), else about {other:.4g}. Whoever published it may say "
        "whether values are missing; a larger epsilon and narrower bounds tell."
    ]


@final
@dataclass(frozen=True)
class Drawn(Chains):
    """Independent draws of the mean and of one record's sd."""

    cautions: tuple[str, ...]
    assumptions: tuple[str, ...]
    kept: tuple[float, float] | None

    def chains(self, rng: np.random.Generator, size: int) -> None:
        return None

    def certificate(self) -> Certificate:
        return Certificate(
            NAME,
            REASON,
            assumptions=self.assumptions,
            cautions=self.cautions,
            records_kept=self.kept,
        )


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

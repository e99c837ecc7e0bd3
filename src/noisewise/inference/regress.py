"""`regress` and `regress_many`: linear regressions from noisy moments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast, final

import numpy as np
from scipy import special

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.apart import assumption, check_together
from noisewise.inference.columns import solve
from noisewise.inference.columns.asked import Asked, alike, steady, strange
from noisewise.inference.columns.cautions import records_kept, regression_cautions, share_kept
from noisewise.inference.columns.regression import Regression
from noisewise.inference.columns.target import Data, Target
from noisewise.inference.methods.base import Unsolved
from noisewise.inference.posterior import Posterior, Summary
from noisewise.inference.posteriors import Posteriors
from noisewise.inference.streams import Streams
from noisewise.model import notation
from noisewise.model.arrays import FloatArray
from noisewise.model.column_priors import Linear
from noisewise.model.columns import Column, Factor, Level, Number
from noisewise.model.families.moments import Moments
from noisewise.model.family import Parameter

ASSUMPTIONS = (
    "the outcome is a linear function of the covariates plus normal errors of one size; nothing is "
    "assumed of the covariates",
)
"""Of every regression."""
REASON = "noisy moments of several columns"
"""Why this method."""


@final
@dataclass(frozen=True, slots=True)
class LinearModel:
    """What is asked of a release of moments: an outcome and covariates."""

    kind: ClassVar[str] = "regression"
    outcome: Number
    on: tuple[Number | Factor, ...]

    @property
    def coefficients(self) -> tuple[str, ...]:
        """The names of the coefficients after the intercept."""
        return tuple(name for one in self.on for name in one.names)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Intercept and coefficients, sigma (an sd) and r2."""
        free = [Parameter(name, -np.inf, np.inf) for name in ("intercept", *self.coefficients)]
        return (*free, Parameter("sigma", 0, np.inf), Parameter("r2", 0, 1))

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "kind": self.kind,
            "outcome": self.outcome.name,
            "on": [one.name for one in self.on],
        }

    def labels_of(self, parameter: str) -> Sequence[Level]:
        """Each is one number."""
        return (parameter,)


@final
@dataclass(frozen=True, slots=True)
class Prediction:
    """For one combination of covariates, in the outcome's units: the mean outcome and its interval,
    and the interval of one person's outcome.
    """

    mean: float
    interval: tuple[float, float]
    person: tuple[float, float]
    level: float


class RegressionTable(Summary):
    """A summary with the probability that a number is positive."""

    COLUMNS: ClassVar[tuple[str, ...]] = (*Summary.COLUMNS, "P(> 0)")


@final
class RegressionPosterior(Posterior):
    """The posterior of a regression, in the columns' own units."""

    family: LinearModel

    def table(self) -> "RegressionTable":
        """One row for each coefficient, sigma and r2, with the probability of a positive sign."""
        rows = [
            row | {"P(> 0)": 1 - float(self.solution.cdf(place, np.zeros(1))[0])}
            for place, row in enumerate(self.summary())
        ]
        return RegressionTable(rows)

    def plot(self, axes: Any = None) -> Any:
        """A figure of the coefficients with their 90 % intervals; returns the matplotlib figure."""
        from noisewise.report.coefficients import plot_coefficients

        return plot_coefficients(self, axes)

    def predict(self, at: Mapping[str, Any], level: float = 0.9) -> Prediction:
        """The outcome at given covariates, such as {"age": 50, "sex": "m"}."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}; such as 0.9.")
        model = self.family
        names = [one.name for one in model.on]
        strange = [name for name in at if name not in names]
        missing = [name for name in names if name not in at]
        if strange or missing:
            raise UnsupportedCombination(
                f"predict needs a value of each covariate ({', '.join(names)}) and no other; "
                + (f"{strange[0]!r} is none of them." if strange else f"{missing[0]!r} is missing.")
            )
        values = {name: value for one in model.on for name, value in _numbers(one, at[one.name])}
        line = self.draws["intercept"] + sum(
            (self.draws[name] * value for name, value in values.items()),
            np.zeros_like(self.draws["intercept"]),
        )
        tails = [(1 - level) / 2, (1 + level) / 2]
        low, high = np.quantile(line, tails)
        # a person's outcome is normal about the line: the mixture's quantiles, by bisection
        sigma = self.draws["sigma"]
        ends = np.array([line - 12 * sigma, line + 12 * sigma])
        bottom, top = float(ends[0].min()), float(ends[1].max())
        person = []
        for q in tails:
            a, b = bottom, top
            for _ in range(80):
                middle = (a + b) / 2
                below = float(special.ndtr((middle - line) / sigma).mean())
                a, b = (middle, b) if below < q else (a, middle)
            person.append((a + b) / 2)
        return Prediction(
            float(line.mean()), (float(low), float(high)), (person[0], person[1]), level
        )


def _numbers(column: Number | Factor, value: Any) -> list[tuple[str, float]]:
    if isinstance(column, Number):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise UnsupportedCombination(
                f"{column.name!r} is a number; give one, such as {column.bounds.middle:g}."
            )
        return [(column.name, float(value))]
    if value not in column.levels:
        known = ", ".join(repr(level) for level in column.levels)
        raise UnsupportedCombination(
            f"{column.name!r} has no level {value!r}; its levels are: {known}."
        )
    return [
        (name, float(level == value))
        for name, level in zip(column.names, column.levels[1:], strict=True)
    ]


def regress(
    release: Release | Sequence[Release],
    outcome: str,
    on: Sequence[str],
    *,
    prior: Linear | str = "weak",
    draws: int = 4000,
    seed: int | None = None,
    progress: solve.Progress | None = None,
) -> RegressionPosterior:
    """The linear regression of one released column on others, from a release of families.Moments,
    or from several releases of different records, which have the same coefficients.

    `prior` is "weak", priors.Linear(sd, shape, scale) or its text. The result speaks in the
    columns' own units: "intercept", each numeric column, "sex[m]" for each level but the first,
    "sigma" and "r2". A factor's first level is the one that the others are compared with.
    """
    releases = [release] if isinstance(release, Release) else list(release)
    if len(releases) > 1:
        check_together(releases)
    return _regressions([releases], outcome, on, prior, draws, seed, progress)[0]


def regress_many(
    releases: Sequence[Release],
    outcome: str,
    on: Sequence[str],
    *,
    prior: Linear | str = "weak",
    draws: int = 4000,
    seed: int | None = None,
    progress: solve.Progress | None = None,
) -> "Regressions":
    """One regression for each release, as one batch: of groups, each with parameters of its own."""
    return _regressions([[one] for one in releases], outcome, on, prior, draws, seed, progress)


def _regressions(
    groups: Sequence[Sequence[Release]],
    outcome: str,
    on: Sequence[str],
    prior: Linear | str,
    draws: int,
    seed: int | None,
    progress: solve.Progress | None,
) -> "Regressions":
    """One for each group of releases."""
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise ValueError(f"draws must be a whole number from 1, got {draws}.")
    if not groups or not all(groups):
        raise UnsupportedCombination("there is no release to regress.")
    models = [_asked(group, outcome, on) for group in groups]
    chosen = regression_prior(prior)
    streams = Streams(seed, groups)
    batches: dict[Any, list[int]] = {}
    asked: dict[int, Asked] = {}
    out: dict[int, RegressionPosterior] = {}
    for position, (group, model) in enumerate(zip(groups, models, strict=True)):
        why = _refusal(group, model)
        if why is None:
            family = cast(Moments, group[0].family)
            own = Asked.of(family, steady(group, model.on), [model.outcome])
            asked[position] = own
            kind = (alike(group), tuple(chosen.sds(own.names[:-1]).tolist()))
            batches.setdefault(kind, []).append(position)
            continue
        none, seeds = Unsolved(model, why), partial(streams.of, position)
        out[position] = RegressionPosterior(model, none, "none", draws, seeds, releases=group)
    if len(out) == len(groups):
        raise UnsupportedCombination(f"{out[0].certificate.reason}.")
    for members in batches.values():
        done = len(out)

        def tick(share: float, done: int = done, size: int = len(members)) -> None:
            if progress is not None:
                progress((done + share * size) / len(groups))

        questions = [(asked[i], groups[i]) for i in members]
        model = models[members[0]]
        solutions = _solved(model, questions, chosen, draws, streams.at(members), tick)
        for i, solution in zip(members, solutions, strict=True):
            seeds = partial(streams.of, i)
            out[i] = RegressionPosterior(
                models[i], solution, solve.NAME, draws, seeds, None, groups[i], chosen
            )
    return Regressions([out[i] for i in range(len(groups))])


def _refusal(releases: Sequence[Release], model: LinearModel) -> str | None:
    """Why these have no regression, if so."""
    many = len(model.coefficients) + 1
    for one in releases:
        if one.n is not None and one.n <= many + 1:
            return f"{one.n} records cannot tell {many} coefficients; regress on fewer columns"
    return strange(releases)


class Regressions(Posteriors):
    """Regressions of many groups, in order."""

    def __getitem__(self, index: int) -> RegressionPosterior:  # type: ignore[override]
        found = super().__getitem__(index)
        assert isinstance(found, RegressionPosterior)
        return found


def _solved(
    model: LinearModel,
    questions: Sequence[tuple[Asked, Sequence[Release]]],
    prior: Linear,
    draws: int,
    streams: Streams,
    progress: solve.Progress,
) -> list[solve.Draws]:
    """Of groups that are alike, each with its covariates in an order of its own, as one batch."""
    first = questions[0][0]
    sds = prior.sds(first.names[:-1])
    regression = Regression(sds, float(prior.shape), float(prior.scale))
    data = Data.join([asked.data([group]) for asked, group in questions])
    target = Target(first.cone(sds[1:]), regression, data)
    generators = [streams.sampler(g) for g in range(len(questions))]
    out = []
    every = solve.run(target, generators, draws, progress)
    for (asked, group), found in zip(questions, every, strict=True):
        beta, sigma, r2 = found.parameters
        values = _own_units(model, asked, beta, sigma)
        size = found.point.size
        own = prior.sds(asked.names[:-1])
        told = regression_cautions(asked, own, float(prior.scale), found, share_kept(group, size))
        out.append(
            solve.Draws(
                [*values, r2],
                REASON,
                told,
                (*ASSUMPTIONS, *assumption(group)),
                records_kept(group, size),
            )
        )
    return out


def _own_units(
    model: LinearModel, asked: Asked, beta: FloatArray, sigma: FloatArray
) -> list[FloatArray]:
    """Intercept, coefficients in the order asked for, and sigma; beta is (steps, chains, p)."""
    unit = model.outcome.bounds.radius
    intercept = model.outcome.bounds.middle + unit * beta[:, :, 0]
    scaled: dict[str, FloatArray] = {}
    place = 1
    for column in asked.columns[:-1]:
        for name in column.names:
            slope = unit * beta[:, :, place]
            if isinstance(column, Number):
                slope = slope / column.bounds.radius
                intercept = intercept - slope * column.bounds.middle
            scaled[name] = slope
            place += 1
    found = [intercept, *(scaled[name] for name in model.coefficients), unit * sigma[:, :, 0]]
    return [one[:, :, None] for one in found]


def _asked(releases: Sequence[Release], outcome: str, on: Sequence[str]) -> LinearModel:
    """The model of releases of several columns."""
    for one in releases:
        if not isinstance(one, Release):
            raise UnsupportedCombination(
                f"release must be a noisewise release, got {type(one).__name__}; load() reads one."
            )
    family = releases[0].family
    if not isinstance(family, Moments):
        raise UnsupportedCombination(
            f"a regression needs a release of families.Moments, this one is of {family.kind}; "
            "release the columns together: noisewise release FILE --moments bp:60:220 age:0:100."
        )
    return asked_model(family, outcome, on)


def asked_model(family: Moments, outcome: str, on: Sequence[str]) -> LinearModel:
    """The columns by name; what cannot be regressed is refused with what to type."""
    if isinstance(on, str) or not all(isinstance(name, str) for name in on):
        raise UnsupportedCombination(
            "on must be a list of columns, such as on=['age', 'sex'] or --on age sex."
        )
    for name in (outcome, *on):
        if "~" in name or "+" in name:
            raise UnsupportedCombination(
                f"{name!r} is a formula; name the columns: outcome='bp', on=['age', 'sex'], or "
                "--outcome bp --on age sex."
            )
    response = family.column(outcome)
    if isinstance(response, Factor):
        raise UnsupportedCombination(
            f"the outcome {outcome!r} is a factor, and a linear regression needs a number; release "
            "a table of it with families.Table (--table) instead."
        )
    if outcome in on:
        raise UnsupportedCombination(
            f"{outcome!r} is the outcome and cannot be a covariate too; leave it out of on (--on)."
        )
    if len(set(on)) < len(on):
        raise UnsupportedCombination("a covariate is named twice in on (--on); name each once.")
    columns: list[Column] = [family.column(name) for name in on]
    assert isinstance(response, Number)
    return LinearModel(response, tuple(c for c in columns if isinstance(c, Number | Factor)))


def regression_prior(prior: object) -> Linear:
    """A prior as it is, or from its text; refused with what to type."""
    if isinstance(prior, str):
        if prior.strip() == "weak":
            return Linear()
        found = notation.column_prior(prior)
        prior = found if isinstance(found, Linear) else prior
    if not isinstance(prior, Linear):
        raise UnsupportedCombination(
            "a regression takes the prior 'weak' or priors.Linear(sd, shape, scale), such as "
            "linear(sd=1, shape=1, scale=0.25)."
        )
    return prior

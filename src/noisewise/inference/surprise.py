"""How surprising releases are: under their prior, and given each other.

Whole releases are drawn anew from the model, and the one that was made is ranked among them by how
far out its furthest coordinate lies. If the model is right they are exchangeable, and the rank's
share is a p-value as it stands, however many coordinates there are. The draws are seeded from the
release, so that a certificate is the same every time.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from noisewise.inference.observations import Observations
from noisewise.inference.problem import Problem
from noisewise.inference.simulation import given_total, sums, whole_numbers, with_noise
from noisewise.model.arrays import FloatArray

FIRST, MOST = 1000, 5000
"""Releases that are drawn at first, and where those leave a doubt."""
DOUBT = 0.02
"""A p-value below this is computed again with more releases."""
CELLS = 1 << 19
"""Numbers that are drawn at first, at most, where a release has many; but FEWEST releases, and four
times as many in doubt.
"""
FEWEST = 500
"""Releases that are drawn however many numbers each has."""
LEAST = 64
"""Among fewer releases, because the others cannot be drawn, nothing is said to be surprising."""
APART = 8
"""So many releases are each compared with all the others."""
TAILS = np.array([1 / 512, 1 / 128, 1 / 32, 1 / 8, 1 / 2])
"""Shares of the draws between which a coordinate's tail is a straight line in the log."""
FAR = 1e12
"""How far beyond the last of them, in widths, the line is drawn on."""
BLUNT = 0.25
"""Beyond the draws a coordinate's tail is no steeper than this share of the noise allows."""
Draw = Callable[[int, np.random.Generator], FloatArray]
DrawGiven = Callable[[Problem, int, np.random.Generator], FloatArray]


def predictive_tail(problem: Problem) -> float:
    """The p-value of all releases under the prior; near 0 where they and the model disagree."""
    with np.errstate(all="ignore"):  # a theta far out may have no record that a float can hold
        found = _tail(problem.observations, partial(_from_prior, problem))
        below_zero = [p for p in map(_below_zero, problem.observations) if p is not None]
    return min(1.0, (1 + len(below_zero)) * min([found, *below_zero]))


def conflict(problem: Problem, draw_given: DrawGiven, apart: int = APART) -> float | None:
    """The p-value of releases given each other; near 0 where they contradict each other, None for a
    single one.

    draw_given(problem, size, rng) draws theta, (size, p), from the posterior of a problem. Each
    release is compared with what the others say, the smallest p-value times their number; more than
    `apart` with what all of them say together, which is less strict.
    """
    observations = problem.observations
    if len(observations) < 2:
        return None
    with np.errstate(all="ignore"):
        if len(observations) > apart:
            return _tail(observations, partial(draw_given, problem), of_prior=False)
        found = []
        for r, one in enumerate(observations):
            others = Problem(
                problem.family, problem.priors, observations[:r] + observations[r + 1 :]
            )
            found.append(
                _tail([one], partial(draw_given, others), len(observations), of_prior=False)
            )
    return min(1.0, len(observations) * min(found))


def _from_prior(problem: Problem, size: int, rng: np.random.Generator) -> FloatArray:
    theta = problem.prior_of(0).draw(rng, size)
    if problem.family.statistic_kind == "counts":
        return theta
    return np.stack(
        [axis.theta(axis.psi(theta[:, j])) for j, axis in enumerate(problem.axes)], axis=1
    )


def _tail(
    observations: Sequence[Observations], draw: Draw, tests: int = 1, of_prior: bool = True
) -> float:
    """The p-value of all these releases together; it can be as small as a p-value among `tests` of
    them must be to count.
    """
    cells = sum(e.dimension for e in observations)
    first = max(FEWEST, min(FIRST, CELLS // cells))
    most = 4 * first if first < FIRST else MOST
    entropy = np.concatenate(
        [e.y[0] for e in observations]
        + [e.count.value[:1] for e in observations if e.count is not None]
    ).view(np.uint32)
    for stage, size in enumerate((first, most * max(1, tests // 2))):
        rng = np.random.default_rng([stage, *entropy.tolist()])
        theta = draw(size, rng)
        parts = [_beside(e, theta, rng, of_prior) for e in observations]
        rows, unit = (
            np.concatenate([rows for rows, _ in parts], axis=1),
            np.concatenate([unit for _, unit in parts]),
        )
        rows = rows[np.isfinite(rows).all(axis=1)]
        if len(rows) < LEAST:
            return 1.0
        furthest = _furthest(rows, unit)
        found = float((furthest >= furthest[0]).mean())
        if found > DOUBT:
            break
    return found


def _beside(
    observations: Observations, theta: FloatArray, rng: np.random.Generator, of_prior: bool
) -> tuple[FloatArray, FloatArray]:
    """The release in the first row and draws of it in the others, (1 + draws, coordinates), and
    each coordinate's noise scale.

    Where n is not public and has no prior, the draws share the noisy count of the release, or the
    total of its noisy counts. With a prior of n they have counts of their own, and the statistics
    are taken for each record counted.
    """
    size, y, scale = len(theta), observations.y[0], observations.scale[0]
    if observations.public:
        drawn = with_noise(observations, theta, np.full(size, observations.n[0]), rng)
        return np.vstack([y, drawn]), scale
    count = observations.count
    if observations.n_prior is None and count is None:
        law = observations.noise()
        n, noise = given_total(float(y.sum()), lambda size: law.simulate(rng, size), size)
        return np.vstack([y, sums(observations, theta, n, rng) + noise]), scale
    if observations.n_prior is None:
        assert count is not None
        n, _ = given_total(
            float(count.value[0]), lambda size: count.noise.simulate(rng, size), size
        )
        return np.vstack([y, with_noise(observations, theta, n, rng)]), scale
    n = whole_numbers(observations.n_prior, rng, size)
    rows = np.vstack([y, with_noise(observations, theta, n, rng)])
    if count is not None:
        of_count = float(count.scale[0])
        total = np.append(count.value[0], n + count.noise.simulate(rng, size)[:, 0])
    else:
        total, of_count = rows.sum(axis=1), float(np.sqrt((scale**2).sum()))
    records = np.maximum(total, of_count)
    shares, unit = rows / records[:, None], scale / np.median(records)
    return (
        (np.column_stack([shares, total]), np.append(unit, of_count))
        if of_prior
        else (shares, unit)
    )


def _furthest(rows: FloatArray, unit: FloatArray) -> FloatArray:
    """Of each row the largest -log tail probability of its coordinates, on either side, as the rows
    themselves have it.
    """
    out = np.zeros(len(rows))
    for column, own in zip(rows.T, unit, strict=True):
        ordered = np.sort(column)
        for side, along in ((column, ordered), (-column, -ordered[::-1])):
            out = np.maximum(out, _height(side, along, BLUNT * float(own)))
    return out


def _height(x: FloatArray, ordered: FloatArray, least: float) -> FloatArray:
    """-log of the share of `ordered` below x: a straight line between a few quantiles, and beyond
    the last one too.
    """
    place = np.floor(TAILS * ordered.size).astype(int)
    knots, height = ordered[place[place > 1]], -np.log(TAILS[place > 1])
    width = max(float(knots[1] - knots[0]), least)
    beyond = knots[0] - FAR * width, height[0] + FAR * (height[0] - height[1])
    return np.asarray(np.interp(x, np.append(beyond[0], knots), np.append(beyond[1], height)))


def _below_zero(observations: Observations) -> float | None:
    """P(a count as far below 0 | no records), for a count below 0 where n has no prior; a larger
    count is always possible.
    """
    if observations.public or observations.n_prior is not None:
        return None
    if observations.count is not None:
        value = observations.count.value[:1]
        return (
            max(float(observations.count.noise.cdf(value)[0]), 1 / (1 + MOST))
            if value[0] < 0
            else None
        )
    total = float(observations.y[0].sum())
    if total >= 0:
        return None
    drawn = observations.noise().simulate(np.random.default_rng(0), MOST).sum(axis=1)
    return float((1 + (drawn <= total).sum()) / (1 + MOST))

"""What a posterior expects beyond the bounds of its releases, and what hangs on it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.certificate import Beyond, Moved
from noisewise.inference.methods.base import Request
from noisewise.inference.methods.grids import Collapsed
from noisewise.inference.observations import gather
from noisewise.inference.problem import Problem
from noisewise.inference.solution import Solution
from noisewise.model.arrays import FloatArray
from noisewise.model.bounded_statistic import shares_beyond
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family, Parametric
from noisewise.model.priors import Prior

DRAWS = 1000
"""Of the parameters, over which a share is averaged: an sd of 0.016 at the most."""
NOBODY = 0.01
"""Where fewer records are expected beyond the bounds, nothing hangs on them."""


def expected_beyond(
    family: Parametric, solution: Solution, prior: object, releases: Sequence[Release]
) -> Beyond | None:
    """Of the release with the most beyond a bound. None where the family has no values beyond, or
    does not say how many.
    """
    every = dict.fromkeys(one.bounds for one in releases if one.bounds is not None)
    if not every or not isinstance(family, Family):
        return None
    try:
        theta = np.stack(solution.draw(np.random.default_rng(0), DRAWS), axis=1)
        with np.errstate(all="ignore"):  # a theta far out has shares that no float holds
            shares = [share_of(shares_beyond(family, theta, bounds), bounds) for bounds in every]
            found = max(shares, key=lambda one: 0.0 if one is None else one.largest)
            if found is None or found.leans or not isinstance(prior, Prior):
                return found
            return replace(found, moved=_moved(family, theta, prior, releases, found.largest))
    except UnsupportedCombination:  # no draws, or a family of one's own without a cdf
        return None


def share_of(shares: FloatArray, bounds: Bounds) -> Beyond | None:
    """The mean of both shares at draws, (draws, 2), that are numbers."""
    held = shares[np.isfinite(shares).all(axis=1)]
    if not len(held):
        return None
    below, above = held.mean(axis=0).tolist()
    return Beyond(bounds.lower, bounds.upper, below, above)


def _moved(
    family: Family, theta: FloatArray, prior: Prior, releases: Sequence[Release], share: float
) -> Moved | None:
    """How the answer would differ if nobody lay beyond: few are far away, so that a small share of
    the records can decide. Under the normal approximation, and where that itself makes a difference
    both answers are.
    """
    observations = tuple(gather([one]) for one in releases)
    problem = Problem(family, (prior,), observations)
    if Collapsed().refusal(problem) is not None or share * problem.most_records < NOBODY:
        return None
    within = (replace(one, record=replace(one.record, all_within=True)) for one in observations)
    other = _draws(replace(problem, observations=tuple(within)))
    moved = _most(family, problem, theta, other)
    return moved if not moved.matters else _most(family, problem, _draws(problem), other)


def _draws(problem: Problem) -> FloatArray:
    (solution,) = Collapsed().solve(problem, Request(""))
    return np.stack(solution.draw(np.random.default_rng(0), DRAWS), axis=1)


def _most(family: Family, problem: Problem, theta: FloatArray, other: FloatArray) -> Moved:
    """The parameter that differs most between draws, in sds of the wider, in coordinates without
    bounds.
    """
    sds = []
    for j, axis in enumerate(problem.axes):
        first, second = axis.psi(theta[:, j]), axis.psi(other[:, j])
        sds.append(abs(first.mean() - second.mean()) / max(first.std(), second.std(), 1e-300))
    j = int(np.argmax(sds))
    middle, without = (float(np.median(one[:, j])) for one in (theta, other))
    return Moved(family.parameters[j].name, middle, without, float(sds[j]))

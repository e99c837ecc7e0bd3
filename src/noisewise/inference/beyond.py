"""What a posterior expects beyond the bounds of its releases."""

from collections.abc import Sequence

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.certificate import Beyond
from noisewise.inference.solution import Solution
from noisewise.model.arrays import FloatArray
from noisewise.model.bounded_statistic import shares_beyond
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family, Parametric

DRAWS = 1000
"""Of the parameters, over which a share is averaged: an sd of 0.016 at the most."""


def expected_beyond(
    family: Parametric, solution: Solution, releases: Sequence[Release]
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
            found = [_of(shares_beyond(family, theta, bounds), bounds) for bounds in every]
    except UnsupportedCombination:  # no draws, or a family of one's own without a cdf
        return None
    return max(found, key=lambda one: 0.0 if one is None else one.largest)


def _of(shares: FloatArray, bounds: Bounds) -> Beyond | None:
    """The mean of both shares at draws, (draws, 2), that are numbers."""
    held = shares[np.isfinite(shares).all(axis=1)]
    if not len(held):
        return None
    below, above = held.mean(axis=0).tolist()
    return Beyond(bounds.lower, bounds.upper, below, above)

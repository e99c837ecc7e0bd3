"""Whether a posterior leans on the weak prior, of which a person who took it said nothing."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.solution import Solution
from noisewise.model.arrays import FloatArray
from noisewise.model.families.categorical import Categorical
from noisewise.model.families.table import Table
from noisewise.model.family import Family, Parametric

DRAWS, NUMBERS = 1000, 2_000_000
"""Draws of the parameters, from which it is known to about 0.05 sds how far one would move; fewer
where they would be more numbers than that.
"""
FAR, FAR_OF_SHARES = 0.2, 0.5
"""Where half the prior would move an answer by more of its sds, it leans on the prior. All of it
moves a parameter about twice as far; of 90 % intervals that are off by 0.4 sds 87 % hold the truth.
"""


def leaning(
    family: Parametric, solution: Solution, prior: Any, releases: Sequence[Release]
) -> tuple[str, ...]:
    """The parameters that half of the weak prior would move: its density, in coordinates without
    bounds, to the power of a half (Kallioinen et al. 2024). Of a table, the columns of which it
    would move a level's share. A prior that a person states is meant.
    """
    if not isinstance(family, Family) or not releases:
        return ()
    bounds = next((one.bounds for one in releases if one.bounds is not None), None)
    if prior is None or prior != family.weak_prior(bounds):
        return ()
    numbers = sum(parameter.size for parameter in family.parameters)
    try:
        rng = np.random.default_rng(0)
        draws = solution.draw(rng, max(100, min(DRAWS, NUMBERS // numbers)))
    except UnsupportedCombination:
        return ()
    with np.errstate(all="ignore"):
        if isinstance(family, (Categorical, Table)):
            return _leaning_columns(family, draws[0], np.asarray(prior.concentration))
        return _leaning_parameters(family, draws, prior)


def _leaning_parameters(family: Family, draws: Sequence[FloatArray], prior: Any) -> tuple[str, ...]:
    axes = [Axis.of(parameter) for parameter in family.parameters]
    psi = [axis.psi(one) for axis, one in zip(axes, draws, strict=True)]
    log_prior = prior.log_density(np.stack(draws, axis=1))
    for axis, one in zip(axes, psi, strict=True):
        log_prior = log_prior + axis.log_jacobian(one)
    return tuple(
        parameter.name
        for parameter, one in zip(family.parameters, psi, strict=True)
        if moved(one, -0.5 * log_prior) > FAR
    )


def _leaning_columns(
    family: Categorical | Table, cells: FloatArray, concentration: FloatArray
) -> tuple[str, ...]:
    """Many cells that are small beside their noise are together what the prior makes of them."""
    log_weight = -0.5 * (concentration * np.log(np.maximum(cells, 1e-300))).sum(axis=1)
    if isinstance(family, Table):
        shape, names = family.shape, [repr(one.name) for one in family.parts]
    else:
        shape, names = cells.shape[1:], ["the probabilities"]
    table = cells.reshape(len(cells), *shape)
    found = []
    for place, name in enumerate(names):
        others = tuple(1 + j for j in range(len(shape)) if j != place)
        shares = table.sum(axis=others)
        if max(moved(share, log_weight) for share in shares.T) > FAR_OF_SHARES:
            found.append(name)
    return tuple(found)


def widened(draws: FloatArray, log_weight: FloatArray) -> float:
    """How many times as large the sd of draws is with these weights."""
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    return float(np.sqrt(weight @ (draws - weight @ draws) ** 2) / max(draws.std(), 1e-300))


def moved(draws: FloatArray, log_weight: FloatArray) -> float:
    """By how many of its sds the mean of draws moves with these weights."""
    weight = np.exp(log_weight - log_weight.max())
    return float(abs(weight @ draws / weight.sum() - draws.mean()) / max(draws.std(), 1e-300))

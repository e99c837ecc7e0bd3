"""Simulated checks: a release and a histogram of the same records, by the curator's own lattice and
noise, and the p-value of one against the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.artifact import NoisyCount, Release, observe
from noisewise.inference.check import check
from noisewise.mechanism.lattice import lattice_for
from noisewise.mechanism.mechanisms import MECHANISMS
from noisewise.mechanism.privacy import Relation
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.columns import Bins
from noisewise.model.families import Family, Table
from noisewise.model.priors import Prior

COLUMN = "x"
Records = Callable[[np.random.Generator, int], FloatArray]
"""n records, however they are made."""


@final
@dataclass(frozen=True, slots=True)
class CheckSetting:
    """What is simulated: a model and its prior, the public bounds, n, and what either release
    costs.
    """

    family: Family
    prior: Prior | str
    bounds: Bounds | None
    bins: Bins
    n: int
    epsilon: float
    bins_epsilon: float
    neighbours: Relation = "replace_one"
    truth: tuple[float, ...] | None = None
    """The parameters of every trial; None draws each trial's from the prior."""
    normal: bool = False
    """Whether the noise is normal; both epsilons are then a rho."""
    records: Records | None = None
    """Records of another law instead, which the family is wrong for."""


def releases(setting: CheckSetting, rng: np.random.Generator) -> tuple[Release, Release]:
    """The release, and the histogram of the same records."""
    x = _records(setting, rng)
    return _sums(setting, x, rng), _histogram(setting, x, rng)


def p_values(
    setting: CheckSetting, trials: int, rng: np.random.Generator, replicates: int = 199
) -> FloatArray:
    """Of as many checks, each of records of its own."""
    out = np.empty(trials)
    for trial in range(trials):
        release, histogram = releases(setting, rng)
        seed = int(rng.integers(2**32))
        found = check(release, histogram, setting.prior, replicates=replicates, seed=seed)
        out[trial] = found.p_value
    return out


def _records(setting: CheckSetting, rng: np.random.Generator) -> FloatArray:
    if setting.records is not None:
        return setting.records(rng, setting.n)
    if setting.truth is not None:
        theta = np.array([setting.truth])
    else:
        assert isinstance(setting.prior, Prior)
        theta = setting.prior.draw(rng, 1)
    return np.asarray(setting.family.simulate(rng, theta, setting.n)[0])


def _sums(setting: CheckSetting, x: FloatArray, rng: np.random.Generator) -> Release:
    lattice = lattice_for(setting.family.releasable(), setting.bounds)
    mechanism = MECHANISMS["rho" if setting.normal else "epsilon"]
    weight, power = mechanism.reach(lattice, setting.neighbours)
    scale = (power / (mechanism.order * setting.epsilon)) ** (1 / mechanism.order)
    step = np.array(lattice.step)
    law = mechanism.law(tuple(scale * step), tuple(step))
    whole = np.array([k.sum() for k in lattice.integers(x, np)]) + x.size * np.array(lattice.offset)
    count = None
    if weight:
        of_count = mechanism.law(scale / weight, 1 / weight)
        count = NoisyCount(float(x.size + of_count.simulate(rng, 1)[0, 0]), of_count)
    return observe(
        family=setting.family,
        n=None if weight else x.size,
        count=count,
        statistic=whole * step + law.simulate(rng, 1)[0],
        noise=law,
        bounds=setting.bounds,
        coordinates=lattice.coordinates,
    )


def _histogram(setting: CheckSetting, x: FloatArray, rng: np.random.Generator) -> Release:
    """A bin holds its lower edge, the last one both, as NumPy has it."""
    family = Table({COLUMN: setting.bins})
    mechanism = MECHANISMS["rho" if setting.normal else "epsilon"]
    moves = 1 if setting.neighbours == "add_remove" else 2  # in L1, and the square in L2
    scale = (moves / (mechanism.order * setting.bins_epsilon)) ** (1 / mechanism.order)
    law = mechanism.law(scale, 1.0).broadcast(family.dimension)
    counts, _ = np.histogram(x, np.array(setting.bins.edges))
    return observe(family=family, statistic=counts + law.simulate(rng, 1)[0], noise=law)

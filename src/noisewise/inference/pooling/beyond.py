"""What lies beyond the bounds of pooled releases, and what hangs on it: of every group, and of the
population.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.beyond import NOBODY, share_of
from noisewise.inference.certificate import Beyond, Moved
from noisewise.inference.grid.masses import Masses
from noisewise.inference.pooling.curves import curves
from noisewise.inference.pooling.densities import Densities
from noisewise.model.arrays import FloatArray
from noisewise.model.bounded_statistic import shares_beyond
from noisewise.model.priors import Prior

LEVELS = (np.arange(100) + 0.5) / 100
"""At these quantiles of a group's parameter its shares are averaged."""


@dataclass(frozen=True)
class Outside:
    """What is expected beyond the bounds."""

    groups: Sequence[Beyond | None]
    population: Moved | None = None
    """How the population's mean would move if nobody lay there."""

    @property
    def leaning(self) -> list[int]:
        """The groups whose answers hang on it."""
        return [g for g, one in enumerate(self.groups) if one is not None and one.leans]


def outside(
    releases: Sequence[Release],
    densities: Densities,
    pooled: Masses,
    prior: "Prior | str | None",
    n_prior: Prior | None,
) -> Outside:
    """Of releases, given the posterior of each group's first parameter."""
    groups = _expected(releases, densities, pooled)
    most = max(
        (
            one.largest * _records(release)
            for one, release in zip(groups, releases, strict=True)
            if one is not None
        ),
        default=0.0,
    )
    if most < NOBODY:
        return Outside(groups)
    name = releases[0].family.parameters[0].name
    try:
        without = _again(releases, densities, prior, n_prior, within=True)
        found = _compared(groups, name, densities, without)
        if found.population is None or not (found.population.matters or found.leaning):
            return found
        # the normal approximation itself may make the difference
        here = _again(releases, densities, prior, n_prior, within=False)
        return _compared(groups, name, here, without)
    except UnsupportedCombination:
        return Outside(groups)


def _expected(
    releases: Sequence[Release], densities: Densities, pooled: Masses
) -> list[Beyond | None]:
    """The shares of each group's records; None where its family has none beyond, or cannot say."""
    out: list[Beyond | None] = [None] * len(releases)
    family, axis = releases[0].family, densities.population.axis
    alike: dict[object, list[int]] = {}
    for g, one in enumerate(releases):
        if one.bounds is not None:
            alike.setdefault(one.bounds, []).append(g)
    for members in alike.values():
        bounds = releases[members[0]].bounds
        assert bounds is not None
        group, level = np.broadcast_arrays(np.array(members)[:, None], LEVELS)
        psi = pooled.quantile(level, group)
        columns = [axis.theta(psi)]
        if len(family.parameters) == 2:
            columns.append(_second(densities, members, psi))
        theta = np.stack([one.ravel() for one in columns], axis=1)
        try:
            with np.errstate(all="ignore"):  # a theta far out has shares that no float holds
                shares = shares_beyond(family, theta, bounds).reshape(*psi.shape, 2)
        except UnsupportedCombination:  # a family of one's own without a cdf
            continue
        for g, own in zip(members, shares, strict=True):
            out[g] = share_of(own, bounds)
    return out


def _second(densities: Densities, members: Sequence[int], psi: FloatArray) -> FloatArray:
    """The second parameter, for each of the first: that of the draw which lies nearest there. Given
    the first it does not depend on the population.
    """
    out = np.empty(psi.shape)
    for row, g in enumerate(members):
        both = densities.groups.curves[g].both
        assert both is not None
        first, second = both
        at = np.searchsorted((first[1:] + first[:-1]) / 2, psi[row])
        out[row] = second[at]
    return out


def _again(
    releases: Sequence[Release],
    densities: Densities,
    prior: "Prior | str | None",
    n_prior: Prior | None,
    within: bool,
) -> Densities:
    """The same by the normal approximation, also with everybody within the bounds."""
    population = densities.population
    found = curves(releases, population, prior, n_prior, method="collapsed", within=within)
    return Densities.of(found, population)


def _compared(
    groups: Sequence[Beyond | None], name: str, here: Densities, without: Densities
) -> Outside:
    """In sds of the wider."""

    def moved(name: str, mean: float, other: float, sd: float) -> Moved:
        return Moved(name, mean, other, abs(mean - other) / max(sd, 1e-300))

    sd = np.maximum(here.sd, without.sd)
    own = [
        one and replace(one, moved=moved(name, here.mean[g], without.mean[g], sd[g]))
        for g, one in enumerate(groups)
    ]
    (mean, wide), (other, also) = here.of_mean, without.of_mean
    return Outside(own, moved("mean", mean, other, max(wide, also)))


def _records(release: Release) -> float:
    """About how many there are."""
    if release.n is not None:
        return float(release.n)
    return 0.0 if release.count is None else max(float(release.count.value), 0.0)

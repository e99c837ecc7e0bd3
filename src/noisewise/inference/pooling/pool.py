"""`pool`: from the releases of many groups to the population that they come from, and to each group
in its light.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.apart import assumption, check_apart
from noisewise.inference.certificate import Certificate
from noisewise.inference.pooling.conflicts import conflicts
from noisewise.inference.pooling.curves import curves, reference_for
from noisewise.inference.pooling.densities import Densities
from noisewise.inference.pooling.evidence import Groups
from noisewise.inference.pooling.lattice import lattice
from noisewise.inference.pooling.nodes import CELLS
from noisewise.inference.pooling.pooled import Pooled, label
from noisewise.inference.pooling.populations import population_of
from noisewise.inference.pooling.solutions import (
    NAME,
    FirstParameter,
    OfGroup,
    OfMeanAndSpread,
    OfPopulation,
    Pool,
    PopulationPosterior,
)
from noisewise.inference.posterior import Posterior
from noisewise.inference.posteriors import Posteriors
from noisewise.inference.streams import Streams
from noisewise.model.priors import Prior

ROUGH = 200
"""Groups with which the search for the population begins."""
CHECKED, CHECKED_AT = 64, 9
"""Groups, and populations, at which the integrals are computed again with panels half as wide."""
ALARM = 0.01
"""A group is said to contradict the population if this happened by chance, to any of the groups,
with a smaller probability.
"""
NAMED = 12
"""Groups that are named in a sentence."""
REASON = "partial pooling by quadrature over the population's mean and spread"


def pool(
    releases: Sequence[Release],
    *,
    draws: int = 4000,
    seed: int | None = None,
    prior: "Prior | str | None" = None,
    progress: Callable[[float], None] | None = None,
) -> Pooled:
    """The population of the groups' first parameter, and every group's posterior in its light.

    The releases are one for each group, of one family. Populations are Beta for probabilities,
    Gamma for positive parameters and Normal for real ones, with the priors of docs/pooling.md. A
    second parameter is each group's own and integrated out; `prior` is its prior, such as
    priors.InverseGamma(1, 2), None the weak one.
    """
    releases = list(releases)
    _check(releases, draws)
    population = population_of(releases)
    found = curves(releases, population, prior, progress)
    groups = Groups(found, population)
    some = found[:: max(1, len(found) // ROUGH)]
    rough = Groups(some, population) if len(some) < len(found) else groups
    grid = lattice(
        lambda at: groups.log_z(at).sum(axis=0) + population.log_prior(at),
        lambda at: rough.log_z(at).sum(axis=0) + population.log_prior(at),
    )
    densities = Densities(groups, grid, groups.moments(grid.at))
    against = conflicts(densities, reference_for(population, releases[0], prior))
    certificate = _certificate(releases, densities, against)
    shared = Pool(densities, certificate)
    streams = Streams(seed, [[one] for one in releases] + [releases])
    family = releases[0].family
    own = family if len(family.parameters) == 1 else FirstParameter(family)
    posteriors = [
        Posterior(own, OfGroup(shared, g), NAME, draws, partial(streams.of, g), None, (one,))
        for g, one in enumerate(releases)
    ]
    whole = PopulationPosterior(
        OfMeanAndSpread(family),
        OfPopulation(grid, population, certificate),
        NAME,
        draws,
        partial(streams.of, len(releases)),
    )
    return Pooled(whole, Posteriors(posteriors), releases, shared, draws, against)


def _check(releases: list[Release], draws: int) -> None:
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise ValueError(f"draws must be a whole number from 1, got {draws}.")
    if not releases:
        raise UnsupportedCombination("there is no release to pool.")
    for one in releases:
        if not isinstance(one, Release):
            raise UnsupportedCombination(
                f"release must be a noisewise release, got {type(one).__name__}; load() reads one."
            )
    family = releases[0].family
    if any(one.family is not family and one.family != family for one in releases):
        kinds = ", ".join(sorted({one.family.kind for one in releases}))
        raise UnsupportedCombination(
            f"the releases are of different families ({kinds}); pool those of one family."
        )
    if family.statistic_kind != "sums":
        raise UnsupportedCombination(
            f"pool serves families of sums with one or two parameters; {family.kind} is none of "
            "them."
        )
    check_apart(releases, "the same records would count twice")


def _certificate(
    releases: list[Release], densities: Densities, against: "np.typing.NDArray[np.float64]"
) -> Certificate:
    cautions = []
    odd = np.flatnonzero(against < ALARM / len(releases))
    if odd.size:
        order = odd[np.argsort(against[odd])]
        named = ", ".join(label(releases, int(g)) for g in order[:NAMED])
        more = f" and {odd.size - NAMED} more" if odd.size > NAMED else ""
        cautions.append(
            f"{named}{more} contradict{'s' if odd.size == 1 else ''} the population of the other "
            "groups: pooling draws such a group to where it does not belong. Check the release, or "
            "leave it out"
        )
    if len(releases) < 3:
        cautions.append(
            "two groups or one tell next to nothing of the population's spread: it is mostly its "
            "prior"
        )
    for method in sorted({one.method for one in densities.groups.curves} - {"exact"}):
        count = sum(one.method == method for one in densities.groups.curves)
        cautions.append(f"the likelihood of {count} groups is {method}, not exact")
    return Certificate(
        NAME,
        REASON,
        _numerical_error(densities),
        assumptions=(
            "the groups are exchangeable: before their releases nothing tells one from another, "
            f"and their parameters come from one {densities.population.kind} population",
            *assumption(releases),
        ),
        cautions=tuple(cautions),
    )


def _numerical_error(densities: Densities) -> float:
    """How far any mean moves, in its sds, with half the lattice, and with panels half as wide."""
    grid, evidence, groups = densities.lattice, densities.evidence, densities.groups
    assert evidence.first is not None
    sd = np.maximum(densities.sd, 1e-300)
    one, other = grid.halves
    lattice_error = float(np.max(np.abs(evidence.first @ (one - other)) / sd))
    chosen = np.unique(np.linspace(0, len(groups) - 1, CHECKED).astype(np.int64))
    best = np.argsort(-grid.weight)[:CHECKED_AT]
    fine = Groups([groups.curves[g] for g in chosen], densities.population, CELLS / 2)
    again = fine.moments(grid.at[best])
    assert again.first is not None
    moved = np.abs(again.first - evidence.first[np.ix_(chosen, best)]) / sd[chosen, None]
    curve = float(np.mean([one.error for one in groups.curves]))
    return grid.error + lattice_error + float(moved.max()) + curve

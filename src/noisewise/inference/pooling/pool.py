"""`pool`: from the releases of many groups to the population that they come from, and to each group
in its light.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.apart import check_apart
from noisewise.inference.pooling.certified import NAME
from noisewise.inference.pooling.curves import curves
from noisewise.inference.pooling.densities import Densities
from noisewise.inference.pooling.pooled import Pooled
from noisewise.inference.pooling.populations import population_of
from noisewise.inference.pooling.sizes import sizes_of
from noisewise.inference.pooling.solutions import (
    FirstParameter,
    OfGroup,
    OfMeanAndSpread,
    OfPopulation,
    Pool,
    PopulationPosterior,
)
from noisewise.inference.posterior import Posterior
from noisewise.inference.posteriors import Posteriors
from noisewise.inference.problem import check_n_prior
from noisewise.inference.streams import Streams
from noisewise.model.priors import Prior


def pool(
    releases: Sequence[Release],
    *,
    draws: int = 4000,
    seed: int | None = None,
    prior: "Prior | str | None" = None,
    n_prior: "Prior | str | None" = None,
    progress: Callable[[float], None] | None = None,
) -> Pooled:
    """The population of the groups' first parameter, and every group's posterior in its light.

    The releases are one for each group, of one family. Populations are Beta for probabilities,
    Gamma for positive parameters and Normal for real ones, with the priors of docs/pooling.md. A
    second parameter is each group's own and integrated out; `prior` is its prior, such as
    priors.InverseGamma(1, 2), None the weak one. `n_prior` is that of a group's number of records,
    where it is not public; None is one population for all, as the noisy counts have it.
    """
    releases = list(releases)
    _check(releases, draws)
    population = population_of(releases)
    of_n = check_n_prior(releases, n_prior) or sizes_of(releases)
    found = curves(releases, population, prior, of_n, progress)
    shared = Pool(releases, Densities.of(found, population), prior, of_n)
    streams = Streams(seed, [[one] for one in releases] + [releases])
    family = releases[0].family
    own = family if len(family.parameters) == 1 else FirstParameter(family)
    posteriors = [
        Posterior(own, OfGroup(shared, g), NAME, draws, partial(streams.of, g), None, (one,))
        for g, one in enumerate(releases)
    ]
    whole = PopulationPosterior(
        OfMeanAndSpread(family),
        OfPopulation(shared),
        NAME,
        draws,
        partial(streams.of, len(releases)),
    )
    return Pooled(whole, Posteriors(posteriors), shared, draws)


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

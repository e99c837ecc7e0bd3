"""How far a pooled posterior can be trusted."""

from collections.abc import Iterable, Sequence

import numpy as np

from noisewise.artifact import Release
from noisewise.inference.apart import assumption
from noisewise.inference.certificate import Certificate
from noisewise.inference.missing import said_of_missing_in
from noisewise.inference.persons import said_of_persons
from noisewise.inference.pooling.beyond import Outside
from noisewise.inference.pooling.densities import Densities
from noisewise.inference.pooling.evidence import Groups
from noisewise.inference.pooling.nodes import CELLS
from noisewise.inference.pooling.sizes import Sizes
from noisewise.model.arrays import FloatArray
from noisewise.model.priors import Prior

NAME = "pooled"
"""The method that pooled posteriors state."""
REASON = "partial pooling by quadrature over the population's mean and spread"
CHECKED, CHECKED_AT = 64, 9
"""Groups, and populations, at which the integrals are computed again with panels half as wide."""
ALARM = 0.01
"""A group is said to contradict the population if this happened by chance, to any of the groups,
with a smaller probability.
"""
NAMED = 12
"""Groups that are named in a sentence."""


def label(releases: Sequence[Release], group: int) -> str:
    """What a group is called: its name, or what its release says of itself, or its number."""
    one = releases[group]
    if one.group is not None:
        return one.group[1]
    return one.description or one.dataset or f"group {group + 1}"


def certified(
    releases: Sequence[Release],
    densities: Densities,
    conflicts: FloatArray,
    outside: Outside,
    split: Sequence[int],
    n_prior: Prior | None,
) -> Certificate:
    """Of all groups and the population; `split` are the groups with separate peaks, and `n_prior`
    is that of numbers of records that are not public.
    """
    cautions = []
    odd = np.flatnonzero(conflicts < ALARM / len(releases))
    if odd.size:
        named = _named(releases, odd[np.argsort(conflicts[odd])])
        cautions.append(
            f"{named} contradict{'s' if odd.size == 1 else ''} the population of the other "
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
    if (leans := _leans(releases, outside)) is not None:
        cautions.append(leans)
    if split:
        cautions.append(
            f"the posterior of {_named(releases, split)} has separate peaks: look at the picture, "
            "for mean and sd describe none of them. Redacted records can leave two explanations; "
            "releases with clamp tell them apart"
        )
    return Certificate(
        NAME,
        REASON,
        _numerical_error(densities),
        assumptions=(
            "the groups are exchangeable: before their releases nothing tells one from another, "
            f"and their parameters come from one {densities.population.kind} population",
            *assumption(releases),
            *([n_prior.said] if isinstance(n_prior, Sizes) else []),
        ),
        cautions=tuple(cautions),
        missing=said_of_missing_in(releases),
        persons=said_of_persons(releases),
    )


def _leans(releases: Sequence[Release], outside: Outside) -> str | None:
    """What hangs on the records beyond the bounds, in words; None if nothing does."""
    groups, population = outside.leaning, outside.population
    whole = population is not None and population.matters
    if not groups and not whole:
        return None
    held = {g: one for g in groups if (one := outside.groups[g]) is not None}
    who = [_named(releases, groups)] if groups else []
    said = f"what is said of {' and '.join([*who, *(['the population'] if whole else [])])} leans "
    said += "on the family's shape beyond the bounds, of which the releases say next to nothing"
    if held:
        worst = max(held, key=lambda g: held[g].largest)
        said += (
            f": of the records of {label(releases, worst)} the family expects {held[worst].said}"
            f"{held[worst].otherwise}"
        )
    if whole and population is not None:
        said += (
            f"; were nobody beyond the bounds, the population's mean would be about "
            f"{population.without:.4g} instead of {population.median:.4g}"
        )
    return (
        f"{said}. noisewise mean, from releases with families.Moments (--moments), gives the mean "
        "of each group's bounded records whatever their shape; wider bounds or another family may "
        "serve too"
    )


def _named(releases: Sequence[Release], groups: Iterable[int]) -> str:
    every = [int(g) for g in groups]
    if len(every) == len(releases) > 1:
        return "every group"
    named = ", ".join(label(releases, g) for g in every[:NAMED])
    return f"{named} and {len(every) - NAMED} more" if len(every) > NAMED else named


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

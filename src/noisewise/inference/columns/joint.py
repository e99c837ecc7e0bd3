"""Means, sds and correlations of several columns, and the shares of factors, from noisy moments."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.apart import assumption
from noisewise.inference.columns import solve
from noisewise.inference.columns.asked import Asked, own_units, strange
from noisewise.inference.columns.cautions import joint_cautions, records_kept
from noisewise.inference.columns.joint_normal import JointNormal
from noisewise.inference.columns.shares import Shares
from noisewise.inference.columns.target import Target
from noisewise.inference.streams import Streams
from noisewise.model import notation
from noisewise.model.arrays import FloatArray
from noisewise.model.column_priors import NormalInverseWishart
from noisewise.model.columns import Factor, Number
from noisewise.model.families.moments import Moments

ASSUMPTIONS = (
    "the numeric columns are jointly normal; their means hold for other shapes too, by the central "
    "limit theorem, and are those of the records that count, within their bounds",
)
"""Of every joint posterior."""
REASON = "noisy moments of several columns"
"""Why this method."""


def prior_for(prior: object, family: Moments) -> NormalInverseWishart:
    """The prior of the numeric columns; refused with what to type."""
    q = len(family.numeric)
    if isinstance(prior, str):
        if prior.strip() == "weak":
            return NormalInverseWishart(0.0, 0.1, q + 1.0, 0.5)
        prior = notation.column_prior(prior)
    if not isinstance(prior, NormalInverseWishart):
        raise UnsupportedCombination(
            "several columns take the prior 'weak' or priors.NormalInverseWishart(mean, strength, "
            f"degrees, scale), such as normal_inverse_wishart(mean=0, strength=0.1, degrees={q + 1}"
            ", scale=0.5)."
        )
    return prior


def refusal(releases: Sequence[Release]) -> str | None:
    """Why several columns have no posterior here, if they have none."""
    q = len(cast(Moments, releases[0].family).numeric)
    for one in releases:
        if q and one.n is not None and one.n <= q + 1:
            return (
                f"{one.n} records cannot tell how {q} columns vary together; release fewer columns"
            )
    return strange(releases)


def solutions(
    groups: Sequence[Sequence[Release]],
    prior: object,
    draws: int,
    streams: Streams,
    progress: solve.Progress | None,
) -> list[solve.Draws]:
    """Of groups that are alike, as one batch: the numeric columns together, and every factor by
    itself.
    """
    family = cast(Moments, groups[0][0].family)
    own = prior_for(prior, family)
    generators = [streams.sampler(g) for g in range(len(groups))]
    parts: list[list[list[FloatArray]]] = [[] for _ in groups]
    kept: list[tuple[float, float] | None] = [None] * len(groups)
    cautions: list[tuple[str, ...]] = [() for _ in groups]
    jobs: list[tuple[Number, ...] | Factor] = [family.numeric] if family.numeric else []
    jobs += family.factors
    for place, columns in enumerate(jobs):

        def tick(share: float, place: int = place) -> None:
            if progress is not None:
                progress((place + share) / len(jobs))

        found = _found(groups, family, columns, own, draws, generators, tick)
        for g, one in enumerate(found):
            parts[g].append(_in_own_units(columns, one.parameters))
            kept[g] = records_kept(groups[g], one.point.size)
            if not isinstance(columns, Factor):
                cautions[g] = joint_cautions(columns, own, one)
    return [
        solve.Draws(
            _level([one for part in own_parts for one in part]),
            REASON,
            told,
            (*ASSUMPTIONS, *assumption(group)),
            share,
        )
        for group, own_parts, told, share in zip(groups, parts, cautions, kept, strict=True)
    ]


def _found(
    groups: Sequence[Sequence[Release]],
    family: Moments,
    columns: tuple[Number, ...] | Factor,
    prior: NormalInverseWishart,
    draws: int,
    generators: Sequence[np.random.Generator],
    tick: solve.Progress,
) -> list[solve.Sampled]:
    if isinstance(columns, Factor):
        asked = Asked.of(family, [columns], [])
        return solve.run(
            Target(asked.cone(), Shares(), asked.data(groups)),
            generators,
            draws,
            tick,
        )
    asked = Asked.of(family, [], family.numeric)
    mean, scale = prior.of(len(family.numeric))
    model = JointNormal(mean, float(prior.strength), float(prior.degrees), scale)
    return solve.run(Target(asked.cone(), model, asked.data(groups)), generators, draws, tick)


def _in_own_units(
    columns: tuple[Number, ...] | Factor, parameters: list[FloatArray]
) -> list[FloatArray]:
    if isinstance(columns, Factor):
        return parameters
    centre, radius = own_units(columns)
    mean, sd, *correlation = parameters
    return [centre + radius * mean, radius * sd, *(correlation if len(columns) > 1 else [])]


def _level(values: list[FloatArray]) -> list[FloatArray]:
    """As many steps of each: chains that took longer are thinned."""
    steps = min(len(one) for one in values)
    return [one[np.floor(np.arange(steps) * len(one) / steps).astype(np.int64)] for one in values]

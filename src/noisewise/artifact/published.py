"""`observe_mean`: the mean, proportion or histogram that another tool published, as a release."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from numbers import Integral

import numpy as np

from noisewise.artifact.release import NoisyCount, Release, observe
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.noise import DiscreteLaplace, Laplace, Noise
from noisewise.mechanism.privacy import exact_epsilon
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family

Published = float | Sequence[float] | FloatArray
"""One number, or of a histogram one for each category."""


def observe_mean(
    value: Published | None = None,
    *,
    total: Published | None = None,
    family: Family,
    n: int | None = None,
    count: NoisyCount | None = None,
    bounds: Bounds | tuple[float, float] | None = None,
    epsilon: float | str | Decimal | None = None,
    noise: Noise | None = None,
    dataset: str | None = None,
) -> Release:
    """A release made of a mean (`value`) or a sum (`total`) of bounded records that another tool
    published with noise; `infer`, `pool` and `likelihood` take it.

    A proportion is a mean of families.Bernoulli(), shares and counts of categories are the mean and
    the total of families.Categorical(labels). A mean needs n, the public number of records; where
    the tool divided a noisy total by a noisy count, give both: total and count=NoisyCount(value,
    noise). Two numbers as bounds clamp, as such tools do.

    The noise is that of the published number. In its place `epsilon`, what that number alone cost,
    says: Laplace noise of scale sensitivity / epsilon. The sensitivity of a total is upper - lower
    where n is public (one record is replaced), and else the larger of |lower| and |upper| (one is
    added or removed), of a count 1; that of a mean is the total's / n. Of totals that are whole
    numbers, of records that are, the noise is on whole numbers.
    """
    if (value is None) == (total is None):
        raise ValueError("give value, a published mean, or total, a published sum; one of them.")
    if (epsilon is None) == (noise is None):
        raise ValueError("give noise, that of the published number, or epsilon, what it cost.")
    if value is not None and count is not None:
        raise ValueError(
            "a noisy total over a noisy count has no noise of its own that adds up; give total= in "
            "place of the mean, beside count=."
        )
    if value is not None and (isinstance(n, bool) or not isinstance(n, Integral) or n < 1):
        raise ValueError(f"a mean needs n, the public number of records, got {n}; or give total=.")
    limits = Bounds(*bounds, outside="clamp") if isinstance(bounds, tuple) else bounds
    limits = family.own_bounds if limits is None else limits
    family.check_bounds(limits)
    _check_family(family, limits)
    times = 1.0 if value is None or n is None else float(n)
    statistic = np.atleast_1d(np.asarray(total if value is None else value, dtype=float)) * times
    if epsilon is not None:
        whole = value is None and family.integer and bool(np.all(statistic == np.rint(statistic)))
        scale = _sensitivity(family, limits, n) / float(exact_epsilon(epsilon))
        law: Noise = DiscreteLaplace(scale, 1.0) if whole else Laplace(scale)
    else:
        assert noise is not None
        law = _scaled(noise, times)
    return observe(
        family=family,
        n=n,
        count=count,
        statistic=statistic.tolist(),
        noise=law,
        bounds=limits,
        dataset=dataset,
    )


def _check_family(family: Family, bounds: Bounds | None) -> None:
    """Refuse a family whose statistic is not the sum of the records."""
    if family.statistic_kind == "counts":
        return
    if family.statistic_kind == "sums" and family.dimension == 1:
        at = np.linspace(*((0.0, 1.0) if bounds is None else (bounds.lower, bounds.upper)), 9)
        with np.errstate(all="ignore"):
            if np.allclose(family.statistics(at)[:, 0], at, rtol=1e-9, atol=0):
                return
    raise UnsupportedCombination(
        f"a mean does not say what the {family.kind} family needs; families whose one statistic is "
        "the sum of the records do with it, such as exponential, poisson, gamma(shape=2), "
        "normal(variance=4) and bernoulli. For other statistics there is noisewise.observe."
    )


def _sensitivity(family: Family, bounds: Bounds | None, n: int | None) -> float:
    """How far one record moves a total, replaced where n is public, else added or removed."""
    if family.statistic_kind == "counts":
        if n is not None:
            raise ValueError(
                "where n is public, epsilon does not tell the noise of a histogram: give noise=, "
                "of scale 1 / epsilon if the tool lets a record be added or removed, 2 / epsilon "
                "if it lets one be replaced."
            )
        return 1.0
    low, high = family.support if bounds is None else (bounds.lower, bounds.upper)
    if bounds is not None and bounds.outside == "redact":  # a record may count as 0
        low, high = min(low, 0.0), max(high, 0.0)
    return high - low if n is not None else max(abs(low), abs(high))


def _scaled(noise: Noise, times: float) -> Noise:
    """The noise of a number that is `times` as large."""
    if not isinstance(noise, Noise):
        raise ValueError("noise must be a noise, such as noise.Laplace(0.3).")
    parts = {"scale": tuple((noise.scales * times).tolist())}
    if noise.discrete:
        parts["step"] = tuple((noise.steps * times).tolist())
    return replace(noise, **parts)  # type: ignore[type-var]

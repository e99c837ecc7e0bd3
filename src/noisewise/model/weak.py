"""Weak priors of how large records are, from bounds alone.

Whoever chooses bounds without looking chooses them wide, and most columns fill a small part of
theirs. So the size of a record is open over two orders of magnitude, where a prior about the bounds
themselves would decide: a mean of a twentieth of the upper bound was missed by all intervals.
`bench/weak_prior.py` measures it; docs/decisions/019 says how these were chosen.
"""

from noisewise.model.bounds import Bounds
from noisewise.model.priors import Independent

MEAN, MEAN_SPREAD = 12.0, 1.7
"""The mean of positive records is a twelfth of the upper bound, times or divided by e^1.7: with
90 % between a 200th of it and a third more than all of it.
"""
SD, SD_SPREAD = 16.0, 1.2
"""The sd is a 16th of the bounds' width, times or divided by e^1.2: with 90 % between a 115th and
45 % of it.
"""


def of_rate(bounds: Bounds, shape: float = 1.0) -> Independent:
    """A rate of positive records whose mean is shape / rate."""
    from scipy.stats import lognorm

    return Independent(rate=lognorm(s=MEAN_SPREAD, scale=shape * MEAN / bounds.upper))


def of_variance(bounds: Bounds) -> Independent:
    """The variance of records about a mean that is known."""
    from scipy.stats import lognorm

    return Independent(variance=lognorm(s=2 * SD_SPREAD, scale=(2 * bounds.radius / SD) ** 2))


def of_normal(bounds: Bounds) -> Independent:
    """The mean, about the middle of the bounds and mostly within them, and the variance."""
    from scipy.stats import norm

    mean = norm(loc=bounds.middle, scale=bounds.radius)
    return Independent(mean=mean, **of_variance(bounds).distributions)

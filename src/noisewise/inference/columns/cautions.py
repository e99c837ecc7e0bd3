"""What the reader of several columns' posterior must know: how many records counted, what is mostly
prior, and where the model bends.
"""

from collections.abc import Sequence

import numpy as np
from scipy import special

from noisewise.artifact import Release
from noisewise.inference.columns.asked import Asked
from noisewise.inference.columns.solve import Sampled
from noisewise.inference.leaning import moved, widened
from noisewise.model.arrays import FloatArray
from noisewise.model.column_priors import NormalInverseWishart
from noisewise.model.columns import Factor, Number

PRIOR_SD_OF_SD = 0.2608
"""Under the prior: m uniform on (-1, 1), sd uniform on (0, sqrt(1 - m^2))."""
PRIOR_SD_OF_INDICATOR = 0.1116
"""The same of sqrt(m(1 - m)) with m uniform on (0, 1)."""
HARDLY = 0.5
"""A covariate whose sd has more than this share of its prior's sd left is hardly known."""
DECIDES = 0.5
"""Where half the prior would move an answer by more of its sds, the prior decides."""
LEANS = 0.3
"""The same of sigma: where half the prior moves it by 0.4 to 0.6 sds, intervals hold it in 85 % of
trials, and in 80 % of those that were not told at 0.5; where by 0.15, in 90 %."""
WIDER = 1.15
"""Where a coefficient's sd would be so many times as large with half its prior, half of what is
known of it is the prior.
"""
BEYOND = 0.02
"""More of an outcome's own law beyond its bounds bends the line."""
LEFT_OUT = 0.5
"""Records that are left out matter if they could move the mean outcome by so many of its sds."""


def share_kept(releases: Sequence[Release], size: FloatArray) -> FloatArray | None:
    """Draws of the share of records that counted; None where it is not asked."""
    public = [one.n or 0 for one in releases if one.n is not None and one.count is not None]
    if len(public) < len(releases) or sum(public) == 0:
        return None
    return np.asarray(size.sum(axis=1) / sum(public))


def records_kept(releases: Sequence[Release], size: FloatArray) -> tuple[float, float] | None:
    """Its 5 and 95 % quantiles."""
    share = share_kept(releases, size)
    if share is None:
        return None
    low, high = np.quantile(share, [0.05, 0.95])
    return float(low), float(high)


def regression_cautions(
    asked: Asked,
    sds: FloatArray,
    scale: float,
    found: Sampled,
    kept: FloatArray | None,
) -> tuple[str, ...]:
    """What the certificate of a regression warns of; `sds` are the coefficients' prior's, of the
    intercept too, `scale` is that of sigma^2's, `kept` are draws of the share of records that
    counted.
    """
    out, coefficients = [], len(sds)
    if float(np.quantile(found.point.size.sum(axis=1), 0.05)) < coefficients + 2:
        out.append(
            f"there may be no more records than the {coefficients} coefficients: the answer is "
            "mostly prior."
        )
    mean, covariance = found.point.pooled()
    out += mostly_prior(asked, np.sqrt(np.einsum("bii->bi", covariance)))
    beta, sigma = (one.reshape(-1, one.shape[2]) for one in found.parameters[:2])
    outcome = asked.columns[-1]
    assert isinstance(outcome, Number)
    if _moved_by_half_the_prior(sigma[:, 0], scale) > LEANS:
        expected = float(np.sqrt(scale))
        out.append(
            "sigma and r2 lean on their prior, which expects a sigma of about "
            f"{expected * outcome.bounds.radius:.2g}, {expected:.2g} of half the outcome's bounds. "
            "If yours is smaller, intervals of the coefficients may be wider than need be. State a "
            "prior with another scale; more records or a larger epsilon help too."
        )
    pulled = (beta**2 / (4 * sds**2)).sum(axis=1)  # half the prior, taken away
    leaning = [
        repr(name)
        for name, one in zip(("intercept", *asked.names), beta.T, strict=False)
        if widened(one, pulled) > WIDER
    ]
    if leaning:
        out.append(
            f"{', '.join(leaning)} lean{'s' * (len(leaning) == 1)} on the prior, which expects "
            "coefficients near 0 and draws them there: covariates that nearly determine each "
            "other, or that hardly vary, leave it to the prior what each does. Leave one out, "
            "or state a prior with a larger sd."
        )
    r = beta.shape[1] - 1
    centre = beta[:, 0] + (beta[:, 1:] * mean[:, :r]).sum(axis=1)
    along = np.einsum("bi,bij,bj->b", beta[:, 1:], covariance[:, :r, :r], beta[:, 1:])
    spread = np.sqrt(along + sigma[:, 0] ** 2)
    beyond = special.ndtr((-1 - centre) / spread) + special.ndtr((centre - 1) / spread)
    share = float(beyond.mean())
    if share > BEYOND:
        out.append(
            f"about {share:.0%} of the outcome {outcome.name!r} would lie outside its bounds under "
            "this model: there records are left out or moved, and the line bends. Wider bounds of "
            "the outcome help."
        )
    if kept is not None:
        out += _left_out(outcome, 1 - float(np.median(kept)), centre, float(spread.mean()))
    return tuple(out)


def _left_out(outcome: Number, share: float, centre: FloatArray, spread: float) -> list[str]:
    """Whether records that do not count, about this share, could be those whose outcome lies
    outside; `centre` are draws of the mean outcome, `spread` is the sd of outcomes.
    """
    bounds, room = outcome.bounds, 1 - abs(float(centre.mean()))
    # no more than an exponential tail has there; each just beyond the nearer bound
    off = room * min(share, float(np.exp(-1 - room / spread)))
    if bounds.outside == "clamp" or off < LEFT_OUT * float(centre.std()):
        return []
    return [
        f"about {share:.1%} of the records did not count. If values are missing by chance, that "
        f"does no harm; if outcomes lie outside {bounds.lower:g} to {bounds.upper:g}, their mean "
        f"may be off by {bounds.radius * off:.2g}. Wider bounds of the outcome, or clamp, would "
        "tell."
    ]


def _moved_by_half_the_prior(sigma: FloatArray, scale: float) -> float:
    """By how many of its sds sigma's mean would move if the prior's scale were half of what it is;
    the draws are weighed anew.
    """
    return moved(sigma, scale / 2 / sigma**2)


def joint_cautions(
    columns: Sequence[Number], prior: NormalInverseWishart, found: Sampled
) -> tuple[str, ...]:
    """What the certificate of means, sds and correlations warns of: columns of which half the
    prior, in its scale and its strength, would say something else.
    """
    means, sds = (one.reshape(-1, len(columns)) for one in found.parameters[:2])
    centre, scale = prior.of(len(columns))
    away = float(prior.strength) * (means - centre) ** 2
    log_weight = ((np.diag(scale) + away) / (4 * sds**2)).sum(axis=1)
    leaning = [
        repr(column.name)
        for column, mean, sd in zip(columns, means.T, sds.T, strict=True)
        if max(moved(mean, log_weight), moved(sd, log_weight)) > DECIDES
    ]
    if not leaning:
        return ()
    expected = np.sqrt(np.diag(scale).mean())
    return (
        f"what is said of {', '.join(leaning)} leans on the prior, which expects an sd of about "
        f"{expected:.2g} of half the bounds. noisewise mean needs no such prior for a mean; else "
        "narrower bounds, a prior with a smaller scale, or a larger epsilon help.",
    )


def mostly_prior(asked: Asked, sds: FloatArray) -> list[str]:
    """Of which covariates the noise hides how much they vary; `sds` are draws, (draws, numbers)."""
    hardly = []
    place = 0
    for column in asked.columns[: len(asked.columns) - asked.responses]:
        prior = PRIOR_SD_OF_INDICATOR if isinstance(column, Factor) else PRIOR_SD_OF_SD
        own = sds[:, place : place + len(column.names)]
        if own.std(axis=0).max() > HARDLY * prior:
            hardly.append(repr(column.name))
        place += len(column.names)
    if not hardly:
        return []
    return [
        f"the noise hides how much {', '.join(hardly)} varies: what is said of it is mostly prior. "
        "More records, a larger epsilon or narrower bounds tell more."
    ]

"""Posteriors of several columns given their exact moments, in the sampler's models and priors."""

from collections.abc import Sequence

import numpy as np
from scipy import special, stats

from noisewise.inference.regress import LinearModel
from noisewise.model.arrays import FloatArray
from noisewise.model.column_priors import Linear, NormalInverseWishart
from noisewise.model.columns import Number
from noisewise.model.families.moments import Moments
from noisewise.study.planning.without_noise import widths_of_counts

POINTS, REACH = 301, 9.0
"""Of a grid over log sigma^2, and its sds to either side."""


def regression_widths(
    family: Moments,
    model: LinearModel,
    prior: Linear,
    statistic: FloatArray,
    kept: float,
    names: Sequence[str],
    level: float,
) -> FloatArray:
    """Of the coefficients, the intercept and sigma, in the columns' own units, (names,).

    Given sigma^2 the coefficients are normal; sigma^2 is summed over on a grid, with the density of
    docs/mathematics.md.
    """
    covariates = [name for name in family.numbers if name != model.outcome.name]
    second = _second_moments(family, statistic, kept)
    order = [0, *(1 + family.numbers.index(name) for name in covariates)]
    y = 1 + family.numbers.index(model.outcome.name)
    s_xx, s_xy, s_yy = second[np.ix_(order, order)], second[order, y], second[y, y]
    sds = dict(zip(("intercept", *model.coefficients), prior.sds(model.coefficients), strict=True))
    inverse = np.diag([sds[name] ** -2.0 for name in ("intercept", *covariates)])
    fit = np.linalg.solve(s_xx + 1e-9 * np.eye(len(order)), s_xy)
    rest = max(float(s_yy - fit @ s_xy), 1e-12 * kept)
    centre = np.log((rest + 2 * prior.scale) / (kept + 2 * prior.shape))
    spread = np.sqrt(2 / (kept + 2 * prior.shape))
    log_variance = centre + np.linspace(-REACH, REACH, POINTS) * spread
    variance = np.exp(log_variance)[:, None, None]
    a = inverse + s_xx / variance
    inner = np.linalg.inv(a)  # (points, p, p)
    mean = np.einsum("gij,j->gi", inner, s_xy) / variance[:, :, 0]
    quadratic = s_yy / variance[:, 0, 0] - np.einsum("gi,i->g", mean, s_xy) / variance[:, 0, 0]
    log = (
        -(kept / 2 + prior.shape) * log_variance
        - prior.scale / variance[:, 0, 0]
        - np.linalg.slogdet(a)[1] / 2
        - quadratic / 2
    )
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    out = []
    for name in names:
        if name == "sigma":
            below = np.cumsum(weight) - weight / 2
            ends = np.interp([(1 - level) / 2, (1 + level) / 2], below, log_variance)
            out.append(model.outcome.bounds.radius * float(np.diff(np.exp(ends / 2))[0]))
            continue
        along = _own_unit(family, model, covariates, name)
        middle, sd = mean @ along, np.sqrt(np.einsum("i,gij,j->g", along, inner, along))
        out.append(_mixture_width(middle, sd, weight, level))
    return np.array(out)


def _own_unit(
    family: Moments, model: LinearModel, covariates: Sequence[str], name: str
) -> FloatArray:
    """The combination of standardised coefficients that is the one of this name."""
    unit = model.outcome.bounds.radius
    along = np.zeros(1 + len(covariates))
    columns = dict(zip(family.numbers, family.owners, strict=True))
    if name == "intercept":
        along[0] = unit
        for j, other in enumerate(covariates, 1):
            column = columns[other]
            if isinstance(column, Number):
                along[j] = -unit * column.bounds.middle / column.bounds.radius
        return along
    column = columns[name]
    along[1 + covariates.index(name)] = unit / (
        column.bounds.radius if isinstance(column, Number) else 1.0
    )
    return along


def _mixture_width(mean: FloatArray, sd: FloatArray, weight: FloatArray, level: float) -> float:
    ends = []
    for q in ((1 - level) / 2, (1 + level) / 2):
        low, high = float((mean - 12 * sd).min()), float((mean + 12 * sd).max())
        for _ in range(60):
            middle = (low + high) / 2
            below = float(weight @ special.ndtr((middle - mean) / sd))
            low, high = (middle, high) if below < q else (low, middle)
        ends.append((low + high) / 2)
    return ends[1] - ends[0]


def joint_widths(
    family: Moments,
    prior: NormalInverseWishart,
    statistic: FloatArray,
    kept: float,
    names: Sequence[str],
    level: float,
) -> FloatArray:
    """Of means, sds and shares, in the columns' own units, (names,): the normal-inverse-Wishart
    posterior's margins, and the Dirichlet's.
    """
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    found: dict[str, float] = {}
    q = len(family.numeric)
    if q:
        second = _second_moments(family, statistic, kept)
        places = [1 + family.numbers.index(one.name) for one in family.numeric]
        mean = second[0, places] / kept
        scatter = second[np.ix_(places, places)] - kept * np.outer(mean, mean)
        centre, scale = prior.of(q)
        strength, degrees = prior.strength + kept, prior.degrees + kept
        away = mean - centre
        scale = scale + scatter + prior.strength * kept / strength * np.outer(away, away)
        free = degrees - q + 1
        for j, one in enumerate(family.numeric):
            unit = one.bounds.radius
            spread = np.sqrt(scale[j, j] / (strength * free))
            found[f"mean[{one.name}]"] = (
                unit * float(np.diff(stats.t.ppf(tails, free)[:])[0]) * spread
            )
            variances = stats.invgamma.ppf(tails, free / 2, scale=scale[j, j] / 2)
            found[f"sd[{one.name}]"] = unit * float(np.diff(np.sqrt(variances))[0])
    for factor in family.factors:
        counts = np.array([statistic[family.numbers.index(name)] for name in factor.names])
        cells = 1 + np.array([kept - counts.sum(), *counts])
        for level_name, width in zip(factor.levels, widths_of_counts(cells, level), strict=True):
            found[f"share[{factor.name}][{level_name}]"] = float(width)
    return np.array([found[name] for name in names])


def _second_moments(family: Moments, statistic: FloatArray, kept: float) -> FloatArray:
    """Sums of products of (1, z), a matrix."""
    many = len(family.numbers)
    out = np.zeros((1 + many, 1 + many))
    out[0, 0] = kept
    out[0, 1:] = out[1:, 0] = statistic[:many]
    for j, one in enumerate(family.owners):
        if not isinstance(one, Number):
            out[1 + j, 1 + j] = statistic[j]  # the square of an indicator is itself
    for (j, k), value in zip(family.products, statistic[many:], strict=True):
        out[1 + j, 1 + k] = out[1 + k, 1 + j] = value
    return out

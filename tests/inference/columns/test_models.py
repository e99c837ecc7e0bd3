"""What models say of moments: slopes against differences, values against textbook formulas."""

import numpy as np
import pytest
from scipy import special, stats

from noisewise.inference.columns.joint_normal import JointNormal
from noisewise.inference.columns.regression import Regression
from noisewise.inference.columns.shares import Shares
from noisewise.inference.columns.sizes import log_gamma_ratio, log_height

REGRESSION = Regression(np.array([1.0, 0.5, 2.0, 1.0]), 1.0, 0.25)
JOINT = JointNormal(np.array([0.1, -0.2, 0.0]), 0.1, 4.0, 0.5 * np.eye(3) + 0.1)


def point(model, rng, n, batch=2, parts=1):
    k = len(model.sd) if isinstance(model, Regression) else 3
    root = np.tril(0.2 * rng.normal(size=(batch, parts, k, k)))
    root[:, :, range(k), range(k)] = rng.uniform(0.2, 0.5, (batch, parts, k))
    own = rng.normal(size=(batch, model.own)) / np.sqrt(n)
    low = 0.05 if isinstance(model, Shares) else -0.5
    mean = rng.uniform(low, 0.3, (batch, parts, k))
    return [mean, root, n * rng.uniform(1, 2, (batch, parts)), own]


@pytest.mark.parametrize(("n", "parts"), [(7, 1), (1000, 1), (10**6, 1), (7, 3), (1000, 3)])
@pytest.mark.parametrize(
    "model", [REGRESSION, JOINT, Shares()], ids=["regression", "joint", "shares"]
)
def test_slopes_are_those_of_differences(model, n, parts, rng) -> None:
    at = point(model, rng, n, parts=parts)
    found = model.density(*at)
    slopes = [found.to_mean, found.to_root, found.to_size, found.to_own]
    for part, (here, slope) in enumerate(zip(at, slopes, strict=True)):
        for place in np.ndindex(here.shape[1:]):
            if part == 1 and place[2] > place[1]:
                continue
            h = 1e-5 * (n if part == 2 else 1) / (1 if parts == 1 else 10)
            sides = []
            for sign in (1, -1):
                moved = [one.copy() for one in at]
                moved[part][(slice(None), *place)] += sign * h
                sides.append(model.density(*moved).value)
            expected = (sides[0] - sides[1]) / (2 * h)
            scale = 1 + np.abs(expected)
            assert slope[(slice(None), *place)] / scale == pytest.approx(expected / scale, abs=1e-6)


def test_a_regression_is_the_density_of_coefficients_and_residuals(rng) -> None:
    """Of the fitted coefficients N(0, V0 + sigma^2 (X'X)^-1) and of the residual sum of squares a
    chi-square, times the volume from these to (m_y, C_xy, C_yy); differences between two points
    are free of constants.
    """
    mean, root, size, own = point(REGRESSION, rng, 40)
    size[:] = 40.0
    mean[1, :, :3], root[1, :, :3] = mean[0, :, :3], root[0, :, :3]  # the same covariates
    values = []
    for m, r, n, delta in zip(mean[:, 0], root[:, 0], size[:, 0], own[:, 0], strict=True):
        c = r @ r.T
        slopes = np.linalg.solve(c[:3, :3], c[:3, 3])
        residual = c[3, 3] - c[3, :3] @ slopes
        variance = np.exp(delta) * residual
        fit = np.concatenate([[m[3] - m[:3] @ slopes], slopes])
        frame = np.ones((4, 4))
        frame[0, 1:] = frame[1:, 0] = m[:3]
        frame[1:, 1:] = c[:3, :3] + np.outer(m[:3], m[:3])
        spread = np.diag(REGRESSION.sd**2) + variance * np.linalg.inv(n * frame)
        values.append(
            stats.multivariate_normal(np.zeros(4), spread).logpdf(fit)
            + stats.chi2(n - 4, scale=variance).logpdf(n * residual)
            + stats.invgamma(1.0, scale=0.25).logpdf(variance)
            + np.log(variance)
        )
    found = REGRESSION.density(mean, root, size, own).value
    assert found[1] - found[0] == pytest.approx(values[1] - values[0], abs=1e-8)


def test_the_joint_normal_is_the_marginal_likelihood_of_records(rng) -> None:
    mean, root, size, own = point(JOINT, rng, 30)
    size[1] = 55.0
    size[0] = 30.0
    values = []
    for m, r, n in zip(mean[:, 0], root[:, 0], size[:, 0], strict=True):
        c, away = r @ r.T, m - JOINT.centre
        after = (
            JOINT.scale + n * c + JOINT.strength * n / (JOINT.strength + n) * np.outer(away, away)
        )
        value = -n * 3 / 2 * np.log(np.pi) + special.multigammaln((JOINT.degrees + n) / 2, 3)
        value += -(JOINT.degrees + n) / 2 * np.linalg.slogdet(after)[1]
        value += 1.5 * np.log(JOINT.strength / (JOINT.strength + n))
        # the volume of all records with these moments
        value += (n - 1) * 3 / 2 * np.log(np.pi) + 1.5 * np.log(n)
        value += -special.multigammaln((n - 1) / 2, 3)
        value += (n - 5) / 2 * np.linalg.slogdet(n * c)[1] + 6 * np.log(n)
        values.append(value)
    found = JOINT.density(mean, root, size, own).value
    assert found[1] - found[0] == pytest.approx(values[1] - values[0], abs=1e-8)


def test_functions_of_the_size_keep_their_digits() -> None:
    n = np.array([6.0, 50.0, 1999.0, 2001.0])
    v = n - 4
    plain = v / 2 * np.log(n / 2) - n / 2 - special.gammaln(v / 2)
    assert log_height(n, 4)[0] == pytest.approx(plain, abs=1e-9)
    ratio = special.gammaln(n + 2.5) - special.gammaln(n)
    assert log_gamma_ratio(n, 2.5)[0] == pytest.approx(ratio, abs=1e-9)
    large = np.array([1e12, 1e12 + 1])
    value, slope = log_height(large, 4)
    assert value[1] - value[0] == pytest.approx(slope[0], rel=1e-2)
    assert value[0] == pytest.approx(0.5 * np.log(5e11) - 0.5 * np.log(2 * np.pi), abs=1e-9)


@pytest.mark.parametrize("model", [REGRESSION, JOINT, Shares()])
def test_parts_say_what_all_their_records_say(model, rng) -> None:
    """The parameters given the moments of several parts are those given the moments of all: their
    draws depend on these alone.
    """
    mean, root, size, own = point(model, rng, 50, batch=1, parts=3)
    weight = (size / size.sum())[0, :, None]
    middle = (weight * mean[0]).sum(axis=0)
    away = mean[0] - middle
    apiece = root[0] @ root[0].swapaxes(1, 2) + away[:, :, None] * away[:, None, :]
    whole = np.linalg.cholesky((weight[:, :, None] * apiece).sum(axis=0))
    if isinstance(model, Regression):  # sigma^2 is told by its distance from the residuals
        residual = size[0] @ root[0, :, -1, -1] ** 2 / size.sum()
        shifted = own + np.log(residual) - 2 * np.log(whole[-1, -1])
    else:
        shifted = own
    apart = model.draw(np.random.default_rng(1), mean, root, size, own)
    total = size.sum(axis=1, keepdims=True)
    together = model.draw(
        np.random.default_rng(1), middle[None, None], whole[None, None], total, shifted
    )
    for one, other in zip(apart, together, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


def test_a_regression_of_parts_is_the_product_of_their_likelihoods(rng) -> None:
    """Against integrating the coefficient of a regression on nothing numerically, as in textbooks:
    each part's mean is N(beta, sigma^2/N), its sum of squares a chi-square.
    """
    model = Regression(np.array([0.7]), 1.0, 0.25)
    mean, root, size, own = (
        one[:, :, :1, :1] if one.ndim == 4 else one for one in point(REGRESSION, rng, 20, parts=2)
    )
    mean, own = mean[:, :, :1], own[:, :1]
    residual = root[:, :, 0, 0] ** 2
    variance = np.exp(own[:, 0]) * (size * residual).sum(axis=1) / size.sum(axis=1)
    beta = np.linspace(-4, 4, 20_001)
    values = []
    for m, n, c, v in zip(mean[:, :, 0], size, residual, variance, strict=True):
        log = stats.norm(0, 0.7).logpdf(beta)
        for part in range(2):
            log = log + stats.norm(beta, np.sqrt(v / n[part])).logpdf(m[part])
        integral = np.log(np.exp(log - log.max()).sum()) + log.max()
        squares = stats.chi2(n - 1, scale=v).logpdf(n * c) + np.log(n)
        prior = stats.invgamma(1.0, scale=0.25).logpdf(v) + np.log(v)
        values.append(integral + squares.sum() + prior)
    found = model.density(mean, root, size, own).value
    assert found[1] - found[0] == pytest.approx(values[1] - values[0], abs=1e-6)

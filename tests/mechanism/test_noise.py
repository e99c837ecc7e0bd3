"""The laws of the noise: each one's density, distribution function, characteristic function and
simulator agree.
"""

import numpy as np
import pytest
from scipy import integrate, stats

from chance import FALSE_ALARM
from noisewise import noise
from noisewise.mechanism.noise import REGISTRY

CONTINUOUS = [
    noise.Laplace(3.0),
    noise.Laplace([0.5, 20.0]),
    noise.Gaussian(2.0),
    noise.Gaussian([0.1, 1e3]),
]
DISCRETE = [
    kind(s, t)
    for kind in (noise.DiscreteLaplace, noise.DiscreteGaussian)
    for s, t in (
        (0.3, 1.0),
        (0.9, 1.0),
        (1.1, 1.0),
        (5.0, 0.25),
        (31.0, 1.0),
        (33.0, 1.0),
        ([0.5, 40.0], [1.0, 0.125]),
    )
]


def test_every_kind_is_tested() -> None:
    assert {law.kind for law in CONTINUOUS + DISCRETE} == set(REGISTRY)


@pytest.mark.parametrize("law", CONTINUOUS, ids=str)
def test_continuous_laws(law: noise.Noise) -> None:
    for j, scale in enumerate(law.scales):
        grid = np.linspace(-30 * scale, 30 * scale, 200_001)
        at = np.zeros((grid.size, law.scales.size))
        at[:, j] = grid
        density = np.exp(law.log_density(at)[:, j])
        assert integrate.simpson(density, x=grid) == pytest.approx(1, abs=1e-8)
        mass = integrate.cumulative_simpson(density, x=grid, initial=0)
        np.testing.assert_allclose(law.cdf(at)[:, j], mass, atol=1e-7)
        for omega in (0.0, 0.3 / scale, 2.0 / scale):
            direct = integrate.simpson(density * np.cos(omega * grid), x=grid)
            assert law.characteristic(np.full(law.scales.size, omega))[j] == pytest.approx(
                direct, abs=1e-7
            )


@pytest.mark.parametrize("law", DISCRETE, ids=str)
def test_discrete_laws(law: noise.Noise) -> None:
    for j, (scale, step) in enumerate(np.broadcast(law.scales, law.steps)):
        k = np.arange(-np.ceil(60 * scale / step), np.ceil(60 * scale / step) + 1)
        at = np.zeros((k.size, law.scales.size))
        at[:, j] = k * step
        p = np.exp(law.log_density(at)[:, j])
        assert p.sum() == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(law.cdf(at)[:, j], np.cumsum(p), atol=1e-12)
        np.testing.assert_allclose(law.cdf(at + 0.5 * step)[:, j], np.cumsum(p), atol=1e-12)
        for omega in (0.0, 0.1, 0.7, 3.0, 5.0):
            direct = (p * np.cos(omega / step * at[:, j])).sum()
            assert law.characteristic(np.full(law.scales.size, omega / step))[j] == pytest.approx(
                direct, abs=1e-11
            )


@pytest.mark.parametrize("sigma", [50.0, 1e4, 1e9])
def test_wide_discrete_gaussian_tends_to_the_normal(sigma: float) -> None:
    law = noise.DiscreteGaussian(sigma, 1.0)
    z = np.array([[-2.0 * sigma], [0.0], [1.3 * sigma]])
    np.testing.assert_allclose(
        law.cdf(z), stats.norm.cdf((np.floor(z) + 0.5) / sigma), atol=0.05 / sigma**2 + 1e-14
    )


@pytest.mark.parametrize("law", CONTINUOUS + DISCRETE, ids=str)
def test_simulated_noise_follows_its_law(law: noise.Noise, rng: np.random.Generator) -> None:
    draws = law.simulate(rng, 50_000)
    assert draws.shape == (50_000, law.scales.size)
    u = law.cdf(draws)
    if law.discrete:  # randomise within the jump, so that U is exactly uniform
        u = u - rng.random(u.shape) * np.exp(law.log_density(draws))
    for j in range(u.shape[1]):
        assert stats.kstest(u[:, j], "uniform").pvalue > FALSE_ALARM


@pytest.mark.parametrize("law", [noise.Laplace, noise.Gaussian])
@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf"), [1, 0], []])
def test_impossible_scales_are_refused(law: type, scale: object) -> None:
    with pytest.raises(ValueError, match="scale must be positive"):
        law(scale)


def test_lengths_are_checked() -> None:
    with pytest.raises(ValueError, match="3 scales and 2 steps"):
        noise.DiscreteLaplace([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="2 numbers for 3 statistics"):
        noise.Laplace([1, 2]).broadcast(3)
    assert noise.DiscreteLaplace(2.0, 1.0).broadcast(3) == noise.DiscreteLaplace(
        [2.0] * 3, [1.0] * 3
    )

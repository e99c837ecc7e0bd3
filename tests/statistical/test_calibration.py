"""A thinned version of bench/calibration.py: `auto` is calibrated, and the same test sees an sd
that is 10 % wrong.

4000 trials of cheap settings, 2500 where n is not public: bench/calibration.py has these with 4000.
KS at 3.1e-7, z and z^2 at 1e-6 false alarm each (two-sided normal limits).
"""

import numpy as np
import pytest
from scipy import special, stats

from chance import FALSE_ALARM
from noisewise import Bounds, families, priors
from noisewise.study.trials import Setting, uniforms

LIMIT = stats.norm.isf(FALSE_ALARM / 2)
EXPONENTIAL = (families.Exponential(), priors.Gamma(8, 2))
DIRICHLET = priors.Dirichlet([0.3] * 3)
SMALL, LARGE = priors.Gamma(3, 0.5), priors.Gamma(20, 0.1)  # of an n that is not public
SETTINGS = [
    Setting(families.Bernoulli(), priors.Beta(1, 20), None, 10, 1.0),
    Setting(families.Bernoulli(), priors.Beta(1, 1), None, 1, 5.0),
    Setting(families.Bernoulli(), priors.Beta(10, 10), None, 10**6, 0.01),
    Setting(*EXPONENTIAL, Bounds(0.0063, 1.17, outside="redact"), 100, 1.0),
    Setting(*EXPONENTIAL, Bounds(0.0063, 1.17, outside="clamp"), 100, 10.0),
    Setting(families.Poisson(), priors.Gamma(4, 2), Bounds(0, 6, outside="clamp"), 10, 2.0),
    Setting(
        families.Normal(variance=1.0),
        priors.Normal(0.0, 1.0),
        Bounds(-3, 3, outside="clamp"),
        100,
        2.0,
    ),
    pytest.param(
        Setting(families.Categorical(3), priors.Dirichlet([0.3] * 3), None, 100, 1.0),
        marks=pytest.mark.thorough,
    ),
    Setting(families.Bernoulli(), priors.Beta(1, 20), None, 10, 0.1, normal=True),
    Setting(*EXPONENTIAL, Bounds(0.0063, 1.17, outside="redact"), 100, 0.5, normal=True),
    Setting(families.Categorical(3), DIRICHLET, None, 6, 2.0, n_prior=SMALL),
    pytest.param(
        Setting(
            families.Poisson(),
            priors.Gamma(4, 2),
            Bounds(0, 6, outside="clamp"),
            200,
            0.2,
            normal=True,
            n_prior=LARGE,
        ),
        marks=pytest.mark.thorough,
    ),
]


def figures(u):  # type: ignore[no-untyped-def]
    z = special.ndtri(np.clip(u, 1e-15, 1 - 1e-15))
    root = np.sqrt(u.size)
    return (
        stats.kstest(u, "uniform").statistic * root,
        abs(z.mean()) * root,
        abs((z**2).mean() - 1) * root / np.sqrt(2),
    )


@pytest.mark.parametrize(
    "setting",
    SETTINGS,
    ids=lambda s: (
        f"{s.family.kind}-{s.n}-{'rho' if s.normal else ''}{s.epsilon}"
        f"{'' if s.n_prior is None else '-unknown'}"
    ),
)
def test_beliefs_are_right(setting, rng) -> None:
    for u in uniforms(setting, 4000 if setting.n_prior is None else 2500, rng).values():
        ks, mean, square = figures(u)
        assert ks < 2.8
        assert mean < LIMIT
        assert square < LIMIT


def test_a_wrong_sd_is_seen(rng) -> None:
    u = uniforms(SETTINGS[2], 4000, rng)["probability"]
    z = special.ndtri(np.clip(u, 1e-15, 1 - 1e-15))
    assert figures(special.ndtr(1.1 * z))[2] > LIMIT  # posterior 10 % too narrow
    assert figures(special.ndtr(z + 0.1))[1] > LIMIT  # off by a tenth of an sd
    assert figures(special.ndtr(1.1 * z[:2500]))[2] > LIMIT
    assert figures(special.ndtr(z[:2500] + 0.13))[1] > LIMIT


@pytest.mark.thorough
def test_the_normal_with_both_unknown(rng) -> None:
    """Slow, so 300 trials: enough for gross errors only."""
    prior = priors.NormalInverseGamma(0.0, 2.0, 4.0, 3.0)
    for u in uniforms(
        Setting(families.Normal(), prior, Bounds(-3, 3, outside="clamp"), 1000, 2.0), 300, rng
    ).values():
        ks, mean, square = figures(u)
        assert ks < 2.8
        assert mean < LIMIT
        assert square < LIMIT

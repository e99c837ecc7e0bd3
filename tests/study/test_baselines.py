"""OPS against numerical integration of its definition."""

import numpy as np
import pytest
from scipy import integrate

from noisewise.study import baselines


@pytest.mark.parametrize(
    ("alpha", "beta", "s", "n", "epsilon"),
    [
        (10, 10, 70, 100, 0.1),
        (1, 1, 900, 1000, 5.0),
        (2, 5, 0, 10**6, 1.0),
        (3, 4, 40, 100, 2000.0),
    ],
)
def test_ops_is_its_definition(rng, alpha, beta, s, n, epsilon) -> None:
    """(prior x likelihood)^tau on [0.1, 0.9], tau = min(1, e/2D) with e = epsilon/100,
    D = log 9.
    """
    tau = min(1.0, epsilon / 100 / (2 * np.log(9.0)))

    def density(p, power=0):
        peak = (
            np.clip((alpha - 1 + s) / (alpha + beta - 2 + n), 0.1, 0.9)
            if alpha + beta - 2 + n > 0
            else 0.5
        )
        value = lambda x: tau * ((alpha - 1 + s) * np.log(x) + (beta - 1 + n - s) * np.log1p(-x))  # noqa: E731
        return p**power * np.exp(value(p) - value(peak))

    at = np.unique(
        np.concatenate(
            [
                np.linspace(0.1, 0.9, 200_001),
                0.1 + np.geomspace(1e-12, 0.1, 2000),
                0.9 - np.geomspace(1e-12, 0.1, 2000),
            ]
        )
    )
    total, first, second = (integrate.trapezoid(density(at, power), at) for power in (0, 1, 2))
    mean, sd = first / total, np.sqrt(second / total - (first / total) ** 2)
    drawn = np.concatenate([baselines.ops(alpha, beta, s, n, epsilon, rng) for _ in range(400)])
    assert drawn.min() >= 0.1
    assert drawn.max() <= 0.9
    assert abs(drawn.mean() - mean) < 4.5 * sd / np.sqrt(drawn.size) + 1e-6
    assert drawn.std() == pytest.approx(sd, rel=0.03, abs=1e-5)

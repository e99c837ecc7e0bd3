"""How surprising a release is under its prior: the probability of a noisy statistic at least as far out."""

import numpy as np

from noisewise.inference.problem import Problem
from noisewise.mechanism.noise import Gaussian, Laplace
from noisewise.model.arrays import FloatArray
from noisewise.model.families.categorical import Categorical

DRAWS = 256
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def predictive_tail(problem: Problem) -> float:
    """Two-sided, the smallest over the statistics of all releases, times their number (Bonferroni)."""
    theta = problem.prior_of(0).draw(np.random.default_rng(1), DRAWS)
    worst, count = 1.0, 0
    for evidence in problem.evidence:
        if evidence.n[0] == 0:
            continue
        if isinstance(evidence.family, Categorical):  # without the K x K covariance
            mean, variance = theta, theta * (1 - theta)
        else:
            mean, covariance = evidence.moments(theta)
            variance = np.einsum("bdd->bd", covariance)
        mean, sd = evidence.n[0] * mean, np.sqrt(np.maximum(evidence.n[0] * variance, 0.0))
        good = np.isfinite(mean).all(axis=1) & np.isfinite(sd).all(axis=1)
        z = evidence.y[0] - mean[good, None, :] - sd[good, None, :] * _NODES[None, :, None]  # (draws, nodes, d)
        below = (_noise_cdf(z, evidence.scale[0], evidence.gaussian) * _WEIGHTS[None, :, None]).sum(axis=1).mean(axis=0)
        worst = min(worst, float(2 * np.minimum(below, 1 - below).min()))
        count += below.size
    return min(1.0, max(worst, 0.0) * max(count, 1))


def _noise_cdf(z: FloatArray, scale: FloatArray, gaussian: bool) -> FloatArray:
    return (Gaussian if gaussian else Laplace)(tuple(scale)).cdf(z)

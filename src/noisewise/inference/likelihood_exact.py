"""The likelihood of one release to more digits than a posterior needs."""

import numpy as np
from scipy import special

from noisewise.inference.likelihood import unknown_count
from noisewise.inference.observations import MOST_GAP, Observations
from noisewise.model.arrays import FloatArray

ORDER_OF_TWO, SLACK_OF_TWO = 128, 0.2
"""Quadrature nodes, and the error in units of the usual one, of two statistics: posteriors do with
a quarter of the nodes, and err by up to 0.01 in the log where the bounds are wide.
"""
SHARES = special.ndtr(np.linspace(-5.5, 5.5, 45))
"""Where n is not public, the shares of its mass at which the exact likelihood is computed."""


def precise(observations: Observations, theta: FloatArray) -> FloatArray:
    """log p(y | theta), (batch,), for theta of shape (batch, p) and the first group's release."""
    group = np.zeros(len(theta), dtype=np.int64)
    two = observations.dimension == 2
    order, slack = (ORDER_OF_TWO, SLACK_OF_TWO) if two else (0, 1.0)
    if observations.count is None:
        return observations.exact(theta, group, np.full(len(theta), slack), order)[0]
    mean, covariance = observations.record.moments(theta)
    _, n, log_weight, base = observations._summed(mean, covariance, group)
    mass = np.nan_to_num(base, nan=-np.inf) + log_weight
    row, number = unknown_count.anchors(n, mass, SHARES)
    tight = np.full(row.size, slack)
    value, _ = observations._exact_given(theta[row], group[row], number, tight, order)
    rough = observations._collapsed(number, mean[row], covariance[row], group[row])
    gap = np.clip(np.nan_to_num(value - rough, nan=0.0), -MOST_GAP, MOST_GAP)
    base = base + unknown_count.between(row, number, gap, n)
    return unknown_count.log_sum(base, log_weight)

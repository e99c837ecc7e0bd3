"""Atoms of the sum: where few of n records lie inside the bounds, "none inside" and "one inside"
have mass of their own.

The characteristic function of a point mass never decays, so these two cases leave the Fourier
series and are added directly. With A the atoms' part of phi and C the part of the quadrature nodes,
they are A^n + n C A^(n - 1).
"""

import numpy as np
from scipy import special

from noisewise.inference import effort, kernels
from noisewise.model.arrays import FloatArray

TERMS = 1 << 21
MOST = 1 << 16
"""Ways of sharing n records between two atoms that are summed one by one."""
WAY = 8
"""The work of one such way, three log-gammas, in products of a weight and a harmonic."""


def transform(
    less_one: kernels.ComplexArray,
    nodes_less_one: kernels.ComplexArray,
    inside: FloatArray,
    n: FloatArray,
) -> kernels.ComplexArray:
    """A^n + n C A^(n - 1), from phi - 1 and the nodes' share of it; `inside` is the nodes' mass."""
    atoms_less_one = less_one - nodes_less_one - inside
    one_less = np.maximum(n - 1, 0)
    size, phase = kernels.power(atoms_less_one, one_less)
    return np.asarray(
        np.exp(size) * kernels.turn(phase) * (1 + atoms_less_one + n * (nodes_less_one + inside))
    )


def contribution(
    centred: FloatArray,
    weight: FloatArray,
    n: FloatArray,
    z: FloatArray,
    p: FloatArray,
    q: FloatArray,
    nodes: int,
) -> FloatArray:
    """E h(y - s) over the cases of at most one record inside; h as in `kernels`, a product over the
    statistics.

    centred is (batch, m, d), its first `nodes` points inside; z, p and q are (batch, d).
    """
    total = np.zeros(n.shape)
    for records_inside in (0, 1):
        left = n - records_inside
        # (batch, ways, d), (batch, ways)
        position, mass = _shared(centred[:, nodes:], weight[:, nodes:], left)
        if records_inside == 0:
            total += (mass * _noise(z[:, None] - position, p[:, None], q[:, None])).sum(axis=1)
            continue
        effort.spend(float(n.size) * nodes * mass.shape[1] * z.shape[1])
        step = max(1, TERMS // (nodes * mass.shape[1]))
        for start in range(0, n.size, step):
            rows = slice(start, start + step)
            z_less = z[rows, None, None] - position[rows, :, None] - centred[rows, None, :nodes]
            noise = _noise(z_less, p[rows, None, None], q[rows, None, None])
            total[rows] += n[rows] * np.einsum(
                "bk,bkm,bm->b", mass[rows], noise, weight[rows, :nodes]
            )
    return total


def _shared(
    centred: FloatArray, weight: FloatArray, n: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Sums of n records that all sit on atoms, and their probabilities: one way with one atom,
    binomial with two.
    """
    with np.errstate(divide="ignore"):
        log_weight = np.log(weight)
    if weight.shape[1] == 1:
        return n[:, None, None] * centred, np.exp(special.xlogy(n[:, None], weight))
    share = weight[:, 1] / np.maximum(weight.sum(axis=1), 1e-300)
    reach = np.ceil(10 * np.sqrt(n * share * (1 - share)) + 12)
    low = np.maximum(np.floor(n * share) - reach, 0)
    count = int(min((np.minimum(np.floor(n * share) + reach, n) - low).max() + 1, MOST))
    effort.spend(WAY * float(n.size) * count)
    k = low[:, None] + np.arange(count)  # on the second atom
    rest = n[:, None] - k
    valid = rest >= 0
    rest = np.where(valid, rest, 0.0)
    log_ways = special.gammaln(n[:, None] + 1) - special.gammaln(k + 1) - special.gammaln(rest + 1)
    with np.errstate(invalid="ignore"):
        log_mass = (
            log_ways
            + np.where(k > 0, k * log_weight[:, 1:], 0.0)
            + np.where(rest > 0, rest * log_weight[:, :1], 0.0)
        )
    return rest[:, :, None] * centred[:, :1] + k[:, :, None] * centred[:, 1:], np.where(
        valid, np.exp(log_mass), 0.0
    )


def _noise(z: FloatArray, p: FloatArray, q: FloatArray) -> FloatArray:
    return np.asarray(np.exp(np.where(z > 0, -p * z, q * z).sum(axis=-1)))


def few_inside(inside: FloatArray, n: FloatArray, outside: float) -> bool:
    """Whether "nobody inside" has a mass anywhere that does not drown in e^-outside."""
    with np.errstate(divide="ignore"):
        return bool(np.any(n * np.log1p(-np.minimum(inside, 1.0)) > -outside))

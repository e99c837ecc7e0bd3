"""Few of n records inside the bounds: then "none inside" and "one inside" have mass of their own.

The characteristic function of a point mass never decays, so these two cases leave the Fourier
series and are added directly. With A the atoms' part of phi and C the part of the quadrature
nodes, they are A^n + n C A^(n - 1).
"""

from collections.abc import Sequence

import numpy as np
from scipy import special

from noisewise.inference import effort
from noisewise.inference.likelihood.tilting import Tilted, power
from noisewise.mechanism.noise.transform import Transform
from noisewise.model.arrays import ComplexArray, FloatArray, turn

TERMS = 1 << 21
"""Values of the noise that are held at once."""
MOST_WAYS = 1 << 16
"""Ways of sharing n records between two atoms that are summed one by one."""
WORK_OF_WAY = 8
"""The work of one such way, three log-gammas, in products of a weight and a harmonic."""


def transform(
    less_one: ComplexArray, nodes_less_one: ComplexArray, inside: FloatArray, n: FloatArray
) -> ComplexArray:
    """A^n + n C A^(n - 1), from phi - 1 and the nodes' share of it; `inside` is the nodes' mass."""
    atoms_less_one = less_one - nodes_less_one - inside
    size, phase = power(atoms_less_one, np.maximum(n - 1, 0))
    factor = 1 + atoms_less_one + n * (nodes_less_one + inside)
    return np.asarray(np.exp(size) * turn(phase) * factor)


def contribution(
    tilted: Tilted, n: FloatArray, transforms: Sequence[Transform], nodes: int
) -> FloatArray:
    """E h(y - s) over the cases of at most one record inside; h is a product over the statistics.

    The first `nodes` points of a record's law lie inside, the others are atoms.
    """
    centred, weight = tilted.centred, tilted.weight
    d, total = centred.shape[2], np.zeros(n.shape)
    for records_inside in (0, 1):
        # (batch, ways, d), (batch, ways)
        position, mass = on_atoms(centred[:, nodes:], weight[:, nodes:], n - records_inside)
        if records_inside == 0:
            total += (mass * _noise(transforms, position)).sum(axis=1)
            continue
        effort.spend(float(n.size) * nodes * mass.shape[1] * d)
        step = max(1, TERMS // (nodes * mass.shape[1]))
        for start in range(0, n.size, step):
            rows = slice(start, start + step)
            away = position[rows, :, None] + centred[rows, None, :nodes]
            noise = _noise([one.take(rows) for one in transforms], away)
            expected = np.einsum("bk,bkm,bm->b", mass[rows], noise, weight[rows, :nodes])
            total[rows] += n[rows] * expected
    return total


def on_atoms(
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
    high = np.minimum(np.floor(n * share) + reach, n)
    count = int(min((high - low).max() + 1, MOST_WAYS))
    effort.spend(WORK_OF_WAY * float(n.size) * count)
    k = low[:, None] + np.arange(count)  # on the second atom
    rest = n[:, None] - k
    valid = rest >= 0
    rest = np.where(valid, rest, 0.0)
    log_mass = special.gammaln(n[:, None] + 1) - special.gammaln(k + 1) - special.gammaln(rest + 1)
    with np.errstate(invalid="ignore"):
        log_mass = log_mass + np.where(k > 0, k * log_weight[:, 1:], 0.0)
        log_mass = log_mass + np.where(rest > 0, rest * log_weight[:, :1], 0.0)
    position = rest[:, :, None] * centred[:, :1] + k[:, :, None] * centred[:, 1:]
    return position, np.where(valid, np.exp(log_mass), 0.0)


def _noise(transforms: Sequence[Transform], away: FloatArray) -> FloatArray:
    """The tilted noise of sums that lie so far from their means, (batch, ..., d)."""
    out = transforms[0].weigh(away[..., 0])
    for j, one in enumerate(transforms[1:], 1):
        out = out * one.weigh(away[..., j])
    return out


def matter(inside: FloatArray, n: FloatArray, outside: float) -> bool:
    """Whether "nobody inside" has a mass anywhere that does not drown in e^-outside."""
    with np.errstate(divide="ignore"):
        return bool(np.any(n * np.log1p(-np.minimum(inside, 1.0)) > -outside))

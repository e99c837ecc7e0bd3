"""Exact likelihood of one noisy sum: a Fourier series of the sum's law on a window, the noise
integrated in closed form.

  p(y | theta) = (1/W) sum_k phi(w_k)^n L(w_k),   w_k = 2 pi k / W,
phi the characteristic function of one record's t^ (under a tilt), L the noise against one harmonic.
The window W holds the *sum*, not the noise, so the number of harmonics depends neither on n nor on
how much the noise dwarfs the sampling. Whole-number statistics have a whole-number window and a
finite, exact series. Noise whose own transform decays joins phi, and the window holds both.
"""

import numpy as np

from noisewise.inference import effort
from noisewise.inference.likelihood import few_records
from noisewise.inference.likelihood.sums import Sums, Windowed, windowed
from noisewise.inference.likelihood.tilting import Tilted, log_mean_exp, power
from noisewise.model.arrays import ComplexArray, FloatArray, highest, turn, turn_less_one
from noisewise.model.bounded_statistic import Law

TOLERANCE = 1e-5
"""Of the likelihood, relative."""
OUTSIDE = 24.0
"""The window leaves out e^-24 of the tilted sum on either side."""
NOBODY = 1e-9
"""Where fewer records than this are expected inside, all of the sum is in the cases of at most one
there.
"""
MOST = 1 << 13
"""Harmonics of one theta."""
BLOCK = 8
"""Harmonics that are added before it is asked whether they are enough."""
CALL = 4000
"""What a block of harmonics costs by itself, in products of a weight and a harmonic."""
CHUNK = 1 << 17
"""Nodes x thetas handled at once."""


def log_likelihood(law: Law, sums: Sums) -> tuple[FloatArray, FloatArray]:
    """log p(y | theta) and its relative numerical error, for a law of one statistic at each theta
    of the batch.

    The error is infinite where the law has too few nodes for the harmonics that are needed.
    """
    size = max(1, CHUNK // max(law.weight.shape[1], 4 * BLOCK))
    value, error = np.empty(sums.n.size), np.empty(sums.n.size)
    for on_lattice, alike in sums.alike():
        # sums of about as many records need about as many harmonics
        order = alike[np.argsort(sums.n[alike], kind="stable")]
        for start in range(0, order.size, size):
            rows = order[start : start + size]
            some = windowed(law.take(rows), sums.take(rows), on_lattice, OUTSIDE)
            value[rows], error[rows] = _log_likelihood(some, on_lattice[0])
    alone = np.flatnonzero(sums.n == 1)
    if alone.size and not sums.lattice and law.weight.shape[1] > law.atoms:
        error[alone] = np.maximum(error[alone], _unresolved(law.take(alone), sums.take(alone)))
    return value, error


def _unresolved(law: Law, sums: Sums) -> FloatArray:
    """The relative error of a single record's likelihood, whose noise may be narrower than the
    quadrature nodes lie apart: by how much they differ from the points halfway between them.
    """
    nodes = law.weight.shape[1] - law.atoms
    at, weight = law.value[:, :nodes, 0], law.weight[:, :nodes]
    middle, apart = (at[:, 1:] + at[:, :-1]) / 2, np.abs(np.diff(at, axis=1))

    def noise(t: FloatArray) -> FloatArray:
        return np.exp(sums.shape.log_kernel(sums.y - t, np.broadcast_to(sums.scale, t.shape)))

    there, between = noise(at), noise(middle)
    one = ((there[:, 1:] + there[:, :-1]) / 2 * apart).sum(axis=1)
    other = (between * apart).sum(axis=1)
    differ = np.abs(one - other) / np.maximum(np.maximum(one, other), 1e-300)
    within = (at.min(axis=1) < sums.y[:, 0]) & (sums.y[:, 0] < at.max(axis=1))
    unseen = np.maximum(there.max(axis=1), between.max(axis=1)) < 0.5
    differ = np.where(within & unseen, 1.0, differ)
    # what the nodes have of the likelihood, or would have if they saw the noise
    width = np.exp(-sums.shape.log_constant(sums.scale[:, 0]))
    nearest = np.argmin(np.abs(at - sums.y), axis=1)[:, None]
    density = weight / np.maximum(np.abs(np.gradient(at, axis=1)), 1e-300)
    seen = (there * weight).sum(axis=1)
    inside = np.where(unseen, width * np.take_along_axis(density, nearest, axis=1)[:, 0], seen)
    atoms = (noise(law.value[:, nodes:, 0]) * law.weight[:, nodes:]).sum(axis=1)
    return np.asarray(differ * inside / np.maximum(inside + atoms, 1e-300))


def log_bound(law: Law, sums: Sums) -> FloatArray:
    """What log p(y | theta) does not exceed, without a series: under the tilt the noise at y is
    nowhere above its peak, and the mass of a quadrature node lies no further than its neighbours.
    """
    value, size = np.empty(sums.n.size), max(1, CHUNK // law.weight.shape[1])
    for on_lattice, alike in sums.alike():
        for start in range(0, alike.size, size):
            rows = alike[start : start + size]
            some = windowed(law.take(rows), sums.take(rows), on_lattice, OUTSIDE)
            bound = some.log_factor
            joined = some.in_window[:, 0]  # noise that is part of the sum has a peak of its own
            bound = bound - np.where(joined > 0, 0.5 * np.log(2 * np.pi * joined), 0.0)
            if not sums.lattice:
                bound += some.n * _away_from_nodes(some.tilted, law.atoms)
            value[rows] = bound
    return value


def _away_from_nodes(tilted: Tilted, atoms: int) -> FloatArray:
    """log of the most by which a tilt may grow where mass lies between nodes and not on them."""
    nodes = tilted.weight.shape[1] - atoms
    apart = np.abs(np.diff(tilted.centred[:, :nodes, 0], axis=1))
    reach = np.zeros(tilted.weight.shape)
    np.maximum(reach[:, : nodes - 1], apart, out=reach[:, : nodes - 1])
    np.maximum(reach[:, 1:nodes], apart, out=reach[:, 1:nodes])
    return log_mean_exp(np.abs(tilted.slope) * reach, tilted.weight)[0]


def _log_likelihood(sums: Windowed, on_lattice: bool) -> tuple[FloatArray, FloatArray]:
    apart = sums.apart()
    most = sums.most[:, 0] if on_lattice else np.minimum(sums.most[:, 0], MOST)
    if sums.nodes:
        most = np.where((sums.n == 1) | (sums.n * sums.inside < NOBODY), 0.0, most)
    total, rest = _series(sums, most, on_lattice)
    if sums.nodes:  # a single record is all in the cases apart
        total, rest = np.where(sums.n == 1, 0.0, total), np.where(sums.n == 1, 0.0, rest)
        rest = rest * np.abs(total) / np.maximum(total + apart, 1e-300)
    total = total + apart
    with np.errstate(divide="ignore", invalid="ignore"):
        value = sums.log_factor + np.log(np.maximum(total, 0.0))
    return value, np.where(total > 0, rest, np.inf)


def _series(sums: Windowed, most: FloatArray, finite: bool) -> tuple[FloatArray, FloatArray]:
    """(1/W) (term(0) + 2 sum over k from 1 to `most` of term(k)), stopped on a bound for the rest;
    and that bound, relative. A finite series has no rest beyond `most`.
    """
    noise, nodes, start = sums.transforms[0], sums.nodes, 0
    width, centred = noise.width, sums.tilted.centred[:, :, 0]
    total, rest = np.zeros(width.shape), np.full(width.shape, np.inf)
    earlier = np.full(width.shape, np.nan)
    rows = np.arange(width.size)
    # Where all values share a step, |phi| is 1 again at its harmonic: then only the whole series
    # will do.
    steps = np.abs(np.round(centred[0] - centred[0, 0])).astype(np.int64)
    whole = finite and bool(np.gcd.reduce(steps) > 1)
    turned, ahead = _first_harmonics((2 * np.pi / width)[:, None] * centred)
    factor = 1 + ahead
    weight, n = sums.tilted.weight.astype(np.complex128)[:, :, None], sums.n[:, None]
    inside = sums.inside[:, None]
    while True:
        effort.spend(turned.size + CALL)
        less_one = (turned @ weight)[:, :, 0]  # (batch, BLOCK)
        k = np.arange(start, start + BLOCK, dtype=float)[None, :]
        against = noise.at(2 * np.pi * k / noise.width[:, None])
        size, phase = power(less_one, n)
        phi = np.exp(size) * turn(phase)
        if nodes:
            of_nodes = (turned[:, :, :nodes] @ weight[:, :nodes])[:, :, 0]
            phi -= few_records.transform(less_one, of_nodes, inside, n)
        counted = np.where(k <= most[rows, None], np.where(k == 0, 1.0, 2.0), 0.0)
        if finite:  # a harmonic that is its own mirror image counts once
            counted[2 * k == width[rows, None]] = 1.0
        total[rows] += np.einsum("bk,bk->b", counted, (phi * against).real) / width[rows]
        start += BLOCK
        rim = highest(np.abs(phi) * np.abs(against)) / width[rows]
        bound = rim * 2 * np.minimum(start, most[rows] + 1)
        if start & (start - 1) == 0:  # a power of two: what the second half of them has added
            moved = np.abs(total[rows] - earlier[rows])
            bound = np.where(np.isnan(moved), bound, np.minimum(bound, np.maximum(moved, 8 * rim)))
            earlier[rows] = total[rows]
        rest[rows] = np.minimum(rest[rows], bound / np.maximum(np.abs(total[rows]), 1e-300))
        if finite:
            rest[rows[start > most[rows]]] = 0.0
        going = (start <= most[rows]) & (whole | ~(rest[rows] < TOLERANCE))
        if not going.any():
            return total, rest
        if going.mean() < 0.8:
            rows = rows[going]
            ahead, factor, turned = ahead[going], factor[going], turned[going]
            weight, n, inside = weight[going], n[going], inside[going]
            noise = noise.take(np.flatnonzero(going))
        turned *= factor
        turned += ahead


def _first_harmonics(x: FloatArray) -> tuple[ComplexArray, ComplexArray]:
    """e^{ikx} - 1 for the first block of k, (batch, BLOCK, nodes), and for the k after it,
    (batch, 1, nodes). That of k + j is (e^{ikx} - 1) e^{ijx} + (e^{ijx} - 1), with full relative
    precision.
    """
    first = turn_less_one(x)
    out = np.zeros((len(x), BLOCK + 1, x.shape[1]), dtype=np.complex128)
    for k in range(BLOCK):
        out[:, k + 1] = out[:, k] * (1 + first) + first
    return out[:, :BLOCK].copy(), out[:, BLOCK:].copy()

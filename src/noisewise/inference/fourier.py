"""Exact likelihood of one noisy sum: a Fourier series of the sum's law on a window, the noise
integrated in closed form.

  p(y | theta) = (1/W) sum_k phi(w_k)^n L(w_k),   w_k = 2 pi k / W,
phi the characteristic function of one record's t^ (under a tilt), L the noise against one harmonic.
The window W holds
the *sum*, not the noise, so the number of harmonics depends neither on n nor on how much the noise
dwarfs the sampling.
Whole-number statistics have a whole-number window and a finite, exact series. Normal noise has a
transform that
decays by itself: it joins phi, and the window holds both.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from noisewise.inference import atoms, effort, kernels
from noisewise.inference.law import Law
from noisewise.inference.tilt import OUTSIDE, Tilted, tilt, window
from noisewise.mechanism.noise import log_theta
from noisewise.model.arrays import FloatArray, IntArray, highest

Complex = NDArray[np.complex128]
Term = tuple[FloatArray, FloatArray]
TOLERANCE = 1e-5
"""Of the likelihood, relative."""
NEGLIGIBLE, NOBODY = 1e-9, 1e-9
MOST = 1 << 13
"""Harmonics of one theta."""
BLOCK = 8
CALL = 4000
"""What a block of harmonics costs by itself, in products of a weight and a harmonic."""
CHUNK = 1 << 14
"""Nodes x thetas handled at once: what stays in the processor's cache."""
STEEPEST = 8.0
"""The tilt over one block of whole numbers that are rounded to one, at most."""
NEAR_LATTICE = 3.0
"""Normal noise of fewer steps than this sees the single whole numbers; beyond, e^-177 of it does.
"""


@dataclass(frozen=True, slots=True)
class Sums:
    """What is public of each noisy sum of the batch, in units of the lattice step where there is a
    lattice.
    """

    n: FloatArray  # (batch,)
    y: FloatArray  # (batch, d), or (batch,) within this file
    scale: FloatArray  # the same shape
    gaussian: bool
    lattice: bool  # the sum is a whole number
    discrete: bool  # and so is the noise
    # the whole number is rounded to a multiple of this before the noise, on these multiples, is
    # added
    block: int = 1

    def take(self, rows: "IntArray | slice") -> "Sums":
        """Some of the batch."""
        shared = (self.gaussian, self.lattice, self.discrete, self.block)
        return Sums(self.n[rows], self.y[rows], self.scale[rows], *shared)

    @property
    def log_constant(self) -> FloatArray:
        """The noise's log density or log probability at 0."""
        scale = self.scale / self.block
        if self.gaussian:
            return -log_theta(scale) if self.discrete else -np.log(self.scale * np.sqrt(2 * np.pi))
        return np.log(np.tanh(0.5 / scale)) if self.discrete else -np.log(2 * self.scale)


def log_likelihood(law: Law, sums: Sums) -> tuple[FloatArray, FloatArray]:
    """log p(y | theta) and its relative numerical error, for a law of one statistic at each theta
    of the batch.

    The error is infinite where the law has too few nodes for the harmonics that are needed.
    """
    line = Sums(
        sums.n,
        sums.y[:, 0],
        sums.scale[:, 0],
        sums.gaussian,
        sums.lattice,
        sums.discrete,
        sums.block,
    )
    size = max(1, CHUNK // max(law.weight.shape[1], 4 * BLOCK))
    # sums of about as many records need about as many harmonics
    order = np.argsort(line.n, kind="stable")
    value, error = np.empty(order.size), np.empty(order.size)
    near = (
        line.scale[order] < NEAR_LATTICE * sums.block
        if sums.gaussian and sums.lattice
        else np.zeros(order.size, dtype=bool)
    )
    for part in (order[near], order[~near]):
        for rows in (part[start : start + size] for start in range(0, part.size, size)):
            value[rows], error[rows] = _chunk(
                law.value[rows, :, 0], law.weight[rows], law.atoms, line.take(rows)
            )
    return value, error


def _chunk(
    value: FloatArray, weight: FloatArray, atom_count: int, sums: Sums
) -> tuple[FloatArray, FloatArray]:
    variance = sums.scale**2 if sums.gaussian else np.zeros(sums.n.shape)
    if sums.gaussian and sums.block > 1 and sums.scale.min() >= NEAR_LATTICE * sums.block:
        # Wide noise sees nothing of rounding but what it does to mean and variance.
        variance = variance + (sums.block**2 - 1) / 12
        sums = replace(sums, y=sums.y - (1 - sums.block % 2) / 2, scale=np.sqrt(variance))
    limit = np.full(sums.n.shape, np.inf) if sums.gaussian else (1 - 1e-7) / sums.scale
    # the noise does not see where in its block a sum lies, and a steep tilt would drown it
    if sums.block > 1:
        limit = np.minimum(limit, STEEPEST / sums.block)
    law = tilt(value, weight, sums.n, sums.y, limit, variance)
    log_factor = law.log_factor + sums.log_constant
    if sums.gaussian:
        log_factor = log_factor + 0.5 * variance * law.slope**2
        if not sums.lattice or sums.scale.min() >= NEAR_LATTICE * sums.block:
            total, error = _with_noise(law, sums, variance, atom_count)
            # the transform holds the density's constant
            log_factor = log_factor + np.log(sums.scale * np.sqrt(2 * np.pi))
        else:
            total, error = _on_lattice(law, sums, np.zeros(sums.n.shape))
    elif sums.lattice:
        total, error = _on_lattice(law, sums, variance)
    else:
        total, error = _continuous(law, sums, atom_count)
    with np.errstate(divide="ignore", invalid="ignore"):
        return log_factor + np.log(np.maximum(total, 0.0)), np.where(total > 0, error, np.inf)


def _with_noise(
    law: Tilted, sums: Sums, variance: FloatArray, atom_count: int
) -> tuple[FloatArray, FloatArray]:
    """Normal noise: the density of sum + noise at y, which the tilt has made its mean."""
    below, above = window(law.centred, law.weight, sums.n, variance)
    width = below + above
    z = law.distance - variance * law.slope

    def term(
        rows: IntArray, k: FloatArray, omega: FloatArray, less_one: Complex, _: Complex
    ) -> Term:
        size, phase = kernels.power(less_one, sums.n[rows, None])
        size = np.exp(size - 0.5 * variance[rows, None] * omega**2)
        return size * np.cos(phase - omega * z[rows, None]), size

    most = np.full(width.shape, np.inf)
    if not sums.lattice:  # whole numbers are no quadrature
        nodes = law.weight.shape[1] - atom_count
        most = resolved(law.centred[:, :nodes], law.weight[:, :nodes], width)
    return _series(law, width, most, term)


def _on_lattice(law: Tilted, sums: Sums, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A whole-number sum: the finite series, and the noise summed over the same whole numbers."""
    block, half = sums.block, sums.block // 2
    below, above = window(law.centred, law.weight, sums.n, variance)
    origin = np.round(law.total_mean / block) * block
    offset = law.total_mean - origin
    # A window of whole blocks: block k holds the whole numbers that are rounded to k times its
    # size.
    ends = (
        (offset - below - 1, offset + above + 1)
        if block > 1
        else (offset - below - 1, offset + above + 2)
    )
    first, last = (np.floor((end + half) / block) for end in ends)
    width = block * (last - first + 1)
    z, scale, slope = (sums.y - origin) / block, sums.scale / block, law.slope * block
    p, q = 1 / scale - slope, 1 / scale + slope

    def term(
        rows: IntArray, k: FloatArray, omega: FloatArray, less_one: Complex, _: Complex
    ) -> Term:
        size, phase = kernels.power(less_one, sums.n[rows, None])
        size = np.exp(size)
        phase = phase + omega * offset[rows, None]
        if sums.gaussian:
            against = kernels.gaussian_sum(
                omega * block, *(column[rows] for column in (first, last, z, scale, slope))
            )
        else:
            against = kernels.laplace_sum(
                omega * block, *(column[rows, None] for column in (first, last, z, p, q))
            )
        if block > 1:
            against = against * kernels.block_sum(omega, law.slope[rows, None], block)
        # k = W/2 counts once
        twice = np.where(
            2 * k == width[rows, None], 0.5, np.where(2 * k > width[rows, None], 0.0, 1.0)
        )
        size = twice * size
        return size * (kernels.turn(phase) * against).real, size * np.abs(against)

    # Where all values share a step, |phi| is 1 again at its harmonic: then only the whole series
    # will do.
    apart = np.abs(np.round(law.centred[0] - law.centred[0, 0])).astype(np.int64)
    return _series(
        law, width, np.floor(width / 2), term, finite=True, whole=bool(np.gcd.reduce(apart) > 1)
    )


def _continuous(law: Tilted, sums: Sums, atom_count: int) -> tuple[FloatArray, FloatArray]:
    """Laplace noise on a continuous statistic. Where few records lie inside, atoms of the sum are
    taken out of the series.
    """
    below, above = window(law.centred, law.weight, sums.n, np.zeros(sums.n.shape))
    pad = 0.02 * (below + above)
    low, high = -below - pad, above + pad
    z, p, q = law.distance, *_rates(law, sums)
    nodes = law.weight.shape[1] - atom_count
    inside = law.weight[:, :nodes].sum(axis=1)
    few = bool(atom_count) and atoms.few_inside(inside, sums.n, OUTSIDE)
    direct = np.zeros(sums.n.shape)
    if few:
        direct = atoms.contribution(
            law.centred[:, :, None], law.weight, sums.n, z[:, None], p[:, None], q[:, None], nodes
        )

    def term(
        rows: IntArray, k: FloatArray, omega: FloatArray, less_one: Complex, of_nodes: Complex
    ) -> Term:
        size, phase = kernels.power(less_one, sums.n[rows, None])
        transform = np.exp(size) * kernels.turn(phase)
        if few:
            transform -= atoms.transform(less_one, of_nodes, inside[rows, None], sums.n[rows, None])
        against = kernels.laplace_integral(
            omega, *(column[rows, None] for column in (low, high, z, p, q))
        )
        return (transform * against).real, np.abs(transform) * np.abs(against)

    width = high - low
    single = sums.n == 1
    nobody = sums.n * inside < NOBODY  # all is in the direct part
    most = np.where(
        (single | nobody) & few, 0.0, resolved(law.centred[:, :nodes], law.weight[:, :nodes], width)
    )
    total, rest = _series(law, width, most, term, nodes if few else 0)
    if few:  # a single record is all in the direct part
        total, rest = np.where(single, 0.0, total), np.where(single, 0.0, rest)
    return total + direct, rest * np.abs(total) / np.maximum(total + direct, 1e-300)


def _rates(law: Tilted, sums: Sums) -> tuple[FloatArray, FloatArray]:
    """How fast the tilted noise decays for y above and below the sum."""
    return 1 / sums.scale - law.slope, 1 / sums.scale + law.slope


def resolved(centred: FloatArray, weight: FloatArray, width: FloatArray) -> FloatArray:
    """The highest harmonic that Gauss nodes resolve: 0.6 of a half turn from one to the next, where
    they carry weight.
    """
    carries = weight > NEGLIGIBLE * weight.max(axis=1, keepdims=True)
    spacing = np.max(
        np.abs(np.diff(centred, axis=1)),
        axis=1,
        where=carries[:, 1:] | carries[:, :-1],
        initial=1e-300,
    )
    return np.asarray(np.minimum(np.floor(0.3 * width / spacing), MOST))


def _series(
    law: Tilted,
    width: FloatArray,
    most: FloatArray,
    term: Callable[..., Term],
    nodes: int = 0,
    finite: bool = False,
    whole: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """(1/W) (term(0) + 2 sum over k from 1 to `most` of term(k)), stopped on a bound for the rest;
    and that bound, relative.

    A finite series has no rest beyond `most`; one that is wanted whole is not stopped before.

    `term` gets the rows of the batch that are still summed, E e^{i w u} - 1 over the whole law, and
    over its first `nodes` points.
    """
    total, rest, earlier = (
        np.zeros(width.shape),
        np.full(width.shape, np.inf),
        np.full(width.shape, np.nan),
    )
    rows = np.arange(width.size)
    first = kernels.turn_less_one((2 * np.pi / width)[:, None] * law.centred)
    factor, turned = 1 + first, np.zeros_like(first)
    weight = law.weight.astype(np.complex128)
    start = 0
    while True:
        effort.spend(turned.size * BLOCK + CALL)
        less_one = np.empty((rows.size, BLOCK), dtype=np.complex128)
        of_nodes = np.empty_like(less_one)
        for j in range(BLOCK):
            np.einsum("bm,bm->b", weight, turned, out=less_one[:, j])
            if nodes:
                np.einsum("bm,bm->b", weight[:, :nodes], turned[:, :nodes], out=of_nodes[:, j])
            # e^{i(k+1)x} - 1 = (e^{ikx} - 1) e^{ix} + (e^{ix} - 1), with full relative precision
            turned *= factor
            turned += first
        k = np.arange(start, start + BLOCK, dtype=float)[None, :]
        value, size = term(rows, k, 2 * np.pi * k / width[rows, None], less_one, of_nodes)
        counted = np.where(k <= most[rows, None], np.where(k == 0, 1.0, 2.0), 0.0)
        total[rows] += np.einsum("bk,bk->b", counted, value) / width[rows]
        start += BLOCK
        rim = highest(size) / width[rows]
        bound = rim * 2 * np.minimum(start, most[rows] + 1)
        # a power of two: what the second half of the harmonics has added
        if start & (start - 1) == 0:
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
            first, factor, turned, weight = (
                first[going],
                factor[going],
                turned[going],
                weight[going],
            )

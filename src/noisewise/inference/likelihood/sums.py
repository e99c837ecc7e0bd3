"""Noisy sums of records, tilted to where y is, with a window that holds them: what the series of
one and of two statistics have in common.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from noisewise.inference.likelihood import few_records, tilting
from noisewise.inference.likelihood.tilting import Tilted
from noisewise.mechanism.noise.shape import Shape
from noisewise.mechanism.noise.transform import Seen, Transform
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.bounded_statistic import Law

STEEPEST_OF_BLOCK = 8.0
"""The tilt over one block of whole numbers that are rounded to one, at most: the noise does not see
where in its block a sum lies, and a steep tilt would drown it.
"""
NEGLIGIBLE = 1e-9
"""Of the heaviest quadrature node: how far apart lighter ones are does not matter."""
HALF_TURNS = 0.3
"""Gauss nodes resolve a harmonic that makes 0.6 of a half turn from one to the next; per 2 pi."""


@dataclass(frozen=True, slots=True)
class Sums:
    """What is public of each noisy sum of the batch, in units of the lattice step where there is a
    lattice.
    """

    n: FloatArray  # (batch,)
    y: FloatArray  # (batch, d)
    scale: FloatArray  # (batch, d)
    shape: Shape  # of the noise
    lattice: bool  # the sum is a whole number
    discrete: bool  # and so is the noise
    block: int = 1
    """The whole number is rounded to a multiple of this before the noise, on these multiples, is
    added.
    """

    def take(self, rows: "IntArray | slice") -> "Sums":
        """Some of the batch."""
        shared = (self.shape, self.lattice, self.discrete, self.block)
        return Sums(self.n[rows], self.y[rows], self.scale[rows], *shared)

    @property
    def log_constant(self) -> FloatArray:
        """Of the noise, over all statistics."""
        if self.discrete:
            log_constant = self.shape.log_constant_on_lattice(self.scale / self.block)
            return np.asarray(log_constant.sum(axis=1))
        return np.asarray(self.shape.log_constant(self.scale).sum(axis=1))

    def alike(self) -> Iterator[tuple[tuple[bool, ...], IntArray]]:
        """Rows of the batch for which the noise sees the lattice in the same statistics."""
        d = self.y.shape[1]
        if not self.lattice:
            yield (False,) * d, np.arange(self.n.size)
            return
        sees = self.shape.sees_lattice(self.scale, self.block)
        for pattern in product((True, False), repeat=d):
            rows = np.flatnonzero((sees == pattern).all(axis=1))
            if rows.size:
                yield pattern, rows


@dataclass(frozen=True, slots=True)
class Windowed:
    """Tilted sums, and the noise against the harmonics of a window that holds them."""

    n: FloatArray  # (batch,)
    tilted: Tilted
    transforms: list[Transform]  # one for each statistic
    log_factor: FloatArray  # (batch,)
    most: FloatArray  # (batch, d): the highest harmonics that tell anything
    in_window: FloatArray  # (batch, d): the variance of noise that the windows hold
    nodes: int
    """Where few records lie inside the bounds, the points that do: "at most one inside" is then no
    part of the series. Else 0.
    """

    @property
    def width(self) -> FloatArray:
        """Of the windows, (batch, d)."""
        return np.stack([transform.width for transform in self.transforms], axis=1)

    @property
    def inside(self) -> FloatArray:
        """The probability that a record lies among the nodes."""
        return np.asarray(self.tilted.weight[:, : self.nodes].sum(axis=1))

    def apart(self) -> FloatArray:
        """What "at most one record inside" adds to the series, (batch,)."""
        if not self.nodes:
            return np.zeros(self.n.shape)
        return few_records.contribution(self.tilted, self.n, self.transforms, self.nodes)

    def take(self, rows: "IntArray | slice") -> "Windowed":
        """Some of the batch."""
        transforms = [transform.take(rows) for transform in self.transforms]
        return Windowed(
            self.n[rows],
            self.tilted.take(rows),
            transforms,
            self.log_factor[rows],
            self.most[rows],
            self.in_window[rows],
            self.nodes,
        )


def windowed(law: Law, sums: Sums, on_lattice: tuple[bool, ...], outside: float) -> Windowed:
    """Tilt the sums of a batch and draw windows that leave out e^-outside on either side."""
    log_constant = sums.log_constant
    shape, y, scale, block = sums.shape, sums.y.copy(), sums.scale.copy(), sums.block
    if sums.lattice:
        for j in (j for j, sees in enumerate(on_lattice) if not sees):
            y[:, j], scale[:, j] = shape.smoothed(y[:, j], scale[:, j], block)
    limit = shape.steepest(scale)
    if block > 1:
        limit = np.minimum(limit, STEEPEST_OF_BLOCK / block)
    tilted = tilting.tilt(law.value, law.weight, sums.n, y, limit, shape.curvature(scale))
    nodes = law.weight.shape[1] - law.atoms
    transforms, most, in_window = [], [], []
    for j, sees in enumerate(on_lattice):
        noise = shape.in_window(scale[:, j], sees)
        centred = tilted.centred[:, :, j]
        below, above = tilting.window(centred, tilted.weight, sums.n, noise, outside)
        seen = Seen(
            y[:, j],
            scale[:, j],
            tilted.slope[:, j],
            tilted.total_mean[:, j],
            tilted.distance[:, j],
            below,
            above,
            sees,
            block,
        )
        transform = shape.transform(seen)
        transforms.append(transform)
        in_window.append(noise)
        if sees:
            highest = np.floor(transform.width / 2)
        elif sums.lattice:  # every whole number is there: nothing to resolve
            highest = np.full(transform.width.shape, np.inf)
        else:
            highest = _resolved(centred[:, :nodes], tilted.weight[:, :nodes], transform.width)
        most.append(np.minimum(highest, transform.most))
    log_factor = tilted.log_factor + log_constant
    log_factor = log_factor + sum(transform.log_factor for transform in transforms)
    few = 0 < nodes < law.weight.shape[1] and not any(
        sees or transform.smooth for sees, transform in zip(on_lattice, transforms, strict=True)
    )
    inside = tilted.weight[:, :nodes].sum(axis=1)
    few = few and few_records.matter(inside, sums.n, outside)
    return Windowed(
        sums.n,
        tilted,
        transforms,
        log_factor,
        np.stack(most, axis=1),
        np.stack(in_window, axis=1),
        nodes if few else 0,
    )


def _resolved(centred: FloatArray, weight: FloatArray, width: FloatArray) -> FloatArray:
    """The highest harmonic that Gauss nodes resolve, where they carry weight."""
    carries = weight > NEGLIGIBLE * weight.max(axis=1, keepdims=True)
    apart = np.abs(np.diff(centred, axis=1))
    seen = carries[:, 1:] | carries[:, :-1]
    furthest = np.max(apart, axis=1, where=seen, initial=1e-300)
    return np.asarray(np.floor(HALF_TURNS * width / furthest))

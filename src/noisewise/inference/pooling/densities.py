"""The posterior density of every group: its likelihood times the mixture of populations, each
weighed by how well it explains all groups but this one.

  p(theta_g | all) ~ L_g(theta) sum_phi w(phi) p(theta | phi) / Z_g(phi)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from noisewise.inference.grid import adaptive as grids
from noisewise.inference.grid.adaptive import Grid
from noisewise.inference.grid.marginal import Marginal
from noisewise.inference.pooling.curves import Curve
from noisewise.inference.pooling.evidence import Evidence, Groups
from noisewise.inference.pooling.lattice import Lattice, lattice
from noisewise.inference.pooling.populations import Population
from noisewise.model import threads
from noisewise.model.arrays import FloatArray, IntArray

ROUGH = 200
"""Groups with which the search for the population begins."""
SMOOTH = 0.6
"""Populations narrower than this share of the lattice's step in v are taken as wide as that:
side by side they would be a comb. The first two moments are put right afterwards.
"""
CHUNK = 24
"""Groups whose densities are computed at once."""
DEEP, LEAST = 30.0, 24.0
"""A density is computed where the likelihood is above e^-30 of its peak (of what it is where the
population has the group), and kept down to e^-24 of its own.
"""
MOST = 64
"""Points of a density, about: between them it is cubic."""
LARGEST = 0.5
"""A spread that would have to be changed by more is left as it is."""


@dataclass(frozen=True)
class Known(Marginal):
    """A density whose mean and sd are known better than it tells them itself."""

    mean: FloatArray | None = None
    sd: FloatArray | None = None

    @cached_property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of theta, each (groups,)."""
        assert self.mean is not None
        assert self.sd is not None
        return self.mean, self.sd


class Densities:
    """Of all groups, from the lattice of populations and each group's evidence on it."""

    def __init__(self, groups: Groups, lattice: Lattice, evidence: Evidence) -> None:
        self.groups, self.lattice, self.evidence = groups, lattice, evidence
        self.population = groups.population
        assert evidence.first is not None
        assert evidence.second is not None
        first, weight = evidence.first, lattice.weight
        mean = first @ weight + groups.origin
        lower, upper = groups.population.axis.lower, groups.population.axis.upper
        self.mean = np.clip(mean, np.nextafter(lower, 1.0), upper)  # rounding may leave the range
        inner = np.maximum(evidence.second - first**2, 0.0) @ weight
        outer = (first - (first @ weight)[:, None]) ** 2 @ weight
        self.sd = np.sqrt(inner + outer)

    @staticmethod
    def of(curves: Sequence[Curve], population: Population) -> "Densities":
        """From the groups' likelihoods."""
        groups = Groups(curves, population)
        some = curves[:: max(1, len(curves) // ROUGH)]
        rough = Groups(some, population) if len(some) < len(curves) else groups
        grid = lattice(
            lambda at: groups.log_z(at).sum(axis=0) + population.log_prior(at),
            lambda at: rough.log_z(at).sum(axis=0) + population.log_prior(at),
        )
        return Densities(groups, grid, groups.moments(grid.at))

    @cached_property
    def of_mean(self) -> tuple[float, float]:
        """Mean and sd of the population's mean."""
        return self.lattice.moments(self.population.mean)

    @cached_property
    def of_spread(self) -> tuple[float, float]:
        """And of its spread."""
        return self.lattice.moments(self.population.spread)

    @cached_property
    def log_without(self) -> FloatArray:
        """The log weight of every population given all groups but one, (groups, points); the
        highest is 0.
        """
        with np.errstate(divide="ignore"):
            value = np.log(self.lattice.weight) - self.evidence.log_z
        return np.asarray(value - value.max(axis=1, keepdims=True))

    @cached_property
    def _smooth(self) -> FloatArray:
        """The populations, none so narrow that the lattice would show, (points, 2)."""
        at = self.lattice.at
        least = SMOOTH * self.lattice.steps * self.population.step(at)
        return self.population.no_narrower(at, np.maximum(least, 1e-14))

    @cached_property
    def shared(self) -> FloatArray:
        """Points that follow the mixture of all populations, increasing."""
        at, weight = self._smooth, self.lattice.weight
        low, high = self.population.axis.range

        def mixture(psi: FloatArray, group: IntArray) -> FloatArray:
            value = self.population.log_density(psi, at) + np.log(weight)
            top = value.max(axis=1)
            return np.asarray(top + np.log(np.exp(value - top[:, None]).sum(axis=1)))

        centre, width = self.population.centre(at), self.population.width(at)
        ladder = np.concatenate([-np.geomspace(60, 0.5, 9), [0.0], np.geomspace(0.5, 60, 9)])
        heavy = np.argsort(-weight)[:12]
        first = np.concatenate([centre[i] + width[i] * ladder for i in heavy])
        first = np.unique(np.clip(np.append(first, centre), low, high))
        return grids.refine(mixture, grids.begin(mixture, [first])).psi

    def log_without_cdf(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """At the shared points the probability, given all other groups, of lying below and of lying
        above, (groups, points) each.
        """
        psi = self.shared
        height = np.exp(self.population.log_density(psi, self._smooth))  # (psi, populations)
        part = np.diff(psi)[:, None] * (height[1:] + height[:-1]) / 2
        none = np.zeros((1, part.shape[1]))
        below = np.concatenate([none, np.cumsum(part, axis=0)])
        above = np.concatenate([np.cumsum(part[::-1], axis=0)[::-1], none])
        total = np.maximum(below[-1], 1e-300)
        weight = np.exp(self.log_without)
        weight /= weight.sum(axis=1, keepdims=True)
        return psi, weight @ (below / total).T, weight @ (above / total).T

    def marginal(self) -> Known:
        """Of all groups at once."""
        count = len(self.groups)
        weights = self.population.weights(self._smooth)
        parts = [np.arange(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
        found = [
            one
            for part in threads.run(lambda members: self._some(members, weights), parts)
            for one in part
        ]
        psi, value = (np.concatenate([one[k] for one in found]) for k in (0, 1))
        start = np.concatenate([[0], np.cumsum([one[0].size for one in found])])
        decay = np.stack([one[2] for one in found])
        return self._mended(Marginal.of(Grid(psi, value, start), self.population.axis, decay))

    def _some(
        self, members: IntArray, weights: tuple[FloatArray, FloatArray]
    ) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """psi and the log density of some groups, and how fast it falls beyond the last floats."""
        own = [self._points(int(g)) for g in members]
        most = max(one.size for one in own)
        psi = np.stack([np.pad(one, (0, most - one.size), "edge") for one in own])
        features = self.population.features(psi)
        log = features @ weights[0].T + (weights[1] + self.log_without[members])[:, None, :]
        top = log.max(axis=2)
        np.exp(log - top[:, :, None], out=log)
        value = np.log(log.sum(axis=2)) + top
        for row, g in enumerate(members):
            if not self.groups.flat[g]:
                value[row] += self.groups.between.at(psi[row], np.full(most, g))
        out = []
        decay = self._decay(members, weights)
        for one, height, beyond in zip(own, value, decay, strict=True):
            height = np.maximum(height[: one.size], grids.LOWEST)
            near = np.flatnonzero(height > height.max() - LEAST)
            kept = slice(max(near[0] - 1, 0), near[-1] + 2)
            out.append((one[kept], height[kept], beyond))
        return out

    def _decay(self, members: IntArray, weights: tuple[FloatArray, FloatArray]) -> FloatArray:
        """At the first and the last float of theta, the density over the mass that lies beyond,
        (groups, 2); 0 where there is none.
        """
        rate = self.population.decay(self._smooth)
        out = np.zeros((members.size, 2))
        for side, end in enumerate(self.population.axis.range):
            if np.isinf(rate[:, side]).any():
                continue
            value = self.population.features(np.array(end)) @ weights[0].T + weights[1]
            log = value + self.log_without[members]
            top = log.max(axis=1, keepdims=True)
            mass = np.exp(log - top)
            out[:, side] = mass.sum(axis=1) / (mass / rate[:, side]).sum(axis=1)
        return out

    def _points(self, group: int) -> FloatArray:
        if self.groups.flat[group]:
            return self.shared
        curve = self.groups.curves[group]
        # where the likelihood is lower, the population must be higher for the density to matter
        near = np.flatnonzero(curve.value > -DEEP - self._highest[group])
        own = curve.psi[max(near[0] - 1, 0) : near[-1] + 2]
        # beyond a curve that ends high, the likelihood is flat and the population goes on
        low = -np.inf if near[0] == 0 else own[0]
        high = np.inf if near[-1] == curve.psi.size - 1 else own[-1]
        shared = self.shared[(self.shared > low) & (self.shared < high)]
        return _thinned(np.union1d(shared, own))

    @cached_property
    def _highest(self) -> FloatArray:
        """How far below its peak a group's likelihood is where its posterior mean lies, (groups,):
        not at all, unless it contradicts the population.
        """
        psi = self.population.axis.psi(self.mean)
        return np.maximum(-self.groups.between.at(psi, np.arange(len(self.groups))), 0.0)

    def _mended(self, rough: Marginal) -> Known:
        """With the mean and the sd that the evidence tells: each density is moved and stretched
        about its middle.
        """
        mean, sd = rough.moments
        with np.errstate(all="ignore"):
            ratio = np.where(np.abs(self.sd / sd - 1) < LARGEST, self.sd / sd, 1.0)
            middle = self.population.axis.psi(mean)
            shift = (self.mean - mean) / np.exp(self.population.axis.log_jacobian(middle))
        good = np.isfinite(middle) & np.isfinite(shift) & (np.abs(shift) < self.population.unit)
        ratio, shift = np.where(good, ratio, 1.0), np.where(good, shift, 0.0)
        middle = np.where(good, middle, 0.0)
        old, group = rough.of_psi.psi, rough.of_psi.group
        psi = middle[group] + shift[group] + (old - middle[group]) * ratio[group]
        low, high = self.population.axis.range
        psi = np.where((old <= low) | (old >= high), old, np.clip(psi, low, high))
        return Known(replace(rough.of_psi, psi=psi), rough.axis, None, self.mean, self.sd)


def _thinned(psi: FloatArray) -> FloatArray:
    """Every other point, or fewer, where there are more than enough; and both ends."""
    every = -(-psi.size // MOST)
    return psi if every == 1 else np.append(psi[:-1:every], psi[-1])

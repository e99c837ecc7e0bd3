"""Z_g(phi) = integral of L_g(theta) p(theta | phi): the evidence of each group for each population,
and the moments of theta_g given it.

Two rules share the work. The group's own nodes follow its likelihood, which may be far narrower
than the population; they serve where the population is smooth on their scale. Nodes of the
population serve where it is narrower than the group's panels: there the likelihood is the smooth
one. A population that lies beyond a group's nodes gets both, for the two places share nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.inference.pooling.curves import Curve
from noisewise.inference.pooling.nodes import CELLS, Interpolants, Panels, panels
from noisewise.inference.pooling.populations import Population
from noisewise.model import threads
from noisewise.model.arrays import BoolArray, FloatArray, IntArray

HERMITE, HERMITE_WEIGHT = np.polynomial.hermite_e.hermegauss(11)
"""Nodes of a population that is narrow in psi, and so about normal."""
RESOLVED = 0.25
"""A population whose width is this share of a panel is resolved by its six nodes."""
REACH, MOST_PANELS = 6.0, 5
"""A population reaches so many of its widths. If it meets so few of a group's panels, and all of
them are too wide to resolve it, the likelihood is the smooth one.
"""
CHUNK = 192
"""Groups whose nodes are handled at once, and
POPULATIONS that are: what stays in the processor's cache.
"""
POPULATIONS = 8
FAR = 8.0
"""Where a narrow population lies at e^-8 of a likelihood's peak, the peak is looked at too."""
SHARP, SERVES = 0.01, 1e-3
"""A population narrower than 0.01 in psi is normal, to the square of that; of a wider one the
nodes serve if their weights add up to 1 within a thousandth.
"""
LOWEST, HIGHEST = -1e290, 1e140
"""In place of log 0, and the largest theta: its square is a float."""


@dataclass(frozen=True)
class Evidence:
    """log Z, and given phi the mean and the mean square of theta less `origin`; (groups, points)
    each.
    """

    log_z: FloatArray
    first: FloatArray | None = None
    second: FloatArray | None = None


class Groups:
    """The likelihoods of all groups, ready to be integrated over any population."""

    def __init__(
        self, curves: Sequence[Curve], population: Population, cells: float = CELLS
    ) -> None:
        self.curves, self.population = list(curves), population
        self.between = Interpolants.of(curves)
        self.parts = panels(curves, self.between, population, CHUNK, cells)
        peak = [one.psi[int(np.argmax(one.value))] for one in curves]
        # a release that no number of records gives is explained best far out, where no float has
        # room for what is near the population
        self.origin = population.axis.theta(np.clip(peak, *population.ends))
        self.flat = np.array([one.flat for one in curves])
        self._features = [population.features(part.psi) for part in self.parts]
        self._theta = [
            population.axis.theta(part.psi) - self.origin[part.group, None] for part in self.parts
        ]

    def __len__(self) -> int:
        return len(self.curves)

    def log_z(self, at: FloatArray) -> FloatArray:
        """log Z, (groups, points)."""
        return self._integrate(at, False).log_z

    def moments(self, at: FloatArray) -> Evidence:
        """All of it."""
        return self._integrate(at, True)

    def _integrate(self, at: FloatArray, moments: bool) -> Evidence:
        shape = (len(self), len(at))
        log_z = np.zeros(shape)
        first, second = (np.zeros(shape), np.zeros(shape)) if moments else (None, None)
        if moments and self.flat.any():
            assert first is not None
            assert second is not None
            away = self.population.mean(at) - self.origin[self.flat, None]
            first[self.flat] = away
            second[self.flat] = away**2 + self.population.spread(at) ** 2
        narrow = _Narrow.of(self.population, at)
        weights = self.population.weights(at)
        decay = self.population.decay(at)

        def work(place: int) -> FloatArray:
            return self._part(place, narrow, weights, decay, moments)

        for part, found in zip(self.parts, threads.run(work, range(len(self.parts))), strict=True):
            log_z[part.group] = found[0]
            if moments:
                assert first is not None
                assert second is not None
                first[part.group], second[part.group] = found[1], found[2]
        return Evidence(log_z, first, second)

    def _part(
        self,
        place: int,
        narrow: "_Narrow",
        weights: tuple[FloatArray, FloatArray],
        decay: FloatArray,
        moments: bool,
    ) -> FloatArray:
        """log Z and the moments of some groups, (3, groups, points)."""
        part, features, theta = self.parts[place], self._features[place], self._theta[place]
        own, beside = self._rules(part, narrow)
        whole = self._by_group(place, weights, decay, moments)
        whole[0][~own] = LOWEST
        row, column = np.nonzero(beside)
        if row.size == 0:
            return whole
        more = self._by_population(part.group[row], column, narrow)
        whole[:, row, column] = _added(whole[:, row, column], more)
        alone = ~own[row, column]
        row, column = row[alone], column[alone]
        far = self.between.at(narrow.centre[column], part.group[row]) < -FAR
        row, column = row[far], column[far]
        for start in range(0, row.size, CHUNK * POPULATIONS):
            i, j = (
                row[start : start + CHUNK * POPULATIONS],
                column[start : start + CHUNK * POPULATIONS],
            )
            aside = self._aside(part, features, theta, i, j, narrow, weights)
            whole[:, i, j] = _added(whole[:, i, j], aside)
        return whole

    def _rules(self, part: Panels, narrow: "_Narrow") -> tuple[BoolArray, BoolArray]:
        """For each (group, point) whether the group's nodes serve, and whether the
        population's do.
        """
        first, last = narrow.centre - REACH * narrow.width, narrow.centre + REACH * narrow.width
        touched = (last >= part.edges[:, :1]) & (first <= part.edges[:, -1:])
        i, j = ((part.edges[:, 1:-1, None] <= psi).sum(axis=1) for psi in (first, last))
        widths = np.diff(part.edges)
        finest = np.full(touched.shape, np.inf)
        for step in range(MOST_PANELS):
            here = np.take_along_axis(widths, np.minimum(i + step, j), axis=1)
            np.minimum(finest, np.where(here > 0, here, np.inf), out=finest)
        coarse = (j - i < MOST_PANELS) & (RESOLVED * finest > narrow.width)
        return ~(touched & coarse & narrow.serves), (coarse | ~touched) & narrow.serves

    def _by_group(
        self,
        place: int,
        weights: tuple[FloatArray, FloatArray],
        decay: FloatArray,
        moments: bool,
    ) -> FloatArray:
        """log Z and the moments by the groups' own nodes, (3, groups of the part, points)."""
        part, theta = self.parts[place], self._theta[place]
        weight, constant = weights
        groups, points = part.group.size, len(weight)
        out = np.zeros((3, groups, points))
        ends = self._ends(part, weight, constant, decay)
        # log density, its constant, the node's weight and its likelihood as one product
        features = np.concatenate(
            [self._features[place], part.log_weight[:, :, None], np.ones((*theta.shape, 1))], axis=2
        )
        rows = np.concatenate([weight, np.ones((points, 1)), constant[:, None]], axis=1)
        sums = np.ones((groups, 1, theta.shape[1]))
        if moments:
            sums = np.stack([sums[:, 0], theta, theta**2], axis=1)
        for start in range(0, points, POPULATIONS):
            some = slice(start, start + POPULATIONS)
            value = features @ rows[some].T  # (groups, k, some)
            top = np.maximum(np.maximum(value.max(axis=1), ends[0][:, some]), ends[1][:, some])
            value -= np.maximum(top, LOWEST)[:, None, :]
            np.exp(value, out=value)
            found = sums @ value  # (groups, 1 or 3, some)
            for side, end in zip((0, -1), ends, strict=True):
                mass = np.exp(end[:, some] - top)
                away = self.population.axis.theta(part.edges[:, side]) - self.origin[part.group]
                powers = np.stack([np.ones(groups), away, away**2], axis=1)
                found += (
                    np.where(mass > 0, mass, 0.0)[:, None, :] * powers[:, : sums.shape[1], None]
                )
            with np.errstate(divide="ignore", invalid="ignore"):
                out[0][:, some] = np.maximum(np.log(found[:, 0]) + top, LOWEST)
                if moments:
                    out[1:, :, some] = np.nan_to_num(found[:, 1:] / found[:, :1]).swapaxes(0, 1)
        return out

    def _ends(
        self, part: Panels, weight: FloatArray, constant: FloatArray, decay: FloatArray
    ) -> list[FloatArray]:
        """The log of what lies beyond the first and the last node, (groups, points) each, where a
        population reaches beyond them as an exponential and the likelihood is flat or one too.
        """
        out = []
        for side, sign in ((0, 1.0), (-1, -1.0)):
            end = part.edges[:, side]
            value = self.between.at(end, part.group)
            place = self.between.start[part.group + (0 if side == 0 else 1)] + side
            falls = sign * self.between.slope[place]
            features = self.population.features(end)
            slope = sign * (self.population.features(end + 1e-4) - features) / 1e-4
            rate = slope @ weight.T  # of the population at the end: it falls outward if positive
            exponential = rate > 0.9 * decay[:, 0 if side == 0 else 1]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                log = (
                    features @ weight.T + value[:, None] - np.log(rate + falls[:, None]) + constant
                )
            out.append(np.where(exponential, log, -np.inf))
        return out

    def _aside(
        self,
        part: Panels,
        features: FloatArray,
        theta: FloatArray,
        row: IntArray,
        column: IntArray,
        narrow: "_Narrow",
        weights: tuple[FloatArray, FloatArray],
    ) -> FloatArray:
        """What the group's nodes add away from where the population is, (3, pairs), for pairs that
        the population's nodes serve and whose likelihood has its peak elsewhere.
        """
        weight, constant = weights[0][column], weights[1][column]
        value = np.einsum("nkf,nf->nk", features[row], weight) + constant[:, None]
        value += part.log_weight[row]
        away = np.abs(part.psi[row] - narrow.centre[column, None])
        value[away < REACH * narrow.width[column, None]] = -np.inf
        return _figures(value, theta[row])

    def _by_population(self, group: IntArray, point: IntArray, narrow: "_Narrow") -> FloatArray:
        """log Z and the moments by the population's nodes, (3, pairs), of a group and a
        point each.
        """
        psi = narrow.psi[point]  # (pairs, nodes)
        value = self.between.at(psi, np.broadcast_to(group[:, None], psi.shape))
        value += narrow.log_weight[point]
        theta = np.minimum(self.population.axis.theta(psi), HIGHEST)
        return _figures(value, theta - self.origin[group, None])


def _figures(value: FloatArray, theta: FloatArray) -> FloatArray:
    """The log of the sum of e^value, and the mean and mean square of theta under it, (3, pairs)."""
    top = np.maximum(value.max(axis=1), LOWEST)
    mass = np.exp(value - top[:, None])
    total = np.maximum(mass.sum(axis=1), 1e-300)
    first, second = (mass * theta).sum(axis=1) / total, (mass * theta**2).sum(axis=1) / total
    return np.stack([np.maximum(top + np.log(total), LOWEST), first, second])


def _added(one: FloatArray, other: FloatArray) -> FloatArray:
    """The figures of two parts of a group's posterior together."""
    total = np.logaddexp(one[0], other[0])
    old, new = np.exp(one[0] - total), np.exp(other[0] - total)
    return np.stack([total, old * one[1] + new * other[1], old * one[2] + new * other[2]])


@dataclass(frozen=True)
class _Narrow:
    """Nodes of populations in psi: right where these are narrow."""

    centre: FloatArray  # (points,)
    width: FloatArray
    psi: FloatArray  # (points, nodes)
    log_weight: FloatArray
    serves: BoolArray  # (points,): whether the nodes' weights add up to 1

    @classmethod
    def of(cls, population: Population, at: FloatArray) -> "_Narrow":
        centre, width = population.centre(at), population.width(at)
        psi = np.clip(centre[:, None] + width[:, None] * HERMITE, *population.axis.range)
        weight, constant = population.weights(at)
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.einsum("pkf,pf->pk", population.features(psi), weight) + constant[:, None]
            value += HERMITE**2 / 2 + np.log(HERMITE_WEIGHT) + np.log(width)[:, None]
            value = np.nan_to_num(value, nan=LOWEST, neginf=LOWEST)
            total = np.log(np.exp(np.minimum(value, 50.0)).sum(axis=1))
        sharp = width < SHARP * population.unit
        value[sharp] = np.log(HERMITE_WEIGHT) - np.log(2 * np.pi) / 2
        return cls(centre, width, psi, value, sharp | (np.abs(total) < SERVES))

"""Hamiltonian steps for many chains of many groups in one batch.

Before each proposal the variances of the noise are drawn anew, given which everything is smooth;
the preconditioner follows them. Each group has a step size of its own that keeps about 88 % of its
proposals. What a group draws depends on its own generator alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.inference.columns import matrices
from noisewise.inference.columns.target import Target
from noisewise.model.arrays import BoolArray, FloatArray, IntArray

CLIMBS = 25
"""Newton steps to the highest point: quadratic where the noise is small, damped where it is not."""
NUDGE = 1e-5
"""For differences: moments and densities bend over distances of about 1, whatever N."""
STAGES = (15, 20, 25)
"""Steps of the warm-up, after each of which the preconditioner is estimated anew."""
KEPT = 0.88
"""The share of proposals that step sizes aim at; with 0.8 fewer effective draws cost more."""
TURN, LONG_TURN = 2.4, 3.0
"""Length of a proposal's way, in sds: more than a quarter turn, because not all directions are as
narrow as they are taken for; and of chains that mix slowly."""
SWAYS = (0.9, 1.2, 0.7, 1.3)
"""Times TURN, one proposal after the other: no length suits every direction."""
MOST_LEAPS = 16
"""Leapfrog steps of one proposal."""
STUCK = 0.1
"""A chain that keeps a smaller share of its proposals does not move."""
FAR = 1e7
"""A coordinate further out stands for a moment at its very limit."""
FLATTEST = 0.1
"""Curvature of the model that is taken for at least this: no width is above 3."""
LOOKED_AT = 8
"""Chains at whose places the curvature is averaged."""


@dataclass(frozen=True, slots=True)
class State:
    """Where the chains of some groups are, and what is known of the density there."""

    x: FloatArray  # (groups, chains, d)
    step: FloatArray  # (groups,)
    outer: FloatArray  # (groups, statistics, d, d): of a statistic's slope with itself
    bend: FloatArray  # (groups, d, d): curvature of the model

    def take(self, groups: IntArray) -> "State":
        """Of some of the groups."""
        return State(self.x[groups], self.step[groups], self.outer[groups], self.bend[groups])

    @staticmethod
    def join(states: "Sequence[State]") -> "State":
        """Of all their groups."""
        columns = ([getattr(one, name) for one in states] for name in State.__slots__)
        return State(*(np.concatenate(column) for column in columns))


def warm(target: Target, generators: Sequence[np.random.Generator], chains: int) -> State:
    """Chains about each group's highest point, that have forgotten where they began."""
    centre, root = peak(target)
    groups, d = centre.shape
    normal = np.stack([rng.standard_normal((chains, d)) for rng in generators])
    wide = target.take(np.repeat(np.arange(groups), chains))
    precision = 1 / wide.data.variance
    x = np.repeat(centre[:, None], chains, axis=1)
    for size in (0.1, 0.5, 1.0):  # as far out as the density is one
        there = centre[:, None] + size * normal @ root.swapaxes(1, 2)
        good = np.isfinite(_look(wide, there.reshape(-1, d), precision)[0])
        x = np.where(good.reshape(groups, chains, 1), there, x)
    state = State(x, np.full(groups, 0.5), *_curvature(target, centre[:, None]))
    for length in STAGES:
        state = looked_anew(target, go(target, generators, state, length, adapt=True)[0])
    return state


def looked_anew(target: Target, state: State) -> State:
    """With the curvature where the chains are now."""
    return State(state.x, state.step, *_curvature(target, state.x[:, :LOOKED_AT]))


def go(
    target: Target,
    generators: Sequence[np.random.Generator],
    state: State,
    steps: int,
    turn: float = TURN,
    adapt: bool = False,
) -> tuple[State, FloatArray]:
    """So many steps of every chain, (groups, steps, chains, d). Where they are part of the warm-up,
    the step size follows them, and chains that do not move are freed.
    """
    groups, chains, d = state.x.shape
    wide = target.take(np.repeat(np.arange(groups), chains))
    random = _Random.of(generators, (steps, chains), d, wide.data.y.shape[1:])
    kernel = _Kernel(wide, state)
    x: FloatArray = state.x.reshape(-1, d)
    step = state.step
    out, kept = np.empty((groups, steps, chains, d)), np.zeros((groups, chains))
    for k in range(steps):
        leaps = round(turn * SWAYS[k % len(SWAYS)] / float(np.median(step)))
        size = step[:, None] * (0.8 + 0.4 * random.uniform[:, k, 1])
        x, odds = kernel.move(x, random, k, size.reshape(-1, 1), min(max(leaps, 1), MOST_LEAPS))
        odds = odds.reshape(groups, chains)
        kept += odds / steps
        if adapt:
            change = np.exp((odds.mean(axis=1) - KEPT) / np.sqrt(1 + k / 3))
            step = np.clip(step * change, 1e-4, 1.5)
        out[:, k] = x.reshape(groups, chains, d)
    last = x.reshape(groups, chains, d)
    if adapt:
        last = _freed(last, kept < STUCK)
    return State(last, step, state.outer, state.bend), out


@dataclass(frozen=True, slots=True)
class _Random:
    """Every group's random numbers, from its own generator."""

    normal: FloatArray  # (groups, steps, chains, d)
    uniform: FloatArray  # (groups, steps, 2, chains)
    noise_normal: FloatArray  # (groups, steps, chains, parts, statistics)
    noise_uniform: FloatArray

    @classmethod
    def of(
        cls,
        generators: Sequence[np.random.Generator],
        shape: tuple[int, int],
        d: int,
        statistics: tuple[int, ...],
    ) -> "_Random":
        steps, chains = shape
        return cls(
            np.stack([rng.standard_normal((steps, chains, d)) for rng in generators]),
            np.stack([rng.random((steps, 2, chains)) for rng in generators]),
            np.stack([rng.standard_normal((*shape, *statistics)) for rng in generators]),
            np.stack([rng.random((*shape, *statistics)) for rng in generators]),
        )


class _Kernel:
    """Proposals of every chain: rows are groups x chains."""

    def __init__(self, wide: Target, state: State) -> None:
        groups, _, d = state.x.shape
        self.wide, self.groups, self.d = wide, groups, d
        self.outer = state.outer.reshape(groups, -1, d * d)
        values, vectors = np.linalg.eigh(state.bend)
        values = np.maximum(np.abs(values), FLATTEST)[:, None, :]
        self.bend = (vectors * values) @ vectors.swapaxes(1, 2)
        self.precision = self.inverse = np.empty(0)

    def _precondition(self, precision: FloatArray) -> None:
        """`inverse` whitens: of the lower root of the curvature under these variances of the noise.
        Where these have not changed, neither has it.
        """
        if np.array_equal(precision, self.precision):
            return
        self.precision = precision
        of_noise = precision.reshape(self.groups, -1, self.outer.shape[1]) @ self.outer
        shape = (self.groups, -1, self.d, self.d)
        curvature = of_noise.reshape(shape) + self.bend[:, None]
        root = matrices.cholesky(np.asfortranarray(curvature.reshape(-1, self.d, self.d)))
        self.inverse = matrices.lower_inverse(root)

    def move(
        self, x: FloatArray, random: _Random, k: int, size: FloatArray, leaps: int
    ) -> tuple[FloatArray, FloatArray]:
        """Where each chain is after step k, and the odds that its proposal was kept."""
        wide, shape = self.wide, self.wide.data.y.shape
        given = (random.noise_normal[:, k].reshape(shape), random.noise_uniform[:, k])
        noise = wide.data.y - wide.expected(x)
        variance = wide.data.mixing_variance(noise, given[0], given[1].reshape(shape))
        self._precondition(1 / variance)
        inverse, upper = self.inverse, self.inverse.swapaxes(1, 2)
        normal = np.asfortranarray(random.normal[:, k].reshape(x.shape))
        before, gradient = _look(wide, x, self.precision)
        momentum, there = normal, x
        after = before
        for leap in range(leaps + 1):
            share = 0.5 if leap in (0, leaps) else 1.0
            if leap:
                there = there + size * matrices.times_vector(upper, momentum)
                after, gradient = _look(wide, there, self.precision)
            momentum = momentum + share * size * matrices.times_vector(inverse, gradient)
        change = after - before + 0.5 * (normal**2 - momentum**2).sum(axis=1)
        odds = np.nan_to_num(np.exp(np.minimum(change, 0.0)))
        taken = random.uniform[:, k, 0].reshape(-1) < odds
        return np.where(taken[:, None], there, x), odds


def _look(wide: Target, x: FloatArray, precision: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The log density and its gradient; -inf and 0 where it is not a number."""
    near = np.asarray((np.abs(x) < FAR).all(axis=1))
    value, gradient = wide.value(np.where(near[:, None], x, 0.0), precision)
    good = near & np.isfinite(value) & np.isfinite(gradient).all(axis=1)
    return np.where(good, value, -np.inf), np.where(good[:, None], gradient, 0.0)


def _freed(x: FloatArray, stuck: BoolArray) -> FloatArray:
    """Put chains that do not move where another one of their group is: in the warm-up, one that
    began where the density is too steep for the others' steps would stay there for good.
    """
    chain = np.arange(x.shape[1])
    order = np.argsort(np.where(stuck, 1, 0), axis=1, kind="stable")  # those that move, first
    free = np.maximum((~stuck).sum(axis=1), 1)[:, None]
    source = np.where(stuck, np.take_along_axis(order, chain % free, axis=1), chain)
    return np.take_along_axis(x, source[:, :, None], axis=1)


def peak(target: Target) -> tuple[FloatArray, FloatArray]:
    """Where each group's density is highest, all noise taken for normal, and a root of its inverse
    curvature there.
    """
    x, precision = target.start(), 1 / target.data.variance
    value, gradient = target.value(x, precision)
    for _ in range(CLIMBS):
        root = _inverse_root(target, x, precision)
        way = (root @ (root.swapaxes(1, 2) @ gradient[:, :, None]))[:, :, 0]
        longest = np.abs(way).max(axis=1)
        way = way * np.minimum(1.0, 2.0 / np.maximum(longest, 1e-300))[:, None]
        best_x, best, best_gradient = x, value, gradient
        for size in (1.0, 0.5, 0.2, 0.05, 0.01):
            at = x + size * way
            found, slope = target.value(at, precision)
            good = np.isfinite(found) & np.isfinite(slope).all(axis=1) & (found > best)
            best_x = np.where(good[:, None], at, best_x)
            best_gradient = np.where(good[:, None], slope, best_gradient)
            best = np.where(good, found, best)
            if np.all(best > value):
                break
        gain = best - value
        x, value, gradient = best_x, best, best_gradient
        if np.all(gain < 1e-3):
            break
    return x, _inverse_root(target, x, precision)


def _curvature(target: Target, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`outer` and `bend` of a State, averaged over points x, (groups, points, d): the noise's
    curvature is that of Gauss and Newton.
    """
    groups, points, d = x.shape
    shift = NUDGE * np.eye(d)
    moved = np.concatenate([x[:, :, None] + shift, x[:, :, None] - shift], axis=2)
    wide = target.take(np.repeat(np.arange(groups), points * 2 * d))
    flat = moved.reshape(-1, d)
    sides = wide.expected(flat).reshape(groups, points, 2, d, -1)
    slopes = np.nan_to_num((sides[:, :, 0] - sides[:, :, 1]) / (2 * NUDGE))
    slopes = slopes.transpose(0, 3, 2, 1)  # (groups, statistics, d, points)
    gradients = wide.model_gradient(flat).reshape(groups, points, 2, d, d)
    bend = np.nan_to_num((gradients[:, :, 1] - gradients[:, :, 0]) / (2 * NUDGE)).mean(axis=1)
    return slopes @ slopes.swapaxes(2, 3) / points, (bend + bend.swapaxes(1, 2)) / 2


def _inverse_root(target: Target, x: FloatArray, precision: FloatArray) -> FloatArray:
    """A root of the inverse curvature; directions that bend the wrong way, or hardly, count as
    width 2.
    """
    outer, bend = _curvature(target, x[:, None])
    groups, statistics, d, _ = outer.shape
    of_noise = precision.reshape(groups, 1, statistics) @ outer.reshape(groups, statistics, -1)
    curvature = of_noise.reshape(groups, d, d) + bend
    scale = np.sqrt(np.maximum(np.einsum("bii->bi", np.abs(curvature)), 1e-12))
    values, vectors = np.linalg.eigh(curvature / scale[:, :, None] / scale[:, None, :])
    values = np.maximum(np.abs(values), 1e-9)
    root = vectors / np.sqrt(values)[:, None, :] / scale[:, :, None]
    # no step is longer than the coordinates' own scale
    size = np.sqrt((root**2).sum(axis=1, keepdims=True))
    return np.asarray(root * np.minimum(1.0, 2.0 / size))

"""Exact posterior of a categorical's probabilities from one release: the true counts are summed
over by convolution.

With the probabilities integrated out, the counts have the law

  p(s | y) proportional to prod_j f_j(s_j),   f_j(s) = Gamma(a_j + s)/s! noise(y_j - s),   on   sum
  s = n:
independent counts, given their sum. So given y a count s_j has the law f_j(s) G_j(n - s), where
G_j, the law of the
sum of all others, is a product in the Fourier domain; and a probability given its count is Beta(a_j
+ s_j, A - a_j + n - s_j),
A the sum of a. Where n is not public there is the weight w(n) = n!/Gamma(A + n) p(n) in place of
the constraint.

Every f_j is multiplied by e^(t s): that changes nothing given the sum, and with the t that makes n
the mean of the sum the Fourier transform's absolute precision is relative precision. Counts that
the noise leaves within some thousand whole numbers are summed one by one. Wider ones are summed in
bins, fine where f_j changes fast, and convolved on a lattice on which each bin keeps its mass and
mean.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import fft, special

from noisewise.inference.methods.categorical.betas import Betas
from noisewise.inference.methods.categorical.factors import Factors, LogWeight, ladders, settle
from noisewise.inference.observations import Observations
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.priors import Prior

FINE, OF_MANY_FINE = 192, 64
"""Points of a ladder that finds where a count lies, and of one that its bins follow (with more than
2 BLOCK categories).
"""
ONE_BY_ONE = 4096
"""So many counts of a category are summed one by one; more are put into bins."""
LONGEST, SHORTEST, WORK = 1 << 14, 1 << 10, 1 << 23
"""Points of the lattice, at most and at least, and at most for all categories together."""
BLOCK = 32
"""Categories whose transforms are held at once."""
EVERY, TOTALS, OF_MANY, MATTERS = 64, 32, 14, 16.0
"""An unknown n: so many values are summed over one by one; of more, so many evenly spaced (fewer
with more categories than BLOCK, whose sum has a smooth law). Values e^-16 as likely as the
likeliest are left out.
"""
ROUNDING = 1e-17
"""Of a Fourier transform, for each of its points and beside its largest value."""
MOST_ERROR = 0.01
"""A convolution that errs by more, in total variation, is left to the chain."""
NEAR, GAP = 8.0, 10.0
"""Bins of a small concentration are cut finer within so many spacings of 0; and what the finest cut
still changed counts so many times in the error.
"""
BINNED = 1e-3
"""Total variation that bins and their lattice may cost; measured against counts summed one by one.
"""
FLOOR = 1e-13
"""What is smaller, beside the largest, is rounding in the Fourier transform."""
_TILTS = np.geomspace(0.5, 5e4, 16)
"""Slopes, in inverse sds of the sum, at which Chernoff's bound is computed."""
TILTS, OF_MANY_TILTS = 8, 3
"""Tilts from which draws of the total are put together, and with many categories."""
ROUNDS = 10
"""How often counts are drawn again if their total is not one that was wanted."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """The counts of all categories, each by itself, and the lattice on which they are summed."""

    a: FloatArray
    start: FloatArray  # (K,): where counts and their bins begin
    node: FloatArray  # (K, M): the middle of each bin
    width: FloatArray  # (K, M): whole numbers in it
    mass: FloatArray  # (K, M): of the tilted f_j, summing to 1
    spacing: float
    length: int
    total: FloatArray
    """The sum of all counts but for that of the starts: one if n is public, or every one that
    matters.
    """
    log_weight: FloatArray  # of each total

    @property
    def exact(self) -> bool:
        """Whether counts are summed one by one."""
        return self.spacing == 1.0

    def transform(self, rows: "slice | IntArray") -> FloatArray:
        """The Fourier transforms of some categories on the lattice."""
        mass, length = self.mass[rows], self.length
        if self.exact:
            turns = -(-mass.shape[1] // length)
            folded = np.zeros((len(mass), turns * length))
            folded[:, : mass.shape[1]] = mass
            return np.asarray(fft.rfft(folded.reshape(len(mass), turns, length).sum(axis=1)))
        node, width = self.node[rows], self.width[rows]
        edge = np.concatenate([node - width / 2, node[:, -1:] + width[:, -1:] / 2], axis=1)
        return np.asarray(
            fft.rfft(
                np.stack(
                    [_spread(*one, self.spacing, length) for one in zip(edge, mass, strict=True)]
                )
            )
        )

    def at(self, law: FloatArray, total: FloatArray) -> FloatArray:
        """Laws on the lattice, (B, length), at totals of shape (B, ...); between its points along a
        straight line.
        """
        rows = np.arange(len(law)).reshape((-1,) + (1,) * (total.ndim - 1))
        if self.exact:
            return np.maximum(law[rows, np.mod(total, self.length).astype(np.int64)], 0.0)
        place = total / self.spacing
        left = np.floor(place)
        share, k = place - left, np.mod(left, self.length).astype(np.int64)
        return np.maximum(
            law[rows, k] * (1 - share) + law[rows, (k + 1) % self.length] * share, 0.0
        )

    def betas(self) -> tuple[Betas, float]:
        """The law of each probability, and the relative error of the Fourier transforms."""
        k = len(self.a)
        blocks = [slice(i, min(i + BLOCK, k)) for i in range(0, k, BLOCK)]
        products = [np.prod(self.transform(block), axis=0) for block in blocks]
        before, after = _others(np.stack(products))
        parts, error = [], 0.0
        for i, block in enumerate(blocks):
            left, right = _others(self.transform(block))
            rest = fft.irfft(left * right * (before[i] * after[i]), self.length)
            part, lost = self._marginals(block, rest)
            parts.append(part)
            error = max(error, lost)
        size = max(part.weight.shape[1] for part in parts)
        names = ("weight", "mean", "rest", "spread")
        return Betas(
            *(
                np.concatenate([_padded(getattr(part, name), size) for part in parts])
                for name in names
            )
        ), error

    def _marginals(self, block: slice, rest: FloatArray) -> tuple[Betas, float]:
        a, node, start = self.a[block], self.node[block], self.start[block]
        others = self.total[None, :, None] - node[:, None, :]  # (B, totals, M)
        weight = self.mass[block][:, None, :] * np.where(
            others > -self.spacing, self.at(rest, others), 0.0
        )
        scale = weight.sum(axis=2, keepdims=True)
        share = np.exp(self.log_weight - self.log_weight.max())
        share /= share.sum()
        with np.errstate(all="ignore"):
            lost = np.minimum(
                np.nan_to_num(
                    ROUNDING * self.length * rest.max(axis=1)[:, None] / scale[:, :, 0], nan=1.0
                ),
                1.0,
            )
        error = float((lost @ share).max())
        weight = weight / np.where(scale > 0, scale, 1.0) * share[:, None] * (scale > 0)
        count = np.broadcast_to((start[:, None] + node)[:, None, :], weight.shape)
        other = np.maximum(others, 0.0) + (self.start.sum() - start)[:, None, None]
        if not self.exact:
            error += self._blurred(weight, count, other, self.a.sum() - a)
        first, second = a[:, None, None] + count, (self.a.sum() - a)[:, None, None] + other
        rows = (-1, node.shape[1])
        found = Betas.of(weight.reshape(rows), first.reshape(rows), second.reshape(rows)).fewer()
        if self.total.size > 1:
            found = found.rows_as_one(len(a)).fewer()
        return found, error

    def _blurred(
        self, weight: FloatArray, count: FloatArray, other: FloatArray, concentration: FloatArray
    ) -> float:
        """What the lattice may cost where all other counts together are near 0, where theirs is a
        steep law.
        """
        near = (other < NEAR * self.spacing) & (concentration < 1)[:, None, None]
        held = (weight * near).sum(axis=(1, 2))
        if self.total.size > 1:
            return float(held.max())
        mean = (weight * count).sum(axis=(1, 2), keepdims=True)
        sd = np.sqrt((weight * ((count - mean) / self.spacing) ** 2).sum(axis=(1, 2)))
        return float((held / np.maximum(sd, 1.0)).max())

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draws of the counts, (size, K): one category after the other, given the sum of those that
        are left.
        """
        spread = (
            self.mass * (self.node - (self.mass * self.node).sum(axis=1, keepdims=True)) ** 2
        ).sum(axis=1)
        # the widest is what is left at the end, so that the law of what is left is smooth
        order = np.argsort(-spread)
        share = np.exp(self.log_weight - self.log_weight.max())
        left = rng.choice(self.total, size, p=share / share.sum())
        if not self.exact and self.total.size > 1:
            left = left + self.spacing * (rng.random(size) - 0.5)
        product = np.cumprod(self.transform(order[:-1]), axis=0)
        out = np.empty((size, len(self.a)))
        for j in range(len(order) - 1, 0, -1):
            law = fft.irfft(product[j - 1], self.length)
            law[law < FLOOR * law.max()] = 0.0
            out[:, order[j]] = self._given(order[j], law, left, rng)
            left = left - out[:, order[j]]
        out[:, order[0]] = left
        return np.maximum(self.start + out, 0.0)

    def _given(
        self, j: int, law: FloatArray, left: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Draws of one count given its sum with others of the given law.

        Proposals are from f_j with a tilt of the slope that the law has there, one for each of some
        groups of sums.
        """
        node, mass = self.node[j], self.mass[j]
        tilts = TILTS if len(self.a) <= 2 * BLOCK else OF_MANY_TILTS
        rank = np.argsort(np.argsort(left))
        group = rank * tilts // left.size
        middle = np.sort(left)[
            np.minimum((np.arange(tilts) * 2 + 1) * left.size // (2 * tilts), left.size - 1)
        ]
        mean = float(mass @ node)
        reach = max(float(np.sqrt(mass @ (node - mean) ** 2)), self.spacing)
        with np.errstate(all="ignore"):
            ends = [np.log(self._law(law, middle - mean + side * reach)) for side in (-1, 1)]
            tilt = np.nan_to_num((ends[1] - ends[0]) / (2 * reach), nan=0.0, posinf=0.0, neginf=0.0)
            log_mass = np.log(mass)
            table = log_mass - tilt[:, None] * (node - mean)
            table = np.exp(table - table.max(axis=1, keepdims=True))
            cumulative = np.cumsum(table, axis=1)
            cumulative /= cumulative[:, -1:]
        bound = np.array(
            [self._most(law, left[group == g], node, tilt[g], middle[g]) for g in range(tilts)]
        )
        picked = np.full(left.size, -1)
        open_rows = np.arange(left.size)
        stacked = (cumulative + np.arange(tilts)[:, None]).ravel()
        for _ in range(ROUNDS):
            here = group[open_rows]
            found = np.searchsorted(stacked, here + rng.random(open_rows.size))
            tried = np.minimum(found - here * node.size, node.size - 1)
            rest = left[open_rows] - node[tried]
            with np.errstate(all="ignore"):
                gain = (
                    np.log(self._law(law, rest)) - tilt[here] * (rest - middle[here]) - bound[here]
                )
            good = np.log(rng.random(open_rows.size)) < gain
            picked[open_rows[good]] = tried[good]
            open_rows = open_rows[~good]
            if open_rows.size == 0:
                break
        for start in range(0, open_rows.size, 256):
            some = open_rows[start : start + 256]
            weight = np.cumsum(mass * self._law(law, left[some][:, None] - node), axis=1)
            picked[some] = (weight < (rng.random(some.size) * weight[:, -1])[:, None]).sum(axis=1)
        picked = np.minimum(picked, node.size - 1)
        width = self.width[j][picked]
        return np.asarray(node[picked] - (width - 1) / 2 + np.floor(width * rng.random(left.size)))

    def _law(self, law: FloatArray, total: FloatArray) -> FloatArray:
        return np.asarray(np.where(total > -self.spacing, self.at(law[None], total[None])[0], 0.0))

    def _most(
        self, law: FloatArray, left: FloatArray, node: FloatArray, tilt: float, middle: float
    ) -> float:
        """log of the most that the law, with the tilt taken off, is at what any of the sums may
        leave.
        """
        if left.size == 0:
            return 0.0
        low, high = max(left.min() - node.max(), -self.spacing), left.max() - node.min()
        first, last = math.floor(low / self.spacing), math.ceil(high / self.spacing)
        steps = np.arange(first, min(last, first + self.length) + 1)
        at = np.asarray(steps * self.spacing, dtype=np.float64)
        with np.errstate(all="ignore"):
            most = np.max(np.log(self._law(law, at)) - tilt * (at - middle), initial=-np.inf)
        most = most + (0.0 if self.exact else abs(tilt) * self.spacing)
        return float(most) if math.isfinite(most) else 0.0


def _others(factors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The products of all rows before each, and of all after it."""
    one = np.ones_like(factors[:1])
    before = np.cumprod(np.concatenate([one, factors[:-1]]), axis=0)
    after = np.cumprod(np.concatenate([one, factors[:0:-1]]), axis=0)[::-1]
    return before, after


def _padded(values: FloatArray, size: int) -> FloatArray:
    """Further Betas of weight 0."""
    extra = np.zeros((len(values), size - values.shape[1])) + values[:, -1:]
    return np.concatenate([values, extra], axis=1)


def _spread(edge: FloatArray, mass: FloatArray, spacing: float, length: int) -> FloatArray:
    """The mass of bins, even within each, on a cyclic lattice: shared by the two points beside it,
    so that its mean stays.
    """
    below = np.concatenate([[0.0], np.cumsum(mass)])
    twice = np.concatenate([[0.0], np.cumsum((below[1:] + below[:-1]) / 2 * np.diff(edge))])
    k = np.arange(math.floor(edge[0] / spacing) - 1, math.ceil(edge[-1] / spacing) + 2)
    x = k * spacing
    i = np.clip(np.searchsorted(edge, x, side="right") - 1, 0, mass.size - 1)
    into, width = np.clip(x - edge[i], 0.0, None), edge[i + 1] - edge[i]
    inside = np.minimum(into, width)
    part = below[i] * inside + np.divide(
        mass[i] * inside**2, 2 * width, out=np.zeros(x.size), where=width > 0
    )
    integral = twice[i] + part + (into - inside) * below[-1]
    shared = np.diff(integral, 2) / spacing
    return np.asarray(
        np.bincount(np.mod(k[1:-1], length), np.maximum(shared, 0.0), length), dtype=np.float64
    )


def convolve(factors: Factors, n: float | None, n_prior: Prior | None) -> Convolution:
    """Lay out the counts of one release."""
    weight = LogWeight(float(factors.a.sum()), n_prior)
    found = settle(factors, n, weight)
    low, high = found.low, found.high
    anchors = sum(int(anchor) for anchor in found.anchor)
    if n is not None:  # what the others leave
        for _ in range(2):
            left = float(int(n) - anchors)
            low = np.clip(left - (high.sum() - high), low, high)
            high = np.clip(left - (low.sum() - low), low, high)
    size = high - low + 1
    sd = float(np.sqrt(np.minimum(found.variance, size**2 / 4).sum()))
    need = float(size.sum())
    if need > ONE_BY_ONE:  # the rest of the sum's law, beyond one period, is below 10^-10
        need = min(need, max(10 * sd + 0.7 * float(size.max()), ONE_BY_ONE))
    k = len(factors.a)
    longest = min(max(WORK // k, SHORTEST), LONGEST)
    if need <= longest and size.max() <= ONE_BY_ONE and k * size.max() <= 2 * WORK:
        spacing, edge = 1.0, np.minimum(np.arange(size.max() + 1)[None, :], size[:, None])
    else:
        spacing = max(need / longest, 1.0 + 1e-9)
        fine = np.maximum(np.sqrt(found.variance), 4.0) / 8
        edge = (
            np.round(
                ladders(found.anchor, fine, low, high + 1, FINE if k <= 2 * BLOCK else OF_MANY_FINE)
            )
            - low[:, None]
        )
        edge[:, -1] = size
    width = np.diff(edge, axis=1)
    node = (edge[:, :-1] + edge[:, 1:] - 1) / 2
    away = low[:, None] + node
    value = np.where(width > 0, factors.log(found.anchor, away) + found.tilt * away, -np.inf)
    mass = width * np.exp(value - value.max(axis=1, keepdims=True))
    mass /= mass.sum(axis=1, keepdims=True)
    length = int(fft.next_fast_len(math.ceil(need / spacing), real=True))
    start = found.anchor + low
    about = float(((mass * node).sum(axis=1)).sum())
    made = Convolution(
        factors.a, start, node, width, mass, spacing, length, np.array([about]), np.zeros(1)
    )
    if n is not None:
        exactly = float(int(n) - anchors - sum(int(one) for one in low))
        return replace(made, total=np.array([exactly]))
    total, log_weight = _totals(made, weight, found.tilt, about)
    return replace(made, total=total, log_weight=log_weight)


def _chernoff(made: Convolution, total: FloatArray) -> FloatArray:
    """No sum is likelier than this, in the log: a weight that varies widely must not raise the
    transform's rounding.
    """
    mean = (made.mass * made.node).sum(axis=1, keepdims=True)
    sd = math.sqrt((made.mass * (made.node - mean) ** 2).sum())
    bound = np.zeros(total.shape)
    with np.errstate(all="ignore"):
        log_mass = np.log(made.mass)
        for tilt in np.concatenate([-_TILTS, _TILTS]) / max(sd, 1e-3):
            cumulant = special.logsumexp(log_mass + tilt * (made.node - mean), axis=1).sum()
            bound = np.minimum(bound, cumulant - tilt * (total - mean.sum()))
    return bound


def _totals(
    made: Convolution, weight: LogWeight, tilt: float, about: float
) -> tuple[FloatArray, FloatArray]:
    """The sums that matter where n is not public, and their weights."""
    k = len(made.a)
    product = np.ones(made.length // 2 + 1, dtype=np.complex128)
    for start in range(0, k, BLOCK):
        product = product * np.prod(made.transform(slice(start, start + BLOCK)), axis=0)
    law = fft.irfft(product, made.length)
    first = max(math.floor(about / made.spacing) - made.length // 2, 0)
    total = np.asarray(np.arange(first, first + made.length) * made.spacing, dtype=np.float64)
    held = made.at(law[None], total[None])[0]
    n = made.start.sum() + total
    if not made.exact:
        n = np.maximum(n, made.spacing / 2)  # the first cell is more than 0
    with np.errstate(all="ignore"):
        log_law = np.minimum(
            np.log(np.where(held > FLOOR * held.max(), held, 0.0)), _chernoff(made, total)
        )
        log_weight = log_law + weight(n) - tilt * (total - about)
    log_weight = np.nan_to_num(log_weight - np.nanmax(log_weight), nan=-np.inf)
    within = np.flatnonzero(log_weight > -MATTERS)
    size = within[-1] - within[0] + 1
    stride = 1 if size <= EVERY and k <= BLOCK else -(-size // (TOTALS if k <= BLOCK else OF_MANY))
    chosen = np.arange(within[0], within[-1] + 1, stride)
    log_weight = log_weight[chosen]
    if stride > 1 and made.start.sum() + total[chosen[0]] < 0.5:
        log_weight[0] -= math.log(2)  # the trapezoidal rule, from its end
    return total[chosen], log_weight


def solve(
    observations: Observations, concentration: FloatArray
) -> tuple[Convolution, Betas, float]:
    """The one group of the observations: its counts, the law of each probability, and the error of
    that.
    """
    n = float(observations.n[0]) if observations.public else None
    step = np.full(1, float(observations.block))
    shape = concentration.shape
    factors = Factors(
        observations.y[0],
        np.broadcast_to(observations.scale[0], shape),
        np.broadcast_to(step, shape),
        concentration,
        observations.shape,
        math.inf if n is None else n,
    )
    made = convolve(factors, n, observations.n_prior)
    betas, error = made.betas()
    if not made.exact:
        error += BINNED
    gap = abs(float(betas.moments[0].sum()) - 1)  # the means of all probabilities sum to 1
    return made, betas, error + GAP * gap if math.isfinite(gap) else math.inf

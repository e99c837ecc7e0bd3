"""A number of records that is not public: the likelihood is summed over n,

  p(y0, y | theta) = sum_n p(n) h(y0 - n) p(y | n, theta),   y0 the noisy count and h its noise.
Few records are counted one by one; beyond, the sum is an integral by Gauss-Legendre rules on panels that follow the
noise. The collapsed likelihood is had at every node, the exact one at few whole numbers: their difference is smooth in n.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import special

from noisewise.mechanism.noise import DiscreteGaussian, Gaussian, Noise
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.priors import Prior

ONE_BY_ONE = 32
ENUMERATED = 96
"""A window of so many whole numbers needs no quadrature."""
_PANELS = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0])
_ANCHORS = np.array([0.0, 0.7, 2.0, 6.0, 16.0])
"""In scales of the noise, on either side of the noisy count. Beyond 40 of them Laplace noise has probability e^-40."""
_UNIT, _WEIGHT = np.polynomial.legendre.leggauss(6)
FINEST = 16


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is known of each group's n before its statistic is looked at."""

    node: FloatArray  # (groups, nodes)
    log_weight: FloatArray  # (groups, nodes): of p(n) h(y0 - n), and of the rule
    whole: FloatArray  # (groups, anchors): where the exact likelihood is had
    log_weight_of_whole: FloatArray  # (groups, anchors): of p(n) h(y0 - n) there
    left: IntArray  # (groups, nodes): a node lies between the anchors left and left + 1,
    share: FloatArray  # (groups, nodes): this far from the first to the second

    def take(self, rows: "slice | IntArray") -> "Sizes":
        """Some of the groups."""
        return Sizes(*(getattr(self, field.name)[rows] for field in fields(self)))

    def between(self, value: FloatArray, group: IntArray) -> FloatArray:
        """From values at the anchors, (batch, anchors), to those at the nodes."""
        left, share = self.left[group], self.share[group]
        right = np.minimum(left + 1, value.shape[1] - 1)
        return np.take_along_axis(value, left, axis=1) * (1 - share) + np.take_along_axis(value, right, axis=1) * share

    def sum(self, value: FloatArray, group: IntArray) -> FloatArray:
        """log of the sum over n of e^value, (batch, nodes)."""
        return np.asarray(special.logsumexp(np.nan_to_num(value, nan=-np.inf) + self.log_weight[group], axis=1))


def sizes_of(values: Sequence[float], noises: Sequence[Noise], finer: FloatArray, prior: Prior | None) -> Sizes:
    """Nodes for each group; `finer` is how much faster than the noise of its count a group's likelihood changes with n."""
    made = [_group(y, noise, float(f), prior) for y, noise, f in zip(values, noises, finer, strict=True)]
    nodes, anchors = max(len(one[0]) for one in made), max(len(one[2]) for one in made)
    return Sizes(
        np.stack([_padded(node, nodes, 1.0) for node, *_ in made]),
        np.stack([_padded(weight, nodes, -np.inf) for _, weight, *_ in made]),
        np.stack([_padded(whole, anchors, whole[-1]) for _, _, whole, *_ in made]),
        np.stack([_padded(weight, anchors, -np.inf) for _, _, _, weight, *_ in made]),
        np.stack([_padded(left, nodes, 0) for *_, left, _ in made]),
        np.stack([_padded(share, nodes, 0.0) for *_, share in made]),
    )


def _group(y: float, noise: Noise, finer: float, prior: Prior | None) -> tuple[Any, ...]:
    scale = float(noise.scales[0])
    reach = (9.0 if isinstance(noise, (Gaussian, DiscreteGaussian)) else _PANELS[-1]) * scale
    low = max(0.0, np.floor(y - reach))
    high = max(np.ceil(y + reach), low + ONE_BY_ONE)
    start = low if high - low > ENUMERATED else high + 1  # of the quadrature
    start = max(start, ONE_BY_ONE) if low < ONE_BY_ONE else start
    single = np.arange(low, start)
    node, log_weight, whole = single, np.zeros(single.size), single[single < ONE_BY_ONE]
    if start <= high:
        steps = np.unique(
            np.concatenate([np.linspace(a, b, 1 + int(np.clip(np.ceil(finer), 1, FINEST))) for a, b in _pairs(_PANELS)])
        )
        edges = y + scale * np.concatenate([-steps[::-1], steps])
        edges = np.unique(np.concatenate([[start - 0.5, high + 0.5], edges[(edges > start - 0.5) & (edges < high + 0.5)]]))
        half = np.diff(edges)[:, None] / 2
        node = np.concatenate([node, (edges[:-1, None] + half * (1 + _UNIT)).ravel()])
        log_weight = np.concatenate([log_weight, np.log(half * _WEIGHT).ravel()])
    most = node.max()
    if most >= ONE_BY_ONE:
        spread = np.round(y + scale * np.concatenate([-_ANCHORS[::-1], _ANCHORS]))
        whole = np.unique(np.concatenate([whole, np.clip(spread, max(low, ONE_BY_ONE), np.floor(most))]))

    def known(n: FloatArray) -> FloatArray:
        z = (y - n) / scale
        value = -(z**2) / 2 if isinstance(noise, (Gaussian, DiscreteGaussian)) else -np.abs(z)
        if prior is None:
            return value
        with np.errstate(all="ignore"):
            return np.asarray(value + np.nan_to_num(prior.log_density(np.maximum(n, 1e-300)[:, None]), nan=-np.inf))

    log_weight = log_weight + known(node)
    left = np.clip(np.searchsorted(whole, node, side="right") - 1, 0, max(whole.size - 2, 0))
    right = np.minimum(left + 1, whole.size - 1)
    share = np.where(right > left, (node - whole[left]) / np.where(right > left, whole[right] - whole[left], 1.0), 0.0)
    return node, log_weight, whole, known(whole), left, np.clip(share, 0.0, 1.0)


def _pairs(edges: FloatArray) -> list[tuple[float, float]]:
    return list(pairwise(edges))


def _padded(values: Any, size: int, filler: float) -> Any:
    return np.concatenate([values, np.full(size - len(values), filler, dtype=values.dtype)])

"""What `pool` returns."""

from functools import cached_property
from typing import Any, final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.inference.certificate import Certificate
from noisewise.inference.pooling.certified import label
from noisewise.inference.pooling.solutions import Pool, PopulationPosterior
from noisewise.inference.posteriors import Posteriors
from noisewise.inference.value import Value
from noisewise.model.arrays import FloatArray

CHUNK = 128
"""Groups whose draws are made, or rows that are ranked, at once."""


@final
class Pooled:
    """The population, the groups in its light, how these rank, and how far to trust it."""

    def __init__(
        self,
        population: PopulationPosterior,
        groups: Posteriors,
        pool: Pool,
        draws: int,
    ) -> None:
        self.population, self.groups, self.releases = population, groups, pool.releases
        self._pool, self._size = pool, draws

    @property
    def conflicts(self) -> FloatArray:
        """For each group, how probable it is that it differs at least so much from a population
        that it belongs to, (groups,).
        """
        return self._pool.conflicts

    @property
    def certificate(self) -> Certificate:
        """How wrong the numbers may be, what is assumed, and which groups contradict it."""
        return self._pool.certificate

    @property
    def name(self) -> str:
        """The parameter that is pooled."""
        return self.groups[0].names[0]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What the groups are called."""
        return tuple(label(self.releases, g) for g in range(len(self.releases)))

    @cached_property
    def draws(self) -> FloatArray:
        """Draws of all groups, (draws, groups): those of one row belong together, and to the row of
        `population.draws`.

        Every group's draws are from its own posterior; how the groups move together is taken from
        the population that each row belongs to, with theta normal given it.
        """
        rng = np.random.default_rng(self.population._seed())
        densities, size = self._pool.densities, self._size
        lattice, population = densities.lattice, densities.population
        at = lattice.draw(rng, size)  # the first that population.draws draws, too
        row = lattice.nearest(at)
        shift = population.mean(at) - population.mean(lattice.at[row])
        spread = np.maximum(population.spread(lattice.at[row]), 1e-300)
        first, second = densities.evidence.first, densities.evidence.second
        assert first is not None
        assert second is not None
        marginal = self._pool.marginal
        out = np.empty((size, len(self.groups)))
        for start in range(0, len(self.groups), CHUNK):
            some = np.arange(start, min(start + CHUNK, len(self.groups)))
            mean = first[some][:, row]
            variance = np.maximum(second[some][:, row] - mean**2, 0.0)
            pulled = np.minimum(variance / spread**2, 1.0) * shift
            crude = mean + pulled + np.sqrt(variance) * rng.standard_normal(mean.shape)
            order = np.argsort(crude, axis=1)
            level = (np.arange(size) + rng.random((some.size, size))) / size  # increasing
            group = np.broadcast_to(some[:, None], level.shape)
            exact = marginal.axis.theta(marginal.of_psi.quantile(level, group))
            np.put_along_axis(crude, order, exact, axis=1)
            out[:, some] = crude.T
        return out

    def difference(self, one: int | str, other: int | str) -> Value:
        """Of two groups, by their positions or names: the parameter of one less that of the other.

        The draws belong together, since both groups lean on one population.
        """
        return Value(self.draws[:, self._position(one)] - self.draws[:, self._position(other)])

    def ranks(self, level: float = 0.9) -> list[dict[str, Any]]:
        """One row for each group: its rank, 1 for the largest parameter, as a mean and an interval,
        and the probabilities of being the largest and the smallest of all.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}; such as 0.9.")
        rank = self._ranks
        places = [
            int(np.clip(np.ceil(q * len(rank)) - 1, 0, len(rank) - 1))
            for q in ((1 - level) / 2, (1 + level) / 2)
        ]
        ends: list[Any] = [
            np.sort(rank[:, start : start + CHUNK], axis=0)[places]
            for start in range(0, rank.shape[1], CHUNK)
        ]
        low, high = np.concatenate(ends, axis=1)
        columns = zip(
            self.labels,
            rank.mean(axis=0).tolist(),
            low.tolist(),
            high.tolist(),
            (rank == 1).mean(axis=0).tolist(),
            (rank == len(self.groups)).mean(axis=0).tolist(),
            strict=True,
        )
        return [
            {
                "release": g,
                "group": name,
                "rank": mean,
                "lower": int(a),
                "upper": int(b),
                "largest": first,
                "smallest": last,
            }
            for g, (name, mean, a, b, first, last) in enumerate(columns)
        ]

    @cached_property
    def _ranks(self) -> Any:
        """(draws, groups), from 1."""
        rank: Any = np.empty(self.draws.shape, dtype=np.int32)
        numbers = np.arange(1, rank.shape[1] + 1, dtype=np.int32)
        for start in range(0, len(rank), CHUNK):
            some = slice(start, start + CHUNK)
            order = np.argsort(-self.draws[some], axis=1, kind="stable")
            np.put_along_axis(rank[some], order, numbers[None, :], axis=1)
        return rank

    @cached_property
    def above_average(self) -> FloatArray:
        """The probability that each group's parameter is above the population's mean, (groups,)."""
        mean = self.population.draws["mean"][:, None]
        return np.asarray((self.draws > mean).mean(axis=0))

    def differ(self, level: float = 0.95) -> list[dict[str, Any]]:
        """The groups that differ from the average: whose parameter is above the population's mean,
        or below it, with probability `level` at least. The most certain first.
        """
        if not 0.5 < level < 1:
            raise ValueError(f"level must lie between 0.5 and 1, got {level}; such as 0.95.")
        sure = np.maximum(self.above_average, 1 - self.above_average)
        mean = self.population.draws["mean"]
        out = []
        for g in np.argsort(-sure, kind="stable"):
            if sure[g] < level:
                break
            gap = Value(self.draws[:, g] - mean)
            low, high = gap.interval(0.9)
            out.append(
                {
                    "release": int(g),
                    "group": self.labels[g],
                    "side": "above" if self.above_average[g] > 0.5 else "below",
                    "probability": float(sure[g]),
                    "difference": gap.mean,
                    "5%": low,
                    "95%": high,
                }
            )
        return out

    def table(self) -> list[dict[str, Any]]:
        """One row for each group: as that of `infer_many`, with its rank, its interval of ranks,
        and the probabilities of being above the average and of contradicting the population.
        """
        rows = zip(self.figures(), self.ranks(), strict=True)
        return [
            row
            | {
                "rank": rank["rank"],
                "rank_5%": rank["lower"],
                "rank_95%": rank["upper"],
                "above_average": float(self.above_average[g]),
                "conflict": float(self.conflicts[g]),
            }
            for g, (row, rank) in enumerate(rows)
        ]

    def figures(self) -> list[dict[str, Any]]:
        """One row for each group: as that of `infer_many`, of the pooled parameter."""
        return [row for row in self.groups.table() if row["name"] == self.name]

    def plot(self, axes: Any = None) -> Any:
        """A forest of the groups, sorted, with the population; returns the matplotlib figure."""
        from noisewise.report.forest import plot_forest

        return plot_forest(self, axes)

    def __len__(self) -> int:
        return len(self.groups)

    def __repr__(self) -> str:
        return f"Pooled({len(self)} groups of {self.name})\n{self.population.summary()}"

    def _position(self, group: int | str) -> int:
        if isinstance(group, str):
            if self.labels.count(group) != 1:
                said = "no group" if group not in self.labels else "more than one group"
                raise UnsupportedCombination(f"{said} is called {group!r}; give its position.")
            return self.labels.index(group)
        if not -len(self) <= group < len(self):
            raise UnsupportedCombination(f"there are {len(self)} groups; got position {group}.")
        return group

"""What is planned: everything about a release but its n and its cost."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.privacy import Cost
from noisewise.model.arrays import FloatArray

GOAL = 0.01
"""The Monte Carlo error of a typical width, of itself, at which simulating stops."""


@final
@dataclass(frozen=True, slots=True)
class Widths:
    """Of the intervals of several quantities in simulated releases, and of those that every record
    without noise would give, both (trials, quantities).
    """

    private: FloatArray
    public: FloatArray

    def typical(self) -> FloatArray:
        """The median width of each quantity: half of the releases give a narrower interval."""
        return np.asarray(np.median(self.private, axis=0))

    def non_private(self) -> FloatArray:
        """The same without noise."""
        return np.asarray(np.median(self.public, axis=0))

    def error(self) -> FloatArray:
        """The Monte Carlo standard error of the typical width: that of a median, the spread taken
        from the quartiles.
        """
        with np.errstate(invalid="ignore"):  # infinite widths
            low, high = np.quantile(self.private, [0.25, 0.75], axis=0)
            spread = (high - low) / 1.349
        return np.asarray(1.2533 * spread / np.sqrt(len(self.private)))

    def ratio(self) -> tuple[FloatArray, FloatArray]:
        """How many times the non-private width, on average over trials as in `compare`, and its
        standard error.
        """
        times = self.private / self.public
        return times.mean(axis=0), times.std(axis=0, ddof=1) / np.sqrt(len(times))

    def joined(self, other: "Widths") -> "Widths":
        """With more trials."""
        return Widths(
            np.concatenate([self.private, other.private]),
            np.concatenate([self.public, other.public]),
        )


class Design(ABC):
    """A model, its bounds and neighbours, a truth or a prior to draw it from."""

    @property
    @abstractmethod
    def trials(self) -> tuple[int, int]:
        """How many are simulated at first, and at most: fewer where a posterior takes long."""

    @property
    @abstractmethod
    def slow(self) -> bool:
        """Whether several cores are worth their start."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The quantities whose intervals are told, the main one first."""

    @property
    @abstractmethod
    def least_n(self) -> int:
        """The fewest records that have a posterior."""

    @property
    @abstractmethod
    def key(self) -> str:
        """Names this design among all others."""

    @property
    @abstractmethod
    def about(self) -> str:
        """In a sentence: the model, and what is taken for its truth."""

    @abstractmethod
    def simulate(self, n: int, cost: Cost, trials: int, rng: np.random.Generator) -> Widths:
        """The widths of so many simulated releases of n records."""

    @final
    def widths(self, n: int, cost: Cost, trials: int | None, rng: np.random.Generator) -> Widths:
        """Of as many trials as asked for, or until the typical width is known well enough."""
        if n < self.least_n:
            raise UnsupportedCombination(f"n must be at least {self.least_n} here, got {n}.")
        few, most = self.trials
        found = self.simulate(n, cost, few if trials is None else trials, rng)
        while trials is None and len(found.private) < most:
            if found.error()[0] <= GOAL * found.typical()[0]:
                break
            more = min(len(found.private), most - len(found.private))
            found = found.joined(self.simulate(n, cost, more, rng))
        return found


def chosen(of: "str | list[str] | tuple[str, ...] | None", known: dict[str, bool]) -> list[str]:
    """The quantities asked for, of those known; those marked where nobody asks."""
    if of is None:
        return [name for name, usual in known.items() if usual]
    wanted = [of] if isinstance(of, str) else list(of)
    for name in wanted:
        if name not in known:
            raise UnsupportedCombination(
                f"there is no width of {name!r} here; of= (--of) may be: {', '.join(known)}."
            )
    return wanted

"""A number, or several, that are known by their draws."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from noisewise.model.arrays import FloatArray


@final
@dataclass(frozen=True, slots=True, repr=False)
class Value:
    """Draws of one number, (draws,), or of several with a label each, (draws, k)."""

    draws: FloatArray
    labels: tuple[str, ...] = ()

    @property
    def mean(self) -> Any:
        """A float, or (k,)."""
        return self._out(self.draws.mean(axis=0))

    @property
    def sd(self) -> Any:
        """A float, or (k,)."""
        return self._out(self.draws.std(axis=0))

    def quantile(self, q: float) -> Any:
        """A float, or (k,)."""
        if not 0 < q < 1:
            raise ValueError(f"q must lie between 0 and 1, got {q}.")
        return self._out(np.quantile(self.draws, q, axis=0))

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """The equal-tailed interval that holds it with probability `level`."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}; such as 0.9.")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def probability(self, above: float = 0.0) -> Any:
        """That it is larger than `above`: a float, or (k,)."""
        return self._out((self.draws > above).mean(axis=0))

    def _out(self, values: FloatArray) -> Any:
        return float(values) if self.draws.ndim == 1 else values

    def __repr__(self) -> str:
        rows = self.draws[:, None] if self.draws.ndim == 1 else self.draws
        names = self.labels if self.draws.ndim > 1 else ("",)
        low, high = np.quantile(rows, [0.05, 0.95], axis=0)
        lines = [
            f"{name + ': ' if name else ''}{m:.4g}, 90 % in {a:.4g} to {b:.4g}"
            for name, m, a, b in zip(names, rows.mean(axis=0), low, high, strict=True)
        ]
        return "\n".join(lines)

"""In what a release is paid: epsilon, epsilon with a delta, or rho."""

from dataclasses import dataclass
from functools import lru_cache
from typing import final

from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.opendp import concentrated_within
from noisewise.mechanism.privacy import (
    Cost,
    Currency,
    concentrated,
    exact_delta,
    exact_epsilon,
    pure,
    text,
)
from noisewise.report.widths import SYMBOLS


@final
@dataclass(frozen=True, slots=True)
class Payment:
    """The currency that a person speaks in; with a delta, an epsilon is paid as a rho."""

    currency: Currency
    delta: str | None = None

    def cost(self, amount: float) -> Cost:
        """Of an amount in this currency."""
        return _cost(self, amount)

    def derived_from(self, amount: float) -> tuple[str, str] | None:
        """The epsilon and delta that the cost is derived from, if it is."""
        if self.delta is None:
            return None
        return text(exact_epsilon(amount)), text(exact_delta(self.delta))

    @property
    def symbol(self) -> str:
        """For tables and figures."""
        return SYMBOLS[self.currency]

    @property
    def limits(self) -> tuple[float, float]:
        """Amounts between which a wanted width is looked for."""
        return (1e-4, 100.0) if self.currency == "epsilon" else (1e-8, 1000.0)


@lru_cache
def _cost(payment: Payment, amount: float) -> Cost:
    if payment.currency == "rho":
        return concentrated(amount)
    if payment.delta is not None:
        return concentrated_within(exact_epsilon(amount), exact_delta(payment.delta))
    return pure(amount)


def payment(epsilon: object, rho: object, delta: object) -> Payment:
    """What a person speaks in; anything else is refused."""
    if (epsilon is None) == (rho is None) or (delta is not None and epsilon is None):
        raise UnsupportedCombination(
            "say what a release may cost: epsilon, or epsilon and delta, or rho."
        )
    said = None if delta is None else text(exact_delta(delta))  # type: ignore[arg-type]
    return Payment("epsilon" if rho is None else "rho", said)

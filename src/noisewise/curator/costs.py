"""What a person says that something may cost: epsilon, epsilon and delta, or rho."""

from decimal import Decimal

from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.opendp import concentrated_within
from noisewise.mechanism.privacy import (
    Cost,
    Currency,
    concentrated,
    exact_delta,
    exact_epsilon,
    is_zero,
    pure,
)


def asked_cost(epsilon: object, delta: object, rho: object) -> Cost:
    """The cost of the statistic: pure epsilon, or rho, given as itself or as the most that
    (epsilon, delta) allow.
    """
    if (epsilon is None) == (rho is None) or (delta is not None and epsilon is None):
        raise UnsupportedCombination(
            "say what the release may cost: epsilon, or epsilon and delta, or rho."
        )
    if rho is not None:
        return concentrated(rho)  # type: ignore[arg-type]
    if delta is not None:
        return concentrated_within(exact_epsilon(epsilon), exact_delta(delta))  # type: ignore[arg-type]
    return pure(epsilon)  # type: ignore[arg-type]


def asked_limit(epsilon: object, delta: object, rho: object) -> Cost:
    """What a dataset may cost in all: as the cost of a release, or nothing at all."""
    alone: tuple[tuple[Currency, object, tuple[object, object]], ...] = (
        ("epsilon", epsilon, (delta, rho)),
        ("rho", rho, (delta, epsilon)),
    )
    for currency, amount, others in alone:
        if others == (None, None) and is_zero(amount, currency):
            return Cost(currency, Decimal(0))
    return asked_cost(epsilon, delta, rho)

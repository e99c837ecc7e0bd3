"""What a release would be: the words of a dry run."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noisewise.curator.plan import Plan
    from noisewise.curator.publish import Prepared
    from noisewise.curator.settings import Settings

MOST_SHOWN = 10
"""Statistics that a dry run describes one by one: of more, the rest have the same noise."""


def forecast(request: "Prepared") -> str:
    """What would be released, from public facts: settings, schema, the number of records, the
    ledger's balance.
    """
    settings, plan = request.settings, request.plan
    n = request.rows.count() if plan.public and settings.grouping is None else 0
    lines = [
        *_forecast_settings(request, n),
        *_forecast_noise(plan, n),
        f"Cost: {settings.total}.{_implied(settings)}",
    ]
    if request.account is not None:
        lines.append(_planned_balance(request))
    return "\n".join(lines)


def _forecast_settings(request: "Prepared", n: int) -> Iterator[str]:
    from noisewise.model.bounds import PrivateBounds

    settings, plan = request.settings, request.plan
    bounds, groups = settings.bounds, settings.grouping
    size = f"n = {n} (public)" if n else "n is not public" if not plan.public else "n is public"
    yield (
        f"Dry run: nothing is spent. {settings.family.kind} of column {settings.column!r}, {size}."
    )
    if groups is not None:
        yield (
            f"{len(groups.values)} groups by {groups.by!r}, one release each, at the cost of one."
        )
    if bounds is not None:
        yield f"Bounds: {bounds.lower:g} to {bounds.upper:g}, records outside: {bounds.outside}."
    if isinstance(bounds, PrivateBounds):
        yield (
            "The bounds will be chosen privately within that range; what follows holds for the "
            "widest."
        )
    yield (
        f"Coordinates: {plan.lattice.coordinates}. Unit of privacy: {settings.records_per_person} "
        "record(s) of one person."
    )


def _forecast_noise(plan: "Plan", n: int) -> Iterator[str]:
    law = plan.mechanism.name
    if plan.count_noise is not None:
        yield f"Count: {law} noise of scale {plan.count_noise.scales[0]:.6g}."
    parts = zip(plan.lattice.step, plan.noise_sd(), plan.largest_sampling_sd(n), strict=True)
    for j, (step, noise, sampling) in enumerate(islice(parts, MOST_SHOWN), 1):
        yield (
            f"Statistic {j}: sensitivity {plan.sensitivity * step:.6g}, {law} noise of scale "
            f"{plan.scale * step:.6g}, sd {noise:.4g}"
            + (f", or {noise / n:.3g} on the mean of the records." if n else ".")
        )
        if n:
            yield (
                f"  Sampling error to expect: at most {sampling:.4g} (half of the records at "
                f"either end); the noise is at least {noise / sampling:.2g} of it."
            )
    if (more := len(plan.lattice.step) - MOST_SHOWN) > 0:
        yield f"... and {more} more alike."


def _implied(settings: "Settings") -> str:
    if settings.derived_from is None:
        return ""
    epsilon, delta = settings.derived_from
    which = "It" if settings.bounds_epsilon is None else f"The statistic's own {settings.cost}"
    return f" {which} implies epsilon = {epsilon} with delta = {delta}."


def _planned_balance(request: "Prepared") -> str:
    """What the release would leave of the budget."""
    from noisewise.mechanism.privacy import remaining, text

    account, ledger = request.account, request.ledger
    assert account is not None
    assert account.limit is not None
    assert ledger is not None
    after = remaining(account.left, request.settings.total.counted_in(account.limit.currency))
    return (
        f"Ledger {ledger.path}: {text(account.left)} left for {account.dataset}, {text(after)} "
        "after this release."
    )

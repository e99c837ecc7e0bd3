"""What a release would be: the words of a dry run."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noisewise.curator.plan import Plan
    from noisewise.curator.publish import Prepared
    from noisewise.curator.settings import Settings

MOST_SHOWN = 10
"""Statistics that a dry run describes one by one: of more, the rest have the same noise."""
EXPECTED = 1000
"""Records for which a dry run says what the noise does where their number is not public."""


def forecast(request: "Prepared") -> str:
    """What would be released, from public facts: settings, schema, the number of records, the
    ledger's balance.
    """
    settings, plan = request.settings, request.plan
    n = request.rows.count() if plan.public and settings.grouping is None else 0
    lines = [
        *_forecast_settings(request, n),
        *_forecast_of(plan)(plan, n),
        f"Cost: {settings.total}.{_implied(settings)}",
        _meaning(settings),
    ]
    if request.account is not None:
        lines.append(_planned_balance(request))
    return "\n".join(lines)


def _forecast_settings(request: "Prepared", n: int) -> Iterator[str]:
    from noisewise.model.bounds import PrivateBounds

    settings, plan = request.settings, request.plan
    bounds, groups = settings.bounds, settings.grouping
    size = f"n = {n} (public)" if n else "n is not public" if not plan.public else "n is public"
    yield f"Dry run: nothing is spent. {settings.family.kind} of {settings.named}, {size}."
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
    where = f"Coordinates: {plan.lattice.coordinates}. " if settings.family.complete else ""
    yield f"{where}Unit of privacy: {settings.protected}."
    if settings.some_do_not_count:
        yield plan.lattice.note


def _forecast_noise(plan: "Plan", n: int) -> Iterator[str]:
    law = plan.mechanism.name
    yield from _in_own_units(plan, n)
    if plan.count_noise is not None:
        yield f"Count: {law} noise of scale {plan.count_noise.scales[0]:.6g}."
    standardised = plan.lattice.coordinates == "standardised"
    within = ", in units in which the bounds are -1 and 1" if standardised else ""
    parts = zip(plan.lattice.step, plan.noise_sd(), plan.largest_sampling_sd(n), strict=True)
    for j, (step, noise, sampling) in enumerate(islice(parts, MOST_SHOWN), 1):
        yield (
            f"Statistic {j}: sensitivity {plan.sensitivity * step:.6g}, {law} noise of scale "
            f"{plan.scale * step:.6g}, sd {noise:.4g}{within}."
        )
        if n:
            yield (
                f"  Sampling error to expect: at most {sampling:.4g} (half of the records at "
                f"either end); the noise is at least {noise / sampling:.2g} of it."
            )
    if (more := len(plan.lattice.step) - MOST_SHOWN) > 0:
        yield f"... and {more} more alike."


def _in_own_units(plan: "Plan", n: int) -> Iterator[str]:
    """What the noise does to the column's mean, or to the share of each category; nothing of
    families whose sums are of neither.
    """
    unit = _unit_of(plan)
    if unit is None:
        return
    what, size = unit
    records = n or EXPECTED
    given = f"all {n} records" if n else f"{records} records"
    noise, chance = plan.noise_sd()[0], plan.largest_sampling_sd(records)[0]
    yield (
        f"In the column's own units: with {given}, noise of sd {noise * size / records:.3g} on "
        f"{what}; the chance of who they are has an sd of {chance * size / records:.3g} at most."
    )


def _unit_of(plan: "Plan") -> tuple[str, float] | None:
    """What the first statistic over n is, and how many of the column's units its unit is."""
    import numpy as np

    family, bounds = plan.settings.family, plan.bounds
    if family.statistic_kind == "counts":
        return "the share of each category", 1.0
    model, own = family.modelled(bounds)
    if plan.lattice.coordinates == "standardised" and own is not None:
        name = "its mean" if model is family else "the mean of its logarithm"
        return (name, own.radius) if model is family or family.kind == "log_normal" else None
    probe = np.array([1.0, 3.0])
    with np.errstate(all="ignore"):
        plain = bool(np.array_equal(np.asarray(family.statistic(probe, np)[0], float), probe))
    if not plain:
        return None
    return ("its share of 1" if family.kind == "bernoulli" else "its mean"), 1.0


def _forecast_of(plan: "Plan") -> Callable[["Plan", int], Iterator[str]]:
    if not plan.settings.family.complete:
        return _forecast_moments if plan.lattice.counted else _forecast_table
    return _forecast_noise


def _forecast_table(plan: "Plan", n: int) -> Iterator[str]:
    """What the noise does to the count of a cell."""
    cells, sd, law = len(plan.lattice.step), plan.noise_sd()[0], plan.mechanism.name
    share = f", or {sd / n:.3g} of all records" if n else ""
    yield (
        f"Released: the counts of {cells} cells. Sensitivity {plan.sensitivity:.6g}, {law} noise "
        f"of sd {sd:.4g} on each{share}."
    )


def _forecast_moments(plan: "Plan", n: int) -> Iterator[str]:
    """What the noise does to the mean of each column, in its own units."""
    from noisewise.model.columns import Number
    from noisewise.model.families.moments import Moments

    family, law = plan.settings.family, plan.mechanism.name
    assert isinstance(family, Moments)
    assert plan.count_noise is not None
    sd = plan.noise_sd()[0]
    count_sd = plan.mechanism.sd(plan.scale) / plan.count_weight
    yield (
        f"Released: the number of records that count, {len(family.numbers)} sums and "
        f"{len(family.products)} sums of products, in units in which the bounds are -1 and 1."
    )
    yield (
        f"Sensitivity {plan.sensitivity * plan.lattice.step[0]:.6g}, {law} noise of sd {sd:.4g} on "
        f"each sum and {count_sd:.4g} on the number of records."
    )
    records = n or EXPECTED
    given = f"with all {n} records" if n else f"with {records} records"
    for one in family.parts:
        if isinstance(one, Number):
            bounds = one.bounds
            noise = sd * bounds.radius / records
            yield (
                f"{one.name}: {bounds.lower:g} to {bounds.upper:g}, records outside: "
                f"{bounds.outside}; {given}, noise of sd {noise:.3g} on its mean, in its own units."
            )
        elif len(one.levels) > 1:
            yield (
                f"{one.name}: {len(one.levels)} levels; {given}, noise of sd {sd / records:.3g} on "
                "the share of each level after the first."
            )
        else:
            yield f"{one.name}: one level, {one.levels[0]}; other records do not count."


def _meaning(settings: "Settings") -> str:
    """What the cost means for one person, in the words of plans and reports."""
    from noisewise.mechanism.meaning import Meaning

    derived = settings.derived_from if settings.bounds_epsilon is None else None
    return Meaning(settings.total, settings.protected, settings.neighbours, derived).sentence


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

"""From noisy whole numbers to the release that states them, with its cost and how to read it."""

from typing import Any

from noisewise.artifact import NoisyCount, Privacy, Release
from noisewise.curator.plan import Plan
from noisewise.mechanism.privacy import text
from noisewise.model.bounds import PrivateBounds
from noisewise.model.families.categorical import Label

OUTSIDE_NOTES = {
    "redact": "A record outside the bounds contributes 0, in the coordinates of the statistic.",
    "clamp": "A record outside the bounds contributes as if it lay on the nearer bound.",
}
"""What becomes of a record outside the bounds, for whoever reads the release."""


def assemble(
    plan: Plan,
    *,
    privacy: Privacy,
    n: int,
    noisy: list[int],
    group: Label | None,
    dataset: str | None,
) -> Release:
    """One group's release, or that of all records, from its noisy whole numbers: the count, if
    there is one, and the sums.
    """
    settings, lattice, count = plan.settings, plan.lattice, None
    if plan.count_noise is not None:
        count, noisy = NoisyCount(noisy[0] / plan.count_weight, plan.count_noise), noisy[1:]
    if plan.public:
        noisy = with_offsets(plan, n, noisy)
    return Release(
        family=settings.family,
        n=n if plan.tells_n else None,
        count=count,
        statistic=tuple(value * step for value, step in zip(noisy, lattice.step, strict=True)),
        noise=plan.noise,
        bounds=plan.bounds,
        coordinates=lattice.coordinates,
        dataset=dataset,
        column=settings.column,
        group=None if settings.grouping is None else (settings.grouping.by, str(group)),
        description=settings.description,
        privacy=privacy,
        notes=notes_of(plan),
    )


def with_offsets(plan: Plan, n: int, sums: list[int]) -> list[int]:
    """The sums with what every one of n records contributes at least."""
    return [value + n * least for value, least in zip(sums, plan.lattice.offset, strict=True)]


def privacy_of(plan: Plan, spend: str | None) -> Privacy:
    """What the release cost, and whom it protects."""
    settings = plan.settings
    bounds = settings.bounds
    return Privacy(
        **_amounts(plan),
        neighbours=settings.neighbours,
        records_per_person=settings.records_per_person,
        unit=settings.protected,
        sensitivity=tuple(plan.sensitivity * step for step in plan.lattice.step),
        count_sensitivity=plan.sensitivity / plan.count_weight if plan.count_weight else None,
        bounds_epsilon=None if settings.bounds_epsilon is None else text(settings.bounds_epsilon),
        quantiles=bounds.quantiles if isinstance(bounds, PrivateBounds) else None,
        spend=spend,
    )


def _amounts(plan: Plan) -> dict[str, Any]:
    """The costs under their names in the release."""
    settings, currency = plan.settings, plan.mechanism.currency
    amounts: dict[str, str | None] = {"epsilon": None, "total_epsilon": None}
    if settings.derived_from is not None:
        amounts["epsilon"], amounts["delta"] = settings.derived_from
    amounts[currency] = text(settings.cost.amount)
    amounts[f"total_{currency}"] = text(settings.total.amount)
    return amounts


def notes_of(plan: Plan) -> tuple[str, ...]:
    """What inference should know of the release and cannot see."""
    settings = plan.settings
    notes = [plan.lattice.note]
    if plan.bounds is not None:
        notes.append(OUTSIDE_NOTES[plan.bounds.outside])
    if isinstance(settings.bounds, PrivateBounds):
        notes.append(
            "The bounds were chosen privately from the same records; inference ignores that they "
            "depend on them."
        )
    if settings.person is not None:
        notes.append(
            f"Of the records of each {settings.person!r} at most {settings.records_per_person} "
            "are kept, chosen by what they say; records of nobody do not count."
        )
    if settings.grouping is not None:
        notes.append(
            "All groups together cost what is stated here, once. Records of groups that are not "
            "listed contribute nothing."
        )
    if not plan.public:
        notes.append("The number of records is not public; inference treats it as unknown.")
    if settings.ledger is None:
        notes.append("The cost of this release is not recorded in any ledger.")
    return tuple(notes)

"""What a release says of itself, in words."""

from collections.abc import Sequence
from typing import Any

from noisewise.artifact import Release
from noisewise.artifact.privacy import Privacy
from noisewise.mechanism.meaning import Meaning
from noisewise.mechanism.privacy import Cost, exact_epsilon
from noisewise.model.columns import Number
from noisewise.report.units import Units, figure_text, with_unit

MOST_NUMBERS = 8
"""Published numbers that are listed one by one."""
OUTSIDE = {
    "redact": "records outside count nothing",
    "clamp": "records outside count as the nearer bound",
}
"""What becomes of records out of bounds."""


def subject(release: Release) -> str:
    """What the release is of: a column, or several."""
    parts = getattr(release.family, "parts", None)
    if parts:
        return ", ".join(str(one.name) for one in parts)
    return release.column or f"A column without a name ({release.family.kind.replace('_', ' ')})"


def published(release: Release, units: Units) -> list[tuple[str, str]]:
    """What left the curator, and what is public about it."""
    facts = [("What", _what(release))]
    if release.description:
        facts.append(("In the curator's words", release.description))
    if release.dataset:
        facts.append(("Dataset", release.dataset))
    facts.append(("Records", _records(release)))
    facts += _bounds(release, units)
    values = [figure_text(value) for value in release.statistic[:MOST_NUMBERS]]
    more = len(release.statistic) - len(values)
    numbers = ", ".join(values) + (f" and {more} more" if more > 0 else "")
    many = f"{len(release.statistic)} noisy number{'s' if len(release.statistic) > 1 else ''}"
    facts.append(("Published", f"{many}: {numbers}"))
    kind = (
        release.noise.kind.replace("_", " ")
        .replace("gaussian", "normal")
        .replace("laplace", "Laplace")
    )
    scales = sorted({figure_text(float(scale)) for scale in release.noise.scales})
    facts.append(("Noise", f"{kind}, of scale {' to '.join([scales[0], *scales[1:][-1:]])}"))
    return [*facts, ("Notes", " ".join(release.notes))] if release.notes else facts


def _what(release: Release) -> str:
    kind, whose = release.family.statistic_kind, subject(release)
    if kind == "moments":
        return f"sums and sums of products of {whose}, with noise"
    if kind == "counts":
        return f"counts of {whose}, with noise"
    return f"sums of {whose} for the {release.family.kind.replace('_', ' ')} model, with noise"


def _records(release: Release) -> str:
    if release.n is not None:
        kept = "" if release.count is None else ", not all of which need to count"
        return f"{release.n}, a public number{kept}"
    if release.count is not None:
        return f"about {figure_text(release.count.value)}, published with noise"
    return "their number is not public"


def _bounds(release: Release, units: Units) -> list[tuple[str, str]]:
    if release.bounds is not None:
        return [("Bounds", _interval(release.bounds, units.column(release.column)))]
    facts = []
    for one in getattr(release.family, "parts", ()):
        if isinstance(one, Number):
            facts.append((one.name, _interval(one.bounds, units.column(one.name))))
        else:
            facts.append((one.name, f"one of {', '.join(map(str, one.levels))}"))
    return facts


def _interval(bounds: Any, unit: str) -> str:
    ends = f"{figure_text(bounds.lower)} to {figure_text(bounds.upper)}"
    return f"{with_unit(ends, unit)}; {OUTSIDE[bounds.outside]}"


def meaning_of(privacy: Privacy) -> Meaning:
    """What a release's total cost means for one person."""
    total, currency = privacy.total_epsilon, privacy.cost.currency
    if currency == "rho":
        total = privacy.total_rho
    assert total is not None
    derived = None
    if privacy.delta is not None and privacy.epsilon is not None and total == privacy.rho:
        derived = (privacy.epsilon, privacy.delta)
    cost = Cost(currency, exact_epsilon(total, currency, digits=200))
    return Meaning(cost, privacy.unit, privacy.neighbours, derived)


def citation(releases: Sequence[Release]) -> list[str]:
    """One line for each release that was read: what it is, and the digest of its content."""
    import hashlib

    lines = []
    for one in releases:
        digest = hashlib.sha256(one.to_json(indent=None).encode()).hexdigest()[:16]
        group = "" if one.group is None else f", {one.group[0]} = {one.group[1]}"
        whose = one.dataset or "a dataset without a name"
        spend = one.privacy.spend if one.privacy is not None else None
        paid = f", spend {spend}" if spend else ""
        lines.append(
            f"{subject(one)} of {whose}{group}: differentially private release{paid}, digest "
            f"{digest}."
        )
    return lines

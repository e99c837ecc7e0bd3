"""Whether releases speak of different records: only then are they independent given theta."""

from collections.abc import Sequence

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination


def check_spends(releases: Sequence[Release]) -> None:
    """Refuse a release that is given twice: one spend id."""
    spends = [
        (one.privacy.spend, one.group)
        for one in releases
        if one.privacy is not None and one.privacy.spend is not None
    ]
    if len(set(spends)) < len(spends):
        raise UnsupportedCombination(
            "a release is given twice (one spend id stands in two of them); leave one out."
        )


def check_together(releases: Sequence[Release]) -> None:
    """Refuse releases that cannot be combined: of different families, or of the same records."""
    if any(one.family != releases[0].family for one in releases):
        kinds = ", ".join(sorted({one.family.kind for one in releases}))
        raise UnsupportedCombination(
            f"the releases are of different families ({kinds}); infer from each by itself."
        )
    for position, one in enumerate(releases):
        if one in releases[:position]:
            raise UnsupportedCombination(
                "a release is given twice, or two say the same, and would count twice. Leave one "
                "out; if they are of different records, give each a dataset= of its own."
            )
    check_apart(releases, "the same records are no independent observations")


def check_apart(releases: Sequence[Release], why: str) -> None:
    """Refuse a release that is given twice (one spend id), and two of one dataset that are no
    disjoint groups of it. Releases of no stated dataset are taken at their word.
    """
    check_spends(releases)
    groups: dict[str, set[tuple[str, str] | None]] = {}
    for one in releases:
        if one.dataset is None:
            continue
        others = groups.setdefault(one.dataset, set())
        if others and not _disjoint(one.group, others):
            raise UnsupportedCombination(
                f"two releases are of one dataset, {one.dataset!r}, and no disjoint groups of it: "
                f"{why}. Leave one out."
            )
        others.add(one.group)


def _disjoint(group: tuple[str, str] | None, others: set[tuple[str, str] | None]) -> bool:
    """Whether a group shares no record with others: of the same column, and with another name."""
    if group is None or group in others:
        return False
    first = next(iter(others))  # those before it are of one column
    return first is not None and first[0] == group[0]


def assumption(releases: Sequence[Release]) -> tuple[str, ...]:
    """What is taken for granted of releases that do not say whose records they are of."""
    if len(releases) > 1 and any(one.dataset is None for one in releases):
        return ("releases without a dataset are taken to be of different records",)
    return ()

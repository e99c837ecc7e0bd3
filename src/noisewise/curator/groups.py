"""The public groups that each get a release of their own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from noisewise.errors import UnsupportedCombination
from noisewise.model.families.categorical import Label

Sizes = Literal["public", "released"]
"""public: neighbours replace a record within its group. released: it may belong to another group,
or to none, and a noisy count of each group is released.
"""
SIZES: tuple[Sizes, ...] = ("public", "released")
"""What `sizes` may say."""


@final
@dataclass(frozen=True, slots=True)
class Groups:
    """Which column says the group, the names that count, and whether their sizes are public."""

    by: str
    values: tuple[Label, ...]
    sizes: Sizes


def asked_groups(by: object, groups: object, sizes: object, neighbours: str) -> Groups | None:
    """None without `by`; refused where the settings do not fit together."""
    if by is None:
        if groups is not None or sizes is not None:
            raise UnsupportedCombination(
                "groups and sizes go with by, the column that says which group a record belongs to."
            )
        return None
    if not (isinstance(by, str) and by.isprintable()):
        raise UnsupportedCombination("by must be the name of a column.")
    if isinstance(groups, str) or not isinstance(groups, Sequence) or not groups:
        raise UnsupportedCombination(
            "groups must list the public names of the groups; they are not read from the records."
        )
    if not all(_is_name(group) for group in groups):
        raise UnsupportedCombination("a group's name must be printable text or a whole number.")
    if sizes not in SIZES:
        raise UnsupportedCombination(
            "sizes must be 'public' (how many records a group has is known) or 'released' (it is "
            "not: a noisy count is)."
        )
    if sizes == "public" and neighbours == "add_remove":
        raise UnsupportedCombination(
            "with neighbours='add_remove' no size is public; use sizes='released'."
        )
    return Groups(by, tuple(groups), sizes)


def _is_name(group: object) -> bool:
    return (
        isinstance(group, (str, int)) and not isinstance(group, bool) and str(group).isprintable()
    )

"""What is read of a record, wherever the records are: columns under names of ours, in a form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from noisewise.curator.database import connect
from noisewise.curator.values import key_of_text
from noisewise.errors import UnsupportedCombination
from noisewise.model.families.categorical import Label

Form = Literal["number", "text"]
"""A value is read as a number, or as the key of a label."""
Columns: TypeAlias = Mapping[str, tuple[str, Form]]
"""The column of the table and the form wanted of it, under a name of ours."""


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """The value that counts, and maybe the group that a record belongs to."""

    column: str
    labels: tuple[Label, ...] = ()
    """What the value is matched with; () where it is a number."""
    by: str | None = None
    """The column that says the group."""
    groups: tuple[Label, ...] | None = None
    """The public names of the groups; with `by`, and only with it."""

    @property
    def columns(self) -> Columns:
        """`value`, and with groups `belongs`."""
        form: Form = "text" if self.labels and isinstance(self.labels[0], str) else "number"
        columns: dict[str, tuple[str, Form]] = {"value": (self.column, form)}
        if self.by is not None:
            columns["belongs"] = (self.by, "text")
        return columns

    @property
    def names(self) -> list[str]:
        """The columns of the table that are read, each once."""
        return list(dict.fromkeys(name for name, _ in self.columns.values()))

    def label_keys(self) -> tuple[str | float, ...]:
        """What each label is matched by; refused where two are matched by the same."""
        if self.labels and isinstance(self.labels[0], int):
            return tuple(float(label) for label in self.labels)
        return text_keys(self.labels, "categories")

    def group_keys(self) -> tuple[str, ...] | None:
        """What each group is matched by; refused where two are matched by the same."""
        return None if self.groups is None else text_keys(self.groups, "groups")


def text_keys(labels: tuple[Label, ...], what: str) -> tuple[str, ...]:
    """The keys of labels; refused where two have the same, or one reads as missing."""
    if not labels:
        return ()
    query = f"SELECT {key_of_text('label')} FROM (SELECT unnest(?::VARCHAR[]) AS label)"
    with connect() as connection:
        rows = connection.execute(query, [[str(label) for label in labels]]).fetchall()
    keys = tuple(key for (key,) in rows)
    if None in keys or len(set(keys)) < len(keys):
        raise UnsupportedCombination(
            f"{what} must differ in more than the writing of a number, true or false (1 and 1.0 "
            "are one label), and none be nan."
        )
    return keys

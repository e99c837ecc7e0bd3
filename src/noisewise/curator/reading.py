"""What is read of a record, wherever the records are: columns under names of ours, in a form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

from noisewise.curator.database import connect
from noisewise.curator.values import Form, key_of_text
from noisewise.errors import UnsupportedCombination
from noisewise.model.columns import Column, Factor
from noisewise.model.families.categorical import Label

Columns: TypeAlias = Mapping[str, tuple[str, Form]]
"""The column of the table and the form wanted of it, under a name of ours."""
Key = str | float
"""What a label is matched by: a number, or text."""


@final
@dataclass(frozen=True, slots=True)
class Persons:
    """The column that says whose a record is, and how many of one person's are kept."""

    column: str
    most: int
    form: Form = "person"
    """What the column holds."""


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """The value that counts, or several, and maybe the group that a record belongs to and the
    person whose it is.
    """

    column: str | None
    labels: tuple[Label, ...] = ()
    """What the value is matched with; () where it is a number."""
    by: str | None = None
    """The column that says the group."""
    groups: tuple[Label, ...] | None = None
    """The public names of the groups; with `by`, and only with it."""
    several: tuple[Column, ...] = ()
    """In place of `column` and `labels`, where a record is several columns."""
    persons: Persons | None = None
    """Where each person has only so many records."""

    @property
    def columns(self) -> Columns:
        """`value`, or of several columns `value0`, `value1`, ...; with groups `belongs`, and
        `person` where each has so many records.
        """
        columns: dict[str, tuple[str, Form]] = {
            f"value{j}": (one.name, _form(_labels(one))) for j, one in enumerate(self.several)
        }
        if self.column is not None:
            columns["value"] = (self.column, _form(self.labels))
        if self.by is not None:
            columns["belongs"] = (self.by, "text")
        if self.persons is not None:
            columns["person"] = (self.persons.column, self.persons.form)
        return columns

    @property
    def names(self) -> list[str]:
        """The columns of the table that are read, each once."""
        return list(dict.fromkeys(name for name, _ in self.columns.values()))

    def label_keys(self) -> tuple[Key, ...]:
        """What each label is matched by; refused where two are matched by the same."""
        return _keys(self.labels, "categories")

    def level_keys(self) -> tuple[tuple[Key, ...], ...]:
        """The same for each of several columns; () for one that is read as a number."""
        return tuple(_keys(_labels(one), f"levels of {one.name!r}") for one in self.several)

    def group_keys(self) -> tuple[str, ...] | None:
        """What each group is matched by; refused where two are matched by the same."""
        return None if self.groups is None else text_keys(self.groups, "groups")


def _labels(one: Column) -> tuple[Label, ...]:
    return one.levels if isinstance(one, Factor) else ()


def _form(labels: tuple[Label, ...]) -> Form:
    return "text" if labels and isinstance(labels[0], str) else "number"


def _keys(labels: tuple[Label, ...], what: str) -> tuple[Key, ...]:
    if labels and isinstance(labels[0], int):
        return tuple(float(label) for label in labels)
    return text_keys(labels, what)


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

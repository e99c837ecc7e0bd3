"""Every way in which noisewise refuses. A message names what is wrong and the remedy, never a
record's value.
"""

from typing import Any


class NoisewiseError(ValueError):
    """What noisewise refuses. One impossible value by itself, such as epsilon = 0, is a plain
    ValueError.

    The command line prints either as one line and exits with 2.
    """


class RecordsError(NoisewiseError):
    """The records cannot be read: no such file, no such column, a type without numbers, a CSV of
    broken shape.
    """


class NoiseError(NoisewiseError):
    """The noise could not be drawn. Nothing is released, and what was spent stays spent."""


class LedgerError(NoisewiseError):
    """The ledger cannot be used: absent, not a ledger, locked, or without a limit for
    the dataset.
    """


class BudgetExceeded(LedgerError):
    """The release would cost more than the ledger has left for its dataset. Nothing was spent."""


class AlreadySpent(LedgerError):
    """A request with this key was paid for before. Nothing more was spent, and nothing is released
    again; `spend` is the id of what was.
    """

    def __init__(self, message: str, spend: str) -> None:
        super().__init__(message)
        self.spend = spend


class ReleaseFormatError(NoisewiseError):
    """A file is not a release that this version can trust."""


class OutputError(NoisewiseError):
    """A file cannot be written there, or would overwrite another."""


class UnsavedRelease(OutputError):
    """A release was made and paid for, and could not be written; `release` holds it, or the list of
    them.
    """

    def __init__(self, message: str, release: Any) -> None:
        super().__init__(message)
        self.release = release


class UnsupportedCombination(NoisewiseError):
    """A family, a method or an option does not serve what was asked; the message names the missing
    part.
    """

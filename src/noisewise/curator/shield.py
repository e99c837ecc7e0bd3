"""Between the engines that read records and everybody else: no words of theirs come through, and no
warning.
"""

import warnings
from collections.abc import Callable
from threading import RLock
from typing import TypeVar, final

import numpy as np

from noisewise.errors import NoisewiseError, RecordsError

T = TypeVar("T")
"""What an engine gives."""
UNREADABLE = (
    "the records cannot be read; check that the file is whole and of the kind that its name says."
)
"""Said of every fault of an engine, whatever its own words."""


@final
class _Calm:
    """While anybody is within, no warning is shown or raised: whether one comes may depend on a
    record, and the caller may have made errors of them. Python's filters are the whole process's:
    the first to enter puts them aside, the last puts them back.
    """

    def __init__(self) -> None:
        self._lock, self._within, self._filters = RLock(), 0, warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if self._within == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if self._within == 0:
                self._filters.__exit__(None, None, None)


CALM = _Calm()
"""One for the process, whose filters it guards."""


def shielded(
    call: Callable[[], T], sentence: str = UNREADABLE, kind: type[NoisewiseError] = RecordsError
) -> T:
    """Run an engine; whatever it raises becomes one fixed sentence, since its own words may quote a
    record.
    """
    try:
        with CALM, np.errstate(all="ignore"):
            return call()
    except (KeyboardInterrupt, SystemExit):
        raise
    # any class, and polars panics with one of its own: which one may tell of a record
    except BaseException as error:
        # DuckDB's words for Ctrl-C
        interrupted = type(error) is RuntimeError and _says(error, "Query interrupted")
    if interrupted:
        raise KeyboardInterrupt
    raise kind(sentence)  # outside the handler, so that the engine's error is not chained to it


def _says(error: BaseException, words: str) -> bool:
    """Whether an error holds those words and nothing else. Only text is compared: another object
    might run code of its own.
    """
    return len(error.args) == 1 and type(error.args[0]) is str and error.args[0] == words

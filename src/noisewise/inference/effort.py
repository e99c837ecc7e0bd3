"""How much numerical work a posterior may take: counted, not timed, so that every machine gives the
same answer.

A solver sets a limit; the likelihoods report their work. A refinement that has a cruder answer at
hand stops when the limit is reached and says how far off it may be; work that cannot go on without
more raises `TooMuchWork`, and the next method serves.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

PER_GROUP = 1.6e8
"""Products of a weight and a harmonic for one posterior: about a second of one core."""
CHECK = 0.5
"""The share of a posterior's work that the check of its quadrature nodes may take."""
REFINING = 0.4
"""The share of it that is left for what must be done anyway when refinements stop."""


class TooMuchWork(Exception):
    """A posterior would take longer than anybody waits."""


@dataclass(slots=True)
class _Effort:
    limit: float
    spent: float = 0.0


_EFFORT: ContextVar[_Effort | None] = ContextVar("effort", default=None)


@contextmanager
def limited(groups: float) -> Iterator[None]:
    """Work for so many posteriors, within the block."""
    token = _EFFORT.set(_Effort(PER_GROUP * groups))
    try:
        yield
    finally:
        _EFFORT.reset(token)


def spend(work: float) -> None:
    """Report work that is about to be done."""
    effort = _EFFORT.get()
    if effort is None:
        return
    if effort.spent + work > effort.limit:
        raise TooMuchWork
    effort.spent += work


def worn_out() -> bool:
    """Whether refinements should stop."""
    effort = _EFFORT.get()
    return effort is not None and effort.spent > REFINING * effort.limit

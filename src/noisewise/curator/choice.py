"""Which records are kept of persons with too many, by what each one's own records say.

They are put in order of all that is read of them, and every m/k-th is kept, from a start that the
person's number decides: each with the same chance, the same wherever the records lie, and no other
person's records have a say. Records that are alike in all that is read are alike in what they
contribute, so it does not matter which of them comes first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisewise.model import threads
from noisewise.model.arrays import BoolArray, FloatArray, IntArray

SHORT = 1 << 30
"""So many records have rows, and persons of close numbers, that 32 bits hold."""
PART = 1 << 15
"""So many records at a time stay near the processor."""


@final
@dataclass(frozen=True, slots=True)
class Crowds:
    """Persons with too many records, by their numbers: the rows of each lie together in `rows`,
    `size` of them from `first` on.
    """

    number: IntArray
    rows: IntArray
    first: IntArray
    size: IntArray

    def of(self, which: BoolArray) -> "Crowds":
        """Some of the persons."""
        return Crowds(self.number[which], self.rows, self.first[which], self.size[which])

    def by_size(self) -> list[IntArray]:
        """The places of persons with equally many records, some at a time."""
        size = self.size.astype(np.min_scalar_type(self.size.max(initial=0)))
        order = np.argsort(size, kind="stable")
        edges = np.flatnonzero(np.diff(size[order], prepend=0, append=0))
        out = []
        for start, stop in pairwise(edges):
            step = max(1, PART // int(size[order[start]]))
            out += [order[at : min(at + step, stop)] for at in range(start, stop, step)]
        return out

    def rows_of(self, persons: IntArray) -> IntArray:
        """The rows of each of persons with equally many."""
        return self.rows[self.first[persons, None] + np.arange(self.size[persons[0]])]


NOBODY = Crowds(*[np.zeros(0, dtype=np.int64)] * 4)
"""Who has too many, if nobody has."""


def crowded_heads(heads: NDArray[np.uint32], most: int) -> NDArray[np.uint32]:
    """Those of more than `most` records, in order. The heads are sorted where they lie, which takes
    a tenth of the time in which a database counts them.
    """
    heads.sort()
    later, earlier = heads[most:], heads[:-most]
    found = later[later == earlier]
    each: NDArray[np.uint32] = found[np.diff(found, prepend=~found[:1]) != 0]
    return each


def crowds_of(number: IntArray, most: int) -> Crowds:
    """The persons with more than `most` records, given the number of each record's person; numbers
    that are written over, because memory takes long to get.
    """
    if len(number) <= most:
        return NOBODY
    lowest, highest = int(number.min()), int(number.max())
    if highest - lowest < len(number):
        return _crowds_of_close(number, lowest, most)
    return _crowds_of_far(number, lowest, highest, most)


def _crowds_of_close(number: IntArray, lowest: int, most: int) -> Crowds:
    """Of persons whose numbers span no more than there are records: each one's are counted."""
    number -= lowest
    sizes = np.bincount(number)
    crowded = sizes > most
    if not crowded.any():
        return NOBODY
    persons = np.flatnonzero(crowded)
    few = 2 * sizes[persons].sum() < len(number)
    theirs = np.flatnonzero(crowded[number]) if few else slice(None)
    # a sparse matrix of one column, with a person in each row: read by rows, the records of one
    # person lie together, without a sort
    index = np.int32 if len(number) < SHORT else np.int64
    rows = np.arange(len(number), dtype=index)[theirs]
    column = rows, number[theirs].astype(index), np.array([0, len(rows)], dtype=index)
    by_person = sparse.csc_array(column, (len(sizes), 1)).tocsr()
    return Crowds(persons + lowest, by_person.data, by_person.indptr[persons], sizes[persons])


def _crowds_of_far(number: IntArray, lowest: int, highest: int, most: int) -> Crowds:
    """Of others one sort of whole numbers, each a person and the row of a record, brings all
    together. Where both do not fit in 64 bits, a digest stands for the person.
    """
    n = len(number)
    bits = np.uint64(n.bit_length())
    row = (np.uint64(1) << bits) - np.uint64(1)
    fit = highest - lowest < 1 << (64 - int(bits))
    keys = (number if fit else number.copy()).view(np.uint64)
    crowded = np.empty(n - most, dtype=bool)

    def make(part: slice) -> None:
        if fit:
            number[part] -= lowest
            keys[part] <<= bits
        else:
            keys[part] = _digest(number[part]) & ~row
        keys[part] |= np.arange(part.start, part.stop, dtype=np.uint64)

    def compare(part: slice) -> None:
        later = keys[part.start + most : part.stop + most]
        crowded[part] = (keys[part] ^ later) <= row

    def leave_row(part: slice) -> None:
        keys[part] &= row

    _for_all(make, n)
    _sort(keys)
    _for_all(compare, n - most)
    if not crowded.any():
        return NOBODY
    edges = np.flatnonzero(np.diff(crowded, prepend=False, append=False))
    first, size = edges[::2], edges[1::2] - edges[::2] + most
    whose = (keys[first] >> bits).view(np.int64) + lowest
    _for_all(leave_row, n)
    found = Crowds(whose, keys.view(np.int64), first, size)
    return found if fit else _told_apart(found, number, most)


def crowds_in_order(person: NDArray[Any], number: IntArray, most: int) -> Crowds:
    """The same, of records that lie in order of their persons' names, of which some share a
    number.
    """
    new = np.ones(len(person), dtype=bool)
    new[1:] = person[1:] != person[:-1]
    first = np.flatnonzero(new)
    persons = Crowds(number[first], np.arange(len(person)), first, np.diff(first, append=len(new)))
    return persons.of(persons.size > most)


def kept_rows(crowds: Crowds, columns: Sequence[FloatArray], most: int) -> BoolArray:
    """Which records are kept."""
    kept = np.ones(len(columns[0]), dtype=bool)

    def choose(persons: IntArray) -> None:
        rows = crowds.rows_of(persons)
        values = [column[rows] for column in columns]
        order = np.argsort(values[0]) if len(values) == 1 else np.lexsort(values[::-1])
        places = evenly_spaced(crowds.number[persons], rows.shape[1], most)
        kept[rows] = False
        kept[np.take_along_axis(rows, np.take_along_axis(order, places, 1), 1)] = True

    list(threads.run(choose, crowds.by_size()))
    return kept


def evenly_spaced(number: IntArray, m: int, most: int) -> IntArray:
    """The places that are kept of m records in order, of persons with those numbers."""
    start = (_digest(number) % np.uint64(m)).astype(np.int64)
    # those at which place + start passes a multiple of m/most: so many in any m places
    turns = (start * most // m)[:, None] + np.arange(1, most + 1)
    places: IntArray = -(-turns * m // most) - 1 - start[:, None]
    return places


def _told_apart(found: Crowds, number: IntArray, most: int) -> Crowds:
    """The same, where what lies together may be the rows of several persons whose digests begin
    alike.
    """

    def mixed(persons: IntArray) -> IntArray:
        own = number[found.rows_of(persons)]
        several: IntArray = persons[(own != own[:, :1]).any(axis=1)]
        return several

    first, size = [found.first], [found.size.copy()]
    for one in chain.from_iterable(threads.run(mixed, found.by_size())):
        start = found.first[one]
        rows = found.rows[start : start + found.size[one]]
        rows[:] = rows[np.argsort(number[rows])]
        edges = np.flatnonzero(np.diff(number[rows], prepend=~number[rows[:1]]))
        first.append(start + edges)
        size.append(np.diff(edges, append=len(rows)))
        size[0][one] = 0
    starts, sizes = np.concatenate(first), np.concatenate(size)
    persons = Crowds(number[found.rows[starts]], found.rows, starts, sizes)
    return persons.of(sizes > most)


def _for_all(work: Callable[[slice], None], n: int) -> None:
    """Part by part."""
    list(threads.run(work, [slice(at, min(at + PART, n)) for at in range(0, n, PART)]))


def _sort(keys: NDArray[np.uint64]) -> None:
    parts = threads.workers(len(keys) // PART + 1)
    cuts = [len(keys) * part // parts for part in range(parts + 1)]
    keys.partition(np.array(cuts[1:-1], dtype=np.int64))
    list(threads.run(np.ndarray.sort, [keys[start:stop] for start, stop in pairwise(cuts)]))


def _digest(number: IntArray) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea & Flood 2014): numbers that follow each other are turned into such in
    which no order is seen.
    """
    x = number.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))

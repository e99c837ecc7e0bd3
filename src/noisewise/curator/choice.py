"""Which records are kept of persons with too many, by what each one's own records contribute.

They are put in order of that, and every m/k-th is kept, from a start that the person's number
decides: each with the same chance, the same wherever the records lie, and no other person's
records have a say. Records that contribute the same are alike, so it does not matter which of them
comes first.

All records of a person are first moved to one of some hundred buckets, and then sorted there: small
sorts stay near the processor, and all cores take part.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from noisewise.model import threads
from noisewise.model.arrays import BoolArray, FloatArray, IntArray

Found = TypeVar("Found")
Kind = TypeVar("Kind", bound=np.generic)

PART = 1 << 18
"""So many records at a time stay near the processor."""
BUCKET = 1 << 17
"""So many records a bucket has, about; more, if the buckets would be more than a byte counts."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: the first bits of its multiples differ (Knuth 1973, section 6.4)."""


@final
@dataclass(frozen=True, slots=True)
class Crowd:
    """Persons with too many records: of records that lie in order of their persons, those of each
    are `size` from `first` on.
    """

    first: IntArray
    size: IntArray
    number: IntArray

    @staticmethod
    def of(whose: NDArray[Any], number: IntArray, most: int) -> "Crowd | None":
        """Those of more than `most` records, given whose each is, in order; None if nobody has."""
        if not (whose[most:] == whose[:-most]).any():
            return None
        new = np.ones(len(whose), dtype=bool)
        np.not_equal(whose[1:], whose[:-1], out=new[1:])
        first = np.flatnonzero(new)
        size = np.diff(first, append=len(whose))
        many = size > most
        first = first[many]
        return Crowd(first, size[many], number[first])

    def theirs(self, n: int) -> BoolArray:
        """Which of n records are those of the crowd."""
        edges = np.zeros(n + 1, dtype=np.int8)
        edges[self.first] += 1
        edges[self.first + self.size] -= 1
        return np.asarray(np.cumsum(edges[:-1], dtype=np.int8).view(bool))

    def alike(self, most: int) -> Iterator[tuple[IntArray, IntArray]]:
        """Of persons with about equally many records, where these are, (persons, records), and
        which of a person's in order are kept, (persons, most). Those who have fewer than the others
        have -1 at the end.
        """
        width = _rounded_up(self.size)
        for wide in np.flatnonzero(np.bincount(width)):
            some = np.flatnonzero(width == wide)
            at = self.first[some, None] + np.arange(wide)
            at[np.arange(wide) >= self.size[some, None]] = -1
            yield at, evenly_spaced(self.number[some], self.size[some], most)

    def put_in_order(self, codes: IntArray, most: int) -> None:
        """The codes of each of the crowd, which lie together already."""
        for at, _ in self.alike(most):
            own = np.where(at < 0, np.iinfo(codes.dtype).max, codes[at])
            own.sort(axis=1)
            codes[at[at >= 0]] = own[at >= 0]


@final
@dataclass(frozen=True, slots=True)
class Buckets:
    """Records that were moved: of each part of the rows, those of the first bucket come first."""

    cuts: IntArray  # (parts, buckets + 1): where, of a part, the records of a bucket begin

    @staticmethod
    def move(columns: Sequence[NDArray[Any]], bits: int) -> "Buckets":
        """Move records where they lie, since memory takes long to get. The first of their columns
        is the person's number, before so many other bits.
        """
        n = len(columns[0])
        first_bits = min(8, max(1, (n // BUCKET).bit_length()))

        def move(part: slice) -> IntArray:
            number = (columns[0][part] >> bits).view(np.uint64)
            bucket = ((number * GOLDEN) >> np.uint64(64 - first_bits)).astype(np.uint8)
            order = np.argsort(bucket, kind="stable")  # by counting, of single bytes
            for column in columns:
                column[part] = column[part][order]
            ends = np.cumsum(np.bincount(bucket, minlength=1 << first_bits))
            return np.append(part.start, part.start + ends)

        parts = [slice(at, min(at + PART, n)) for at in range(0, max(n, 1), PART)]
        return Buckets(np.array(list(threads.run(move, parts))))

    def each(self, work: Callable[[list[slice]], Found]) -> list[Found]:
        """What is made of each bucket, given where its records lie."""

        def pieces(starts: IntArray, ends: IntArray) -> list[slice]:
            own = zip(starts.tolist(), ends.tolist(), strict=True)
            return [slice(start, end) for start, end in own]

        places = zip(self.cuts[:, :-1].T, self.cuts[:, 1:].T, strict=True)
        return list(threads.run(work, [pieces(*own) for own in places]))


def kept_rows(number: IntArray, columns: Sequence[FloatArray], most: int) -> BoolArray:
    """Which records are kept, given each one's person and columns by which a person's are put in
    order, what is missing last. The records are moved: `number` and `columns` are in another order
    afterwards.
    """
    kept = np.ones(len(number), dtype=bool)

    def choose(pieces: list[slice]) -> None:
        own = _joined(number, pieces)
        chosen = chosen_of(own, own, [_joined(column, pieces) for column in columns], most)
        ends = np.cumsum([piece.stop - piece.start for piece in pieces])
        for piece, part in zip(pieces, np.split(chosen, ends[:-1]), strict=True):
            kept[piece] = part

    Buckets.move([number, *columns], 0).each(choose)
    return kept


def chosen_of(
    whose: NDArray[Any], number: IntArray, columns: Sequence[FloatArray], most: int
) -> BoolArray:
    """The same of a few records, each with its person and that one's number."""
    kept = np.ones(len(whose), dtype=bool)
    order = np.argsort(whose)
    crowd = Crowd.of(whose[order], number[order], most)
    if crowd is None:
        return kept
    kept[order[crowd.theirs(len(order))]] = False
    own = [np.append(column[order], np.nan) for column in columns]
    for at, places in crowd.alike(most):
        in_order = np.lexsort([column[at] for column in own[::-1]])  # stable: -1 behind the last
        kept[order[_picked(at, _picked(in_order, places))]] = True
    return kept


def kept_codes(
    words: IntArray, bits: int, most: int, use: Callable[[IntArray], Found]
) -> list[Found]:
    """What `use` makes of the codes that are kept, some at a time. A record is one whole number:
    its person's times 2^bits, and a code by which a person's are put in order. The words are moved.
    """
    last = (1 << bits) - 1

    def choose(pieces: list[slice]) -> Found:
        own = _joined(words, pieces)
        own.sort()
        number = own >> bits
        codes = (own & last).astype(np.min_scalar_type(-last))
        return use(_kept_in_order(codes, Crowd.of(number, number, most), most))

    return Buckets.move([words], bits).each(choose)


def kept_codes_of(
    number: IntArray, codes: IntArray, most: int, use: Callable[[IntArray], Found]
) -> list[Found]:
    """The same of records that are two whole numbers, their person's and a code. Both are moved."""

    def choose(pieces: list[slice]) -> Found:
        whose, own = _joined(number, pieces), _joined(codes, pieces)
        order = np.argsort(whose)
        whose, own = whose[order], own[order]
        crowd = Crowd.of(whose, whose, most)
        if crowd is not None:
            crowd.put_in_order(own, most)
        return use(_kept_in_order(own, crowd, most))

    return Buckets.move([number, codes], 0).each(choose)


def _kept_in_order(codes: IntArray, crowd: Crowd | None, most: int) -> IntArray:
    """The codes that are kept, of persons whose records are in order if they have too many."""
    if crowd is None:
        return codes
    places = evenly_spaced(crowd.number, crowd.size, most) + crowd.first[:, None]
    return np.append(codes[~crowd.theirs(len(codes))], codes[places])


def crowded_heads(heads: NDArray[np.uint32], most: int) -> NDArray[np.uint32]:
    """Those of more than `most` records, in order. The heads are sorted where they lie, which takes
    a tenth of the time in which a database counts them.
    """
    heads.sort()
    later, earlier = heads[most:], heads[:-most]
    found = later[later == earlier]
    each: NDArray[np.uint32] = found[np.diff(found, prepend=~found[:1]) != 0]
    return each


def evenly_spaced(number: IntArray, m: IntArray, most: int) -> IntArray:
    """The places that are kept of m records in order, (persons, most), of persons with those
    numbers and so many records, (persons,) each.
    """
    start = (digest(number) % m.astype(np.uint64)).astype(np.int64)
    # those at which place + start passes a multiple of m/most: so many in any m places
    turns = start * most // m + np.arange(1, most + 1)[:, None]  # persons last: they are many
    places: IntArray = (turns * m + most - 1) // most - 1 - start
    return places.T


def digest(number: IntArray) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea & Flood 2014): numbers that follow each other are turned into such in
    which no order is seen.
    """
    x = number.view(np.uint64) + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _joined(column: NDArray[Kind], pieces: list[slice]) -> NDArray[Kind]:
    return np.concatenate([column[piece] for piece in pieces])


def _picked(rows: NDArray[Kind], places: IntArray) -> NDArray[Kind]:
    """Of each row what stands at its places."""
    return np.take_along_axis(rows, places, axis=1)


def _rounded_up(size: IntArray) -> IntArray:
    """To numbers of four bits and zeros: few of them, and none an eighth more."""
    _, bits = np.frexp(size)
    unit = np.int64(1) << np.maximum(bits - 4, 0).astype(np.int64)
    rounded: IntArray = -(-size // unit) * unit
    return rounded

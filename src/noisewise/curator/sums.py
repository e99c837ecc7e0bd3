"""Exact integer statistics of records, in one streaming pass inside DuckDB."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any, Protocol, TypeAlias, final

import duckdb
import numpy as np
from duckdb import (
    CaseExpression,
    ColumnExpression,
    ConstantExpression,
    Expression,
    FunctionExpression,
)

from noisewise.curator import duckdb_namespace as db
from noisewise.curator.csvfile import BROKEN_CSV
from noisewise.curator.database import connect
from noisewise.curator.persons import FAILED, bounded, literal
from noisewise.curator.reading import Key, Persons, Reading
from noisewise.curator.records import open_columns
from noisewise.curator.schema import Source, kind_of
from noisewise.curator.shield import UNREADABLE, shielded
from noisewise.curator.words import (
    EXACT,
    TALLIED,
    Code,
    Ranges,
    Words,
    read_words,
    sums_of_words,
    tally_of_words,
)
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.counted import Counted
from noisewise.mechanism.lattice import Lattice, Plain, Stage, Sums
from noisewise.mechanism.products import Cells, bin_of, within_edges
from noisewise.model.columns import Cut
from noisewise.model.families.table import Table
from noisewise.model.family import Family

VALUE = ColumnExpression("value")
"""What a record says; the name is that of `Reading.columns`."""
GROUP = ColumnExpression("belongs")
"""The group that a record belongs to; from `Reading.columns` too."""
PERSON = ColumnExpression("person")
"""Whose a record is; from there too."""
WITHIN = ColumnExpression("within")
"""The value within the bounds of which a family's own code takes the statistic."""
LARGEST = 2**53
"""Whole numbers up to here are exact as floats, and so are sums of them in any order while no
partial sum can be larger.
"""
COUNT = FunctionExpression("count")
"""The number of rows."""
Query: TypeAlias = Callable[[duckdb.DuckDBPyRelation], duckdb.DuckDBPyRelation]
"""From a table to a table."""


class Rows(Protocol):
    """What is read of some records, and maybe the group that each belongs to."""

    def count(self) -> int:
        """n, the number of records."""

    def sums(self, lattice: Lattice) -> list[Sums]:
        """For each group; without groups, one for all records."""

    def bin_counts(self, lower: float, width: float, bins: int) -> Sums:
        """n, and how many records x have floor((x - lower)/width) + 1 at most 0, 1, ..., at least
        `bins`; missing ones in none.
        """


@final
@dataclass(frozen=True, slots=True)
class Held:
    """Records that DuckDB reads, anew for every pass; every pass goes through the shield."""

    source: Source
    fault: str
    labels: tuple[str | float, ...] = ()
    """What each label is matched by, where records have labels."""
    groups: tuple[str, ...] | None = None
    """What each group is matched by, where records are in groups."""
    levels: tuple[tuple[Key, ...], ...] = ()
    """What each level of each of several columns is matched by; () for one that is a number."""
    persons: Persons | None = None
    """Where each person has only so many records."""

    @classmethod
    def open(cls, records: object, reading: Reading) -> "Held":
        labels, groups, levels = reading.label_keys(), reading.group_keys(), reading.level_keys()
        is_csv = isinstance(records, (str, os.PathLike)) and Path(records).suffix.lower() == ".csv"
        source = open_columns(records, reading.columns)
        fault = BROKEN_CSV if is_csv else UNREADABLE
        return cls(source, fault, labels, groups, levels, reading.persons)

    def count(self) -> int:
        one = ConstantExpression(1.0).alias("k0")
        rows = self._rows(
            lambda records: records.select(*self._kept, one),
            lambda told: told.aggregate([COUNT]),
        )
        return int(rows[0][0])

    def failed(self) -> bool:
        """Whether it could not be read whose the records of a cluster's part are."""
        if self.persons is None or self.persons.form != "key":
            return False
        failed = PERSON.isin(ConstantExpression(FAILED))
        with connect() as connection:
            found = self.source(connection).filter(failed).aggregate([COUNT]).fetchall()
        return bool(found[0][0])

    def sums(self, lattice: Lattice) -> list[Sums]:
        return lattice.query(self)

    def sums_of_integers(self, lattice: Lattice) -> list[Sums]:
        if self.persons is not None and (sums := self._sums_of_words(lattice)) is not None:
            return sums
        # DuckDB adds floats in half the time of integers
        sums = self._sums(lattice, lambda k: k)
        if exact_as_floats(max((n for n, _ in sums), default=0), lattice):
            return sums
        return self._sums(lattice, lambda k: db.astype(k, "int64"))

    def _sums(self, lattice: Lattice, kind: Callable[[Expression], Expression]) -> list[Sums]:
        """n and the sums, of whole numbers that are summed as a kind of number."""
        d = lattice.width
        totals = [FunctionExpression("sum", kind(ColumnExpression(f"k{j}"))) for j in range(d)]
        by = [] if self.groups is None else [GROUP]
        rows = self._rows(
            lambda records: self._told(records, lattice),
            lambda told: _contributed(told, lattice, *by).aggregate(
                [*by, COUNT, *totals], "belongs" if by else ""
            ),
        )
        if self.groups is None:
            ((n, *sums),) = rows
            return [(n, [int(total or 0) for total in sums])]  # the sum over no records is NULL
        by_group = {group: (int(n), [int(total) for total in sums]) for group, n, *sums in rows}
        return [by_group.get(group, (0, [0] * d)) for group in self.groups]

    def _sums_of_words(self, lattice: Lattice) -> list[Sums] | None:
        """The same of so many records of each person, where one number holds what is read of a
        record; None where it does not.
        """
        assert self.persons is not None
        most, told = self.persons.most, lattice.told
        if lattice.fallible is not None:
            return None

        def run() -> list[Sums] | None:
            with connect() as connection:
                records = self._told(self._listed(connection), lattice)
                found = self._words(records, told.ranges, told.some_missing)
            if found is None or not exact_as_floats(len(found), lattice):
                return None
            groups = None if self.groups is None else len(self.groups)
            number, sums = sums_of_words(found, lattice.stages[told.stages :], most, groups)
            return list(zip(number.tolist(), sums.tolist(), strict=True))

        return shielded(run, self.fault)

    def _words(
        self, told: duckdb.DuckDBPyRelation, numbers: Ranges, some_missing: bool, bits: int = EXACT
    ) -> Words | None:
        """The records that are somebody's as words; of their columns those that are numbers have
        these ranges. None where words do not hold them, or a code has more bits.
        """
        if kind_of(told, "person") != "BIGINT":
            return None
        columns, ranges, of_numbers = [], [], iter(numbers)
        for name in told.columns:
            if labels := self._texts.get(name):
                columns.append(f"(enum_code({name}::ENUM({', '.join(map(literal, labels))})))")
                ranges.append((0, len(labels) - 1))
            elif name != "person":
                columns.append(name)
                ranges.append(next(of_numbers))
        code = Code(tuple(ranges))
        if code.bits > bits:
            return None
        return read_words(told, code, columns, some_missing)

    def counts_of_labels(self, other: int | None) -> list[Sums]:
        known = VALUE.isin(*[ConstantExpression(label) for label in self.labels])
        listed = db.where(known, VALUE, None).alias("value")
        rows = self._tally(
            lambda records: records.select(*self._kept, listed), _ranges_of([self.labels])
        )
        by_group: dict[str | None, dict[Any, int]] = {}
        for *group, value, n in rows:
            by_group.setdefault(group[0] if group else None, {})[value] = n
        return [self._counts(by_group.get(group, {}), other) for group in self.groups or (None,)]

    def _counts(self, by_label: dict[Any, int], other: int | None) -> Sums:
        """n, and the records with each label; whatever is left of n has the one at `other`, if
        there is one.
        """
        n = sum(by_label.values())
        counts = [int(by_label.get(label, 0)) for label in self.labels]
        if other is not None:
            counts[other] += n - sum(counts)
        return n, counts

    def bin_counts(self, lower: float, width: float, bins: int) -> Sums:
        index = db.floor((VALUE - lower) * (1 / width)) + 1.0
        index = db.where(index < 0.0, 0.0, db.where(index > float(bins), float(bins), index))
        index = db.astype(db.where(~db.isnan(VALUE), index, -1.0), "int64").alias("value")
        by_bin = dict(self._tally(lambda records: records.select(*self._kept, index), [(-1, bins)]))
        return sum(by_bin.values()), [int(by_bin.get(index, 0)) for index in range(bins + 1)]

    def counts_of_cells(self, lattice: Cells) -> list[Sums]:
        falls, chosen = _cell(lattice.family, self.levels)
        names = [f"cell{j}" for j in range(len(chosen))]
        # no cell, or whole: there are no more rows than cells, and one
        cell = [
            db.where(falls, part, None).alias(name)
            for part, name in zip(chosen, names, strict=True)
        ]
        shape = lattice.family.shape
        levels = zip(self.levels, shape, strict=True)
        ranges = _ranges_of([keys or range(size) for keys, size in levels])
        rows = self._tally(lambda records: records.select(*self._kept, *cell), ranges)
        places = [
            {key: place for place, key in enumerate(keys or range(size))}
            for size, keys in zip(shape, self.levels, strict=True)
        ]
        found = {group: (0, [0] * lattice.width) for group in self.groups or (None,)}
        for row in rows:
            group, *parts, number = (None, *row) if self.groups is None else row
            n, counts = found[group]
            where = [place.get(part, -1) for place, part in zip(places, parts, strict=True)]
            if min(where) >= 0:
                counts[int(np.ravel_multi_index(where, shape))] += int(number)
            found[group] = n + int(number), counts
        return [found[group] for group in self.groups or (None,)]

    @property
    def _kept(self) -> list[Expression]:
        """The columns that stay beside those that tell what a record contributes."""
        by = [] if self.groups is None else [GROUP]
        return by if self.persons is None else [*by, PERSON]

    def _told(self, records: duckdb.DuckDBPyRelation, lattice: Lattice) -> duckdb.DuckDBPyRelation:
        """The columns k0, k1, ... that tell what a record contributes to sums."""
        if lattice.fallible is not None:
            return _attempted(records, lattice, lattice.fallible, *self._kept)
        values: tuple[Expression, ...] = (VALUE,)
        if lattice.columns:
            values = tuple(
                _level(ColumnExpression(f"value{j}"), keys)
                if keys
                else ColumnExpression(f"value{j}")
                for j, keys in enumerate(self.levels)
            )
        return _staged(records, values, lattice.stages[: lattice.told.stages], *self._kept)

    def _listed(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The records of the listed groups; the others contribute nothing."""
        records = self.source(connection)
        if self.groups is None:
            return records
        return records.filter(GROUP.isin(*[ConstantExpression(group) for group in self.groups]))

    @property
    def _texts(self) -> dict[str, tuple[str, ...]]:
        """The public labels of columns that are text, of those that tell contributions."""
        keys: dict[str, tuple[Key, ...]] = {f"cell{j}": own for j, own in enumerate(self.levels)}
        keys |= {"value": self.labels, "belongs": self.groups or ()}
        texts = {
            name: tuple(key for key in own if isinstance(key, str)) for name, own in keys.items()
        }
        return {name: own for name, own in texts.items() if own}

    def _tally(self, tell: Query, numbers: Ranges) -> list[Any]:
        """Rows of the columns that tell contributions, and how many records are alike in them; of
        those that are numbers with their ranges.
        """

        def run() -> list[Any] | None:
            assert self.persons is not None
            with connect() as connection:
                told = tell(self._listed(connection))
                found = self._words(told, numbers, some_missing=True, bits=TALLIED)
                labels = [self._texts.get(name) for name in told.columns if name != "person"]
            return None if found is None else tally_of_words(found, labels, self.persons.most)

        if self.persons is not None and (rows := shielded(run, self.fault)) is not None:
            return rows
        return self._rows(
            tell, lambda told: told.aggregate([*told.columns, COUNT], ", ".join(told.columns))
        )

    def _rows(self, tell: Query, ask: Query) -> list[Any]:
        """The few rows that a query gives over what tells the records' contributions; so many of
        each person contribute.
        """

        def run() -> list[Any]:
            with connect() as connection:
                told = tell(self._listed(connection))
                if self.persons is not None:
                    told = bounded(connection, told, self.persons, self._texts)
                return list(ask(told).fetchall())

        return shielded(run, self.fault)


def _ranges_of(keys: Iterable[Sequence[Key]]) -> Ranges:
    """Of each column that is a number, from the numbers that it may be."""
    return [(int(min(own)), int(max(own))) for own in keys if not isinstance(own[0], str)]


def exact_as_floats(n: int, lattice: Lattice) -> bool:
    """Whether sums over n records are exact where an engine adds floats."""
    return n * lattice.most <= LARGEST


def _contributed(
    told: duckdb.DuckDBPyRelation, lattice: Lattice, *kept: Expression
) -> duckdb.DuckDBPyRelation:
    """A record's whole numbers as columns k0, k1, ... of floats, from those that tell them."""
    if lattice.fallible is not None:
        return told
    columns = tuple(ColumnExpression(f"k{j}") for j in range(len(lattice.told.ranges)))
    return _staged(told, columns, lattice.stages[lattice.told.stages :], *kept)


def _staged(
    records: duckdb.DuckDBPyRelation,
    columns: tuple[Expression, ...],
    stages: tuple[Stage, ...],
    *kept: Expression,
) -> duckdb.DuckDBPyRelation:
    """What stages make of columns as k0, k1, ..., beside those kept; stage by stage: what is used
    twice is computed once.
    """
    for stage in stages:
        records = records.select(*kept, *_named(columns))
        columns = stage(tuple(ColumnExpression(f"k{j}") for j in range(len(columns))), db)
    return records.select(*kept, *_named(columns))


def _named(columns: Iterable[Expression]) -> list[Expression]:
    return [one.alias(f"k{j}") for j, one in enumerate(columns)]


def _level(value: Expression, keys: tuple[Key, ...]) -> Expression:
    """The index of a level, as a number; NULL for a value that is none of them."""
    case = CaseExpression(value == ConstantExpression(keys[0]), ConstantExpression(0.0))
    for j, key in enumerate(keys[1:], 1):
        case = case.when(value == ConstantExpression(key), ConstantExpression(float(j)))
    return case


def _cell(
    family: Table, levels: tuple[tuple[Key, ...], ...]
) -> tuple[Expression, list[Expression]]:
    """Whether a record falls in a cell, and which: for each column the level itself, or a bin."""
    falls, chosen = [], []
    for j, (one, keys) in enumerate(zip(family.parts, levels, strict=True)):
        value = ColumnExpression(f"value{j}")
        if isinstance(one, Cut):
            falls.append(within_edges(one, value))
            chosen.append(bin_of(one, value, db))
        else:
            falls.append(value.isin(*[ConstantExpression(key) for key in keys]))
            chosen.append(value)
    return reduce(and_, falls), chosen


def _attempted(
    records: duckdb.DuckDBPyRelation, lattice: Lattice, plain: Plain, *kept: Expression
) -> duckdb.DuckDBPyRelation:
    """The same where a family's own code may fail: such a record is a missing one."""
    tried = [
        db.attempt(t, WITHIN).alias(f"t{j}")
        for j, t in enumerate(plain.family.statistic(WITHIN, db))
    ]
    statistic = tuple(ColumnExpression(f"t{j}") for j in range(len(tried)))
    failed = reduce(or_, [t.isnull() for t in statistic])
    whole = plain.points(plain.rounded((VALUE, *statistic), db), db)
    if isinstance(lattice, Counted):
        counts, _ = lattice.counting((VALUE,), db)
        whole = lattice.blank((counts, *whole), db)
    missing = [float(part[0]) for part in lattice.integers(np.array([np.nan]))]
    named = _named(db.where(failed, absent, k) for absent, k in zip(missing, whole, strict=True))
    records = records.select(*kept, VALUE, plain.within(VALUE, db).alias("within"))
    return records.select(*kept, VALUE, *tried).select(*kept, *named)


def rehearse(family: Family, lattice: Lattice) -> None:
    """Refuse a family whose statistic does not run in the database as it does in NumPy: tried on
    public values, no record.
    """
    x = lattice.trial
    if not x.size:
        return
    try:
        with connect() as connection, np.errstate(all="ignore"):
            values = connection.sql("SELECT unnest(?::DOUBLE[]) AS value", params=[x.tolist()])
            plain = lattice.fallible
            whole = (
                _staged(values, (VALUE,), lattice.stages)
                if plain is None
                else _attempted(values, lattice, plain)
            )
            computed = np.array(whole.fetchall())
            same = np.abs(computed - np.stack(lattice.integers(x), axis=-1)).max() <= 1
    except (AttributeError, TypeError, ValueError, duckdb.Error):
        same = False
    if not same:
        raise UnsupportedCombination(
            f"the statistic of the {family.kind} family does not run in the database as it does in "
            "NumPy: it may use +, -, *, /, xp.log, xp.exp, xp.sqrt and xp.abs alone."
        )

"""Which records of a person are kept: the rule against a plain reading of it, its corners, and the
same choice wherever the records lie.
"""

from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisewise import Bins, Bounds, families
from noisewise.curator.choice import (
    crowded_heads,
    evenly_spaced,
    kept_codes,
    kept_codes_of,
    kept_rows,
)
from noisewise.curator.database import connect
from noisewise.curator.persons import keys_of
from noisewise.curator.publish import prepare
from noisewise.curator.settings import Settings
from noisewise.curator.values import number_of_person, person_of_text

NAN = float("nan")
NO_CELL = (9, 9)
"""Behind all cells."""


def counted(records: Any, most: int, **more: Any) -> list[tuple[int, list[int]]]:
    """The numbers of records that are kept, and their exact sums."""
    asked: dict[str, Any] = {"column": "x", "family": families.Normal(), "epsilon": 1}
    asked |= {"bounds": Bounds(0, 100, outside="clamp"), "person": "who", **more}
    prepared = prepare(records, Settings(records_per_person=most, **asked))
    return prepared.rows.sums(prepared.plan.lattice)


@pytest.mark.parametrize("most", [1, 2, 5, 9])
def test_every_m_kth_record_is_kept_from_any_start(most: int) -> None:
    for m in range(most + 1, 25):
        chances, starts = np.zeros(m, dtype=int), set()
        kept = evenly_spaced(np.arange(40 * m), np.full(40 * m, m), most)
        for number, own in enumerate(kept):
            start = _start(number, m)
            places = np.arange(m) + start
            wanted = (places + 1) * most // m > places * most // m
            assert own.tolist() == np.flatnonzero(wanted).tolist()
            chances[own] += start not in starts
            starts.add(start)
        assert starts == set(range(m))
        assert set(chances) == {most}  # each record the same chance, k/m


def test_no_head_of_too_many_is_overlooked(rng: np.random.Generator) -> None:
    heads = rng.choice(rng.integers(0, 2**32, 70_000), 300_000).astype(np.uint32)
    found, sizes = np.unique(heads, return_counts=True)
    for most in (1, 5, 10, 10**6):
        assert crowded_heads(heads.copy(), most).tolist() == found[sizes > most].tolist()
    for few in ([], [0], [0, 0], [2**32 - 1] * 3):
        crowded = crowded_heads(np.array(few, dtype=np.uint32), 1)
        assert crowded.tolist() == ([few[0]] if len(few) > 1 else [])


def by_the_rule(number: np.ndarray, codes: np.ndarray, most: int) -> list[tuple[int, int]]:
    """Persons and codes that are kept, one person after the other."""
    order = np.lexsort([codes, number])
    kept = []
    for own in np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else []:
        m, who = len(own), int(number[own[0]])
        start = _start(who, m) if m > most else 0
        kept += [
            (who, int(codes[one]))
            for at, one in enumerate(own, start)
            if m <= most or (at + 1) * most // m > at * most // m
        ]
    return kept


@pytest.mark.parametrize("span", [2**13, 2**30, 2**63], ids=["close", "far", "whole numbers"])
@pytest.mark.parametrize("n", [0, 1, 2, 40, 150_000])
def test_words_and_rows_are_kept_by_the_rule(n: int, span: int, rng: np.random.Generator) -> None:
    """Of persons as numbers of any size; some of their records are alike."""
    number = rng.choice(rng.integers(-span, span, 15_000), n)
    codes = rng.integers(0, 2**7, n)
    for most in (1, 5, 10, 10**6):
        wanted = by_the_rule(number, codes, most)
        who, one, other = number.copy(), codes // 16 + 0.0, codes % 16 + 0.0
        kept = kept_rows(who, [one, other], most)
        found = zip(who[kept].tolist(), (one * 16 + other)[kept].astype(int).tolist(), strict=True)
        assert sorted(found) == wanted
        wanted_codes = sorted(code for _, code in wanted)
        parts = kept_codes_of(number.copy(), codes.copy(), most, np.ndarray.tolist)
        assert sorted(chain(*parts)) == wanted_codes
        if span < 2**31:
            parts = kept_codes(number << 7 | codes, 7, most, np.ndarray.tolist)
            assert sorted(chain(*parts)) == wanted_codes


def test_the_records_of_a_person_come_to_one_bucket_whatever_the_numbers() -> None:
    """One person with nearly all records, and many in front of them and behind."""
    number = np.full(400_000, 7)
    number[::40] = np.arange(10_000) - 5000
    codes = np.arange(len(number)) % 2**10
    wanted = sorted(code for _, code in by_the_rule(number, codes, 3))
    parts = kept_codes(number << 10 | codes, 10, 3, np.ndarray.tolist)
    assert sorted(chain(*parts)) == wanted
    apart = kept_codes_of(number.copy(), codes.copy(), 3, np.ndarray.tolist)
    assert sorted(chain(*apart)) == wanted
    one = codes + 0.0
    kept = kept_rows(number, [one], 3)
    assert sorted(one[kept].astype(int).tolist()) == wanted


@pytest.mark.parametrize("most", [1, 3, 5, 10**6])
@pytest.mark.parametrize(
    "sizes",
    [[40], [5] * 8, [1, 2, 3, 9, 30], [], [6, 5, 4]],
    ids=["one person", "all have five", "some", "no records", "about five"],
)
def test_so_many_records_of_each_person_are_kept(
    sizes: list[int], most: int, rng: np.random.Generator
) -> None:
    who = np.repeat(np.arange(len(sizes)), sizes)
    frame = pd.DataFrame(
        {"who": who.astype(float), "x": rng.choice([1.0, 2.0, NAN, 7.5], len(who))}
    )
    ((n, sums),) = counted(frame, most)
    assert n == sum(min(size, most) for size in sizes)
    mixed = frame.sample(frac=1, random_state=3)
    assert counted(mixed, most) == [(n, sums)]
    assert counted(mixed.assign(who=mixed["who"].map("id {}".format)), most)[0][0] == n
    nobody = pd.DataFrame({"who": [NAN, None], "x": [50.0, 60.0]})
    assert counted(pd.concat([mixed, nobody]), most) == [(n, sums)]


def ones(frame: pd.DataFrame, most: int) -> tuple[int, int]:
    """How many records are kept, and how many of them are 1."""
    ((n, sums),) = counted(frame, most, family=families.Bernoulli(), bounds=None)
    return n, sums[-1]


@pytest.mark.parametrize("name", ["patient {}", "{}", "12.{:04d}1", "0.0{:04d}1", "-{}", "{}e5"])
def test_of_nine_zeros_and_a_one_the_one_is_kept_in_a_tenth(name: str) -> None:
    """Within 4.5 sds of 4000 persons."""
    who = [name.format(person) for person in range(4000) for _ in range(10)]
    frame = pd.DataFrame({"who": who, "x": ([0.0] * 9 + [1.0]) * 4000})
    for most, share in ((1, 0.1), (5, 0.5)):
        n, found = ones(frame, most)
        assert n == 4000 * most
        assert abs(found / 4000 - share) < 4.5 * np.sqrt(share * (1 - share) / 4000)


def test_missing_values_of_either_kind_lead_to_the_same_choice(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """NaN in one engine is NULL in another, and so is -0 for 0."""
    frame = pd.DataFrame({"who": rng.integers(0, 40, 900), "g": rng.choice(["a", "b", None], 900)})
    frame["x"] = rng.choice([NAN, 0.0, 1.0, 3.5, 200.0], 900)
    nulls = pa.Table.from_pandas(frame)
    nans = nulls.set_column(2, "x", pa.array(frame["x"].to_numpy(), from_pandas=False))
    signed = frame.assign(x=frame["x"].where(frame["x"] != 0.0, -0.0))
    frame.to_csv(tmp_path / "t.csv", index=False)
    pq.write_table(nans, tmp_path / "t.parquet")
    groups: dict[str, Any] = {"by": "g", "groups": ["a", "b"], "sizes": "released"}
    for more in ({}, groups):
        wanted = counted(frame, 4, **more)
        forms = [
            tmp_path / "t.csv",
            tmp_path / "t.parquet",
            nulls,
            nans,
            signed,
            pl.from_arrow(nans),
        ]
        for form in [*forms, duckdb.from_arrow(nans)]:
            assert counted(form, 4, **more) == wanted


ONE_PERSON = [
    ["7", "7.0", " 7", "+7", "007", "\t7", "7\n", "7.", "007.00"],
    ["0", "-0", "false", "-0.0", ".0", "00", " FALSE"],
    ["1", "true", "TRUE", " True", "\u00a0true", "1.000"],
    [".5", "0.5", "0.50", "+0.5000"],
    ["-7.1", "-007.10"],
    ["57673881359427211492", "+057673881359427211492.000"],
]
BY_THEMSELVES = [
    *("7e0", "1e5", "10e4", "100000", "1e999", "2e999", "inf", "Infinity", "1_000", "0x10", "1e"),
    *("9007199254740992", "9007199254740993", "57673881359427211493", "9223372036854775808"),
    *("True.", "t", "f", "", " ", ".", "-", "+", "é", "Å", "Ivan", "Nora", "anna", "7a", "a7"),
    *("3f2a-11", "[x]", "_", "patient 00012", "\u00a07", "--5", "+-5", "1.2.3"),
]
NOBODY = ["nan", "NaN", " nan", "-nan", None]


def persons_of(texts: list[str | None]) -> list[tuple[str | None, int | None]]:
    """The person of each text, and the number."""
    with connect() as connection:
        return connection.execute(
            f"SELECT person, {number_of_person('person', 'VARCHAR')} FROM (SELECT "
            f"{person_of_text('name')} AS person FROM (SELECT unnest(?::VARCHAR[]) AS name))",
            [texts],
        ).fetchall()


def test_a_person_is_a_number_to_its_last_digit_or_a_text() -> None:
    found = [{person for person, _ in persons_of(list(texts))} for texts in ONE_PERSON]
    assert [len(one) for one in found] == [1] * len(ONE_PERSON)
    alone = [person for person, _ in persons_of(list(BY_THEMSELVES))]
    assert alone == BY_THEMSELVES
    every = [*(one for persons in found for one in persons), *alone]
    assert len(set(every)) == len(every)
    assert {person for person, _ in persons_of(NOBODY)} == {None}
    # what is given is given again, as after a cluster has brought a person's records together
    assert [person for person, _ in persons_of(every)] == every


@pytest.mark.parametrize("numbers", [[0, 1, -1, 7, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]])
def test_a_whole_number_is_the_person_that_its_text_is(numbers: list[int]) -> None:
    with connect() as connection:
        found = connection.execute(
            f"SELECT list({number_of_person('number', 'BIGINT')}) "
            "FROM (SELECT unnest(?::BIGINT[]) AS number)",
            [numbers],
        ).fetchall()[0][0]
    texts = [str(number) for number in numbers]
    assert found == numbers
    assert persons_of(texts) == list(zip(texts, numbers, strict=True))


LARGE = [2**53, 2**53 + 1, 2**53 + 2, 1750000000000000001, 1750000000000000002, 7]


@pytest.mark.parametrize("most", [1, 2])
def test_long_numbers_are_not_rounded_in_any_form(most: int, tmp_path: Path) -> None:
    who = np.repeat(LARGE, 3)
    frame = pd.DataFrame({"who": who, "x": np.arange(len(who), dtype=float)})
    wanted = counted(frame, most)
    assert wanted[0][0] == most * len(LARGE)
    table = pa.Table.from_pandas(frame)
    decimal = table.set_column(0, "who", table["who"].cast(pa.decimal128(25, 2)))
    frame.to_csv(tmp_path / "t.csv", index=False)
    pq.write_table(table, tmp_path / "t.parquet")
    folder = tmp_path / "mixed"
    folder.mkdir()
    pq.write_table(table.slice(0, 7), folder / "a.parquet")
    pq.write_table(decimal.slice(7, 5), folder / "b.parquet")
    text = table.set_column(0, "who", table["who"].cast(pa.string()))
    pq.write_table(text.slice(12), folder / "c.parquet")
    polars_frame = pl.from_arrow(table)
    forms = [
        *(tmp_path / "t.csv", tmp_path / "t.parquet", folder, table, decimal, text, polars_frame),
        polars_frame.with_columns(pl.col("who").cast(pl.Int128)),
        *(duckdb.from_arrow(one) for one in (table, decimal, text)),
        duckdb.from_arrow(table).project("who::HUGEINT AS who, x"),
        frame.assign(who=frame["who"].astype(object)),
        frame.assign(who=frame["who"].astype("uint64")),
        frame.assign(who=frame["who"].astype("Int64")),
        frame.assign(who=frame["who"].astype(str)),
        frame.assign(who=[Decimal(int(one)) for one in who]),
    ]
    for form in forms:
        assert counted(form, most) == wanted
    nullable = pd.concat([frame, pd.DataFrame({"who": [None], "x": [50.0]})])
    assert counted(nullable.assign(who=nullable["who"].astype("Int64")), most) == wanted


@pytest.mark.parametrize(
    "endless",
    [Decimal("1E+999999999"), Decimal("-1E-999999999"), 10**5000, Decimal("NaN")],
    ids=["large", "small", "int", "nan"],
)
def test_a_number_that_would_fill_the_memory_is_nobody(endless: Any) -> None:
    who = [Decimal("1E+20"), 10**20, Decimal("100000000000000000000.0"), endless]
    frame = pd.DataFrame({"who": np.array(who, dtype=object), "x": [1.0, 2.0, 3.0, 4.0]})
    assert counted(frame, 5)[0][0] == 3
    assert counted(frame, 1)[0][0] == 1


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("pair", [("8", "7.6"), ("10", "1e1"), (2**53, 2**53 + 1), ("Zed", None)])
def test_persons_of_one_number_are_two(pair: tuple[Any, Any], relation: str) -> None:
    """A whole number rounds 7.6 to 8, a float the last, and Zed's number is another's name. Each
    keeps what is theirs.
    """
    if pair == ("Zed", None):
        (_, number), (_, same) = persons_of(["Zed", str(persons_of(["Zed"])[0][1])])
        assert number == same
        pair = ("Zed", str(number))
    for sizes in ((1, 1), (5, 1), (1, 5), (4, 9)):
        who = [name for name, size in zip(pair, sizes, strict=True) for _ in range(size)]
        x = [0.0] * sizes[0] + [1.0] * sizes[1]
        frame = pd.DataFrame({"who": who, "x": x})
        more = {"family": families.Bernoulli(), "bounds": None, "neighbours": relation}
        ((n, sums),) = counted(frame, 2, **more)
        kept = [min(size, 2) for size in sizes]
        assert (n, sums[-1]) == (sum(kept), kept[1])


def test_persons_whose_digests_begin_alike_have_no_say_in_each_others_choice(
    rng: np.random.Generator,
) -> None:
    """Digests can be turned back: these differ in their last five bits alone, which are not looked
    at where there are 16 records or more.
    """
    digest = 0x0123456789ABCDE0
    numbers = [_number_of_digest(digest + person) for person in range(12)]
    assert [_start(number, 2**64) - digest for number in numbers] == list(range(12))
    frame = pd.DataFrame({"who": np.repeat(numbers, np.arange(1, 13))})
    frame["x"] = rng.uniform(0, 100, len(frame)).round()
    for own in (frame, frame.assign(who=frame["who"].map("{}.0".format))):
        for most in (1, 2, 5, 11):
            together = counted(own.sample(frac=1, random_state=most), most)[0]
            alone = [counted(records, most)[0] for _, records in own.groupby("who")]
            assert together[0] == sum(n for n, _ in alone)
            assert together[1] == np.sum([sums for _, sums in alone], axis=0).tolist()


def _number_of_digest(x: int) -> int:
    """SplitMix64 from its end to its beginning, as a signed number."""
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        x ^= x >> shift ^ x >> 2 * shift
        x = x * pow(factor, -1, 2**64) % 2**64
    x = (x - 0x9E3779B97F4A7C15) % 2**64
    return x - 2**64 if x >= 2**63 else x


def _start(number: int, m: int) -> int:
    """By SplitMix64."""
    x = (number + 0x9E3779B97F4A7C15) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        x = (x ^ (x >> shift)) * factor % 2**64
    return x % m


@pytest.mark.parametrize("far", [2**62, 2**30], ids=["far numbers", "numbers"])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_rule_is_followed_to_the_letter(most: int, far: int, rng: np.random.Generator) -> None:
    """Of several columns, numbers and text, missing ones among them: each person's records in
    order of the cells that they fall in, those that fall in none last.
    """
    n = 2000
    frame = pd.DataFrame({"who": rng.integers(-far, far, 150)[rng.integers(0, 150, n)]})
    frame["x"] = rng.choice([0.0, 1.0, 2.5, 30.0, NAN], n)
    frame["y"] = rng.choice(["b", "a", "it's", "odd", None], n)
    levels = ["b", "it's", "a"]
    table = families.Table({"x": Bins([0, 1, 2, 50]), "y": levels})
    more = {"column": None, "family": table, "bounds": None}
    kept = []
    for who, own in frame.groupby("who"):
        cells = sorted(
            (int(np.searchsorted([1, 2], x, side="right")), levels.index(y))
            if x <= 50 and y in levels
            else NO_CELL
            for x, y in zip(own["x"], own["y"], strict=True)
        )
        m, start = len(cells), _start(int(who), len(cells))
        kept += [
            cell
            for at, cell in enumerate(cells, start)
            if m <= most or (at + 1) * most // m > at * most // m
        ]
    counts = [kept.count((bin, place)) for bin in range(3) for place in range(3)]
    names = frame.assign(who=frame["who"].map("{}.0".format))
    for form in (frame, frame.sample(frac=1, random_state=1), names):
        ((found, sums),) = counted(form, most, **more)
        assert found == len(kept)
        assert sums[-9:] == counts


@pytest.mark.parametrize("groups", [None, ["it's", "no one's", "north"]], ids=["all", "groups"])
@pytest.mark.parametrize(
    "asked",
    [
        {"column": "label", "family": families.Categorical(["b", "a", "it's"]), "missing": "drop"},
        {"column": "label", "family": families.Categorical(["b", "a", "z"], other="z")},
        {"column": "whole", "family": families.Categorical([3, -2, 7], other=7)},
        {"column": "whole", "family": families.Categorical([3, 10**6]), "missing": "drop"},
        {"column": None, "family": families.Table({"whole": [7, -2], "x": Bins([0, 30, 60])})},
        {"column": None, "family": families.Table({"label": ["a"], "whole": [7, 10**9]})},
    ],
    ids=["labels", "other", "numbers", "far numbers", "cells", "far cells"],
)
def test_numbers_and_names_of_persons_lead_to_the_same_counts(
    asked: dict[str, Any], groups: list[str] | None, rng: np.random.Generator
) -> None:
    """Whether a record is one word or stays in the database."""
    n = 3000
    frame = pd.DataFrame({"who": rng.integers(-200, 200, n), "x": rng.normal(30, 20, n)})
    frame["label"] = rng.choice(["b", "a", "it's", "odd", None], n)
    frame["whole"] = rng.choice([3.0, -2.0, 7.0, 1e6, 1e9, NAN], n)
    frame["where"] = rng.choice(["it's", "north", "no one's", "south", None], n)
    own = {"bounds": None, **asked}
    if groups is not None:
        own |= {"by": "where", "groups": groups, "sizes": "released"}
    for most in (1, 4):
        wanted = counted(frame, most, **own)
        assert len(wanted) == len(groups or [None])
        assert min(n for n, _ in wanted) > 0
        assert counted(frame.assign(who=frame["who"].map("{}.0".format)), most, **own) == wanted


@pytest.mark.parametrize("last", [2**53, 2**53 - 1, 1 - 2**53])
def test_what_is_missing_is_not_the_last_label(last: int) -> None:
    """Above 2^53 there is no float that is one more. One person who has a name decides how persons
    are held, and must not decide what the others' missing values are.
    """
    frame = pd.DataFrame({"who": range(10), "x": [float(last)] + [NAN] * 9})
    named = pd.concat([frame, pd.DataFrame({"who": ["Zed"], "x": [NAN]})])
    table = {"column": None, "bounds": None, "family": families.Table({"x": [last - 1, last]})}
    labels = {"bounds": None, "family": families.Categorical([last - 1, last]), "missing": "drop"}
    for asked in (table, labels):
        for form in (frame, named):
            ((_, sums),) = counted(form, 1, **asked)
            assert sums[-2:] == [0, 1]


def test_persons_under_one_name_after_all_are_one(tmp_path: Path) -> None:
    who = ["7", "7.0", " 7", "true", "TRUE", "x"]
    frame = pd.DataFrame({"who": who, "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    wanted = counted(frame, 1)
    assert wanted[0][0] == 3  # true is 1
    assert counted(tmp_path / "t.csv", 1) == wanted
    assert counted(frame.assign(who=[7, 7.0, "7", True, True, "x"]), 1) == wanted


def test_whose_a_record_of_a_part_is_does_not_hang_on_the_order_of_reading() -> None:
    """DuckDB gives rows of several batches back in any order; joined by it, records of a cluster's
    part were given to other persons.
    """
    names = [f"p{person}" for person in range(300_000)]
    batches = [
        pa.record_batch({"who": names[at : at + 10_000], "x": [0.0] * 10_000})
        for at in range(0, len(names), 10_000)
    ]
    frame = pd.DataFrame({"x": 0.0, "who": names})
    for _ in range(3):
        assert keys_of(pa.Table.from_batches(batches), "who") == names
        assert keys_of(frame, "who") == names
    floats = pd.DataFrame({"who": np.arange(300_000) / 4})
    assert keys_of(floats, "who")[:6] == ["0", ".25", ".5", ".75", "1", "1.25"]


NUMBER = "row * 7654321 % 400000 // 4"
NAME = f"'patient ' || lpad(({NUMBER})::VARCHAR, 9, '0')"
FAR = f"(hash({NUMBER}) >> 1)::BIGINT - 4611686018427387904"


@pytest.mark.parametrize("who", [NUMBER, NAME, FAR], ids=["numbers", "names", "far numbers"])
def test_of_many_records_so_many_are_kept_on_all_cores(who: str) -> None:
    """Tables of several threads are not read in the order of their rows. Of each person's four
    values 0, 1, 2 and 3 every one has the same chance, within 4.5 sds of 100 000 persons.
    """
    rows = 400_000
    value = "row * 7654321 % 400000 % 4"
    table = duckdb.sql(f"SELECT {who} AS who, ({value})::DOUBLE AS x FROM range({rows}) t(row)")
    more = {"family": families.Categorical(range(4)), "bounds": None, "missing": "drop"}
    for most in (5, 3, 1):
        ((n, counts),) = counted(table, most, **more)
        assert n == rows // 4 * min(most, 4)
        share = min(most, 4) / 4
        spread = 4.5 * np.sqrt(rows / 4 * share * (1 - share))
        assert max(abs(np.array(counts[-4:]) - rows / 4 * share)) <= spread

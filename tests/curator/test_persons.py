"""Which records of a person are kept: the rule against a plain reading of it, its corners, and the
same choice wherever the records lie.
"""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisewise import Bounds, families
from noisewise.curator import persons
from noisewise.curator.database import connect
from noisewise.curator.persons import evenly_spaced, in_crowded_seats
from noisewise.curator.publish import prepare
from noisewise.curator.settings import Settings
from noisewise.curator.values import key_of_text, person_of_text
from noisewise.errors import RecordsError

NAN = float("nan")
NAMES = [
    *("7", "7.0", " 7", "+7", "007", "7e0", "-0", "0", "inf", "Infinity", "nan", "NaN", "1_000"),
    *("true", "TRUE", " True", "false", "True.", "t", "f", "", " ", "\t7", "7\n", "é", "Å", "ñ"),
    *("Ivan", "Nora", "Tom", "Fred", "anna", "Zoë", "a7", "7a", "3f2a-11", "[x]", "_", "0x10"),
    *("1e", ".5", "0.5", "5.", "patient 00012", "\u00a0true", "number 7.0", "text a", "\u00a07"),
]


def counted(records: Any, most: int, **more: Any) -> list[tuple[int, list[int]]]:
    """The numbers of records that are kept, and their exact sums."""
    asked: dict[str, Any] = {"column": "x", "family": families.Normal(), "epsilon": 1}
    asked |= {"bounds": Bounds(0, 100, outside="clamp"), "person": "who", **more}
    prepared = prepare(records, Settings(records_per_person=most, **asked))
    return prepared.rows.sums(prepared.plan.lattice)


@pytest.mark.parametrize("most", [1, 2, 5, 9])
def test_every_m_kth_record_is_kept_from_any_start(most: int) -> None:
    for m in range(1, 25):
        chances = np.zeros(m, dtype=int)
        for start in range(m):
            person = np.full(m, start + m * 10**15)
            kept = evenly_spaced(person, most)
            places = np.arange(m) + start
            wanted = (places + 1) * most // m > places * most // m if m > most else kept | True
            assert kept.tolist() == wanted.tolist()
            assert kept.sum() == min(m, most)
            chances += kept
        assert set(chances) == {min(m, most)}  # each record the same chance, k/m


def test_persons_that_lie_together_have_no_say_in_each_others_choice(
    rng: np.random.Generator,
) -> None:
    numbers = np.sort(rng.choice(2**62, 200, replace=False))
    sizes = rng.integers(1, 30, 200)
    together = evenly_spaced(np.repeat(numbers, sizes), 4)
    alone = [evenly_spaced(np.full(m, one), 4) for one, m in zip(numbers, sizes, strict=True)]
    assert together.tolist() == np.concatenate(alone).tolist()
    assert evenly_spaced(np.empty(0, dtype=np.int64), 4).tolist() == []


def test_nobody_with_too_many_is_overlooked(rng: np.random.Generator) -> None:
    heads = rng.choice(rng.integers(0, 2**32, 70_000), 300_000).astype(np.uint32)
    found = np.unique_inverse(heads).inverse_indices
    sizes = np.bincount(found)
    for most in (1, 5, 10, 10**6):
        crowded = in_crowded_seats(heads, most)
        assert crowded[sizes[found] > most].all()
        assert crowded.mean() < (sizes[found] > most).mean() + 0.02


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


def test_of_nine_zeros_and_a_one_the_one_is_kept_in_a_tenth() -> None:
    """Within 4.5 sds of 4000 persons."""
    who = [f"patient {person}" for person in range(4000) for _ in range(10)]
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


def test_two_texts_are_one_person_if_they_are_one_label() -> None:
    with connect() as connection:
        labels, digests = connection.execute(
            f"SELECT list({key_of_text('name')}), list({person_of_text('name')}) "
            "FROM (SELECT unnest(?::VARCHAR[]) AS name)",
            [[*NAMES, None]],
        ).fetchall()[0]
    for label, person in zip(labels, digests, strict=True):
        assert (label is None) == (person is None)
        assert person is None or 0 <= person < 2**63
    for j, one in enumerate(labels):
        for k, other in enumerate(labels[:j]):
            assert (one == other) == (digests[j] == digests[k])


def test_persons_under_one_name_after_all_are_one(tmp_path: Path) -> None:
    who = ["7", "7.0", " 7", "true", "TRUE", "x"]
    frame = pd.DataFrame({"who": who, "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    wanted = counted(frame, 1)
    assert wanted[0][0] == 3
    assert counted(tmp_path / "t.csv", 1) == wanted
    assert counted(frame.assign(who=[7, 7.0, "7", True, True, "x"]), 1) == wanted


def test_nothing_that_is_said_of_one_person_is_taken_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A database that gave the rows in another order the second time is refused."""
    frame = pd.DataFrame({"who": [0, 1] * 30, "x": [1.0, 0.0] * 30})
    frame.loc[1::2, "who"] = range(1, 31)
    assert ones(frame, 2) == (32, 2)

    def turned(heads: np.ndarray, most: int) -> np.ndarray:
        crowded = np.roll(in_crowded_seats(heads, most), 1)
        heads[:] = np.roll(heads, 1)
        return crowded

    monkeypatch.setattr(persons, "in_crowded_seats", turned)
    with pytest.raises(RecordsError):
        ones(frame, 2)

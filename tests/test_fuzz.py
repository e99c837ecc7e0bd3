"""Whatever is read gives a value or one of our own errors: mutated inputs, and what Hypothesis
thinks of.

`make fuzz` tries 10^5 mutations of releases, families and priors each (a quarter as many ledgers, a
fifth as many CSV files) and 2000 by Hypothesis; the suite 1500 and 100.
"""

import copy
import csv
import io
import json
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noisewise
from noisewise import Bounds, NoisyCount, families, noise
from noisewise.artifact import Privacy, Release, parse
from noisewise.curator.ledger import Ledger
from noisewise.errors import LedgerError, RecordsError, ReleaseFormatError
from noisewise.mechanism.lattice import lattice_for
from noisewise.mechanism.privacy import pure
from noisewise.model import notation
from noisewise.model.family import Family
from noisewise.model.priors import Prior
from tables import exact_sums

INPUTS = int(os.environ.get("NOISEWISE_FUZZ", "1500"))
PRIVACY = Privacy(
    "0.5",
    "0.5",
    "replace_one",
    1,
    "one record",
    (60.0,),
    spend="01234567-89ab-4def-8123-456789abcdef",
)
RELEASES = [
    Release(
        families.Exponential(),
        100,
        (51.25,),
        noise.DiscreteLaplace(120.0, 0.25),
        Bounds(0, 60, outside="clamp"),
        privacy=PRIVACY,
        dataset="d",
        column="wait",
    ),
    Release(
        families.Categorical(["a", "b"], other="b"),
        None,
        (3.0, 4.0),
        noise.DiscreteGaussian(2.0, 1.0),
        group=("county", "Kent"),
    ),
    Release(
        families.Bernoulli(),
        None,
        (3.0,),
        noise.Laplace(2.0),
        count=NoisyCount(9.5, noise.Laplace(1.0)),
    ),
]
TOKENS = [
    b"NaN",
    b"Infinity",
    b"-1e999",
    b"1e308",
    b"1" * 400,
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b"[" * 5000,
    b'{"a":' * 5000,
    b"\x00",
    b"\xff\xfe",
    b"\\ud800",
    b"1e-400",
    b"-0",
    b"9" * 30,
    b"__import__('os')",
    b'"n": 1e300',
    b",",
    b"\n",
    b'"',
    b"\r\n",
    b"2",
    b"(",
    b")",
]


def mutated(seed: bytes, rng: random.Random) -> bytes:
    """A few bytes flipped, cut, doubled, moved, or replaced by something odd."""
    data = bytearray(seed)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at, length = rng.randrange(len(data) + 1), rng.choice([1, 1, 2, 8, 64])
        match rng.randrange(6):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length]
            case 3:
                data[at : at + rng.choice([0, length])] = rng.choice(TOKENS)
            case 4:
                other = rng.randrange(len(data) + 1)
                data[at:at] = data[other : other + length]
            case _:
                data = data[:at] if rng.random() < 0.2 else data
    return bytes(data)


def fuzz(
    seeds: list[bytes], read: Callable[[bytes], None], allowed: type[Exception], share: float = 1.0
) -> None:
    """`read` asserts what must hold of whatever it accepts; anything else but the allowed error
    fails the test.
    """
    rng = random.Random(20261116)
    for _ in range(int(INPUTS * share)):
        data = mutated(rng.choice(seeds), rng)
        try:
            read(data)
        except allowed:
            continue


def test_a_changed_release_is_refused_unless_it_says_the_same() -> None:
    seeds = [one.to_json(indent=indent).encode() for one in RELEASES for indent in (None, 2)]

    def read(data: bytes) -> None:
        assert parse(data) in RELEASES  # the checksum lets nothing pass but a change of white space

    fuzz(seeds, read, ReleaseFormatError)


def test_a_changed_release_with_a_good_checksum_can_be_written_again() -> None:
    """Fields changed and the checksum made anew: what passes must be a release that can be written
    again.
    """
    from noisewise.artifact.json_text import digest

    rng, read = random.Random(7), 0
    odd: list[Any] = [
        None,
        True,
        -1,
        0,
        1e300,
        -1e300,
        5e-324,
        10**25,
        "",
        "x",
        "x" * 10**5,
        [],
        [1e300] * 50,
        {},
        {"kind": "gamma"},
        2**63,
    ]

    def keys(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        inner = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        )
        return [path, *(found for key, item in inner for found in keys(item, (*path, key)))]

    for _ in range(INPUTS):
        content = json.loads(rng.choice(RELEASES).to_json())
        del content["sha256"]
        for _ in range(rng.choice([1, 1, 2])):
            path = rng.choice(keys(content)[1:])
            place = content
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = copy.deepcopy(rng.choice(odd))
        try:
            made = parse(json.dumps(content | {"sha256": digest(content)}))
        except ReleaseFormatError:
            continue
        read += 1
        assert parse(made.to_json()) == made
    assert 0 < read < INPUTS / 2


def test_a_changed_family_or_prior_is_read_or_refused() -> None:
    seeds = [
        b"gamma(shape=2, rate=20)",
        b"dirichlet(concentration=[1, 2.5, 3])",
        b"normal_inverse_gamma(mean=0, strength=1, shape=2, scale=3)",
        b"categorical(categories=['a', 'b'], other='b')",
        b"normal(variance=4)",
        b"beta(alpha=1e-3, beta=7)",
    ]
    for parser, kind in ((notation.prior, Prior), (notation.family, Family)):

        def read(data: bytes, parser: Any = parser, kind: Any = kind) -> None:
            assert isinstance(parser(data.decode(errors="replace")), kind)

        fuzz(seeds, read, ValueError)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
by_hypothesis = settings(max_examples=max(100, INPUTS // 50), deadline=None, database=None)


@by_hypothesis
@given(st.binary(max_size=500) | ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_no_release(data: bytes) -> None:
    with pytest.raises(ReleaseFormatError):
        parse(data)


@by_hypothesis
@given(st.sampled_from(RELEASES), st.data())
def test_any_value_of_a_field_is_refused_or_read_back(
    release: Release, data: st.DataObject
) -> None:
    from noisewise.artifact.json_text import digest

    content = json.loads(release.to_json())
    del content["sha256"]
    content[data.draw(st.sampled_from(sorted(content)))] = data.draw(ANYTHING)
    try:
        text = json.dumps(content | {"sha256": digest(content)})
    except ValueError:  # NaN is no JSON: there is no checksum of it
        return
    try:
        made = parse(text)
    except ReleaseFormatError:
        return
    assert parse(made.to_json()) == made


@by_hypothesis
@given(
    st.text(max_size=200)
    | st.builds(
        "{}({}={})".format,
        st.sampled_from(["gamma", "beta", "normal", "dirichlet", "categorical"]),
        st.sampled_from(["shape", "alpha", "mean", "concentration", "categories"]),
        ANYTHING,
    )
)
def test_any_text_is_a_family_or_a_prior_or_is_refused(text: str) -> None:
    for parser, kind in ((notation.prior, Prior), (notation.family, Family)):
        try:
            assert isinstance(parser(text), kind)
        except ValueError:
            continue


@by_hypothesis
@given(st.integers(0, 2**14), st.binary(min_size=1, max_size=64))
def test_a_ledger_with_any_bytes_in_it_is_read_or_refused(at: int, data: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "b.db"
        book = Ledger(path)
        book.set_limit("visits", pure(3))
        book.spend("visits", pure("0.5"), "one record", "test")
        content = bytearray(path.read_bytes())
        content[at : at + len(data)] = data
        path.write_bytes(content)
        try:
            assert all(account.spent >= 0 for account in book.accounts())
        except LedgerError:
            return


@by_hypothesis
@given(
    st.lists(
        st.tuples(
            st.text(max_size=8), st.floats() | st.integers() | st.text(max_size=8) | st.none()
        ),
        max_size=8,
    )
)
def test_any_table_is_read_whole_from_a_csv_file(rows: list[tuple[str, Any]]) -> None:
    """A file that Python's own writer makes is read with every one of its rows, or refused for a
    character that does not print.
    """
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([("id", "x"), *rows])
    family, bounds = families.Exponential(), Bounds(0, 60, outside="redact")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes(text.getvalue().encode(errors="surrogatepass"))
        try:
            ((n, sums),) = exact_sums(path, lattice_for(family, bounds))
        except RecordsError:
            assert not text.getvalue().replace("\n", "").isprintable()
            return
        assert n == len(rows)
        assert all(0 <= total <= n << 21 for total in sums)


def test_a_changed_ledger_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    book = Ledger(path)
    book.set_limit("visits", pure(3))
    book.spend("visits", pure("0.5"), "one record", "test")
    seed = path.read_bytes()
    texts = [b"visits", b"epsilon", b"0.5", b"CREATE TABLE", b"spends"]

    def read(data: bytes) -> None:
        path.write_bytes(data)
        path.with_name("b.db-journal").unlink(missing_ok=True)
        for account in Ledger(path).accounts():
            assert account.spent >= 0
        Ledger(path).history()

    rng, refused = random.Random(3), 0
    for _ in range(INPUTS // 4):
        data = bytearray(seed)
        if rng.random() < 0.5:
            at = rng.choice([data.find(text) for text in texts])
            data[at : at + 2] = bytes([rng.randrange(256), rng.randrange(256)])
        else:
            data = bytearray(mutated(bytes(data), rng))
        try:
            read(bytes(data))
        except LedgerError:
            refused += 1
    assert 0 < refused < INPUTS // 4  # some change nothing that is read


def test_a_changed_csv_file_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    seeds = [
        b'id,x,y\n1,2.5,"a, b"\n2,,"c ""d"""\n3,1e5,\n',
        b"x\r\n1\r\n2\r\n\r\nnan\r\n",
        b"\xef\xbb\xbfx,y\n1,2\n",
    ]
    family, bounds = families.Exponential(), Bounds(0, 60, outside="redact")

    def read(data: bytes) -> None:
        path.write_bytes(data)
        ((n, sums),) = exact_sums(path, lattice_for(family, bounds))
        assert 0 <= n <= len(data)
        assert all(0 <= total <= n << 21 for total in sums)

    fuzz(seeds, read, RecordsError, share=0.2)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 10**6,
        b'{"a":' * 10**6,
        b'{"format": "noisewise-release", "version": 2, "statistic": [' + b"1," * 10**7 + b"1]}",
        RELEASES[0].to_json().replace('"n": 100', '"n": 1' + "0" * 300).encode(),
        RELEASES[0].to_json().replace('"n": 100', '"n": 1e300').encode(),
        b'"' + b"x" * 10**7 + b'"',
    ],
    ids=["deep lists", "deep objects", "many numbers", "long n", "huge n", "long text"],
)
def test_deep_long_and_huge_files_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "monster.json"
    path.write_bytes(data)
    with pytest.raises(ReleaseFormatError):
        noisewise.load(path)


def test_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with open(path, "wb") as file:
        file.truncate(2**30)  # sparse
    with pytest.raises(ReleaseFormatError, match="larger than"):
        noisewise.load(path)


def test_nothing_in_a_ledger_is_run(tmp_path: Path) -> None:
    """A trigger planted in a ledger may forbid what it likes, but it cannot make an account
    smaller.
    """
    path = tmp_path / "b.db"
    Ledger(path).set_limit("d", pure(1))
    Ledger(path).spend("d", pure("0.9"), "one record", "test")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TRIGGER evil AFTER INSERT ON spends BEGIN DELETE FROM spends; END"
        )
        connection.commit()
    with pytest.raises(LedgerError):
        Ledger(path).spend("d", pure("0.05"), "one record", "test")
    assert Ledger(path).accounts()[0].spent == pure("0.9").amount

"""The ledger: exact sums, clear refusals, sixteen processes at once, and processes killed at any
instant.
"""

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import noisewise
from curator.forks import forks
from noisewise import Bounds, PrivateBounds, families
from noisewise.cli.main import run
from noisewise.curator.ledger import Ledger
from noisewise.errors import BudgetExceeded, LedgerError
from noisewise.mechanism.noise import DiscreteGaussian
from noisewise.mechanism.opendp import concentrated_within
from noisewise.mechanism.privacy import Cost, concentrated, pure, text


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = Ledger(tmp_path / "budget.db")
    book.set_limit("visits", pure("0.3"))
    return book


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("x\n" + "".join(f"{i % 7}\n" for i in range(200)))
    return path


def publish(
    records: Path, ledger: Path, epsilon: str, out: Path | None = None
) -> noisewise.Release:
    made = noisewise.release(
        records,
        column="x",
        family=families.Poisson(),
        bounds=Bounds(0, 9, outside="clamp"),
        epsilon=epsilon,
        ledger=ledger,
        dataset="visits",
    )
    if out is not None:
        made.save(out)
    return made


def test_three_tenths_fit_into_0_3(ledger: Ledger) -> None:
    for _ in range(3):
        ledger.spend("visits", pure("0.1"), "one record", "test")
    (account,) = ledger.accounts()
    assert (account.spent, account.left, account.releases) == (Decimal("0.3"), 0, 3)
    with pytest.raises(
        BudgetExceeded,
        match=r"has 0 of its limit 0.3 left.*costs "
        r"0.0001.*set-limit",
    ):
        ledger.spend("visits", pure("0.0001"), "one record", "test")
    assert len(ledger.history("visits")) == 4


def test_limits_can_be_raised_and_lowered_and_everything_is_kept(ledger: Ledger) -> None:
    ledger.spend("visits", pure("0.2"), "one record", "test")
    assert ledger.set_limit("visits", pure("0.1")).left == Decimal("-0.1")
    with pytest.raises(BudgetExceeded, match=r"has 0 of its limit 0\.1 left"):
        ledger.spend("visits", pure("0.01"), "one record", "test")
    assert ledger.set_limit("visits", pure(1)).left == Decimal("0.8")
    ledger.spend("visits", pure("0.8"), "one record", "test")
    assert [str(entry.cost.amount) for entry in ledger.history()] == [
        "0.3",
        "0.2",
        "0.1",
        "1",
        "0.8",
    ]
    for change, refusal in (
        ("DELETE FROM spends", "never deleted"),
        ("UPDATE spends SET amount = '0.1'", "never changed"),
    ):
        with (
            closing(sqlite3.connect(ledger.path)) as connection,
            pytest.raises(sqlite3.IntegrityError, match=refusal),
        ):
            connection.execute(change)


def test_a_dataset_without_a_limit_is_refused_with_the_command_that_helps(
    ledger: Ledger, records: Path
) -> None:
    with pytest.raises(
        LedgerError,
        match=r"no limit.*noisewise ledger set-limit .*budget.db "
        r"--dataset other --epsilon TOTAL",
    ):
        noisewise.release(
            records,
            column="x",
            family=families.Bernoulli(),
            epsilon=1,
            ledger=ledger.path,
            dataset="other",
        )
    with pytest.raises(LedgerError, match="needs --dataset NAME"):
        noisewise.release(
            records, column="x", family=families.Bernoulli(), epsilon=1, ledger=ledger.path
        )
    with pytest.raises(LedgerError, match=r"there is no ledger .*set-limit"):
        publish(records, ledger.path.with_name("absent.db"), "0.1")
    assert not ledger.path.with_name("absent.db").exists()


def test_an_unaffordable_release_is_refused_before_the_records_are_read(
    ledger: Ledger, tmp_path: Path
) -> None:
    with pytest.raises(BudgetExceeded, match=r"has 0\.3 of its limit 0\.3 left"):
        publish(tmp_path / "no-such-file.csv", ledger.path, "0.31")


def test_a_failed_reading_costs_nothing(ledger: Ledger, tmp_path: Path) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text("x,y\n1,2\n3\n")
    with pytest.raises(
        noisewise.errors.RecordsError,  # type: ignore[attr-defined]
        match="not a well-formed CSV",
    ):
        publish(broken, ledger.path, "0.1")
    assert ledger.accounts()[0].spent == 0


def test_private_bounds_are_charged_with_the_release_in_one_entry(
    ledger: Ledger, records: Path
) -> None:
    bounds = PrivateBounds(0, 50, epsilon="0.05", outside="clamp")
    made = noisewise.release(
        records,
        column="x",
        family=families.Poisson(),
        bounds=bounds,
        epsilon="0.1",
        ledger=ledger.path,
        dataset="visits",
    )
    assert made.privacy is not None
    assert (made.privacy.epsilon, made.privacy.bounds_epsilon, made.privacy.total_epsilon) == (
        "0.1",
        "0.05",
        "0.15",
    )
    _, spent = ledger.history()
    assert (spent.cost.amount, spent.spend) == (Decimal("0.15"), made.privacy.spend)


@pytest.mark.parametrize(
    "content",
    [b"", b"not a database at all, just text" * 50, b"SQLite format 3\x00" + b"\x00" * 4096],
)
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(
    content: bytes, tmp_path: Path, records: Path
) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(content)
    for action in (
        lambda: publish(records, path, "0.1"),
        lambda: Ledger(path).set_limit("visits", pure(1)),
        Ledger(path).accounts,
    ):
        with pytest.raises(LedgerError, match=r"not a noisewise ledger|cannot be used"):
            action()
    assert path.read_bytes() == content


def test_someone_elses_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(LedgerError, match="not a noisewise ledger"):
        Ledger(path).set_limit("visits", pure(1))


def test_sixteen_processes_never_overspend(ledger: Ledger, records: Path, tmp_path: Path) -> None:
    """Three shares are left, and exactly three of sixteen get one, however many passed the early
    check together.
    """
    outcomes = forks("race", tmp_path)["outcomes"]
    assert sorted(outcomes) == [0] * 3 + [7] * 13
    assert ledger.accounts()[0].left == 0
    written = {
        noisewise.load(tmp_path / f"{i}.json").privacy.spend for i in range(16) if outcomes[i] == 0
    }  # type: ignore[union-attr]
    assert written == {entry.spend for entry in ledger.history() if entry.spend}
    assert len(list(tmp_path.glob("*.json"))) == 3


def test_a_killed_process_never_leaves_a_release_that_the_ledger_does_not_know(
    ledger: Ledger, records: Path, tmp_path: Path
) -> None:
    """100 processes, each killed with SIGKILL at a random instant of its release."""
    ledger.set_limit("visits", pure(1000))
    forks("kill", tmp_path)
    known = {entry.spend for entry in ledger.history() if entry.spend}
    # a partial file would not load
    written = [noisewise.load(path) for path in tmp_path.glob("*.json")]
    assert {made.privacy.spend for made in written} <= known  # type: ignore[union-attr]
    assert len(known) >= len(written)
    assert 5 <= len(written) <= 95  # the instants covered the whole release


def rho_release(records: Path, ledger: Path, **cost: Any) -> noisewise.Release:
    return noisewise.release(
        records,
        column="x",
        family=families.Normal(),
        bounds=Bounds(0, 9, outside="clamp"),
        ledger=ledger,
        dataset="visits",
        **cost,
    )


def test_under_a_limit_in_rho_an_epsilon_counts_as_half_its_square(
    ledger: Ledger, records: Path
) -> None:
    """Normal noise of the declared sd; under a limit in rho, an epsilon counts as epsilon^2/2."""
    with pytest.raises(LedgerError, match=r"is in epsilon.*no pure epsilon.*limit in rho"):
        rho_release(records, ledger.path, rho="0.01")
    assert ledger.accounts()[0].spent == 0
    publish(records, ledger.path, "0.1")
    assert ledger.set_limit("visits", concentrated("0.08")).spent == Decimal("0.005")
    made = rho_release(records, ledger.path, rho="0.05")
    assert made.privacy is not None
    privacy = made.privacy
    assert (privacy.rho, privacy.total_rho, privacy.epsilon, privacy.total_epsilon) == (
        "0.05",
        "0.05",
        None,
        None,
    )
    assert isinstance(made.noise, DiscreteGaussian)
    # of (u, u^2): from u = -1 to u = 1
    assert privacy.sensitivity == pytest.approx((2, 2), rel=1e-5)
    assert made.noise.scales == pytest.approx(2 / (2 * 0.05) ** 0.5, rel=1e-5)
    publish(records, ledger.path, "0.2")
    assert ledger.accounts()[0].left == Decimal("0.005")
    with pytest.raises(
        BudgetExceeded,
        match=r"has 0.005 of its limit 0.08 left.*costs 0.01 in "
        r"rho.*--rho TOTAL",
    ):
        rho_release(records, ledger.path, rho="0.01")
    with pytest.raises(BudgetExceeded, match=r"costs 0.02 in rho; lower epsilon"):
        publish(records, ledger.path, "0.2")
    with pytest.raises(LedgerError, match="limit in rho"):
        ledger.set_limit("visits", pure(100))
    assert [str(entry.cost) for entry in ledger.history() if entry.spend] == [
        "epsilon = 0.1",
        "rho = 0.05",
        "epsilon = 0.2",
    ]


def test_epsilon_and_delta_become_rho(ledger: Ledger, records: Path, tmp_path: Path) -> None:
    ledger.set_limit("visits", concentrated(1))
    bounds = PrivateBounds(0, 50, epsilon="0.2", outside="clamp")
    made = noisewise.release(
        records,
        column="x",
        family=families.Poisson(),
        bounds=bounds,
        epsilon="0.5",
        delta="1e-6",
        ledger=ledger.path,
        dataset="visits",
        out=tmp_path / "r.json",
    )
    assert made == noisewise.load(tmp_path / "r.json")
    assert made.privacy is not None
    rho = concentrated_within(Decimal("0.5"), Decimal("1e-6")).amount
    assert (made.privacy.epsilon, made.privacy.delta, made.privacy.rho) == (
        "0.5",
        "0.000001",
        text(rho),
    )
    assert ledger.accounts()[0].spent == rho + Decimal("0.02")
    assert made.privacy.total_rho == text(rho + Decimal("0.02"))
    for wrong in (
        {"epsilon": 1, "rho": 1},
        {"delta": 1e-6},
        {"rho": 1, "delta": 1e-6},
        {},
        {"rho": 0},
        {"epsilon": 1, "delta": 2},
    ):
        with pytest.raises(
            ValueError,
            match=r"epsilon, or epsilon and delta, or "
            r"rho|positive|between 0 and 1",
        ):
            rho_release(records, ledger.path, **wrong)


def test_a_ledger_of_format_1_is_taken_over(tmp_path: Path, records: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """PRAGMA application_id = 1314540615; PRAGMA user_version = 1;
            CREATE TABLE limits (position INTEGER PRIMARY KEY, dataset TEXT NOT NULL, epsilon TEXT NOT NULL, at TEXT NOT NULL);
            CREATE TABLE spends (position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL,
                                 epsilon TEXT NOT NULL, at TEXT NOT NULL, purpose TEXT NOT NULL);
            CREATE TRIGGER spends_stay BEFORE DELETE ON spends BEGIN SELECT RAISE(ABORT, 'a spend is never deleted'); END;
            CREATE TRIGGER spends_hold BEFORE UPDATE ON spends BEGIN SELECT RAISE(ABORT, 'a spend is never changed'); END;
            INSERT INTO limits (dataset, epsilon, at) VALUES ('visits', '1', '2026-01-01T00:00:00.000000+00:00');
            INSERT INTO spends (id, dataset, epsilon, at, purpose) VALUES ('i', 'visits', '0.9', '2026-01-02',
                                                                           'release of ''x'' (poisson, replace_one, 1 per person)');"""  # noqa: E501
        )
    with pytest.raises(BudgetExceeded, match=r"has 0.1 of its limit 1 left"):
        publish(records, path, "0.2")
    with pytest.raises(
        LedgerError,
        match="is for replace_one, 1 per person, and this release is for replace_one, 2 per person",
    ):
        Ledger(path).check("visits", pure("0.1"), "replace_one, 2 per person")
    publish(records, path, "0.1")
    (account,) = Ledger(path).accounts()
    assert (account.limit, account.left, account.releases) == (pure(1), 0, 2)
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="never changed"),
    ):
        connection.execute("UPDATE spends SET amount = '0.1'")


def test_a_record_that_moved_between_groups_was_replaced(tmp_path: Path) -> None:
    """Format 2 told the unit in the purpose alone, and had one of its own for groups whose sizes
    are released; a spend whose purpose tells none goes with any.
    """
    path = tmp_path / "old.db"
    book = Ledger(path)
    book.set_limit("visits", pure(1))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("ALTER TABLE spends DROP COLUMN unit; PRAGMA user_version = 2;")
        for position, purpose in enumerate(
            ("release of 'x' by 'g' in 2 groups (poisson, move, 1 per person)", "by hand")
        ):
            connection.execute(
                "INSERT INTO spends (id, dataset, amount, at, purpose) VALUES (?, 'visits', '0.1', "
                "'2026-01-02', ?)",
                (str(position), purpose),
            )
        connection.commit()
    with pytest.raises(LedgerError, match="is for replace_one, 1 per person, and this release"):
        book.check("visits", pure("0.1"), "add_remove, 1 per person")
    book.spend("visits", pure("0.1"), "replace_one, 1 per person", "test")
    assert book.accounts()[0].spent == Decimal("0.3")


@pytest.mark.parametrize("version", [0, 6, 1000])
def test_a_format_that_is_not_known_is_refused_and_left_alone(version: int, ledger: Ledger) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
    before = ledger.path.read_bytes()
    for action in (ledger.accounts, lambda: ledger.set_limit("visits", pure(1))):
        with pytest.raises(LedgerError, match=f"ledger format {version} of .* is not known here"):
            action()
    assert ledger.path.read_bytes() == before


def test_a_cost_with_more_digits_than_people_write_is_kept_to_the_last(tmp_path: Path) -> None:
    """A rho and half the square of an epsilon, of fifty digits each, have over a hundred."""
    book = Ledger(tmp_path / "b.db")
    book.set_limit("visits", concentrated(9))
    long = Decimal("0." + "0123456789" * 12 + "1")
    book.spend("visits", Cost("rho", long), "one record", "test")
    assert book.accounts()[0].spent == long
    assert book.history()[-1].cost.amount == long


def test_costs_for_different_units_are_not_added(ledger: Ledger, records: Path) -> None:
    """An epsilon under add or remove is up to two under replace, and none at all the other way
    round.
    """
    settings: dict[str, Any] = {
        "column": "x",
        "family": families.Poisson(),
        "bounds": Bounds(0, 9, outside="clamp"),
    }
    settings |= {"epsilon": "0.1", "ledger": ledger.path, "dataset": "visits"}
    noisewise.release(records, **settings)
    for other in ({"neighbours": "add_remove"}, {"records_per_person": 2}):
        with pytest.raises(LedgerError, match="such costs do not add up"):
            noisewise.release(records, **settings, **other)
    noisewise.release(records, by="x", groups=[1, 2], sizes="released", **settings)
    assert ledger.accounts()[0].spent == Decimal("0.2")


NFC, NFD = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize(
    "odd",
    [
        "visits ",
        " visits",
        "vi  sits",
        "vi\u00a0sits",
        "vi\u2003sits",
        "vi\u200bsits",
        "\u202evisits",
        "visits\ufe0f",
        "visits\u3164",
        "vi\u034fsits",
        "visits\n",
        "\x1b[31mvisits",
        "",
        " ",
        "\u2800",
    ],
)
def test_a_name_that_looks_like_another_is_refused(odd: str, ledger: Ledger, records: Path) -> None:
    for action in (
        lambda: ledger.set_limit(odd, pure(1)),
        lambda: ledger.spend(odd, pure("0.1"), "one record", "test"),
        lambda: Ledger(ledger.path.with_name("new.db")).set_limit(odd, pure(1)),
        lambda: noisewise.release(
            records, column="x", family=families.Bernoulli(), epsilon=1, ledger=None, dataset=odd
        ),
    ):
        with pytest.raises(noisewise.errors.NoisewiseError, match=r"printable"):  # type: ignore[attr-defined]
            action()
    assert [account.dataset for account in ledger.accounts()] == ["visits"]
    assert not ledger.path.with_name("new.db").exists()


def test_two_ways_of_writing_a_name_are_one_budget(ledger: Ledger, records: Path) -> None:
    ledger.set_limit(NFD, pure("0.2"))
    ledger.spend(NFC, pure("0.1"), "replace_one, 1 per person", "test")
    made = noisewise.release(
        records,
        column="x",
        family=families.Bernoulli(),
        epsilon="0.1",
        ledger=ledger.path,
        dataset=NFD,
    )
    assert made.dataset == NFC
    (account,) = [account for account in ledger.accounts() if account.dataset != "visits"]
    assert (account.dataset, account.left, account.releases) == (NFC, 0, 2)
    assert len(ledger.history(NFD)) == 3
    made = noisewise.release(
        records, column="x", family=families.Bernoulli(), epsilon="0.1", ledger=None, dataset=NFD
    )
    assert made.dataset == NFC


def test_an_odd_name_that_a_ledger_has_already_is_used_as_it_is_there(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection:
        for name in (NFD, "visits "):
            connection.execute(
                "INSERT INTO limits (dataset, amount, at) VALUES (?, '1', '2026')", (name,)
            )
        connection.commit()
    for name in (NFD, "visits "):
        ledger.spend(name, pure("0.5"), "one record", "test")
        assert ledger.set_limit(name, pure(2)).left == Decimal("1.5")
    for action in (
        lambda: ledger.set_limit(NFC, pure(1)),
        lambda: ledger.spend(NFC, pure(1), "one record", "test"),
    ):
        with pytest.raises(LedgerError, match=r"reads like .* and is written 'cafe\\u0301'"):
            action()
    # it is there exactly, beside the one with a space
    assert ledger.spend("visits", pure("0.1"), "one record", "test")
    assert {account.dataset: str(account.spent) for account in ledger.accounts()} == {
        "visits": "0.1",
        "visits ": "0.5",
        NFD: "0.5",
    }
    run(["ledger", "show", str(ledger.path)])
    run(["ledger", "history", str(ledger.path)])
    out = capsys.readouterr().out
    assert out.count("'visits '") == 4  # limit and spend and limit, and its line in the table
    assert out.count(r"'cafe\u0301'") == 4


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("before", ["nothing", "a limit", "a spend"])
def test_a_limit_of_0_freezes_a_dataset(
    currency: str, before: str, tmp_path: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "frozen.db"
    cost = pure("0.1") if currency == "epsilon" else concentrated("0.1")
    if before != "nothing":
        Ledger(path).set_limit("visits", pure(1) if currency == "epsilon" else concentrated(1))
    if before == "a spend":
        Ledger(path).spend("visits", cost, "one record", "test")
    for zero in ("0", "0.00", "0e5"):
        assert (
            run(["ledger", "set-limit", str(path), "--dataset", "visits", f"--{currency}", zero])
            == 0
        )
    left = "-0.1" if before == "a spend" else "0"
    assert f"visits: limit 0 in {currency}" in (out := capsys.readouterr().out)
    assert f"left {left}" in out
    with pytest.raises(BudgetExceeded, match="has 0 of its limit 0 left"):
        Ledger(path).spend("visits", cost, "one record", "test")
    assert run(["ledger", "show", str(path)]) == run(["ledger", "history", str(path)]) == 0
    assert Ledger(path).history()[-1].cost.amount == 0
    assert run(["ledger", "set-limit", str(path), "--dataset", "visits", f"--{currency}", "1"]) == 0
    Ledger(path).spend("visits", cost, "one record", "test")


def test_a_budget_in_rho_can_be_frozen_with_epsilon_0(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "frozen.db")
    book.set_limit("visits", concentrated(1))
    book.spend("visits", concentrated("0.1"), "one record", "test")
    assert (
        run(["ledger", "set-limit", str(book.path), "--dataset", "visits", "--epsilon", "0"]) == 0
    )
    with pytest.raises(BudgetExceeded, match=r"has 0 of its limit 0 left.*in rho"):
        book.spend("visits", concentrated("0.1"), "one record", "test")


def test_a_spend_of_0_is_none(ledger: Ledger) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute(
            "INSERT INTO spends (id, dataset, amount, at, purpose) VALUES ('i', 'visits', '0', "
            "'2026', 'forged')"
        )
        connection.commit()
    with pytest.raises(LedgerError, match="damaged"):
        ledger.accounts()


NO_NUMBERS = [
    "1_0",
    "٣",
    "\uff10.5",
    "1e1_0",
    "0x1",
    "½",
    " 1",
    "1 ",
    "1\n",
    "",
    "+",
    "nan",
    "inf",
    "infinity",
    "1e",
    ".",
    "1e9999999",
]


@pytest.mark.parametrize("odd", NO_NUMBERS)
def test_what_people_would_not_take_for_a_number_is_none(
    odd: str, ledger: Ledger, records: Path, tmp_path: Path
) -> None:
    cost = {"epsilon": "1"}
    for settings in ({"epsilon": odd}, {"rho": odd}, {"epsilon": "1", "delta": odd}):
        with pytest.raises(ValueError, match="must be a number"):
            noisewise.release(
                records, column="x", family=families.Bernoulli(), ledger=None, **settings
            )
    bounds = PrivateBounds(0, 9, epsilon=odd, outside="clamp")
    with pytest.raises(ValueError, match="must be a number"):
        noisewise.release(
            records, column="x", family=families.Poisson(), bounds=bounds, ledger=None, **cost
        )
    for currency in ("--epsilon", "--rho"):
        assert (
            run(["ledger", "set-limit", str(ledger.path), "--dataset", "visits", currency, odd])
            == 2
        )
    assert len(ledger.history()) == 1
    command = [
        "release",
        str(records),
        "--column",
        "x",
        "--family",
        "poisson",
        "--outside",
        "clamp",
        "--no-ledger",
    ]
    command += ["--epsilon", "1", "--out", str(tmp_path / "o.json")]
    # numbers to a float, and refused as bounds by a sentence of their own
    if odd not in ("nan", "inf", "infinity"):
        assert run([*command, "--bounds", "0", odd]) == run([*command, "--bounds", odd, "9"]) == 2
        assert run([*command, "--bounds", "0", "9", "--missing", odd]) == 2
        assert (
            run(
                [
                    *command,
                    "--bounds",
                    "private",
                    "--bounds-range",
                    "0",
                    odd,
                    "--bounds-epsilon",
                    "1",
                ]
            )
            == 2
        )
        assert run([*command, "--bounds", "0", "9", "--records-per-person", odd]) == 2
    assert not (tmp_path / "o.json").exists()
    assert (
        run(
            [
                *command,
                "--bounds",
                "-1e-1",
                "+9.",
                "--missing",
                ".5",
                "--records-per-person",
                "1",
                "--out",
                str(tmp_path / "p.json"),
            ]
        )
        == 2
    )  # support
    assert (
        run([*command, "--bounds", "0e-1", "+9.", "--missing", "5", "--records-per-person", "1"])
        == 0
    )

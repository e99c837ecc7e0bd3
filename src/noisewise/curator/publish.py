"""From records to a release: check, read, spend, and only then draw noise."""

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar, final, overload

import numpy as np

from noisewise.artifact import Release, rehearse_file
from noisewise.curator import private_bounds
from noisewise.curator.assembly import assemble, privacy_of, with_offsets
from noisewise.curator.clusters import open_rows
from noisewise.curator.ledger import Account, Ledger
from noisewise.curator.names import plain_name
from noisewise.curator.plan import Plan
from noisewise.curator.settings import Settings
from noisewise.curator.shield import CALM, shielded
from noisewise.curator.sums import Rows, rehearse
from noisewise.errors import LedgerError, NoiseError, OutputError, UnsavedRelease
from noisewise.files import check_writable, write_once
from noisewise.mechanism.lattice import Sums
from noisewise.mechanism.missing import Missing
from noisewise.mechanism.opendp import MOST_SUM, check_headroom
from noisewise.mechanism.steps import RESOLUTION
from noisewise.model.bounds import Bounds, PrivateBounds
from noisewise.model.families.categorical import Label
from noisewise.model.family import Family

UNDRAWN = (
    "the noise could not be drawn, and nothing is released; a charge to a ledger stands. Please "
    "report the settings."
)
"""Said whatever went wrong: OpenDP's own words, when it cannot draw, might quote an exact sum."""
T = TypeVar("T")
"""What is drawn."""


@overload
def release(records: Any, *, by: None = None, **settings: Any) -> Release: ...
@overload
def release(records: Any, *, by: str, **settings: Any) -> list[Release]: ...
def release(  # type: ignore[misc]
    records: Any,
    *,
    column: str | None = None,
    family: Family,
    epsilon: float | str | Decimal | None = None,
    delta: float | str | Decimal | None = None,
    rho: float | str | Decimal | None = None,
    ledger: str | os.PathLike[str] | None,
    dataset: str | None = None,
    bounds: Bounds | PrivateBounds | None = None,
    missing: Missing = None,
    person: str | None = None,
    records_per_person: int = 1,
    neighbours: str = "replace_one",
    by: str | None = None,
    groups: Sequence[Label] | None = None,
    sizes: str | None = None,
    description: str | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Release | list[Release]:
    """Publish the noisy statistic of one column, or of several, at a cost of epsilon, recorded in
    the ledger before any noise is drawn.

    records: a path to a .csv or .parquet file or a folder of .parquet files, a pandas, polars,
        pyarrow or DuckDB table, or a Spark or Dask frame, which is summed where it lies: noisewise
        must be installed where the engine's Python workers run.
    column: the name of the column; left out where the family names several.
    family: the model of a record, such as families.Exponential() or
        families.Categorical(["a", "b"], other="b"). Of several columns: families.Moments({...}),
        sums and products, for regressions, means and correlations, or families.Table({...}),
        counts of all combinations.
    epsilon: the privacy cost; a number or, to the digit, text such as "0.1". Alone it is pure, by
        Laplace noise.
    delta: with epsilon, a small probability that epsilon may fail: normal noise, of the largest rho
        within both.
    rho: the cost in zero-concentrated privacy (zCDP) instead, by normal noise; better where there
        are many statistics.
    ledger: the path of the ledger to charge. None charges none, and the release states that its
        cost is unrecorded.
    dataset: the name that the budget stands under in the ledger; needed with a ledger.
    bounds: Bounds(lower, upper, outside="redact" or "clamp"), or PrivateBounds(...) to have them
        chosen with privacy. Bernoulli, Categorical and families of several columns take none.
    missing: the value that a missing record stands for: under clamp (default: the midpoint), for
        the Bernoulli (default: 0). "drop": a record without a value is no record, and how many have
        one is released with noise.
    person: a column that says whose a record is. Of each person's records at most
        records_per_person are kept, chosen by what they say, and the guarantee holds for whole
        persons, whoever has how many. Records of nobody do not count.
    records_per_person: how many records one person may own, or with person= how many are kept; the
        noise grows with it, and the guarantee is per person.
    neighbours: "replace_one": tables are neighbours if one record is replaced by another; n is
        public. "add_remove": if one record is added or removed; n is not public, and a noisy count
        is released with the statistic.
    by: a second column, by whose values the records fall into groups: one release for each, at the
        cost of one.
    groups: the public names of the groups. Records of other groups contribute nothing; a group
        without records has a release too.
    sizes: "public": every group's n is public, and neighbours replace a record within its group.
        "released": a noisy count of each group is released, and neighbours may replace a record by
        one of another group.
    description: a sentence for whoever reads the release.
    out: where to write the release. It is checked before anything is spent; release.save(path)
        comes after.

    Returns the release, or with `by` a list of them in the order of the groups; `out` then has one
    on each line (.jsonl). Whatever is refused raises a ValueError (mostly a NoisewiseError) that
    says what to do; before the records have been read, nothing is spent.

    >>> noisewise.release(
    ...     "visits.csv",
    ...     column="wait",
    ...     family=families.Exponential(),
    ...     bounds=Bounds(0, 60, outside="redact"),
    ...     epsilon="0.5",
    ...     ledger="budget.db",
    ...     dataset="visits-2026",
    ...     out="wait.release.json",
    ... )
    """
    held = [records]
    del records
    try:
        settings = Settings(
            column=column,
            family=family,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            ledger=ledger,
            dataset=dataset,
            bounds=bounds,
            missing=missing,
            person=person,
            records_per_person=records_per_person,
            neighbours=neighbours,
            by=by,
            groups=groups,
            sizes=sizes,
            description=description,
            out=out,
        )
        releases = prepare(held.pop(), settings).publish()
        return releases[0] if by is None else releases
    # its traceback leads to frames that hold the records, and some tools print their variables
    except BaseException as error:
        refusal = error.with_traceback(None)
        refusal.__cause__ = refusal.__context__ = None
        held.clear()
    raise refusal


def prepare(records: Any, settings: Settings) -> "Prepared":
    """Check everything that can be checked from public facts: whether the settings make a release,
    the ledger's balance, the schema, the output.
    """
    plan = Plan.widest(settings)
    rehearse(settings.family, plan.lattice)
    ledger = None if settings.ledger is None else Ledger(Path(settings.ledger))
    account = None if ledger is None else _account(ledger, settings)
    dataset = settings.dataset
    if dataset is not None:
        dataset = plain_name(dataset) if account is None else account.dataset
    prepared = Prepared(
        settings=settings,
        plan=plan,
        rows=open_rows(records, plan.reading),
        dataset=dataset,
        ledger=ledger,
        account=account,
    )
    size = rehearse_file(prepared.blank())
    if settings.out is not None:
        check_writable(Path(settings.out), size * len(settings.group_names))
    return prepared


def _account(ledger: Ledger, settings: Settings) -> Account:
    """The budget that pays for it."""
    if settings.out is not None and ledger.owns(Path(settings.out)):
        raise LedgerError(
            f"{settings.out} is a name that the ledger uses for itself; choose another."
        )
    if settings.dataset is None:
        raise LedgerError(
            "a release that is charged to a ledger needs --dataset NAME (dataset= in Python), its "
            "budget's name."
        )
    return ledger.check(settings.dataset, settings.total, settings.unit)


def _draw(noise: Callable[[], T]) -> T:
    return shielded(noise, UNDRAWN, NoiseError)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A release that was found possible, before a record is read or anything is spent."""

    settings: Settings
    plan: Plan
    """Within the given bounds, or within the whole range of private ones."""
    rows: Rows
    dataset: str | None
    """The name that the budget stands under."""
    ledger: Ledger | None
    account: Account | None
    """The budget, before it is charged."""
    key: str | None = None
    """Of a request that may arrive twice: the ledger charges it once."""
    before_spend: Callable[[], None] | None = None
    """Asked when all is read: what it raises calls the release off, and nothing is spent."""

    def publish(self) -> list[Release]:
        """Read, spend, draw, write. A failure before the spend costs nothing; one after it has been
        paid for.
        """
        with CALM, np.errstate(all="ignore"):  # a family's own code runs after the spend, too
            return self._publish()

    def _publish(self) -> list[Release]:
        bounds = self.settings.bounds
        plan, spend, sums = (
            self._within_private(bounds)
            if isinstance(bounds, PrivateBounds)
            else self._within_given()
        )
        releases = self.releases(plan, spend, sums)
        self._write(releases)
        return releases

    def _within_given(self) -> tuple[Plan, str | None, list[Sums]]:
        plan = self.plan
        sums = self.rows.sums(plan.lattice)
        if plan.public:
            check_headroom(max(n for n, _ in sums), plan.ranges, plan.scale)
        return plan, self._spend(), sums

    def _within_private(self, wanted: PrivateBounds) -> tuple[Plan, str | None, list[Sums]]:
        plan = self.plan
        grid = private_bounds.Grid.over(wanted, self.settings.family.integer)
        n, valid, counts = private_bounds.below(self.rows, grid)
        if plan.public:
            # holds for every choice of bounds
            check_headroom(n, [*plan.lattice.ranges, (0, 2 << RESOLUTION)], 2 * plan.scale)
        spend = self._spend()
        plan = self._narrowed(self.choose(valid, counts, grid))
        return plan, spend, self.rows.sums(plan.lattice)

    def choose(self, valid: int, counts: list[int], grid: private_bounds.Grid) -> Bounds:
        """Private bounds, from how many records lie below each candidate. Whoever calls this has
        paid.
        """
        wanted, epsilon = self.settings.bounds, self.settings.bounds_epsilon
        assert isinstance(wanted, PrivateBounds)
        assert epsilon is not None
        k = self.settings.records_per_person
        return _draw(lambda: private_bounds.choose(valid, counts, grid, wanted, epsilon, k))

    def _narrowed(self, bounds: Bounds) -> Plan:
        """The plan within chosen bounds; if they do not serve the family, the whole range does."""
        try:
            return self.plan.narrowed(bounds)
        except Exception:  # of whatever kind, from a family's own code: it is paid for
            return self.plan

    def _spend(self) -> str | None:
        if self.before_spend is not None:
            self.before_spend()
        if self.ledger is None or self.dataset is None:
            return None
        settings = self.settings
        return self.ledger.spend(
            self.dataset, settings.total, settings.unit, settings.purpose, self.key
        )

    def releases(self, plan: Plan, spend: str | None, sums: list[Sums]) -> list[Release]:
        """The noise of all groups, drawn at once, and a release of each. Whoever calls this has
        paid.
        """
        exact = [number for n, group in sums for number in exact_numbers(plan, n, group)]
        noisy = _draw(lambda: plan.mechanism.add_noise(exact, plan.scale))
        each = len(noisy) // len(sums)
        privacy = privacy_of(plan, spend)
        return [
            assemble(
                plan,
                privacy=privacy,
                n=n,
                noisy=noisy[place * each : (place + 1) * each],
                group=group,
                dataset=self.dataset,
            )
            for place, ((n, _), group) in enumerate(
                zip(sums, self.settings.group_names, strict=True)
            )
        ]

    def blank(self) -> Release:
        """A release of no records and no noise: what a file must be able to hold."""
        plan = self.plan
        return assemble(
            plan,
            privacy=privacy_of(plan, None if self.ledger is None else str(uuid.uuid4())),
            n=0,
            noisy=[0] * (len(plan.lattice.step) + bool(plan.count_weight)),
            group=max(self.settings.group_names, key=lambda name: len(str(name))),
            dataset=self.dataset,
        )

    def _write(self, releases: list[Release]) -> None:
        if self.settings.out is None:
            return
        grouped = self.settings.grouping is not None
        try:
            if grouped:
                lines = "".join(one.to_json(indent=None) for one in releases)
                write_once(Path(self.settings.out), lines.encode())
            else:
                releases[0].save(self.settings.out)
        except OutputError as error:
            raise UnsavedRelease(
                f"{error} The budget is spent; the release is kept with this error.",
                releases if grouped else releases[0],
            ) from None


def exact_numbers(plan: Plan, n: int, sums: list[int]) -> list[int]:
    """What noise is added to: the sums of n records and, where not all of them count or n is not
    public, their count.
    """
    count = []
    if plan.lattice.counted:
        counting, *sums = sums
        count = [counting * plan.count_weight]
    elif plan.public:
        return sums
    elif plan.count_weight:
        count = [n * plan.count_weight]
    # What would pass 63 bits is clipped: that moves no table further apart.
    whole = [*count, *with_offsets(plan, n, sums)]
    return [min(max(value, -MOST_SUM), MOST_SUM) for value in whole]

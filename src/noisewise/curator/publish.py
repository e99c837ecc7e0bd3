"""From records to a release: check, read, spend, and only then draw noise."""

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar, final, overload

import numpy as np

from noisewise.artifact import WHERE, NoisyCount, Privacy, Release, person, rehearse_file
from noisewise.curator import private_bounds
from noisewise.curator.clusters import open_column
from noisewise.curator.ledger import Account, Ledger
from noisewise.curator.names import plain_name
from noisewise.curator.plan import Groups, Plan, asked_cost, check_settings, total
from noisewise.curator.records import CALM, shielded
from noisewise.curator.sums import Column, Sums, rehearse
from noisewise.errors import (
    LedgerError,
    NoiseError,
    OutputError,
    UnsavedRelease,
    UnsupportedCombination,
)
from noisewise.files import check_writable, write_once
from noisewise.mechanism.lattice import RESOLUTION, Counts, Plain, Standardised
from noisewise.mechanism.opendp import MOST_SUM, add_noise, check_headroom
from noisewise.mechanism.privacy import Cost, exact_delta, exact_epsilon, text
from noisewise.model.bounds import Bounds, PrivateBounds
from noisewise.model.families.categorical import Categorical, Label
from noisewise.model.family import Family

UNDRAWN = (
    "the noise could not be drawn, and nothing is released; a charge to a ledger stands. "
    "Please report the settings."
)
T = TypeVar("T")


@overload
def release(records: Any, *, by: None = None, **settings: Any) -> Release: ...
@overload
def release(records: Any, *, by: str, **settings: Any) -> list[Release]: ...
def release(  # type: ignore[misc]
    records: Any,
    *,
    column: str,
    family: Family,
    epsilon: float | str | Decimal | None = None,
    delta: float | str | Decimal | None = None,
    rho: float | str | Decimal | None = None,
    ledger: str | os.PathLike[str] | None,
    dataset: str | None = None,
    bounds: Bounds | PrivateBounds | None = None,
    missing: float | None = None,
    records_per_person: int = 1,
    neighbours: str = "replace_one",
    by: str | None = None,
    groups: Sequence[Label] | None = None,
    sizes: str | None = None,
    description: str | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Release | list[Release]:
    """Publish the noisy statistic of one column at a cost of epsilon, recorded in the ledger before
    any noise is drawn.

    records: a path to a .csv or .parquet file or a folder of .parquet files, a pandas, polars,
    pyarrow or DuckDB table, or a
        Spark or Dask frame, which is summed where it lies: noisewise must be installed where the
        engine's Python workers run.
    column: the name of the column.
    family: the model of a record, such as families.Exponential() or families.Categorical(["a",
    "b"], other="b").
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
    chosen with privacy.
        Bernoulli and Categorical take none.
    missing: the value that a missing record stands for: under clamp (default: the midpoint), for
    the Bernoulli (default: 0).
    records_per_person: how many records one person may own; the noise grows with it, and the
    guarantee is per person.
    neighbours: "replace_one": tables are neighbours if one record is replaced by another; n is
    public.
        "add_remove": if one record is added or removed; n is not public, and a noisy count is
        released with the statistic.
    by: a second column, by whose values the records fall into groups: one release for each, at the
    cost of one.
    groups: the public names of the groups. Records of other groups contribute nothing; a group
    without records has a release too.
    sizes: "public": every group's n is public, and neighbours replace a record within its group.
    "released": a noisy count of each
        group is released, and neighbours may replace a record by one of another group.
    description: a sentence for whoever reads the release.
    out: where to write the release. It is checked before anything is spent; release.save(path)
    comes after.

    Returns the release, or with `by` a list of them in the order of the groups; `out` then has one
    on each line (.jsonl). Whatever is refused raises a ValueError (mostly a NoisewiseError) that
    says what to do; before the records have been read, nothing is spent.

    >>> noisewise.release("visits.csv", column="wait", family=families.Exponential(),
    bounds=Bounds(0, 60, outside="redact"),
    ...                   epsilon="0.5", ledger="budget.db", dataset="visits-2026",
    out="wait.release.json")
    """
    held = [records]
    del records
    try:
        made = prepare(
            held.pop(),
            column=column,
            family=family,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            ledger=ledger,
            dataset=dataset,
            bounds=bounds,
            missing=missing,
            records_per_person=records_per_person,
            neighbours=neighbours,
            by=by,
            groups=groups,
            sizes=sizes,
            description=description,
            out=out,
        ).publish()
        return made[0] if by is None else made
    # its traceback leads to frames that hold the records, and some tools print their variables
    except BaseException as error:
        refusal = error.with_traceback(None)
        refusal.__cause__ = refusal.__context__ = None
    raise refusal


def prepare(
    records: Any,
    *,
    column: str,
    family: Family,
    epsilon: float | str | Decimal | None,
    delta: float | str | Decimal | None,
    rho: float | str | Decimal | None,
    ledger: str | os.PathLike[str] | None,
    dataset: str | None,
    bounds: Bounds | PrivateBounds | None,
    missing: float | None,
    records_per_person: int,
    neighbours: str,
    by: str | None,
    groups: Sequence[Label] | None,
    sizes: str | None,
    description: str | None,
    out: str | os.PathLike[str] | None,
) -> "Prepared":
    """Check everything that can be checked from public facts: the settings, the output, the
    ledger's balance, the schema.
    """
    for name, path in (("ledger", ledger), ("out", out)):
        if not (path is None or isinstance(path, (str, os.PathLike))):
            raise UnsupportedCombination(
                f"{name} must be a path or None, got {type(path).__name__}."
            )
    texts = {"column": column, "dataset": dataset, "description": description}
    check_settings(family, bounds, records_per_person, neighbours, **texts)
    for_bounds = (
        exact_epsilon(bounds.epsilon, "the epsilon of private bounds")
        if isinstance(bounds, PrivateBounds)
        else None
    )
    own = asked_cost(epsilon, delta, rho)
    grouping = Groups.checked(by, groups, sizes, neighbours)
    if grouping is not None and isinstance(bounds, PrivateBounds):
        raise UnsupportedCombination(
            "private bounds do not go with groups; release them once for "
            "all groups, then use them here."
        )
    moving = grouping is not None and grouping.sizes == "released" and neighbours == "replace_one"
    span = (
        Bounds(bounds.lower, bounds.upper, outside=bounds.outside)
        if isinstance(bounds, PrivateBounds)
        else bounds
    )
    widest = Plan.make(
        family, span, missing, own, records_per_person, "move" if moving else neighbours
    )
    rehearse(widest.lattice)
    book = None if ledger is None else Ledger(Path(ledger))
    account = None
    if book is not None:
        if out is not None and book.owns(Path(out)):
            raise LedgerError(f"{out} is a name that the ledger uses for itself; choose another.")
        if dataset is None:
            raise LedgerError(
                "a release that is charged to a ledger needs --dataset NAME "
                "(dataset= in Python), its budget's name."
            )
        account = book.check(dataset, total(own, for_bounds), widest.unit)
        dataset = account.dataset
    elif dataset is not None:
        dataset = plain_name(dataset)
    prepared = Prepared(
        column=open_column(
            records, column, family, *(() if grouping is None else (grouping.by, grouping.values))
        ),
        name=column,
        groups=grouping,
        bounds=bounds,
        bounds_epsilon=for_bounds,
        missing=missing,
        widest=widest,
        dataset=dataset,
        asked=None if delta is None else (text(exact_epsilon(epsilon)), text(exact_delta(delta))),  # type: ignore[arg-type]
        description=description,
        ledger=book,
        account=account,
        out=None if out is None else Path(out),
    )
    size = rehearse_file(prepared.blank())
    if out is not None:
        check_writable(Path(out), size * (1 if grouping is None else len(grouping.values)))
    return prepared


def _draw(noise: Callable[[], T]) -> T:
    """OpenDP's own words, when it cannot draw, might quote an exact sum."""
    return shielded(noise, UNDRAWN, NoiseError)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A release that was found possible, before a record is read or anything is spent."""

    column: Column
    name: str
    groups: Groups | None
    bounds: Bounds | PrivateBounds | None
    bounds_epsilon: Decimal | None
    missing: float | None
    widest: Plan
    """The plan within the given bounds, or within the whole range of private ones."""
    dataset: str | None
    asked: tuple[str, str] | None
    """The epsilon and delta that rho was derived from."""
    description: str | None
    ledger: Ledger | None
    account: Account | None
    out: Path | None

    @property
    def cost(self) -> Cost:
        """What the ledger is charged."""
        return total(self.widest.cost, self.bounds_epsilon)

    def publish(self) -> list[Release]:
        """Read, spend, draw, write. A failure before the spend costs nothing; one after it has been
        paid for.
        """
        with CALM, np.errstate(all="ignore"):  # a family's own code runs after the spend, too
            return self._publish()

    def _publish(self) -> list[Release]:
        plan = self.widest
        if isinstance(self.bounds, PrivateBounds):
            grid = private_bounds.Grid.over(self.bounds, plan.family.integer)
            n, valid, counts = private_bounds.below(self.column, grid)
            if plan.public:
                # holds for every choice of bounds
                check_headroom(n, [*plan.lattice.ranges, (0, 2 << RESOLUTION)], 2 * plan.scale)
            spend = self._spend()
            plan = self._within(self._choose(valid, counts, grid))
            found = self.column.sums(plan.lattice)
        else:
            found = self.column.sums(plan.lattice)
            if plan.public:
                check_headroom(max(n for n, _ in found), plan.lattice.ranges, plan.scale)
            spend = self._spend()
        made = self.releases(plan, spend, found)
        if self.out is not None:
            try:
                if self.groups is None:
                    made[0].save(self.out)
                else:
                    write_once(self.out, "".join(one.to_json(indent=None) for one in made).encode())
            except OutputError as error:
                raise UnsavedRelease(
                    f"{error} The budget is spent; the release is kept with this error.",
                    made[0] if self.groups is None else made,
                ) from None
        return made

    def releases(self, plan: Plan, spend: str | None, found: list[Sums]) -> list[Release]:
        """The noise of all groups, drawn at once, and a release of each. Whoever calls this has
        paid.
        """
        lattice = plan.lattice
        exact: list[int] = []
        for n, sums in found:
            if plan.public:
                exact += sums
                continue
            # What would pass 63 bits is clipped: that moves no table further apart.
            whole = [n * plan.count_weight] * bool(plan.count_weight)
            whole += [
                value + n * offset for value, offset in zip(sums, lattice.offset, strict=True)
            ]
            exact += [min(max(value, -MOST_SUM), MOST_SUM) for value in whole]
        noisy = _draw(lambda: add_noise(exact, plan.scale, plan.gaussian))
        each = len(noisy) // len(found)
        privacy, names = self._privacy(plan, spend), self._group_names()
        return [
            self._release(plan, privacy, n, noisy[g * each : (g + 1) * each], name)
            for g, ((n, _), name) in enumerate(zip(found, names, strict=True))
        ]

    def blank(self) -> Release:
        """A release of no records and no noise: what a file must be able to hold."""
        values = [0] * (len(self.widest.lattice.step) + bool(self.widest.count_weight))
        spend = None if self.ledger is None else str(uuid.uuid4())
        return self._release(
            self.widest,
            self._privacy(self.widest, spend),
            0,
            values,
            max(self._group_names(), key=_length),
        )

    def _group_names(self) -> tuple[Label | None, ...]:
        return (None,) if self.groups is None else self.groups.values

    def _release(
        self, plan: Plan, privacy: Privacy, n: int, noisy: list[int], name: Label | None
    ) -> Release:
        """One group's release, or that of all records, from its noisy whole numbers: the count, if
        there is one, and the sums.
        """
        lattice, count = plan.lattice, None
        if plan.count_weight:
            assert plan.count_noise is not None
            count, noisy = NoisyCount(noisy[0] / plan.count_weight, plan.count_noise), noisy[1:]
        if plan.public:
            noisy = [
                value + n * offset for value, offset in zip(noisy, lattice.offset, strict=True)
            ]
        return Release(
            family=plan.family,
            n=n if plan.public else None,
            count=count,
            statistic=tuple(value * step for value, step in zip(noisy, lattice.step, strict=True)),
            noise=plan.noise,
            bounds=plan.bounds,
            coordinates=lattice.coordinates,  # type: ignore[arg-type]
            dataset=self.dataset,
            column=self.name,
            group=None if self.groups is None else (self.groups.by, str(name)),
            description=self.description,
            privacy=privacy,
            notes=self._notes(plan),
        )

    def _choose(self, valid: int, counts: list[int], grid: private_bounds.Grid) -> Bounds:
        assert isinstance(self.bounds, PrivateBounds)
        assert self.bounds_epsilon is not None
        bounds, cost = self.bounds, self.bounds_epsilon
        return _draw(
            lambda: private_bounds.choose(
                valid, counts, grid, bounds, cost, self.widest.records_per_person
            )
        )

    def _within(self, bounds: Bounds) -> Plan:
        """The plan within privately chosen bounds; where they do not serve the family, the whole
        range does.
        """
        plan = self.widest
        missing = (
            None if self.missing is None else min(max(self.missing, bounds.lower), bounds.upper)
        )
        try:
            return Plan.make(
                plan.family, bounds, missing, plan.cost, plan.records_per_person, plan.neighbours
            )
        except Exception:  # of whatever kind, from a family's own code: it is paid for
            return plan

    def _spend(self) -> str | None:
        if self.ledger is None or self.dataset is None:
            return None
        groups = (
            ""
            if self.groups is None
            else (f" by {self.groups.by!r} in {len(self.groups.values)} groups")
        )
        unit = self.widest.unit
        purpose = f"release of {self.name!r}{groups} ({self.widest.family.kind}, {unit})"
        return self.ledger.spend(self.dataset, self.cost, unit, purpose)

    def _privacy(self, plan: Plan, spend: str | None) -> Privacy:
        k = plan.records_per_person
        return Privacy(
            **self._amounts(plan),
            neighbours="replace_one" if plan.neighbours == "move" else plan.neighbours,
            records_per_person=k,
            unit=person(k) + WHERE[None if self.groups is None else self.groups.sizes],
            sensitivity=tuple(plan.sensitivity * step for step in plan.lattice.step),
            count_sensitivity=plan.sensitivity / plan.count_weight if plan.count_weight else None,
            bounds_epsilon=None if self.bounds_epsilon is None else text(self.bounds_epsilon),
            quantiles=self.bounds.quantiles if isinstance(self.bounds, PrivateBounds) else None,
            spend=spend,
        )

    def _amounts(self, plan: Plan) -> dict[str, str | None]:
        own, whole = text(plan.cost.amount), text(self.cost.amount)
        if not plan.gaussian:
            return {"epsilon": own, "total_epsilon": whole}
        epsilon, delta = self.asked or (None, None)
        return {
            "epsilon": epsilon,
            "delta": delta,
            "total_epsilon": None,
            "rho": own,
            "total_rho": whole,
        }

    def _notes(self, plan: Plan) -> tuple[str, ...]:
        notes = [_missing_note(plan)]
        if plan.bounds is not None and plan.bounds.outside == "redact":
            notes.append(
                "A record outside the bounds contributes 0, in the coordinates of the statistic."
            )
        if plan.bounds is not None and plan.bounds.outside == "clamp":
            notes.append(
                "A record outside the bounds contributes as if it lay on the nearer bound."
            )
        if isinstance(self.bounds, PrivateBounds):
            notes.append(
                "The bounds were chosen privately from the same records; inference "
                "ignores that they depend on them."
            )
        if self.groups is not None:
            notes.append(
                "All groups together cost what is stated here, once. Records of groups that are "
                "not listed contribute nothing."
            )
        if not plan.public:
            notes.append("The number of records is not public; inference treats it as unknown.")
        if self.ledger is None:
            notes.append("The cost of this release is not recorded in any ledger.")
        return tuple(notes)


def _length(name: Label | None) -> int:
    return len(str(name))


def _missing_note(plan: Plan) -> str:
    lattice, family = plan.lattice, plan.family
    if isinstance(lattice, Counts):
        assert isinstance(family, Categorical)
        return f"Records that are missing or unlisted count as {family.other!r}."
    assert isinstance(lattice, (Plain, Standardised))
    if lattice.missing is None:
        return "Missing records contribute 0, like records outside the bounds."
    return f"Missing records are treated as records with the value {lattice.missing:g}."

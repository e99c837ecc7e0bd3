"""What workers do with records: a dry run, and the release. What they hand back may be shown."""

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from noisewise.artifact import Release, load
from noisewise.asked.bounds import asked_bounds, asked_missing
from noisewise.asked.columns import asked_family
from noisewise.asked.numbers import number, whole
from noisewise.curator.forecast import forecast
from noisewise.curator.ledger import Ledger
from noisewise.curator.publish import Prepared, prepare
from noisewise.curator.settings import Settings
from noisewise.errors import AlreadySpent, NoisewiseError, UnsavedRelease
from noisewise.mechanism.privacy import remaining, text
from noisewise.studio.forms import ReleaseForm
from noisewise.studio.tasks import Ask, Progress, Told, here

if TYPE_CHECKING:
    from noisewise.model.families import Family

ON_ITS_WAY = 3.0
"""Seconds within which a release that another process has just paid for is written."""


def settings_of(form: ReleaseForm) -> Settings:
    """What the curator is asked for."""
    one = form.kind == "one"
    limits = None
    if form.bounded:
        limits = number(form.lower, "the lower bound"), number(form.upper, "the upper bound")
    return Settings(
        column=form.column if one else None,
        family=_family(form),
        epsilon=form.epsilon or None,
        delta=form.delta or None,
        rho=form.rho or None,
        ledger=form.ledger,
        dataset=form.dataset,
        bounds=asked_bounds(limits, form.outside if form.bounded else None),
        missing=asked_missing(form.missing or None) if one else None,
        person=form.person or None,
        records_per_person=whole(form.records_per_person, "records per person"),
        neighbours=form.neighbours,
        description=form.description or None,
        out=form.out,
    )


def _family(form: ReleaseForm) -> "Family":
    several = {"moments": form.moments.split(), "table": form.table.split()}
    return asked_family(
        form.model if form.kind == "one" else None,
        several["moments"] if form.kind == "moments" else None,
        several["table"] if form.kind == "table" else None,
    )


def _prepared(form: ReleaseForm) -> Prepared:
    form.check(here())
    return prepare(Path(form.file), settings_of(form))


def dry_run(arguments: Told, progress: Progress, ask: Ask) -> Told:
    """What would be published, and what the ledger has before and after."""
    request = _prepared(ReleaseForm.of(arguments))
    account = request.account
    assert account is not None
    assert account.limit is not None
    cost = request.settings.total
    counted = cost.counted_in(account.limit.currency)
    return {
        "words": forecast(request).split("\n"),
        "cost": str(cost),
        "dataset": account.dataset,
        "currency": account.limit.currency,
        "limit": text(account.limit.amount),
        "counted": text(counted),
        "before": text(account.left),
        "after": text(remaining(account.left, counted)),
    }


def publish(arguments: Told, progress: Progress, ask: Ask) -> Told:
    """The release, once: whoever comes with the same key again is told what became of it."""
    form, key = ReleaseForm.of(arguments), str(arguments["key"])
    form.check(here())
    ledger = Ledger(Path(form.ledger))
    before = ledger.paid(key)
    if before is not None:
        return _already(form, before)
    try:
        request = replace(_prepared(form), key=key, before_spend=ask)
        (made,) = request.publish()
    except AlreadySpent as error:
        return _already(form, error.spend)
    except UnsavedRelease as error:
        return {"unsaved": error.release.to_json(), "why": str(error)}
    return {"out": form.out, "spend": _spend(made), "left": _left(ledger, made.dataset)}


def _already(form: ReleaseForm, spend: str) -> Told:
    """A release that was paid for before: it is in its file, on its way there from another process,
    or lost.
    """
    end = time.monotonic() + ON_ITS_WAY
    while time.monotonic() < end:
        with suppress(NoisewiseError):
            made = load(form.out)
            if _spend(made) == spend:
                left = _left(Ledger(Path(form.ledger)), made.dataset)
                return {"out": form.out, "spend": spend, "left": left, "again": True}
        time.sleep(0.1)
    return {"lost": spend}


def _spend(made: Release) -> str | None:
    return None if made.privacy is None else made.privacy.spend


def _left(ledger: Ledger, dataset: str | None) -> str:
    return next(text(one.left) for one in ledger.accounts() if one.dataset == dataset)

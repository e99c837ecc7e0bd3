"""What workers do: each task takes the texts of a form, and hands back words and figures that may
be shown. A release's records are read here, and never leave.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisewise.artifact import Release, load
from noisewise.asked.bounds import asked_bounds, asked_missing, asked_truth
from noisewise.asked.columns import asked_family
from noisewise.asked.numbers import number, whole
from noisewise.curator.forecast import forecast
from noisewise.curator.ledger import Ledger
from noisewise.curator.publish import Prepared, prepare
from noisewise.curator.settings import Settings
from noisewise.errors import AlreadySpent, NoisewiseError, UnsavedRelease
from noisewise.inference.check import check as run_check
from noisewise.inference.infer import infer, prior_of
from noisewise.mechanism.privacy import remaining, text
from noisewise.report.context import Context
from noisewise.report.page import svg
from noisewise.report.release_page import release_page
from noisewise.report.units import Units
from noisewise.studio.figures import without_styles
from noisewise.studio.folder import Folder
from noisewise.studio.forms import CheckForm, PlanForm, PosteriorForm, ReleaseForm

if TYPE_CHECKING:
    from noisewise.model.families import Family

Progress = Callable[[float], None]
Ask = Callable[[], None]
Told = dict[str, Any]
ON_ITS_WAY = 3.0
"""Seconds within which a release that another process has just paid for is written."""


def here() -> Folder:
    """The studio's folder: where a worker stands."""
    return Folder(Path.cwd().resolve())


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


def posterior(arguments: Told, progress: Progress, ask: Ask) -> Told:
    """The report of a release, or of a regression from it."""
    form = PosteriorForm.of(arguments)
    form.check(here())
    found = [load(form.release)]
    context = Context(units=Units.of([form.unit] if form.unit else []))
    if form.outcome:
        from noisewise.inference.regress import regress, regression_prior
        from noisewise.report.regression_page import regression_page

        linear = regression_prior(form.prior)
        known = regress(
            found, form.outcome, form.on.split(), prior=linear, seed=0, progress=progress
        )
        page = regression_page(known, linear, found, context)
    else:
        prior = prior_of(found[0], form.prior)
        page = release_page(infer(found, prior, seed=0, progress=progress), prior, found, context)
    return {"title": page.title, "html": without_styles(page.body())}


def check(arguments: Told, progress: Progress, ask: Ask) -> Told:
    """Whether a histogram contradicts a release's family."""
    form = CheckForm.of(arguments)
    form.check(here())
    found = run_check(
        load(form.release), load(form.histogram), form.prior, seed=0, progress=progress
    )
    return {
        "sentence": found.sentence,
        "small": found.small,
        "warnings": list(found.posterior.certificate.warnings),
        "rows": found.table(),
        "figure": without_styles(svg(found.plot())),
    }


def plan(arguments: Told, progress: Progress, ask: Ask) -> Told:
    """A table of widths, and what gives a wanted one."""
    from noisewise.study.planning.page import page
    from noisewise.study.planning.plan import plan as run

    form = PlanForm.of(arguments)
    limits = None
    if form.lower or form.upper:
        limits = number(form.lower, "the lower bound"), number(form.upper, "the upper bound")
    made = run(
        family=asked_family(form.model, None, None),
        bounds=asked_bounds(limits, form.outside if limits else None),
        n=[whole(size, "the number of records") for size in form.several.split()],
        epsilon=[number(amount, "epsilon") for amount in form.costs.split()],
        truth=asked_truth(form.truth.split()) if form.truth else None,
        progress=progress,
    )
    wanted = number(form.width, "the wanted width") if form.width else None
    return {"html": without_styles(page(made, "", form.unit, wanted).body())}


TASKS: dict[str, Callable[[Told, Progress, Ask], Told]] = {
    "dry_run": dry_run,
    "publish": publish,
    "posterior": posterior,
    "check": check,
    "plan": plan,
}
"""By name."""

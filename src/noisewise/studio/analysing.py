"""What workers do with releases and guesses: posteriors, checks, tables of widths."""

from noisewise.artifact import load
from noisewise.asked.bounds import asked_bounds, asked_truth
from noisewise.asked.columns import asked_family
from noisewise.asked.numbers import number, whole
from noisewise.inference.check import check as run_check
from noisewise.inference.infer import infer, prior_of
from noisewise.report.context import Context
from noisewise.report.drawing import svg
from noisewise.report.release_page import release_page
from noisewise.report.units import Units
from noisewise.studio.forms import CheckForm, PosteriorForm
from noisewise.studio.plan_form import PlanForm
from noisewise.studio.tasks import Ask, Progress, Told, here


def posterior(arguments: Told, progress: Progress, ask: Ask) -> Told:
    """The report of a release, or of a regression from it."""
    form = PosteriorForm.of(arguments)
    form.check(here())
    found = [load(form.release)]
    context = Context(units=Units.asked([form.unit], found[0], form.outcome or None))
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
    return {"title": page.title, "html": page.body()}


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
        "figure": svg(found.plot()),
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
    return {"html": page(made, "", form.unit, wanted).body()}

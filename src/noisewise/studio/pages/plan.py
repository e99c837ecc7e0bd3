"""Plan: which privacy cost buys which precision. Nothing is read, and nothing is spent."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from noisewise.studio.curve import FINE, ROUGH
from noisewise.studio.curve import drawn as draw
from noisewise.studio.families import BY_TEXT, CHOICES
from noisewise.studio.forms import Unfilled
from noisewise.studio.plan_form import EPSILONS, SIZES, PlanForm
from noisewise.studio.site import Site, drawn, sent

USUAL_SIZES, USUAL_COSTS = "500 2000 10000", "0.1 0.5 1"
"""What a table of widths begins with."""


def routes(site: Site) -> list[Route]:
    """The page, its curve, and the table that takes longer."""

    def page(request: Request) -> Response:
        return shown(begun(dict(request.query_params)))

    def shown(form: PlanForm, **values: Any) -> Response:
        told = {"job": None, "errors": {}} | values
        return site.show(
            "plan.html",
            here="plan",
            form=form,
            choices=CHOICES,
            sizes=SIZES,
            epsilons=EPSILONS,
            **curve_of(form),
            **told,
        )

    def curve_of(form: PlanForm, trials: int = ROUGH) -> dict[str, Any]:
        found, error = None, ""
        try:
            found = site.curves.at(form, trials)
        except ValueError as refused:
            error = str(refused)
        return {
            "curve": found,
            "drawing": None if found is None else drawn(draw(found)),
            "refused": error,
            "command": site.command(form.words()),
        }

    def curve(request: Request) -> Response:
        form = begun(dict(request.query_params))
        fine = "fine" in request.query_params
        answer = site.show("curve.html", form=form, **curve_of(form, FINE if fine else ROUGH))
        answer.headers["hx-replace-url"] = f"/plan?{urlencode(form.values())}"
        return answer

    async def table(request: Request) -> Response:
        form = begun(dict(await sent(request)))
        try:
            form.check_table()
        except Unfilled as wrong:
            return await run_in_threadpool(shown, form, errors=wrong.errors)
        words = site.command(form.words_of_table())
        job = site.jobs.start("plan", form.values(), words)
        return RedirectResponse(f"/plan/{job.id}", status_code=303)

    def found(request: Request) -> Response:
        job = site.job(request)
        if job is None:
            return site.show("gone.html", 404, here="plan")
        return shown(PlanForm.of(job.arguments), job=job)

    return [
        Route("/plan", page),
        Route("/plan/curve", curve),
        Route("/plan/table", table, methods=["POST"]),
        Route("/plan/{job}", found),
    ]


def begun(given: dict[str, Any]) -> PlanForm:
    """What was filled in; of a family that was only just chosen, its example."""
    form = PlanForm.of(given)
    if "truth" not in given and form.family in BY_TEXT:
        usual = BY_TEXT[form.family]
        form = replace(
            form,
            truth=usual.truth,
            lower=usual.lower,
            upper=usual.upper,
            outside="clamp" if usual.lower else "",
        )
    return (
        replace(form, several=form.several or USUAL_SIZES, costs=form.costs or USUAL_COSTS)
        if "several" not in given
        else form
    )

"""Check: does a histogram of the same records contradict a release's family?"""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from noisewise.studio.forms import CheckForm, Unfilled
from noisewise.studio.jobs import Job
from noisewise.studio.site import Site, sent


def routes(site: Site) -> list[Route]:
    """The form, and what was found."""

    def shown(
        form: CheckForm, job: Job | None = None, errors: Mapping[str, str] | None = None
    ) -> Response:
        return site.show(
            "check.html",
            here="check",
            form=form,
            job=job,
            errors=errors or {},
            releases=site.folder.releases(),
        )

    def page(request: Request) -> Response:
        return shown(CheckForm.of(request.query_params))

    async def ask(request: Request) -> Response:
        form = CheckForm.of(await sent(request))
        try:
            form.check(site.folder)
        except Unfilled as wrong:
            return shown(form, errors=wrong.errors)
        job = site.jobs.start("check", form.values(), site.command(form.words()))
        return RedirectResponse(f"/check/{job.id}", status_code=303)

    def found(request: Request) -> Response:
        job = site.job(request)
        if job is None:
            return site.show("gone.html", 404, here="check")
        return shown(CheckForm.of(job.arguments), job)

    return [
        Route("/check", page),
        Route("/check/ask", ask, methods=["POST"]),
        Route("/check/{job}", found),
    ]

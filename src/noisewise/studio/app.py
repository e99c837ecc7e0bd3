"""The studio as a web application: its addresses, behind its guard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from noisewise.studio.folder import Folder
from noisewise.studio.jobs import Jobs
from noisewise.studio.pages import check, ledger, plan, posterior, release
from noisewise.studio.plan_form import PlanForm
from noisewise.studio.security import Guard, Keys, TooLarge, failed
from noisewise.studio.site import Site
from noisewise.studio.workers import Workers

STATIC = Path(__file__).parent / "static"
"""Style, script, and htmx: all that a page loads."""


def make_app(root: Path, keys: Keys, workers: Workers) -> tuple[Site, Guard]:
    """The application for one folder, and what it holds."""
    real = root.resolve(strict=True)
    site = Site(Folder(real), Jobs(real, workers))

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        workers.warm()
        try:
            yield
        finally:
            await run_in_threadpool(site.jobs.close)

    pages: list[BaseRoute] = [
        one for page in (plan, release, posterior, check, ledger) for one in page.routes(site)
    ]
    inside = Starlette(
        routes=[
            Route("/", lambda _: RedirectResponse("/release", status_code=303)),
            *pages,
            *_jobs(site),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        lifespan=life,
        exception_handlers={
            404: lambda _, __: site.show("gone.html", 404, here=""),
            TooLarge: failed,
            Exception: failed,
        },
    )
    return site, Guard(inside, keys)


def warm_up(site: Site) -> None:
    """Load what the first slider needs."""
    site.curves.at(PlanForm(truth="mean=14", lower="0", upper="60", outside="clamp"))


def _jobs(site: Site) -> list[Route]:
    def look(request: Request) -> Response:
        job = site.job(request)
        if job is None:
            return site.show("gone.html", 404, here="")
        return site.show("job.html", job=job)

    def cancel(request: Request) -> Response:
        job = site.job(request)
        if job is None:
            return site.show("gone.html", 404, here="")
        job.cancel()
        return site.show("job.html", job=job)

    return [Route("/jobs/{job}", look), Route("/jobs/{job}/cancel", cancel, methods=["POST"])]

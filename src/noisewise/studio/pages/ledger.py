"""Ledger: limits and spends of the ledgers in the folder."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from noisewise.curator.costs import asked_limit
from noisewise.curator.ledger import Ledger
from noisewise.curator.names import looks
from noisewise.errors import NoisewiseError
from noisewise.mechanism.privacy import text
from noisewise.studio.forms import LimitForm, Unfilled
from noisewise.studio.site import Site, sent

SYMBOLS = {"epsilon": "ε = ", "rho": "\N{GREEK SMALL LETTER RHO} = "}
"""How a limit is shown."""


def routes(site: Site) -> list[Route]:
    """The books, and a limit that is set."""

    def shown(form: LimitForm, errors: Mapping[str, str] | None = None) -> Response:
        return site.show(
            "ledger.html",
            here="ledger",
            form=form,
            errors=errors or {},
            books=[_book(site, name) for name in site.folder.ledgers()],
            command=site.command(form.words()) if form.dataset and not errors else "",
        )

    def page(request: Request) -> Response:
        return shown(LimitForm.of(request.query_params))

    async def limit(request: Request) -> Response:
        form = LimitForm.of(await sent(request))
        try:
            form.check(site.folder)
        except Unfilled as wrong:
            return await run_in_threadpool(shown, form, wrong.errors)
        try:
            await run_in_threadpool(_set, site, form)
        except ValueError as error:
            return await run_in_threadpool(shown, form, {"epsilon": str(error)})
        return RedirectResponse(f"/ledger?{urlencode(form.values())}", status_code=303)

    return [Route("/ledger", page), Route("/ledger/limit", limit, methods=["POST"])]


def _set(site: Site, form: LimitForm) -> None:
    cost = asked_limit(form.epsilon or None, None, form.rho or None)
    Ledger(site.root / site.folder.inside(form.ledger)).set_limit(form.dataset, cost)


def _book(site: Site, name: str) -> dict[str, Any]:
    """One ledger, in words."""
    ledger = Ledger(site.root / name)
    try:
        accounts, history = ledger.accounts(), ledger.history()
    except NoisewiseError as error:
        return {"name": name, "error": str(error), "accounts": [], "history": []}
    return {
        "name": name,
        "error": "",
        "accounts": [
            {
                "dataset": _plain(one.dataset),
                "symbol": "" if one.limit is None else SYMBOLS[one.limit.currency],
                "limit": "none" if one.limit is None else text(one.limit.amount),
                "spent": text(one.spent),
                "left": text(one.left),
                "releases": one.releases,
                "share": 0.0
                if one.limit is None or not one.limit.amount
                else float(one.spent / one.limit.amount),
            }
            for one in accounts
        ],
        "history": [
            {
                "at": one.at[:19].replace("T", " "),
                "dataset": _plain(one.dataset),
                "what": "limit set" if one.spend is None else one.what,
                "cost": str(one.cost),
                "spend": one.spend or "",
            }
            for one in reversed(history)
        ],
        "command": site.command(["ledger", "show", name]),
    }


def _plain(dataset: str) -> str:
    """A name as it is written; one that might look like another, character by character."""
    return dataset if dataset == looks(dataset) else ascii(dataset)

"""Who may ask the studio for anything: the browser that opened the printed link, and no other page.

A page of another site can make this browser send requests to 127.0.0.1. It cannot read the token;
its requests carry no cookie (SameSite=Strict), name another host (DNS rebinding), or another origin
(also those of another port of this machine, which a browser counts as the same site).
"""

import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 8 * 2**20
"""Of a request's body: a release is mostly a few kilobytes. A larger one can be put into the folder
by hand.
"""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""What a page may load: files of the studio's own, and no script or style within a page."""
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Of every answer."""
READS = ("GET", "HEAD")
"""Methods that change nothing."""


class TooLarge(ValueError):
    """A request's body has more bytes than any release."""


@final
@dataclass(frozen=True)
class Keys:
    """The token of the printed link, one that works once, and what the browser gets for either."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    once: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    """For the browser that the studio opens itself: others on this machine can read its command
    line.
    """
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    name: str = field(
        default_factory=lambda: f"studio-{secrets.token_hex(8)}.localhost", repr=False
    )
    """A name of this machine that nobody else knows: a browser sends its cookie there alone, and
    that of 127.0.0.1 to every server on this machine, whosever it is.
    """

    @property
    def cookie(self) -> str:
        """Its name: cookies of one host are common to all its ports."""
        return f"noisewise-{self.port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """As which the studio may be asked for."""
        return tuple(f"{name}:{self.port}" for name in (self.name, "127.0.0.1", "localhost"))

    @property
    def link(self) -> str:
        """What a person opens."""
        return f"http://{self.name}:{self.port}/?token={self.token}"

    @property
    def link_by_number(self) -> str:
        """The same for a browser that does not find the name."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    @property
    def link_once(self) -> str:
        """The same for one visit."""
        return f"http://{self.name}:{self.port}/?token={self.once}"


@final
class Guard:
    """Lets only the owner's requests through, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app, self._keys = app, keys
        self._tokens = {keys.token, keys.once}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a web socket: there is none here
            await send({"type": "websocket.close", "code": 1008})
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, with_headers)
            return
        with suppress(Exception):  # it was answered (`failed`), and would be logged
            await self._app(scope, _bounded(receive), with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, keys = Headers(scope=scope), self._keys
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in keys.hosts:
            return _said(421, "The studio answers at 127.0.0.1 only.")
        if scope["method"] not in READS and not _own(headers, hosts[0]):
            return _said(403, "That request came from another page, and was refused.")
        if scope["path"] == "/" and scope["method"] == "GET":
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            fits = [secrets.compare_digest(given.encode(), one.encode()) for one in self._tokens]
            if any(fits):
                self._tokens.discard(given if given == keys.once else "")
                return self._welcome()
        if not self._known(headers):
            return _said(403, "Open the link that `noisewise studio` printed in its terminal.")
        return None

    def _welcome(self) -> Response:
        answer = RedirectResponse("/release", status_code=303)
        answer.set_cookie(
            self._keys.cookie, self._keys.session, httponly=True, samesite="strict", path="/"
        )
        return answer

    def _known(self, headers: Headers) -> bool:
        """By our own cookie, whatever those of others on this machine look like."""
        every = "; ".join(headers.getlist("cookie")).split("; ")
        wanted = f"{self._keys.cookie}={self._keys.session}"
        return any(secrets.compare_digest(one.encode(), wanted.encode()) for one in every)


def failed(_: Request, error: Exception) -> Response:
    """Whatever goes wrong, in our own words: others might quote a file."""
    if isinstance(error, TooLarge):
        return _said(413, "That is larger than any release.")
    return _said(500, f"An unexpected {type(error).__name__}; please report what you did.")


def _own(headers: Headers, host: str) -> bool:
    """Whether a page of ours sent it. Under no-referrer a browser calls the origin of a plain form
    null, and only Sec-Fetch-Site, which no page can set, tells whose it is.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin in (None, "null"):
        return site == "same-origin"
    return origin == f"http://{host}"


def _bounded(receive: Receive) -> Receive:
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BYTES:
            raise TooLarge
        return message

    return bounded


def _said(status: int, words: str) -> Response:
    page = f'<!doctype html><html lang="en"><title>noisewise studio</title><p>{words}</p></html>'
    return Response(page, status, media_type="text/html")

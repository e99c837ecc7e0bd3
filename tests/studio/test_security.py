"""Whoever is not the browser that opened the printed link is refused, whatever it asks for."""

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from noisewise.studio.app import make_app
from noisewise.studio.security import MOST_BYTES, POLICY, Keys
from studio_client import ASKED, KEYS, WORKERS

PAGES = ["/plan", "/release", "/posterior", "/check", "/ledger", "/plan/curve", "/nothing"]
CHANGES = [
    "/release/rehearse",
    "/release/spend",
    "/posterior/ask",
    "/posterior/add",
    "/check/ask",
    "/ledger/limit",
    "/plan/table",
    "/jobs/x/cancel",
]


@pytest.fixture
def stranger(folder: Path) -> TestClient:
    _, guard = make_app(folder, KEYS, WORKERS)
    return TestClient(guard, base_url="http://127.0.0.1:4711", follow_redirects=False)


@pytest.mark.parametrize("page", [*PAGES, "/", "/static/studio.css", "/static/htmx.min.js"])
def test_without_the_cookie_there_is_nothing(page: str, stranger: TestClient) -> None:
    answer = stranger.get(page)
    assert answer.status_code == 403
    assert "Open the link" in answer.text


def test_the_token_becomes_a_cookie_and_leaves_the_address(stranger: TestClient) -> None:
    answer = stranger.get(f"/?token={KEYS.token}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/release")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{KEYS.cookie}={KEYS.session};")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert KEYS.token not in str(answer.headers)
    assert stranger.get("/release").status_code == 200


def test_another_token_is_refused(stranger: TestClient) -> None:
    for token in ("", "x", KEYS.token[:-1], KEYS.session, f"{KEYS.token}x", "\u00e9"):
        assert stranger.get("/", params={"token": token}).status_code == 403
    for value in ("", "x", KEYS.session[:-1], KEYS.token, f"{KEYS.session}x"):
        stranger.cookies.clear()
        stranger.cookies.set(KEYS.cookie, value, domain="127.0.0.1", path="/")
        assert stranger.get("/release").status_code == 403


def test_cookies_of_others_on_this_machine_do_not_lock_the_owner_out(stranger: TestClient) -> None:
    own = f"{KEYS.cookie}={KEYS.session}"
    for other in ('a={"x": 1}', "bad cookie", "x=\u00e9", "k[1]=2", "expires=1"):
        for every in (f"{other}; {own}", f"{own}; {other}"):
            assert stranger.get("/release", headers={"cookie": every.encode()}).status_code == 200
        assert stranger.get("/release", headers={"cookie": other.encode()}).status_code == 403


def test_the_link_that_a_browser_is_started_with_works_once(stranger: TestClient) -> None:
    """It stood on a command line, where others on this machine could read it."""
    assert stranger.get(KEYS.link_once).status_code == 303
    stranger.cookies.clear()
    assert stranger.get(KEYS.link_once).status_code == 403
    for _ in range(2):
        assert stranger.get(KEYS.link).status_code == 303


def test_every_studio_has_secrets_of_its_own() -> None:
    made = [Keys(1) for _ in range(10)]
    secrets = {secret for one in made for secret in (one.token, one.once, one.session, one.name)}
    assert len(secrets) == 40
    assert all(one.token not in repr(one) and one.session not in repr(one) for one in made)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:4711", "127.0.0.1", "127.0.0.1:80", "localhost"),
        *("[::1]:4711", "studio.localhost:4711", "xNAME:4711", "NAME"),
    ],
)
def test_another_host_is_refused(host: str, client: TestClient) -> None:
    """DNS rebinding: the browser believes that a foreign name is this machine."""
    host = host.replace("NAME", KEYS.name)
    assert client.get("/release", headers={"host": host}).status_code == 421
    assert client.get(f"/?token={KEYS.token}", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1:4711", "sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1:8888", "sec-fetch-site": "same-site"},  # another port
        {"origin": "http://localhost:4711"},
        {"origin": "https://127.0.0.1:4711"},
        {"origin": "null"},
        {"origin": "null", "sec-fetch-site": "cross-site"},
        {"origin": "null", "sec-fetch-site": "none"},
        {},
    ],
)
@pytest.mark.parametrize("address", CHANGES)
def test_a_change_that_another_page_asks_for_is_refused(
    address: str, headers: dict[str, str], folder: Path
) -> None:
    _, guard = make_app(folder, KEYS, WORKERS)
    client = TestClient(guard, base_url="http://127.0.0.1:4711")
    client.cookies.set(KEYS.cookie, KEYS.session, domain="127.0.0.1", path="/")
    limit = {"ledger": "new.db", "dataset": "d", "epsilon": "1"}
    answer = client.post(address, headers=headers, data=ASKED | limit)
    assert answer.status_code == 403
    assert not (folder / "new.db").exists()


def test_a_plain_form_of_our_own_pages_has_no_origin(client: TestClient) -> None:
    """Under no-referrer a browser sends null; what it says of the site is what counts."""
    own = {"origin": "null", "sec-fetch-site": "same-origin"}
    limit = {"ledger": "budget.db", "dataset": "d", "epsilon": "1"}
    assert client.post("/ledger/limit", headers=own, data=limit).status_code == 200


@pytest.mark.parametrize("address", CHANGES)
def test_nothing_changes_by_looking(address: str, client: TestClient, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    client.get(address, params=ASKED | {"key": "k" * 32})
    for page in PAGES:
        client.get(page, params=ASKED | {"epsilon": "1", "ledger": "budget.db"})
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("page", [*PAGES, "/static/studio.js", "/static/../app.py"])
def test_every_answer_has_the_headers(page: str, client: TestClient, stranger: TestClient) -> None:
    for asked in (client, stranger):
        headers = asked.get(page).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers


@pytest.mark.parametrize("page", PAGES)
def test_a_page_keeps_the_policy(page: str, client: TestClient) -> None:
    """No script or style stands in a page, and nothing is loaded from elsewhere."""
    said = client.get(page).text
    assert re.search(r"<style|\sstyle=|\son\w+=|javascript:|hx-on|hx-vals=.js", said) is None
    assert re.search(r"<script(?! src=\"/static/)", said) is None
    assert re.findall(r"(?:src|href|action)=\"(?:https?:)?//", said) == []


def test_a_body_larger_than_any_release_is_refused(client: TestClient, folder: Path) -> None:
    file = {"file": ("big.json", b" " * (MOST_BYTES + 1), "application/json")}
    assert client.post("/posterior/add", files=file).status_code == 413
    assert not (folder / "big.json").exists()


def test_what_goes_wrong_inside_is_said_in_our_own_words(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("zyxwv-canary-7f3a")

    monkeypatch.setattr("noisewise.studio.folder.Folder.tables", broken)
    answer = client.get("/release")
    assert (answer.status_code, "unexpected MemoryError" in answer.text) == (500, True)
    assert "canary" not in answer.text + caplog.text

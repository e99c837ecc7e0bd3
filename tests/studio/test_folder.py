"""The studio sees one folder: no name leads out of it, and nothing but releases gets in."""

import os
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import noisewise
from noisewise import families, noise
from noisewise.errors import NoisewiseError
from noisewise.studio.folder import Folder
from studio_client import ASKED

OUT = [
    "../secret.csv",
    "/etc/passwd",
    "a/../../secret.csv",
    "..",
    ".",
    "",
    "~/secret.csv",
    "link.csv",
    "links/secret.csv",
    "circle.csv",
    "..\\secret.csv",
    "-rf.csv",
    ".hidden.csv",
    ".git/config",
    "a\0b.csv",
    "a\nb.csv",
]


@pytest.fixture
def walled(folder: Path) -> Path:
    outside = folder.parent / "secret.csv"
    outside.write_text("wait\n1\n")
    (folder / "link.csv").symlink_to(outside)
    (folder / "links").symlink_to(folder.parent)
    (folder / "circle.csv").symlink_to(folder / "circle.csv")
    (folder / "inner.csv").symlink_to(folder / "visits.csv")
    return folder


@pytest.mark.parametrize("name", OUT)
def test_no_name_leads_out(name: str, walled: Path) -> None:
    with pytest.raises(NoisewiseError, match="must be named inside the folder"):
        Folder(walled.resolve()).inside(name)


@pytest.mark.parametrize("field", ["file", "ledger", "out"])
@pytest.mark.parametrize("name", OUT)
def test_no_form_takes_a_name_that_leads_out(
    name: str, field: str, walled: Path, client: TestClient
) -> None:
    asked = ASKED | {field: name}
    for address in ("/release/rehearse", "/release/spend"):
        said = client.post(address, data=asked | {"key": "k" * 32})
        assert f'href="#{field}"' in said.text, said.text
    assert sorted(os.listdir(walled.parent)) == ["folder", "secret.csv"]


@pytest.mark.parametrize("name", OUT)
def test_no_other_page_does(name: str, walled: Path, client: TestClient) -> None:
    client.post("/ledger/limit", data={"ledger": name, "dataset": "d", "epsilon": "1"})
    for page in ("/posterior", "/check", "/ledger", "/release"):
        assert client.get(page, params={"release": name}).status_code == 200
    for address, field in (("/posterior/ask", "release"), ("/check/ask", "histogram")):
        assert f'href="#{field}"' in client.post(address, data={field: name}).text
    assert sorted(os.listdir(walled.parent)) == ["folder", "secret.csv"]


def test_names_that_stay_inside_are_offered(walled: Path) -> None:
    (walled / "deep").mkdir()
    (walled / "deep" / "more.parquet").write_bytes(b"")
    found = Folder(walled.resolve())
    assert found.tables() == ["deep/more.parquet", "inner.csv", "visits.csv"]
    assert found.ledgers() == ["budget.db"]
    assert found.releases() == []


def release() -> noisewise.Release:
    return noisewise.observe(
        family=families.Bernoulli(), n=100, statistic=[30.0], noise=noise.Laplace(scale=[2.0])
    )


def test_a_release_that_is_added_lies_in_the_folder(folder: Path, client: TestClient) -> None:
    text = release().to_json().encode()
    said = client.post("/posterior/add", files={"file": ("theirs.json", text)})
    assert said.url.path == "/posterior"
    assert '<option value="theirs.json" selected>' in said.text
    assert noisewise.load(folder / "theirs.json") == release()


@pytest.mark.parametrize("name", ["../theirs.json", "/tmp/theirs.json", "..\\theirs.json"])
def test_its_name_leads_nowhere_else(name: str, folder: Path, client: TestClient) -> None:
    client.post("/posterior/add", files={"file": (name, release().to_json().encode())})
    assert sorted(os.listdir(folder.parent)) == ["folder"]
    assert {"theirs.json", "added.release.json"} & set(os.listdir(folder))


def test_only_releases_are_taken(folder: Path, client: TestClient) -> None:
    before = sorted(os.listdir(folder))
    table = b"wait\n4711.08154711\n"
    for name, data in (("t.csv", table), ("t.json", table), ("r.json", b"{}"), ("", b"")):
        said = client.post("/posterior/add", files={"file": (name, data)}).text
        assert 'href="#file"' in said
        assert "4711.08" not in said
    assert sorted(os.listdir(folder)) == before


def test_a_release_is_never_replaced(folder: Path, client: TestClient) -> None:
    (folder / "theirs.json").write_text("mine")
    said = client.post("/posterior/add", files={"file": ("theirs.json", release().to_json())}).text
    assert "exists already" in said
    assert (folder / "theirs.json").read_text() == "mine"

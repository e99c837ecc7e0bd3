"""`noisewise calibrate`, `compare` and `reproduce` as a person types them."""

import csv
import json

import pytest

from noisewise.cli.main import run

CALIBRATE = [
    "calibrate",
    "--family",
    "exponential",
    "--prior",
    "gamma(shape=8, rate=2)",
    "--n",
    "20",
    "50",
    "--epsilon",
    "0.5",
    "1",
    "--bounds",
    "0.01",
    "1.5",
    "--outside",
    "redact",
    "--methods",
    "auto",
    "naive",
    "--trials",
    "60",
    "--jobs",
    "1",
]


def change(arguments, option, *values):
    """The same command with another value."""
    at = arguments.index(option)
    end = next(
        (i for i in range(at + 1, len(arguments)) if arguments[i].startswith("--")), len(arguments)
    )
    return [*arguments[:at], option, *values, *arguments[end:]]


def test_calibrate_leaves_tables_figures_and_one_page(tmp_path, capsys) -> None:
    out = tmp_path / "study"
    assert run([*CALIBRATE, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "calibrated" in printed
    with (out / "calibration.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert {row["method"] for row in rows} == {"auto", "naive"}
    assert json.loads((out / "calibration.json").read_text())[0]["trials"] == 60
    for name in ("ks", "n20-epsilon0.5", "n50-epsilon1"):
        assert (out / f"{name}.svg").stat().st_size > 1000
        assert (out / f"{name}.png").stat().st_size > 1000
    page = (out / "index.html").read_text()
    assert page.count("<svg") == 5
    for outside in ("src=", 'href="http', "@import", "<script"):
        assert outside not in page
    # nothing is done again, and the page is the same
    assert run([*CALIBRATE, "--out", str(out)]) == 0
    assert (out / "index.html").read_text() == page


def test_compare_leaves_its_page(tmp_path, capsys) -> None:
    out = tmp_path / "cost"
    command = [
        "compare",
        "--family",
        "bernoulli",
        "--prior",
        "beta(alpha=2, beta=2)",
        "--n",
        "50",
        "500",
        "--epsilon",
        "0.5",
    ]
    assert run([*command, "--trials", "6", "--draws", "200", "--jobs", "1", "--out", str(out)]) == 0
    assert "90 % interval, times the non-private one" in " ".join(capsys.readouterr().out.split())
    assert (out / "index.html").read_text().count("<svg") == 1
    assert (out / "comparison.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (change(CALIBRATE, "--trials", "0"), "at least one trial"),
        (change(CALIBRATE, "--epsilon", "-1"), "epsilon must be positive"),
        (change(CALIBRATE, "--epsilon", "nan"), "epsilon must be a finite number"),
        (change(CALIBRATE, "--epsilon", "1_0"), "epsilon must be a finite number"),
        (change(CALIBRATE, "--bounds", "0", "٣"), "bounds must be a finite number"),
        (change(CALIBRATE, "--n", "0"), "n must be at least 1"),
        (change(CALIBRATE, "--methods", "magic"), "unknown method"),
        (change(CALIBRATE, "--methods", "ops"), "ops serves the bernoulli"),
        (change(CALIBRATE, "--prior", "beta(alpha=1, beta=1)"), "prior"),
        (change(CALIBRATE, "--family", "unheard"), "unknown family"),
        (change(CALIBRATE, "--outside", "forget"), "outside"),
        (change(CALIBRATE, "--n", "many"), "integer"),
        (change(CALIBRATE, "--bounds", "2", "1"), "below the upper"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, words, tmp_path, capsys) -> None:
    assert run([*arguments, "--out", str(tmp_path / "study")]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert words in told[0]
    assert not (tmp_path / "study").exists()


def test_folders_that_cannot_serve(tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("")
    assert run([*CALIBRATE, "--out", str(tmp_path / "file" / "study")]) == 2
    assert "cannot write" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    assert run([*CALIBRATE, "--out", str(tmp_path / "full")]) == 2
    assert "holds no study" in capsys.readouterr().err
    assert run([*change(CALIBRATE, "--trials", "5"), "--out", str(tmp_path / "one")]) == 0
    assert run([*change(CALIBRATE, "--trials", "6"), "--out", str(tmp_path / "one")]) == 2
    assert "another study" in capsys.readouterr().err
    assert run(["reproduce", "--out", str(tmp_path / "one")]) == 2
    assert "another study" in capsys.readouterr().err

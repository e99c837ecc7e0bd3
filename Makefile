# The two commands of the README are `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE :=

# Beside them: `make docs` builds the site, `make dist` the package, and tries it in an empty environment.
.PHONY: demo test check docs dist bench bench-studio bench-inference bench-regression calibration thorough audit fuzz clean

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "noisewise needs Python 3.11 or newer; say which: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch .venv/ready

demo: .venv/ready
	@bash examples/demo.sh

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	@command -v java > /dev/null || echo "Without Java 17 the tests on Spark are skipped: apt-get install openjdk-17-jre-headless"
	@command -v chromium > /dev/null || echo "Without Chromium the studio is not tested in a browser: apt-get install chromium"
	$(BIN)/pytest -n 2 --dist worksteal

docs: .venv/ready
	$(BIN)/python -m website.build

dist: .venv/ready
	$(BIN)/python packaging/try_wheel.py

bench: .venv/ready
	$(BIN)/python bench/release.py

bench-studio: .venv/ready
	$(BIN)/python bench/studio.py

bench-inference: .venv/ready
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python bench/inference.py

bench-regression: .venv/ready
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python bench/regression.py

calibration: .venv/ready
	$(BIN)/python bench/calibration.py
	$(BIN)/python bench/regression_calibration.py calibration
	$(BIN)/python bench/regression_calibration.py shapes
	$(BIN)/python bench/regression_calibration.py drawn
	$(BIN)/python bench/mean_coverage.py
	$(BIN)/python bench/weak_prior.py
	$(BIN)/python bench/check_calibration.py right
	$(BIN)/python bench/check_calibration.py wrong

# tests too long for every change
thorough: .venv/ready
	$(BIN)/pytest -n 2 --dist worksteal -m thorough

fuzz: .venv/ready
	NOISEWISE_FUZZ=100000 $(BIN)/pytest tests/test_fuzz.py tests/test_fuzz_inference.py -n 2

audit: .venv/ready
	$(BIN)/python bench/audit.py

clean:
	rm -rf .venv build demo dist bench/data

#!/usr/bin/env bash
# Release two statistics of the example table, charged to one ledger. Everything is written to demo/.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
rm -rf demo
mkdir demo
say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }

say noisewise ledger set-limit demo/budget.db --dataset visits-2026 --epsilon 2
say noisewise release examples/visits.csv --column wait --family exponential --bounds 0 60 --outside redact \
    --epsilon 0.5 --ledger demo/budget.db --dataset visits-2026 --dry-run
say noisewise release examples/visits.csv --column wait --family exponential --bounds 0 60 --outside redact \
    --epsilon 0.5 --ledger demo/budget.db --dataset visits-2026 --out demo/wait.release.json
say noisewise release examples/visits.csv --column readmitted --family bernoulli \
    --epsilon 0.25 --ledger demo/budget.db --dataset visits-2026 --out demo/readmitted.release.json
say noisewise ledger show demo/budget.db
say cat demo/wait.release.json

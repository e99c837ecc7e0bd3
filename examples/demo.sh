#!/usr/bin/env bash
# The whole story on the example table: release, posterior, the same done naively, and both against the non-private answer.
# Everything is written to demo/.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
rm -rf demo
mkdir demo
say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }

say noisewise ledger set-limit demo/budget.db --dataset visits-2026 --epsilon 2
say noisewise release examples/visits.csv --column wait --family exponential --bounds 0 60 --outside clamp \
    --epsilon 0.05 --ledger demo/budget.db --dataset visits-2026 --dry-run
say noisewise release examples/visits.csv --column wait --family exponential --bounds 0 60 --outside clamp \
    --epsilon 0.05 --ledger demo/budget.db --dataset visits-2026 --out demo/wait.release.json
say noisewise ledger show demo/budget.db
say noisewise infer demo/wait.release.json --prior "gamma(shape=2, rate=20)" --out demo/wait.posterior.nc --plot demo/wait.svg
say noisewise infer demo/wait.release.json --prior "gamma(shape=2, rate=20)" --method naive
say python examples/compare.py demo/wait.release.json demo/compare.svg
say noisewise ledger set-limit demo/budget.db --dataset patients-2026 --epsilon 2
say noisewise release examples/patients.csv --moments bp:60:220 age:0:100 sex:f,m smoker:no,yes --epsilon 2 \
    --ledger demo/budget.db --dataset patients-2026 --out demo/bp.release.json
say noisewise regress demo/bp.release.json --outcome bp --on age sex smoker --plot demo/bp.svg
say python examples/regression.py demo/bp.release.json demo/regression.svg
cp examples/visits.csv demo/
printf '\nThe same in a browser, on this machine alone:\n\n    .venv/bin/noisewise studio demo\n\n'

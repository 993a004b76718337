#!/bin/sh
# Build the wheel, install it into a fresh environment and explain a log from outside the repository.
set -eu
python=${1:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/.venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work" "$root"
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$work"/sglang_doctor-*.whl
cd "$work"
"$work/venv/bin/sglang-doctor" explain "$root/fixtures/seed/no_accelerator.log" --format json > report.json || test $? -eq 1
grep -q '"rule": "GPU001"' report.json
"$work/venv/bin/doctor" rule GPU001 > /dev/null
echo "the wheel works outside the repository"

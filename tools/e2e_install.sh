#!/bin/sh
# Install a real SGLang 0.5.23 that starts on a machine without a GPU (x86-64, Python 3.11), once, outside the checkout.
# Prints the path of its python. About 7 GB and three to five minutes; too little disk fails loudly.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home=${SGLANG_DOCTOR_E2E:-"$HOME/.cache/sglang-doctor/e2e-0.5.23"}
python=${E2E_PYTHON:-python3.11}
if [ ! -e "$home/.ready" ]; then
  mkdir -p "$home"
  free=$(df -Pm "$home" | awk 'NR==2 {print $4}')
  if [ "$free" -lt 9000 ]; then
    echo "e2e: $home has $free MB free, 9000 are needed; set SGLANG_DOCTOR_E2E to another folder" >&2
    exit 1
  fi
  "$python" -m venv "$home/venv" >&2
  pip="$home/venv/bin/python -m pip install --quiet --disable-pip-version-check"
  $pip torch==2.14.1 torchvision==0.29.1 >&2
  $pip --no-deps --requirement "$root/tests/e2e/requirements-nodeps.txt" >&2
  $pip --requirement "$root/tests/e2e/requirements.txt" >&2
  touch "$home/.ready"
fi
echo "$home/venv/bin/python"

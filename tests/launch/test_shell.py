"""What is printed is run by a real shell, with programs that only tell what they were given."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from doctor.launch.command import parse_command
from doctor.launch.render import apply_edits

from .helpers import NEWEST, env, flag

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

RUN = "sglang serve m --tp 2"
# Prints its variables and arguments, one a line.
TELL = '#!/bin/sh\necho "A=$A"\necho "B=$B"\nfor word; do echo "$word"; done\n'
# Each hands its command on as the real one does; those that start it elsewhere lose the environment.
WRAPPERS = {
    "ssh": 'shift; exec env -i PATH="$PATH" sh -c "$*"',
    "kubectl": 'while [ "$1" != -- ]; do shift; done; shift; exec env -i PATH="$PATH" "$@"',
    "tmux": 'for last; do :; done; exec env -i PATH="$PATH" sh -c "$last"',
    "sudo": 'while [ "${1#-}" != "$1" ]; do [ "$1" = -u ] && shift; shift; done; exec env -i PATH="$PATH" "$@"',
    "srun": 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"',
    "docker": (
        'shift; set -- "$@"; vars=; while [ "${1#-}" != "$1" ]; do [ "$1" = -e ] && { vars="$vars $2"; shift; }; shift; '
        'done; shift; exec env -i PATH="$PATH" $vars "$@"'
    ),
}


@pytest.fixture
def stubs(tmp_path):
    for name, body in {"sglang": TELL, **{name: f"#!/bin/sh\n{body}\n" for name, body in WRAPPERS.items()}}.items():
        (tmp_path / name).write_text(body)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(text, stubs):
    """Return what the server was given: its variables A and B, then its arguments."""
    path = f"{stubs}:/usr/bin:/bin"
    words = ["bash", "--norc", "-c", text]
    done = subprocess.run(words, capture_output=True, text=True, env={"PATH": path}, timeout=20, check=True, cwd=stubs)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        RUN,
        f"B=2 {RUN}",
        f"env B=2 {RUN}",
        f"export B=2; {RUN}",
        f"exec {RUN}",
        f"exec env B=2 {RUN}",
        f"time -p B=2 {RUN}",
        f"nohup {RUN} 2>/dev/null",
        f"timeout 9 {RUN}",
        f"({RUN})",
        f"true && B=2 {RUN} || true",
        f"if true; then\n  {RUN}\nfi",
        f"for i in 1; do B=$i {RUN}; done",
        f"launch() {{\n  {RUN}\n}}\nlaunch",
        f"bash -c '{RUN}'",
        f'bash -c "export B=2; {RUN}"',
        f'env -S "B=2 {RUN}"',
        f'CMD="{RUN}"\neval "$CMD"',
        f"ssh host {RUN}",
        f"ssh host env B=2 {RUN}",
        f"ssh host B=2 {RUN}",
        f"ssh host docker run image {RUN}",
        f"bash -c 'docker run -e B=2 image {RUN}'",
        f"ssh host 'B=2 {RUN}'",
        f"ssh host \"bash -c '{RUN}'\"",
        f"kubectl exec pod -- {RUN}",
        f"tmux new -d '\n{RUN} \\\n  --port 1\n'",
        f"sudo -u me {RUN}",
        f"sudo -E env B=2 {RUN}",
        f"srun -N1 bash -c '{RUN}'",
        f"docker run -e B=2 image {RUN}",
        f"docker run image bash -c '{RUN}'",
        "sglang serve m \\\n  # --tp 8 \\\n  --tp 2 \\\n\n  --port 1",
        "sglang serve m\n  --tp 2",
    ],
)
@pytest.mark.parametrize("value", ["x", "a b", '{"k": "it\'s $5"}'])
def test_a_real_shell_hands_over_what_was_edited(text, value, stubs):
    edits = [flag("--tp-size", "4"), flag("--served-model-name", value), env("A", "1")]
    command = parse_command(apply_edits(parse_command(text), edits, NEWEST))
    told = run(command.text, stubs)
    assert told[0] == "A=1"
    assert told[1] in {"B=", "B=2", "B=1"}
    assert told[1] == "B=" or "B=" in text
    assert told[2:] == ["serve", *(word.value for word in command.arguments)]
    assert told[2:4] == ["serve", "m"]
    assert told[told.index("--tp") + 1] == "4"
    assert told[told.index("--served-model-name") + 1] == value

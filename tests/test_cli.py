"""The real program in a child: exit codes, streams, colours, pipes, signals, and one clear line for bad input."""

import contextlib
import gzip
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from doctor.boundary import guard
from doctor.errors import DoctorError
from tests.helpers import FIXTURES, ROOT

DOCTOR = [sys.executable, "-m", "doctor"]
BROKEN = FIXTURES / "seed/no_accelerator.log"
HEALTHY = FIXTURES / "recordings/h200/healthy.log"
CUT = FIXTURES / "seed/offload_vram_torchcodec_noise.log"
PLAIN = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TERM")}


def run(*arguments: object, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*DOCTOR, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**PLAIN, **environment},
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def assert_one_line(done: subprocess.CompletedProcess[str], *words: object) -> None:
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("doctor: ")
    for word in words:
        assert str(word) in done.stderr


# exit codes


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([HEALTHY], 0),
        ([CUT], 0),
        ([BROKEN], 1),
        ([BROKEN, "--fail-on", "warning"], 1),
        ([BROKEN, "--fail-on", "never"], 0),
        ([HEALTHY, BROKEN], 1),
        (["/nowhere/server.log"], 2),
    ],
)
def test_exit_code_is_the_same_in_every_format(arguments: list, code: int) -> None:
    assert {
        form: run("explain", *arguments, "--format", form).returncode for form in ("text", "json", "markdown")
    } == dict.fromkeys(("text", "json", "markdown"), code)


@pytest.mark.parametrize(
    "arguments", [[], ["explode"], ["explain", "--format", "xml"], ["explain", "--fail-on", "x"], ["explain", "--nope"]]
)
def test_wrong_usage_is_one_line_that_names_the_help(arguments: list[str]) -> None:
    assert_one_line(run(*arguments), "--help")


@pytest.mark.parametrize("arguments", [["--help"], ["explain", "--help"], ["--version"]])
def test_help_and_version_are_0(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "doctor" in done.stdout


@pytest.mark.parametrize("command", ["check", "explain", "plan", "rule", "run"])
def test_help_of_every_subcommand_has_examples(command: str) -> None:
    assert "examples:" in run(command, "--help").stdout


def test_program_runs_as_script_and_as_module() -> None:
    script = subprocess.run(
        [sys.executable, "-c", "import sys; from doctor.cli import run; sys.argv[0] = 'doctor'; run()", "--version"],
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert script.stdout.decode() == run("--version").stdout


# streams


def test_body_is_on_stdout_and_summary_on_stderr() -> None:
    done = run("explain", BROKEN)
    assert done.stdout.startswith("FAILURE: No GPU is visible to torch\n")
    assert done.stderr == "doctor: failure: GPU001 no-accelerator (confirmed)\n"


def test_json_on_stdout_is_one_document() -> None:
    document = json.loads(run("explain", BROKEN, "--format", "json").stdout)
    assert (document["schema_version"], document["verdict"], document["diagnoses"][0]["rule"]) == (
        1,
        "failure",
        "GPU001",
    )


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_standard_input(arguments: list[str]) -> None:
    done = run("explain", *arguments, stdin=BROKEN.read_bytes())
    assert done.returncode == 1
    assert "  -:26\n" in done.stdout


def test_several_files_are_one_input() -> None:
    document = json.loads(run("explain", HEALTHY, BROKEN, "--format", "json").stdout)
    assert [file["path"] for file in document["input"]["files"]] == [str(HEALTHY), str(BROKEN)]


@pytest.mark.parametrize(
    "wrapped", [gzip.compress(BROKEN.read_bytes()), BROKEN.read_text("utf-8").encode("utf-16")], ids=["gzip", "UTF-16"]
)
def test_wrapped_input_gives_the_same_answer(wrapped: bytes) -> None:
    assert run("explain", "-", stdin=wrapped).stdout == run("explain", "-", stdin=BROKEN.read_bytes()).stdout


def test_ascii_terminal_gets_ascii() -> None:
    for form in ("text", "json", "markdown"):
        done = run("explain", CUT, "--format", form, PYTHONIOENCODING="ascii", LC_ALL="C")
        assert done.returncode == 0
        assert done.stdout.isascii()
        assert done.stderr.isascii()


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False),
    ],
)
def test_colour_is_decided_by_stream_and_environment(environment: dict[str, str], coloured: bool) -> None:
    assert ("\x1b[" in run("explain", BROKEN, **environment).stdout) is coloured
    assert "\x1b[" not in run("explain", BROKEN, "--format", "json", **environment).stdout


class Terminal:
    """A child whose three streams are a terminal; `read` gives what it printed until it ended."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        self.master, slave = pty.openpty()
        self.child = subprocess.Popen(
            [*DOCTOR, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            env={**PLAIN, "TERM": "xterm", **environment},
        )
        os.close(slave)

    def read(self) -> str:
        data = b""
        with contextlib.suppress(OSError):  # the terminal is gone when its last user is
            while chunk := os.read(self.master, 65536):
                data += chunk
        os.close(self.master)
        self.child.wait()
        return data.decode()


def test_terminal_gets_colour_and_no_second_summary() -> None:
    terminal = Terminal("explain", BROKEN)
    shown = terminal.read()
    assert "\x1b[1;31mFAILURE" in shown
    assert "doctor: failure" not in shown
    assert terminal.child.returncode == 1


def test_terminal_without_colour() -> None:
    assert "\x1b[" not in Terminal("explain", BROKEN, NO_COLOR="1").read()


def test_explain_without_arguments_on_a_terminal_says_what_it_waits_for() -> None:
    terminal = Terminal("explain")
    os.write(terminal.master, b"[2026-04-24 06:29:19] Killed\n\x04")
    assert "paste it, then press Ctrl-D" in terminal.read()


# pipes that close, streams that are not there


def test_closed_pipe_is_quiet() -> None:
    for form in ("text", "json", "markdown"):
        with subprocess.Popen(
            [*DOCTOR, "explain", str(BROKEN), "--format", form],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdout.close()
            assert child.stderr.read() == b""
        assert child.returncode == 0


def test_closed_pipe_of_help_is_quiet() -> None:
    with subprocess.Popen([*DOCTOR, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""


@pytest.mark.parametrize(("closing", "code"), [(">&-", 1), ("2>&-", 1), (">&- 2>&-", 1), ("<&-", 2)])
def test_closed_streams_are_no_crash(closing: str, code: int) -> None:
    file = "" if closing == "<&-" else str(BROKEN)
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m doctor explain {file} {closing}', sys.executable],
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == code
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_full_disk_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*DOCTOR, "explain", str(BROKEN)], stdout=full, stderr=subprocess.PIPE, check=False, cwd=ROOT
        )
    assert done.returncode == 2
    assert (
        done.stderr.decode() == "doctor: cannot write: No space left on device; send the output somewhere with room\n"
    )


# bad input


def test_missing_file() -> None:
    assert_one_line(run("explain", "/nowhere/server.log"), "/nowhere/server.log: no such file", "check the path")


def test_missing_response() -> None:
    assert_one_line(run("explain", "--response", "/nowhere/answer.json"), "/nowhere/answer.json")


def test_missing_kernel_log() -> None:
    assert_one_line(run("explain", BROKEN, "--kernel-log", "/nowhere/dmesg"), "/nowhere/dmesg")


def test_missing_rules() -> None:
    assert_one_line(run("explain", BROKEN, "--rules", "/nowhere/rules"), "/nowhere/rules")


def test_folder_without_logs(tmp_path: Path) -> None:
    assert_one_line(run("explain", tmp_path), tmp_path, "no log files")


TEXT_ONLY = {
    "object": "error",
    "message": "Model only supports text input; received unsupported content type 'image_url'.",
}


def test_error_that_the_server_answered_with_is_explained(tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps(TEXT_ONLY))
    done = run("explain", "--response", answer)
    assert (done.returncode, done.stdout.partition(":")[0]) == (0, "HEALTHY")
    assert "takes text only (REQ013" in done.stdout
    assert "the server answered with an error" in done.stderr


def test_log_is_answered_beside_an_error_of_the_server(tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"error": {"message": "nobody knows this"}}))
    assert run("explain", BROKEN, "--response", answer).stdout.startswith("FAILURE: No GPU is visible")


def test_response_that_is_a_folder(tmp_path: Path) -> None:
    assert_one_line(run("explain", "--response", tmp_path), tmp_path)


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_empty_file_is_unknown_and_2(form: str, tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_bytes(b"")
    done = run("explain", tmp_path / "empty.log", "--format", form)
    assert_one_line(done, "empty.log: empty", "tee server.log")
    assert "unknown" in done.stdout.lower()


def test_empty_standard_input() -> None:
    assert_one_line(run("explain", stdin=b""), "-: empty")


def test_binary_file() -> None:
    assert_one_line(
        run("explain", "-", stdin=b"\x7fELF" + bytes(range(32)) * 100), "standard input: this is a binary file"
    )
    assert_one_line(run("explain", sys.executable), sys.executable, "binary")


def test_truncated_gzip() -> None:
    assert_one_line(run("explain", "-", stdin=gzip.compress(BROKEN.read_bytes())[:-20]), "broken gzip data")


def test_path_with_newline_and_escapes_is_one_harmless_line(tmp_path: Path) -> None:
    done = run("explain", tmp_path / "a\nb\x1b[2J\u202e.log")
    assert_one_line(done, "no such file")
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr


def test_path_that_is_no_utf_8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.log"
    with open(path, "wb") as stream:
        stream.write(BROKEN.read_bytes())
    for form in ("text", "json", "markdown"):
        done = subprocess.run([*DOCTOR, "explain", path, "--format", form], capture_output=True, check=False, cwd=ROOT)
        assert done.returncode == 1
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["'", "x" * 100_000, "\x01", "$(", "{", "- a\n b: [", "rm -rf /", " "])
def test_log_is_answered_without_a_command_that_cannot_be_read(command: str) -> None:
    done = run("explain", BROKEN, "--command", command)
    assert done.returncode == 1
    assert done.stdout.startswith("FAILURE: No GPU is visible to torch\n")
    assert "Traceback" not in done.stderr


def test_command_that_cannot_be_read_is_named_on_stderr() -> None:
    assert "doctor: --command is left out: " in run("explain", BROKEN, "--command", "sglang serve 'm").stderr


def test_what_was_mended_in_a_command_is_said() -> None:
    done = run("explain", BROKEN, "--command", "sglang serve m \u2013tp 2")
    assert "doctor: --command: " in done.stderr


def test_text_that_is_no_log_is_unknown() -> None:
    done = run("explain", "-", stdin=b"A recipe for soup.\nBoil water.\n")
    assert done.stdout.startswith("UNKNOWN")
    assert done.returncode == 0


def test_healthy_is_not_said_of_a_few_unknown_lines() -> None:
    assert run("explain", "-", stdin=b"[2026-04-24 06:29:19 TP0] Something that nobody knows.\n").stdout.startswith(
        "INCOMPLETE"
    )


# folders


def test_unreadable_file_of_a_folder_is_skipped_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(BROKEN.read_bytes())
    (tmp_path / "old.log.gz").write_bytes(gzip.compress(BROKEN.read_bytes())[:-20])
    (tmp_path / "core.log").write_bytes(b"\x7fELF" + bytes(100))
    done = run("explain", tmp_path)
    assert done.returncode == 1
    skipped, again, summary = sorted(done.stderr.splitlines(), key=lambda line: "skipped" not in line)
    assert "skipped" in skipped
    assert "skipped" in again
    assert "GPU001" in summary


def test_folder_of_which_nothing_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "core.log").write_bytes(b"\x7fELF" + bytes(100))
    done = run("explain", tmp_path)
    assert done.returncode == 2
    assert [line.split()[1] for line in done.stderr.splitlines()] == ["skipped", f"{tmp_path}/core.log:"]


# secrets and escapes


def test_secrets_and_escapes_of_the_log_do_not_show() -> None:
    log = (
        "[2026-04-24 06:29:19] server_args=ServerArgs(model_path='/m', tp_size=1, api_key='geheim-1', admin_api_key='geheim-2')\n"
        "[2026-04-24 06:29:20] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/sgl/a.py", line 1, in f\n'
        "RuntimeError: No CUDA GPUs are available \u202eevil\u2069 \u0007 hf_abcdefghijklmnopqrstuvwxyz0123 api_key='geheim-3'\n"
    )
    for form in ("text", "json", "markdown"):
        done = run(
            "explain",
            "-",
            "--format",
            form,
            "--command",
            "HF_TOKEN=geheim-4 sglang serve --model-path /m --api-key geheim-5",
            stdin=log.encode(),
        )
        assert done.returncode == 1
        assert "geheim" not in done.stdout + done.stderr
        assert "hf_abc" not in done.stdout
        assert not set("\u202e\u2069\x07\x1b") & set(
            done.stdout if form != "json" else json.loads(done.stdout)["diagnoses"][0]["evidence"][0]["text"]
        )


# internal errors


def fail(arguments: list[str]) -> int:
    raise RuntimeError(f"a bug, api_key='geheim', {arguments}")


def test_internal_error_is_3_with_a_block_to_paste(capsys) -> None:
    assert guard(fail, ["explain", "--command", "sglang serve --api-key geheim"]) == 3
    shown = capsys.readouterr().err
    assert "doctor: internal error" in shown
    assert shown.count("```") == 2
    assert "RuntimeError: a bug" in shown
    assert "sglang-doctor 0." in shown
    assert "command: doctor explain" in shown
    assert "geheim" not in shown


def test_broken_rules_pack_is_an_internal_error(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text("[[", "utf-8")
    program = f"import sys, pathlib, doctor.diagnosis.load as load; load.PACK = pathlib.Path({str(tmp_path / 'rules.json')!r}); from doctor.cli import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", program, "explain", str(BROKEN)], capture_output=True, check=False, cwd=ROOT
    )
    assert done.returncode == 3
    assert b"```text" in done.stderr
    assert done.stdout == b""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DoctorError("a", "b"), 2),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 0),
        (MemoryError(), 3),
        (RecursionError(), 3),
        (OSError(5, "Input/output error"), 3),
        (OSError(28, "No space left"), 2),
    ],
)
def test_boundary_turns_every_exception_into_a_code(error: BaseException, code: int, capfd, monkeypatch) -> None:
    def main(_: list[str]) -> int:
        raise error

    monkeypatch.setattr("doctor.boundary._silence", lambda _: None)  # the test's own stdout goes on
    assert guard(main, []) == code
    assert ("Traceback" in capfd.readouterr().err) is (code == 3)


def test_error_and_advice_are_one_line(capsys) -> None:
    def main(_: list[str]) -> int:
        raise DoctorError("a\nb", "c\n d")

    assert guard(main, []) == 2
    assert capsys.readouterr().err == "doctor: a b; c d\n"


# growing files, slow pipes, Ctrl-C


class Follower:
    """A child that follows a file; `next` waits for its next report."""

    def __init__(self, path: Path) -> None:
        self.child = subprocess.Popen(
            [*DOCTOR, "explain", "--follow", "--format", "json", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        self._guard = threading.Timer(60, self.child.kill)  # a hang ends the test instead of the run
        self._guard.start()
        self._text = ""

    def next(self) -> dict:
        assert self.child.stdout is not None
        while True:
            with contextlib.suppress(json.JSONDecodeError):
                document, end = json.JSONDecoder().raw_decode(self._text.lstrip())
                self._text = self._text.lstrip()[end:]
                return document
            chunk = os.read(self.child.stdout.fileno(), 65536)
            assert chunk, "the program ended"
            self._text += chunk.decode()

    def stop(self) -> int:
        self.child.send_signal(signal.SIGINT)
        code = self.child.wait()
        self._guard.cancel()
        assert self.child.stdout is not None
        self.child.stdout.close()
        return code


READY = "[2026-04-24 06:29:19] The server is fired up and ready to roll!\n"
CRASH = '[2026-04-24 06:30:19 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File "/sgl/a.py", line 1, in f\nRuntimeError: No accelerator (CUDA, XPU) is available.\n'


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)


def test_follow_a_growing_file(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("[2026-04-24 06:29:18] Load weight begin. avail mem=78.53 GB\n", "utf-8")
    follower = Follower(path)
    assert follower.next()["verdict"] == "incomplete"
    append(path, READY[:20])
    append(path, READY[20:])
    assert follower.next()["verdict"] == "healthy"
    assert follower.stop() == 130


def test_follow_a_file_that_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(READY, "utf-8")
    follower = Follower(path)
    assert follower.next()["verdict"] == "healthy"
    path.rename(tmp_path / "server.log.1")
    path.write_text("a\nb\n" + CRASH, "utf-8")
    report = follower.next()
    assert (report["diagnoses"][0]["rule"], report["diagnoses"][0]["evidence"][0]["line"]) == ("GPU001", 5)
    assert follower.stop() == 130


def test_follow_a_file_that_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(READY * 20, "utf-8")
    follower = Follower(path)
    assert follower.next()["verdict"] == "healthy"
    path.write_text(CRASH, "utf-8")
    report = follower.next()
    assert (report["diagnoses"][0]["rule"], report["diagnoses"][0]["evidence"][0]["line"]) == ("GPU001", 3)
    assert follower.stop() == 130


@pytest.mark.parametrize("arguments", [["-"], [BROKEN, CUT], [BROKEN, "--kernel-log", CUT]])
def test_follow_needs_one_plain_file(arguments: list) -> None:
    assert_one_line(run("explain", "--follow", *arguments), "exactly one plain file")


@pytest.mark.parametrize("data", [gzip.compress(b"x" * 100), b"\x7fELF" + bytes(100), "text".encode("utf-16")])
def test_follow_refuses_what_is_no_growing_text(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(data)
    assert_one_line(run("explain", "--follow", tmp_path / "a.log"), "a.log")


def test_ctrl_c_shows_what_was_read_so_far() -> None:
    with subprocess.Popen(
        [*DOCTOR, "explain", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as child:
        assert child.stdin is not None
        child.stdin.write(BROKEN.read_bytes() + b"[2026-04-24 06:29:19] more\n" * 10_000)  # more than a pipe holds
        child.stdin.flush()
        child.send_signal(signal.SIGINT)
        assert child.stdout is not None
        assert child.stdout.read().startswith(b"FAILURE: No GPU is visible")
    assert child.returncode == 130


def test_progress_of_a_slow_pipe_is_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "pipe\x1b[2J"
    os.mkfifo(path)
    with subprocess.Popen(
        [*DOCTOR, "explain", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as child:
        assert child.stderr is not None
        with path.open("wb", buffering=0) as stream:
            shown = b""
            while not shown:
                stream.write(READY.encode() * 4000)
                shown = read_now(child.stderr.fileno())
    assert shown.startswith(f"reading {tmp_path}/pipe\ufffd[2J: ".encode())
    assert child.returncode == 0


def read_now(descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    with contextlib.suppress(BlockingIOError):
        return os.read(descriptor, 4096)
    return b""

"""`doctor check` as a program, in environments that are broken for real."""
# ruff: noqa: S108 - these folders are looked at, nothing is written to them

import json
import os
import subprocess
import sys

import pytest

from doctor.report.check_report import FORMATS
from tests.probes.helpers import write_package, write_program, write_python
from tests.probes.test_children import wait_for_end

LIMIT = 60


def check(*arguments, env=None, **options):
    environment = {**os.environ, "NO_COLOR": "1", **(env or {})}
    command = [sys.executable, "-m", "doctor", "check", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, check=False, env=environment, **options
    )


def read(done):
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def find(data, probe):
    return [row for row in data["results"] if row["probe"] == probe]


def assert_no_mistake(data):
    assert not [row for row in data["results"] if "made a mistake" in (row["reason"] or "")]


def test_check_of_this_machine():
    data = read(check("--format", "json"))
    assert len({row["probe"] for row in data["results"]}) > 30
    assert_no_mistake(data)


def test_list_names_every_probe():
    assert len(check("--list").stdout.splitlines()) > 30


@pytest.mark.parametrize("name", FORMATS)
def test_formats_have_the_same_code(name):
    launch = ("--only", "command", "--format", name, "--", "sglang", "serve", "--model-path", "m", "--no-such-flag")
    done = check(*launch)
    assert done.returncode == 1
    assert "--no-such-flag" in done.stdout


def test_fail_on_never():
    assert check("--only", "command", "--fail-on", "never", "--", "--model-path", "m", "--no-such-flag").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--only", "nonsense"), "no probe or group"),
        (("--only", "gpu", "--skip", "gpu"), "leave no probe"),
        (("--model", ""), "--model is empty"),
        (("--python", "/nonexistent"), "no interpreter"),
        (("--compare", "/nonexistent"), "No such file"),
        (("--model", "m", "--", "sglang", "serve", "--model-path", "m"), "both given"),
        (("--only", "command", "--", "true"), "no SGLang launch command"),
        (("--only", "caches", "--save", "/dev/full"), "No space left"),
    ],
)
def test_wrong_usage(arguments, words):
    done = check(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_standard_output_on_a_full_disk():
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "doctor", "check", "--only", "caches"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 2
    assert "No space left" in done.stderr


def test_save_and_compare(tmp_path):
    saved = tmp_path / "good.json"
    assert check("--only", "caches,command", "--save", saved, env={"HF_HOME": "/tmp"}).returncode == 0
    data = read(check("--only", "caches,command", "--compare", saved, "--format", "json", env={"HF_HOME": "/var"}))
    assert {"name": "env.HF_HOME", "saved": "/tmp", "now": "/var"} in data["differences"]
    assert "Differences from the saved check" in check("--only", "caches", "--compare", saved).stdout


@pytest.mark.parametrize("text", ["", "{}", "[1]", "\0" * 100, "[" * 100_000, '{"facts": {}}'])
def test_compare_with_a_file_that_is_no_check(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    done = check("--only", "caches", "--compare", tmp_path / "bad.json")
    assert (done.returncode, "is not a saved check" in done.stderr) == (2, True)


def test_compare_with_a_check_that_holds_nonsense(tmp_path):
    (tmp_path / "odd.json").write_text('{"results": [1, {"probe": 2}, {"probe": "caches"}], "facts": [{}]}')
    data = read(check("--only", "caches", "--compare", tmp_path / "odd.json", "--format", "json"))
    assert {"name": "caches", "saved": "None", "now": "ok"} in data["differences"]


def test_compare_with_a_machine_that_has_a_fault_shows_the_fault_alone(tmp_path, broken):
    """What is the same on both stays out, although the packages probe is content on one of them only."""
    _, site, python = broken
    requires = ("torch==2.11.0", "tqdm==4.0", "numpy==2.0")
    write_package(site, "sglang", "0.5.15.post1", requires=requires)
    for name, version in (("torch", "2.11.0"), ("tqdm", "4.0"), ("numpy", "2.0")):
        write_package(site, name, version)
    arguments = ("--python", python, "--only", "packages", "--format", "json")
    read(check(*arguments, "--save", tmp_path / "good.json"))
    os.rename(site / "tqdm-4.0.dist-info", site / "tqdm-5.0.dist-info")
    data = read(check(*arguments, "--compare", tmp_path / "good.json"))
    assert [row["name"] for row in data["differences"]] == ["package.tqdm", "packages"]


def test_output_is_ascii_where_the_terminal_is():
    done = check("--format", "text", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert done.returncode in (0, 1)
    assert done.stdout.isascii()


def test_secrets_are_not_printed():
    launch = (
        "--",
        "HF_TOKEN=hf_abcdefghijklmnopqrstuv",
        "sglang",
        "serve",
        "--model-path",
        "m",
        "--api-key",
        "topsecret",
        "--xyz",
    )
    for name in FORMATS:
        done = check("--only", "command", "--format", name, *launch)
        assert "topsecret" not in done.stdout + done.stderr
        assert "hf_abc" not in done.stdout + done.stderr


@pytest.fixture
def broken(tmp_path):
    """A folder first on PATH and PYTHONPATH, in which tests put what misbehaves."""
    site = tmp_path / "site"
    site.mkdir()
    python = write_python(tmp_path, site)
    return tmp_path, site, python


def test_everything_hangs(broken):
    folder, site, python = broken
    write_package(site, "torch", "2.11.0", module="torch", text="import time; time.sleep(600)")
    (folder / "pynvml.py").write_text("import time; time.sleep(600)\n")
    for name in ("nvidia-smi", "dmesg", "nvcc"):
        write_program(folder / name, "#!/bin/sh\nsleep 600\n")
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(folder)}
    data = read(check("--python", python, "--format", "json", env=env))
    assert_no_mistake(data)
    assert data["seconds"] < 30
    assert "gave no answer" in find(data, "imports")[0]["reason"]
    assert find(data, "devices")[0]["status"] == "unknown"
    assert find(data, "oom-kills")


@pytest.mark.parametrize(
    "text",
    [
        "raise OSError('libcudart.so.13: cannot open shared object file')",
        "raise SystemExit(1)",
        "import os; os.abort()",
    ],
)
def test_torch_breaks_on_import(broken, text):
    _, site, python = broken
    write_package(site, "torch", "2.11.0", module="torch", text=text)
    data = read(check("--python", python, "--format", "json", "--only", "python"))
    assert find(data, "imports")[0]["severity"] == "error"


def test_interpreter_segfaults(broken):
    _, _, python = broken
    write_program(python, "#!/bin/sh\nkill -SEGV $$\n")
    data = read(check("--python", python, "--format", "json"))
    assert find(data, "interpreter")[0]["status"] == "problem"


def test_home_that_is_not_writable():
    data = read(check("--format", "json", "--only", "tools,host", env={"HOME": "/proc/nowhere"}))
    assert find(data, "caches")[0]["severity"] == "error"


def test_container_does_not_get_the_shell_s_variables():
    docker = ("docker", "run", "--gpus", "all", "-e", "PYTORCH_ALLOC_CONF=nonsense", "image")
    server = ("python3", "-m", "sglang.launch_server", "--model-path", "m")
    env = {"CUDA_VISIBLE_DEVICES": "0,0", "PYTORCH_CUDA_ALLOC_CONF": "worse"}
    arguments = ("--only", "visible-devices,allocator", "--format", "json", "--")
    inside = read(check(*arguments, *docker, *server, env=env))
    assert not [row for row in find(inside, "visible-devices") if row["status"] == "problem"]
    (found,) = find(inside, "allocator")
    assert "nonsense" in found["summary"] + " ".join(found["evidence"])
    outside = find(read(check(*arguments, *server, env=env)), "visible-devices")
    assert any("names 0 twice" in row["summary"] for row in outside)


def test_limit_on_address_space_that_forbids_threads():
    """No thread can have a stack of its own any more; children still can."""
    command = f"ulimit -s 600000; ulimit -v 900000; exec {sys.executable} -m doctor check --format json"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=LIMIT, check=False)
    data = read(done)
    assert_no_mistake(data)
    assert "address space is limited" in find(data, "limits")[0]["summary"]


def test_environment_that_is_empty():
    command = [sys.executable, "-m", "doctor", "check", "--format", "json"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, check=False, env={}, stdin=subprocess.DEVNULL
    )
    assert_no_mistake(read(done))


def test_model_folder_with_a_pipe_for_a_config(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    data = read(check("--format", "json", "--model", tmp_path))
    assert [row["status"] for row in find(data, "model-files")] == ["unknown"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a mount namespace of its own")
@pytest.mark.parametrize(
    "prepare",
    [
        "mount -t tmpfs -o size=64k,nr_inodes=8 tmpfs /mnt && export TMPDIR=/mnt",
        "mount -t tmpfs tmpfs /sys",
        "mount -t tmpfs -o size=64m tmpfs /dev/shm",
        "mount -t tmpfs -o ro tmpfs /mnt && export HOME=/mnt",
    ],
)
def test_machine_with_parts_missing_or_full(prepare):
    command = f"{prepare} && exec {sys.executable} -m doctor check --format json -- sglang serve --model-path m --tp 4"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("mount namespaces are not allowed here")
    data = read(done)
    assert_no_mistake(data)
    if "/sys" in prepare:
        assert find(data, "numa")[0]["status"] == "unknown"
    if "/dev/shm" in prepare:
        assert find(data, "shared-memory")[0]["severity"] == "error"
    if "HOME" in prepare:
        assert any("/mnt is not writable" in row["summary"] for row in find(data, "disk"))
    if "TMPDIR" in prepare:
        assert any("is full" in row["summary"] for row in find(data, "disk"))


DEAD_MOUNT = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(code):
    if code:
        sys.exit("mount: " + os.strerror(ctypes.get_errno()))
call(libc.unshare(0x20000))
call(libc.mount(b"none", b"/", None, 0x44000, None))
fuse = os.open("/dev/fuse", os.O_RDWR)
os.set_inheritable(fuse, True)
options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0"
call(libc.mount(b"dead", sys.argv[1].encode(), b"fuse", 0, options.encode()))
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.skipif(not os.access("/dev/fuse", os.W_OK) or os.geteuid() != 0, reason="needs a file system of its own")
@pytest.mark.parametrize(
    ("arguments", "environment", "probe"),
    [
        (("--model", "{dead}/model"), {}, "model-files"),
        (("--python", "{dead}/venv/bin/python"), {}, "interpreter"),
        (("--only", "interpreter"), {"PATH": "{dead}:/usr/bin:/bin"}, "interpreter"),
        (("--only", "disk"), {"HOME": "{dead}"}, "disk"),
    ],
)
def test_dead_mount_hangs_nothing(tmp_path, arguments, environment, probe):
    """A file system whose server never answers: everything that touches it waits for ever."""
    arguments = [word.format(dead=tmp_path) for word in arguments]
    command = [sys.executable, "-c", DEAD_MOUNT, str(tmp_path), sys.executable, "-m", "doctor", "check"]
    own = {name: value.format(dead=tmp_path) for name, value in environment.items()}
    done = subprocess.run(
        [*command, "--format", "json", *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={**os.environ, **own},
    )
    if done.stderr.startswith("mount:"):
        pytest.skip(done.stderr)
    data = read(done)
    assert_no_mistake(data)
    assert data["seconds"] < 30
    assert find(data, probe)[0]["status"] == "unknown"


def test_interrupt_ends_the_check_and_its_children(broken):
    folder, site, python = broken
    marker = folder / "pid"
    text = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    write_package(site, "torch", "2.11.0", module="torch", text=text)
    command = [sys.executable, "-m", "doctor", "check", "--only", "imports", "--python", python]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not marker.exists() or not marker.read_text():
            assert process.poll() is None
        process.send_signal(2)
        assert process.wait(timeout=LIMIT) == 130
    pid = int(marker.read_text())
    assert not os.path.exists(f"/proc/{pid}") or wait_for_end(pid)


def test_sglang_is_not_called_missing_when_no_probe_needs_it():
    assert "not installed" not in check("--only", "ports").stdout

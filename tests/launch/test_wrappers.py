"""Launch commands inside other programs' words: quoted scripts, remote shells, unit files, lists of words."""

from __future__ import annotations

import pytest

from doctor.errors import DoctorError
from doctor.launch.check import check_command
from doctor.launch.command import parse_command
from doctor.launch.render import apply_edits

from .helpers import NEWEST, edited, env, flag

RUN = "python3 -m sglang.launch_server --model-path m --tp 2"


def arguments(text):
    return [word.value for word in parse_command(text).arguments]


@pytest.mark.parametrize(
    "text",
    [
        "tmux new-session -d -s sgl '\ncd /x\n{run} \\\n  > log 2>&1\n'",
        "tmux send-keys -t sgl 'cd /x && source v/bin/activate && {run}' Enter",
        "screen -dmS sgl bash -c '{run}; exec bash'",
        'ssh node1 "cd /x && {run}"',
        "ssh node1 \"docker exec c bash -c '{run}'\"",
        'sbatch -N 1 --wrap="{run}"',
        'env -S "A=0 {run}"',
        'sudo -u llm -H bash -lc "cd ~ && {run}"',
        'wsl -d Ubuntu -- bash -lc "{run}"',
        'docker run --entrypoint /bin/bash img -c "{run}"',
        'CMD="{run}"\neval "$CMD"',
        'cmd = "{run}"\nsubprocess.Popen(cmd, shell=True)',
        'process = execute_shell_command(\n    f"""\n{run}\n"""\n)',
        '{{"dockerArgs": "{run}"}}',
        'process, port = launch_server_cmd(\n    "{run}"\n)',
    ],
)
def test_parse_command_looks_into_quoted_words(text):
    whole = text.format(run=RUN)
    assert arguments(whole) == ["--model-path", "m", "--tp", "2"]
    changed = edited(whole, flag("--tp-size", "4"), flag("--page-size", "16"))
    assert changed == whole.replace("--tp 2", "--tp 4 --page-size 16")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ssh -p 22 node1 {run}", "ssh -p 22 node1 env A=1 {run}"),
        ("ssh node1 env B=2 {run}", "ssh node1 env B=2 A=1 {run}"),
        ("kubectl exec -it pod-0 -n llm -- {run}", "kubectl exec -it pod-0 -n llm -- env A=1 {run}"),
        ("ray job submit --address http://h:1 -- {run}", "ray job submit --address http://h:1 -- env A=1 {run}"),
        ("mpirun -np 2 -x B=2 {run}", "mpirun -np 2 -x B=2 env A=1 {run}"),
        ("apptainer exec --nv x.sif {run}", "A=1 apptainer exec --nv x.sif {run}"),
        ("exec taskset -c 0-7 {run}", "A=1 exec taskset -c 0-7 {run}"),
        ("exec env B=2 {run}", "exec env B=2 A=1 {run}"),
        ("time B=2 {run}", "time B=2 A=1 {run}"),
        ("sudo -u llm {run}", "sudo -u llm A=1 {run}"),
        ("sudo -E env B=2 {run}", "sudo -E env B=2 A=1 {run}"),
        ("ExecStart={run}\nRestart=always", "ExecStart=/usr/bin/env A=1 {run}\nRestart=always"),
        ("[program:sgl]\ncommand={run}", "[program:sgl]\ncommand=/usr/bin/env A=1 {run}"),
        ("CMD {run}", "CMD A=1 {run}"),
        ("for i in 0 1; do B=$i {run} & done", "for i in 0 1; do B=$i A=1 {run} & done"),
        ("if true; then\n  {run}\nfi", "if true; then\n  A=1 {run}\nfi"),
        ("启动命令：{run}", "A=1 {run}"),
        ("I execute :{run}", "A=1 {run}"),
        ("ssh node1 'cd /x && {run}'", "ssh node1 'cd /x && A=1 {run}'"),
    ],
)
def test_apply_edits_sets_a_variable_where_it_reaches_the_server(text, expected):
    assert edited(text.format(run=RUN), env("A", "1")) == expected.format(run=RUN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kubectl run s --image=i --env=A=1 -- {run}", [("A", "1")]),
        ("apptainer exec --env A=1 --env=B=2 x.sif {run}", [("A", "1"), ("B", "2")]),
        ("mpirun -x A=1 -x PATH {run}", [("A", "1")]),
        ("time A=1 {run}", [("A", "1")]),
        ("declare -x A=1\n{run}", [("A", "1")]),
        ('Environment="A=1"\nEnvironment=B=2 C=3\nExecStart={run}', [("A", "1"), ("B", "2"), ("C", "3")]),
        ("sudo -u llm A=1 {run}", [("A", "1")]),
    ],
)
def test_parse_command_reads_the_variables_of_a_wrapper(text, expected):
    command = parse_command(text.format(run=RUN))
    assert [(item.name, item.value) for item in command.env] == expected


def test_apply_edits_changes_the_environment_of_a_unit_file():
    text = f'[Service]\nEnvironment="A=1"\nEnvironment=B=2 C=3\nExecStart={RUN}\n'
    assert edited(text, env("C", "4")) == text.replace("C=3", "C=4")
    assert edited(text, env("A", None, "1")) == text.replace('Environment="A=1"\n', "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'cmd = [\n  sys.executable,\n  "-m", "sglang.launch_server",\n  "--model-path", model,\n  "--tp", "2",  # two\n]',
            ["--model-path", "${model}", "--tp", "2"],
        ),
        (
            'subprocess.Popen(["python", "-m", "sglang.launch_server", "--model-path", m, "--tp", str(n)])',
            ["--model-path", "${m}", "--tp", "${str(n)}"],
        ),
        ('FROM x\nCMD ["sglang", "serve", "--model-path", "m"]', ["--model-path", "m"]),
        (
            'ENTRYPOINT ["python3", "-m", "sglang.launch_server"]\nCMD ["--model-path", "m"]',
            ["--model-path", "m"],
        ),
        (
            '{"command": ["python3", "-m", "sglang.launch_server"], "args": ["--model-path", "m"]}',
            ["--model-path", "m"],
        ),
    ],
)
def test_parse_command_reads_lists_of_words(text, expected):
    assert arguments(text) == expected
    assert apply_edits(parse_command(text), (), None) == text


def test_parse_command_takes_no_test_of_a_shell_for_a_list():
    text = f'if [ "$1" == "--x" ]; then pkill -f "sglang.launch_server"; fi\n{RUN}'
    assert arguments(text) == ["--model-path", "m", "--tp", "2"]


def test_check_command_leaves_expressions_of_a_program_alone():
    text = 'cmd = ["python", "-m", "sglang.launch_server", "--model-path", model, "--tp", str(size)]'
    assert check_command(parse_command(text), NEWEST) == ()


def test_apply_edits_adds_to_the_list_in_a_program():
    text = 'run([\n  "python", "-m", "sglang.launch_server",\n  "--model-path", path,\n])'
    assert edited(text, flag("--tp-size", "4")) == text.replace("path,", 'path, "--tp-size", "4",')


@pytest.mark.parametrize("mark", ["`", "^", "\\"])
def test_apply_edits_keeps_the_continuation_of_other_shells(mark):
    text = f"python -m sglang.launch_server {mark}\n  --model-path C:\\models\\Qwen {mark}\n  --tp 2"
    assert arguments(text) == ["--model-path", "C:\\models\\Qwen", "--tp", "2"]
    assert edited(text, flag("--page-size", "16")) == f"{text} {mark}\n  --page-size 16"


def test_parse_command_reads_a_windows_interpreter():
    command = parse_command(r"C:\v\Scripts\python.exe -m sglang.launch_server --model-path m")
    assert [word.value for word in command.entry] == [r"C:\v\Scripts\python.exe", "-m", "sglang.launch_server"]


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("sglang serve m \\\n  # --tp 4 \\\n  --tp 2", "sglang serve m \\\n  --tp 2"),
        ("sglang serve m \\\n\n  --tp 2", "sglang serve m \\\n  --tp 2"),
        ("sglang serve m\n  --tp 2\n  --port 1", "sglang serve m \\\n  --tp 2 \\\n  --port 1"),
        ("sglang serve m \\ # the model\n  --tp 2", "sglang serve m \\\n  --tp 2"),
        ("sglang serve m `\n  --tp 2\n  --port 1", "sglang serve m `\n  --tp 2 `\n  --port 1"),
    ],
)
def test_parse_command_joins_lines_that_a_shell_would_not(text, mended):
    command = parse_command(text)
    assert command.text == mended
    assert len(command.notes) == 1
    assert parse_command(mended).notes == ()


@pytest.mark.parametrize(
    "text",
    [
        "sglang serve m --tp 2 # two\n# done",
        "ARGS=(\n  --model-path m\n  --tp 2 # two\n)\nsglang serve m",
        "--model-path m\n--tp 2",
        "commands:\n  - sglang serve m\n    --tp 2",
        "sglang serve m --tp 2 \\",
    ],
)
def test_parse_command_leaves_whole_lines_alone(text):
    command = parse_command(text)
    assert (command.text, command.notes) == (text, ())


def test_parse_command_says_that_it_reads_one_command_of_several():
    command = parse_command(f"# prefill\n{RUN}\n# decode\n{RUN} --port 2")
    assert command.notes == ("only the first of 2 launch commands is read",)


@pytest.mark.parametrize(
    ("pasted", "meant"),
    [
        (f"`{RUN}`", RUN),
        (f"- `{RUN}`\n", RUN),
        (f"(base) ➜  ~ {RUN}", RUN),
        (f"❯ {RUN}", RUN),
    ],
)
def test_parse_command_undoes_markdown_and_prompts(pasted, meant):
    assert parse_command(pasted).text == meant


PROSE = "I don't know why it fails:\n{}\nIt's an H200, isn't it"


@pytest.mark.parametrize(
    "command",
    [
        RUN,
        f"export A=1\nB=2\n{RUN}",
        "A=1 \\\n  python3 -m sglang.launch_server \\\n  --model-path m \\\n  --tp 2",
        "sglang serve m `\n  --tp 2",
    ],
)
def test_parse_command_cuts_the_command_out_of_prose(command):
    found = parse_command(PROSE.format(command))
    assert found.text == command
    assert found.notes == ("only the lines of the launch command were read",)


@pytest.mark.parametrize(
    "text",
    [
        "When I run `{}` it doesn't start.",
        "1. Start it:\n   `{}`\n2. Send a request",
        "Terminal 1\n```{}```\nand it's stuck",
        "I ran:\n`python -m vllm.entrypoints.openai.api_server --model m`\n`{}`\nprompt: `hello",
        "serving:\n`{}`\nwhere `m` is a copy",
    ],
)
def test_parse_command_takes_inline_code_out_of_prose(text):
    assert parse_command(text.format(RUN)).text == RUN


@pytest.mark.parametrize("text", ["@a said: try\n> {}\n\nbut that didn't help", "> {}", "he said\n> {}"])
def test_parse_command_drops_the_marks_of_a_quotation(text):
    command = parse_command(text.format(f"docker run img {RUN}"))
    assert [word.value for word in command.wrapper] == ["docker", "run", "img"]


def test_parse_command_of_prose_without_a_command_keeps_the_first_error():
    with pytest.raises(DoctorError, match="' is opened but never closed"):
        parse_command(PROSE.format("it just stops"))


@pytest.mark.parametrize("label", ["I ran: ", "Reproduction: the command was: ", "cmd: "])
def test_apply_edits_leaves_a_label_in_front_alone(label):
    assert edited(label + RUN, env("A", "1")) == f"{label}A=1 {RUN}"


@pytest.mark.parametrize("value", ["{tp}", "{self.tp}", "{{ .Values.tp }}", "{{.Tp}}", "$TP", "<tp>"])
def test_check_command_leaves_values_of_a_template_alone(value):
    assert check_command(parse_command(f"sglang serve m --tp-size='{value}' --dtype '{value}'"), NEWEST) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("python -m sglang_router.launch_router --prefill http://a:1", "launch_router does not start an SGLang server"),
        ("python3 -m sglang.bench_serving --backend sglang", "bench_serving does not start"),
        ("vllm serve m --tensor-parallel-size 2", "vllm does not start an SGLang server"),
        ("python -m vllm.entrypoints.openai.api_server --model m", "api_server does not start"),
        ("sglang generate --model-path m --prompt x", "sglang generate does not start"),
        ("pip install --upgrade sglang", "no SGLang launch command"),
        ("hf download m --local-dir x", "no SGLang launch command"),
        ('pkill -f "python3 -m sglang.launch_server"', "no SGLang launch command"),
        ('echo "python3 -m sglang.launch_server --model-path m"', "no SGLang launch command"),
        ('import sglang as sgl\nllm = sgl.Engine(model_path="m", tp_size=2)', r"Python call: Engine\(\.\.\.\)"),
        ("server_args=ServerArgs(model_path='m', tp_size=2)", r"Python call: ServerArgs\("),
        ("python3 -c \"run_server(prepare_server_args(['--model-path', 'm']))\"", "Python call: prepare_server_args"),
        ("engine: {args: [--x, y]}", "no SGLang launch command"),
        ("`$(python3 -m sglang.launch_server --model-path m)`", "no SGLang launch command"),
    ],
)
def test_parse_command_refuses_what_is_no_launch(text, message):
    with pytest.raises(DoctorError, match=message):
        parse_command(text)


def test_parse_command_reads_the_launch_behind_the_end_of_another():
    assert arguments(f'pkill -f "python3 -m sglang.launch_server"; sleep 2; {RUN}') == [
        "--model-path",
        "m",
        "--tp",
        "2",
    ]


def test_parse_command_reads_an_unknown_program_behind_a_download():
    command = parse_command("hf download m --local-dir x\n./serve.sh --context 8 -- --tp 2")
    assert [word.value for word in command.wrapper] == ["./serve.sh", "--context", "8", "--"]


def test_parse_command_reads_the_server_beside_a_router():
    assert arguments(f"python -m sglang_router.launch_router --prefill a\n{RUN}") == ["--model-path", "m", "--tp", "2"]


@pytest.mark.parametrize("program", ["dynamo.sglang", "sglang.bench_one_batch", "sglang.bench_offline_throughput"])
def test_check_command_leaves_flags_of_other_programs_alone(program):
    command = parse_command(f"python3 -m {program} --model-path m --endpoint a --batch 3 --tp-size x")
    assert [problem.flag for problem in check_command(command, NEWEST)] == ["--tp-size"]

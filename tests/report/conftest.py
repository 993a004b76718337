"""The shared corpus: one report of every verdict, one with everything in it, and one from a hostile log."""

from doctor.diagnosis.model import Diagnosis, Evidence, Fix, InputFile, Report
from doctor.launch.edits import Edit

COMMAND = "sglang serve --model-path /models/m --tp-size 8"
EMPTY = Report((), None, None, "unknown", None, (), (), {}, None, None)

ROOT = Diagnosis(
    "GPU002",
    "more-ranks-than-visible-gpus",
    "Rank TP4 needs 8 GPUs, but CUDA_VISIBLE_DEVICES shows 4",
    "root",
    "error",
    "confirmed",
    ("TP4", "TP5", "TP6", "TP7", "TP8"),
    12,
    "CUDA_VISIBLE_DEVICES='4,5,6,7' makes 4 GPUs visible, but tp_size=8 needs 8 on this node, so a rank asked for an index that does not exist.",
    "Ranks take GPU `base_gpu_id + rank`.",
    (
        Evidence(0, 48, "torch.AcceleratorError: CUDA error: invalid device ordinal", "2026-04-24 06:29:20", "TP4"),
        Evidence(1, 7, "GPU device may be out of range, do you have enough GPUs?", None, None),
    ),
    (
        Fix(
            "Make all 8 GPUs visible",
            "review",
            (Edit("env", "CUDA_VISIBLE_DEVICES", "4,5,6,7", "0,1,2,3,4,5,6,7"),),
            f"CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 {COMMAND}",
            "0.5.15.post1",
            "The value in front of the command wins.",
            "nvidia-smi -L lists at least 8 GPUs",
        ),
        Fix(
            "Use the 4 that are visible",
            "safe",
            (
                Edit("flag", "--tp-size", "8", "4"),
                Edit("package", "nccl", None, ">=2.20"),
                Edit("shell", "nvidia-smi -L", None, None),
            ),
            COMMAND.replace("8", "4"),
            "0.5.15.post1",
            "",
            "",
        ),
        Fix(
            "By hand",
            "manual",
            (
                Edit("flag", "--device", None, "cpu"),
                Edit("flag", "--x", "1", None),
                Edit("env", "A", "1", None),
                Edit("env", "B", None, "2"),
            ),
            None,
            None,
            "",
            "",
        ),
    ),
    "never",
)
NOTE = ROOT._replace(severity="info", ranks=(), times=1, evidence=(), fixes=())
OTHERS = (
    ROOT._replace(
        rule="MEM001",
        name="x",
        title="Too little memory",
        role="alternative",
        ranks=(),
        times=1,
        cause="It may also be this.",
        fixes=ROOT.fixes[:1],
        evidence=ROOT.evidence[:1],
    ),
    NOTE._replace(
        rule="CAS001",
        name="y",
        title="Other ranks noticed",
        role="consequence",
        ranks=("TP0",),
        times=2,
        evidence=ROOT.evidence[1:],
    ),
    NOTE._replace(rule="CTX001", name="z", title="It recovered before", role="context", cause="A note."),
    NOTE._replace(
        rule="NOI001",
        name="n",
        title="A codec is missing",
        role="benign",
        cause="Noise.",
        evidence=ROOT.evidence[:1],
        fixes=ROOT.fixes[2:],
    ),
    *(
        NOTE._replace(rule=f"NOI00{number}", name="n", title=f"Noise {number}", role="benign", cause="Noise.")
        for number in range(2, 7)
    ),
)
FILES = (
    InputFile("server.log", 15648, 52, truncated=False),
    InputFile("logs/node 2.log", 2_000_000, 7, truncated=True),
)
LAUNCH = {
    "model_path": "/hub/models--org--Name-4B/snapshots/abc",
    "tp_size": 8,
    "offload_group_size": 12,
    "offload_num_in_group": 11,
    "disable_cuda_graph": True,
    "max_running_requests": 1,
    "mem_fraction_static": 0.8,
}

CORPUS = {
    "failure": Report(
        FILES,
        "0.5.15.post1",
        "stated in the log",
        "failure",
        "dist-init",
        (ROOT, *OTHERS),
        ("the kernel log of that time: dmesg -T",),
        {"offload": {"steps": 3}, "memory": {}, "startup": {}},
        "given",
        COMMAND,
    ),
    "incomplete": Report(
        FILES[:1],
        None,
        None,
        "incomplete",
        "load",
        OTHERS[1:2],
        ("the lines after the traceback", "the kernel log"),
        {"launch": LAUNCH, "gpu": {"name": "NVIDIA H200", "capability": "9.0"}},
        "server_args",
        COMMAND,
    ),
    "healthy": Report(
        FILES[:1],
        "0.5.23",
        "recognised by the fields of server_args",
        "healthy",
        "serving",
        OTHERS[3:5],
        (),
        {"startup": {"ready": True}},
        None,
        None,
    ),
    "unknown": EMPTY._replace(
        files=FILES[:1], missing=("nothing in this input looks like output of an SGLang server",)
    ),
    "hostile": EMPTY._replace(
        files=(InputFile("a\nb\x1b[2J.log", 1, 1, truncated=False),),
        verdict="failure",
        diagnoses=(
            ROOT._replace(
                title="# @someone <b>bold</b> [link](http://x) `code` *stars*\n---",
                cause="| a | b |\n```\nfence",
                why="",
                ranks=(),
                times=1,
                evidence=(
                    Evidence(0, 1, "```` four backticks </details> @team", None, None),
                    Evidence(9, 2, "x" * 130, None, None),
                ),
                fixes=(Fix("~~no~~", "manual", (Edit("shell", "echo '```'", None, None),), None, None, "&lt;", "#1"),),
            ),
        ),
        command_source="given",
        command="sglang serve \\\n  --model-path '```'",
    ),
}

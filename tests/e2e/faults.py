"""Faults that a machine without a GPU can show, as commands people would type."""

from typing import NamedTuple

PYTHON = "python -m sglang.launch_server --model-path {model}"
SERVE = "sglang serve --model-path {model}"
CPU = "--device cpu --host 127.0.0.1 --port {port} --max-total-tokens 4096"
# What needs a GPU beyond the arguments says so, once these are right.
NO_GPU = "Found no NVIDIA driver on your system"


class Fault(NamedTuple):
    """One broken command. `{model}`, `{port}` and `{folder}` are filled in.

    `next_stage`: what the corrected server's log must say where this machine lacks what readiness needs;
    empty when it must become ready. `port_taken`: another listener holds the port.
    """

    name: str
    command: str
    next_stage: str = ""
    port_taken: bool = False


FAULTS = (
    Fault("misspelt flag", f"{PYTHON} {CPU} --tensor-paralel-size 1"),
    Fault("misspelt flag of sglang serve", f"{SERVE} {CPU} --mem-fracton-static 0.7"),
    Fault("underscore in a flag", f"{PYTHON} {CPU} --mem_fraction_static 0.7"),
    Fault("ambiguous abbreviation", f"{PYTHON} {CPU} --cuda-graph-max-bs 4"),
    Fault("removed flag", f"{PYTHON} {CPU} --stream-output"),
    Fault("vLLM's context length", f"{PYTHON} {CPU} --max-model-len 1024"),
    Fault("vLLM's memory fraction", f"{PYTHON} {CPU} --gpu-memory-utilization 0.8"),
    Fault("vLLM flag without counterpart", f"{PYTHON} {CPU} --enable-prefix-caching"),
    Fault("llama.cpp's context size", f"{PYTHON} {CPU} --ctx-size 1024"),
    Fault("percentage for a fraction", f"{PYTHON} {CPU} --mem-fraction-static 80%"),
    Fault("number with a unit", f"{PYTHON} {CPU} --max-queued-requests 1k"),
    Fault("unknown choice of dtype", f"{PYTHON} {CPU} --dtype fp16"),
    Fault("misspelt choice", f"{PYTHON} {CPU} --schedule-policy lmp"),
    Fault("unknown tool parser", f"{PYTHON} {CPU} --tool-call-parser llama"),
    Fault("value after a switch", f"{PYTHON} {CPU} --trust-remote-code true"),
    Fault("value joined to a switch", f"{PYTHON} {CPU} --enable-metrics=true"),
    Fault("flag without its value", f"{PYTHON} {CPU} --context-length"),
    Fault("unknown log level", f"{PYTHON} {CPU} --log-level verbose"),
    Fault("attention backend without its package", f"{PYTHON} {CPU} --attention-backend flashinfer"),
    Fault("attention backend of a GPU", f"{PYTHON} {CPU} --attention-backend triton"),
    Fault("grammar backend not installed", f"{PYTHON} {CPU} --grammar-backend outlines"),
    Fault("quantization of a plain checkpoint", f"{PYTHON} {CPU} --quantization awq"),
    Fault("chat template missing", f"{PYTHON} {CPU} --chat-template {{folder}}/missing.jinja"),
    Fault("tokenizer path missing", f"{PYTHON} {CPU} --tokenizer-path {{folder}}/missing"),
    Fault("context length above the model's", f"{PYTHON} {CPU} --context-length 131072"),
    Fault(
        "draft model missing",
        f"{PYTHON} {CPU} --speculative-algorithm EAGLE --speculative-draft-model-path {{folder}}/missing "
        "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
    ),
    Fault("two ranks on one NUMA node", f"{PYTHON} {CPU} --tp 2"),
    Fault("port taken", f"{PYTHON} {CPU}", port_taken=True),
    Fault("port out of range", f"{PYTHON} --device cpu --host 127.0.0.1 --port 70000 --max-total-tokens 4096"),
    Fault("config file missing", f"{PYTHON} {CPU} --config {{folder}}/missing.yaml"),
    Fault("no GPU and no --device", f"{PYTHON} --host 127.0.0.1 --port {{port}} --max-total-tokens 4096"),
    Fault("served name with a colon", f"{PYTHON} {CPU} --served-model-name tiny:latest"),
    Fault(
        "hierarchical cache without radix cache",
        f"{PYTHON} {CPU} --enable-hierarchical-cache --disable-radix-cache",
        NO_GPU,
    ),
    Fault("page size and chunk", f"{PYTHON} {CPU} --page-size 64 --chunked-prefill-size 1000"),
    Fault("rendezvous address without a port", f"{PYTHON} {CPU} --dist-init-addr 127.0.0.1"),
    Fault("sizes do not divide by nodes", f"{PYTHON} {CPU} --nnodes 2"),
    Fault("LoRA without ranks", f"{PYTHON} {CPU} --enable-lora", NO_GPU),
    Fault("logging configuration missing", f"SGLANG_LOGGING_CONFIG_PATH={{folder}}/missing.json {PYTHON} {CPU}"),
    Fault("dead proxy", f"http_proxy=http://127.0.0.1:9 {PYTHON} {CPU}"),
    Fault("grouped offload of a dense model", f"{PYTHON} {CPU} --offload-group-size 2"),
    Fault(
        "TLS key missing", f"{PYTHON} {CPU} --ssl-keyfile {{folder}}/missing.pem --ssl-certfile {{folder}}/missing.crt"
    ),
    Fault("DP attention over one rank", f"{PYTHON} {CPU} --enable-dp-attention --dp 2"),
    Fault("dashes from a web page", f"{PYTHON} {CPU} –mem-fraction-static 0.7"),
)

QUICK = frozenset(
    {"misspelt flag", "vLLM's context length", "value joined to a switch", "chat template missing", "port taken"}
)

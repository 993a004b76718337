"""Faults that need a GPU, as commands people would type; for one Hopper GPU and SGLang 0.5.15.post1.

`{dense8b}`, `{dense90b}`, `{moe16}` and `{latent12}` are configurations without weights (tools/measure_memory.py).
"""

from .faults import Fault

PYTHON = "python -m sglang.launch_server --model-path"
# The recording machine's kernel package has no FlashAttention 3; several servers share its GPU.
BACKENDS = "--sampling-backend pytorch --grammar-backend none"
SMALL = "--mem-fraction-static 0.4 --max-total-tokens 65536"
OWN = f"--host 127.0.0.1 --port {{port}} {BACKENDS}"
ALL = f"{OWN} --attention-backend triton"
TINY = f"{PYTHON} {{model}} {ALL} {SMALL}"
DUMMY = f"{ALL} --load-format dummy"

SHARED = (
    Fault("visible devices of another machine", f"CUDA_VISIBLE_DEVICES=4,5,6,7 {TINY}"),
    Fault("no visible device", f"CUDA_VISIBLE_DEVICES= {TINY}"),
    Fault("more ranks than GPUs", f"{TINY} --tp 2"),
    Fault("more replicas than GPUs", f"{TINY} --dp 2"),
    Fault("base GPU beyond the last one", f"{TINY} --base-gpu-id 3"),
    Fault(
        "allocator option of a newer torch",
        f"PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:16 {TINY} --cpu-offload-gb 1",
    ),
    Fault("kernel library missing", f"{PYTHON} {{model}} {OWN} {SMALL} --attention-backend fa3"),
    Fault(
        "attention backend of another architecture", f"{PYTHON} {{model}} {OWN} {SMALL} --attention-backend trtllm_mha"
    ),
    Fault("attention backend of another model", f"{PYTHON} {{model}} {OWN} {SMALL} --attention-backend trtllm_mla"),
    Fault("interface that is not there", f"GLOO_SOCKET_IFNAME=bond7 NCCL_SOCKET_IFNAME=bond7 {TINY}"),
    Fault("context length above the model's", f"{TINY} --context-length 1048576"),
    Fault("quantization of a plain checkpoint", f"{TINY} --quantization gptq"),
    Fault("FP4 on Hopper", f"{TINY} --quantization modelopt_fp4"),
    Fault("expert parallelism of one rank", f"{TINY} --ep-size 2"),
    Fault("DP attention over one rank", f"{TINY} --enable-dp-attention --dp 2"),
    Fault("grouped offload of a dense model", f"{TINY} --offload-group-size 2"),
    Fault(
        "both offloaders",
        f"{PYTHON} {{latent12}} {DUMMY} {SMALL} --offload-group-size 4 --offload-num-in-group 2 --cpu-offload-gb 4",
    ),
    Fault("hierarchical cache without radix cache", f"{TINY} --enable-hierarchical-cache --disable-radix-cache"),
    Fault("LoRA without ranks", f"{TINY} --enable-lora"),
    Fault("page size and chunk", f"{TINY} --page-size 64 --chunked-prefill-size 1000"),
    Fault("two batches without data parallelism", f"{TINY} --enable-two-batch-overlap"),
    Fault(
        "MoE backend of another architecture",
        f"{PYTHON} {{moe16}} {DUMMY} {SMALL} --moe-runner-backend flashinfer_trtllm",
    ),
    Fault("port taken", TINY, port_taken=True),
    Fault("port without room for gRPC", f"{TINY} --port 60001"),
    Fault("removed flag", f"{TINY} --enable-ep-moe"),
)
ALONE = (
    Fault("memory fraction too low", f"{PYTHON} {{dense8b}} {DUMMY} --mem-fraction-static 0.05"),
    Fault("memory fraction too high", f"{PYTHON} {{dense8b}} {DUMMY} --mem-fraction-static 0.995"),
    Fault(
        "more tokens than fit",
        f"{PYTHON} {{dense8b}} {DUMMY} --mem-fraction-static 0.2 --context-length 8192 --max-total-tokens 4000000 --max-running-requests 100000",
    ),
    Fault("model larger than the GPU", f"{PYTHON} {{dense90b}} {DUMMY}"),
)

"""How a checkpoint's linear layers are stored: bits per weight, blocks, scales, and what stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from doctor.memory import config as cfg
from doctor.memory.naming import NO_LAYER, classify
from doctor.memory.units import ceil_divide

MAX_IGNORED = 50_000  # one entry per projection of a 61-layer model with 256 listed experts stays below


class Scheme(NamedTuple):
    """The storage of one quantized matrix of rows x columns.

    Weights take `bits` each; every block of `rows` x `columns` (0: the whole extent) has one scale of
    `scale` bytes and, when `zero` is set, one zero point of that many bits.
    """

    dtype: str
    bits: int
    rows: int
    columns: int
    scale: int
    zero: int = 0


class Quant(NamedTuple):
    """A model's quantization: the scheme of plain linear layers, of experts, and what is left out of it.

    None as a scheme means unquantized; `dtype` and `width` describe such weights. `ignored` holds
    (layer, part) pairs, with layer -1 for every layer and part "" for every part.
    """

    method: str
    linear: Scheme | None
    experts: Scheme | None
    ignored: frozenset[tuple[int, str]]
    dtype: str
    width: int


FP8 = Scheme("fp8", 8, 0, 0, 4)
FP8_CHANNEL = Scheme("fp8", 8, 1, 0, 4)
FP8_BLOCK = Scheme("fp8", 8, 128, 128, 4)
INT8 = Scheme("int8", 8, 1, 0, 4)
# One fp8 scale for 16 weights (NVFP4) and one e8m0 scale for 32 (MXFP4, MXFP8): the formats' definitions.
NVFP4 = Scheme("nvfp4", 4, 1, 16, 1)
MXFP4 = Scheme("mxfp4", 4, 1, 32, 1)
MXFP8 = Scheme("mxfp8", 8, 1, 32, 1)
# bitsandbytes keeps one fp32 maximum for 64 weights.
NF4 = Scheme("nf4", 4, 1, 64, 4)

# --quantization values that SGLang applies to an unquantized checkpoint while loading.
ONLINE: Mapping[str, Scheme] = {
    "fp8": FP8,
    "w8a8_fp8": FP8_CHANNEL,
    "w8a8_int8": INT8,
    "blockwise_int8": Scheme("int8", 8, 128, 128, 4),
    "mxfp8": MXFP8,
    "mxfp4": MXFP4,
    "nvfp4_online": NVFP4,
    "bitsandbytes": NF4,
    "modelopt_fp8": FP8,
    "modelopt_fp4": NVFP4,
}

WIDTHS = {"float32": ("fp32", 4), "float16": ("fp16", 2), "half": ("fp16", 2), "float": ("fp32", 4)}


def make_scheme(bits: int, group: int, *, zeros: bool) -> Scheme:
    """Return a grouped integer scheme with 16-bit scales (AWQ, GPTQ, compressed-tensors pack-quantized)."""
    return Scheme(f"int{bits}", bits, 1, max(0, group), 2, bits if zeros else 0)


def choose_dtype(config: cfg.Config, wanted: str) -> tuple[str, int]:
    """Return name and bytes of unquantized weights under --dtype (0.5.23, configs/model_config.py).

    `auto` halves float32 checkpoints; a checkpoint that does not say counts as 16 bits.
    """
    stored = cfg.get_text(config.text, "dtype", "torch_dtype") or cfg.get_text(config.whole, "dtype", "torch_dtype")
    if wanted in {"", "auto"}:
        return ("fp16", 2) if stored in {"float32", "float16"} else ("bf16", 2)
    return WIDTHS.get(wanted, ("bf16", 2))


def read_quant(config: cfg.Config, extra: Mapping[str, object], wanted: str, dtype: str) -> Quant:
    """Return the quantization that the server will hold the weights in.

    `extra` is the content of hf_quant_config.json or quantize_config.json; `wanted` is --quantization and
    counts only when the checkpoint itself is not quantized; `dtype` is --dtype.
    """
    name, width = choose_dtype(config, dtype)
    data = get_quant_data(config, extra)
    plain = Quant("", None, None, frozenset(), name, width)
    if not data:
        scheme = ONLINE.get(wanted)
        return plain._replace(method=wanted, linear=scheme, experts=scheme) if scheme else plain
    method, linear, experts = read_method(data)
    # DeepSeek-V4 packs experts as MXFP4 inside an fp8 checkpoint and says so here (configs/deepseek_v4.py).
    experts = MXFP4 if cfg.get_text(config.text, "expert_dtype") == "fp4" else experts
    return Quant(method, linear, experts, read_ignored(data), name, width)


def get_quant_data(config: cfg.Config, extra: Mapping[str, object]) -> Mapping[str, object]:
    """Return the quantization section, from wherever the checkpoint's tool put it."""
    names = ("quantization_config", "compression_config")
    found = cfg.get_map(config.whole, *names) or cfg.get_map(config.text, *names)
    return found or cfg.get_map(extra, "quantization") or extra


def read_method(data: Mapping[str, object]) -> tuple[str, Scheme | None, Scheme | None]:
    """Return the method's name and the schemes of linear layers and of experts."""
    algorithm = cfg.get_text(data, "quant_algo").upper()
    method = cfg.get_text(data, "quant_method", "quant_type").lower() or ("modelopt" if algorithm else "")
    if algorithm:
        scheme = read_modelopt(algorithm)
        return method, scheme, scheme
    if method == "compressed-tensors":
        scheme = read_compressed(data)
        return method, scheme, scheme
    if method == "mxfp4":
        return method, None, MXFP4
    if method in {"w4afp8", "quark_int4fp8_moe"}:
        return method, FP8_BLOCK, make_scheme(4, 128, zeros=False)
    scheme = read_quark(data) if method == "quark" else read_simple(method, data)
    return method, scheme, scheme


def read_quark(data: Mapping[str, object]) -> Scheme | None:
    """Return the scheme of the weights that AMD's Quark describes for all layers."""
    weight = cfg.get_map(cfg.get_map(data, "global_quant_config"), "weight")
    group = cfg.get_int(weight, "group_size") or 0
    kind = cfg.get_text(weight, "dtype")
    schemes = {"fp4": MXFP4, "fp8_e4m3": FP8_CHANNEL, "int8": INT8, "int4": make_scheme(4, group, zeros=False)}
    return schemes.get(kind)


def is_unknown(quant: Quant) -> bool:
    """Tell whether the checkpoint is quantized in a way that is not known here, so that it counts as unquantized."""
    return bool(quant.method) and quant.linear is None and quant.experts is None


def read_modelopt(algorithm: str) -> Scheme | None:
    """Return the scheme of NVIDIA ModelOpt's quant_algo."""
    if "NVFP4" in algorithm or "FP4" in algorithm:
        return NVFP4
    if "MXFP8" in algorithm:
        return MXFP8
    if "W4A16" in algorithm or "INT4" in algorithm:
        return make_scheme(4, 128, zeros=False)
    return FP8 if "FP8" in algorithm else None


def read_simple(method: str, data: Mapping[str, object]) -> Scheme | None:
    """Return the scheme of methods whose whole description is a few numbers."""
    group = cfg.get_int(data, "group_size", "q_group_size") or 0
    bits = cfg.get_int(data, "bits", "w_bit", "weight_bits") or 4
    if method in {"awq", "gptq", "awq_marlin", "gptq_marlin", "auto-round", "moe_wna16", "gptqmodel"}:
        return make_scheme(min(bits, 8), group, zeros=not cfg.get_flag(data, "sym"))
    if method == "bitsandbytes":
        return INT8 if cfg.get_flag(data, "load_in_8bit") else NF4
    if method in {"fp8", "fbgemm_fp8", "w8a8_fp8"}:
        return read_block(data)
    return {"mxfp8": MXFP8, "w8a8_int8": INT8, "blockwise_int8": ONLINE["blockwise_int8"]}.get(method)


def read_block(data: Mapping[str, object]) -> Scheme:
    """Return block-wise fp8 when weight_block_size is given, else one scale per row."""
    block = [n for n in cfg.get_list(data, "weight_block_size") if isinstance(n, int) and n > 0]
    if len(block) == 2:
        # A ue8m0 scale is one byte, but SGLang widens it on load (0.5.23, layers/quantization/fp8.py).
        return Scheme("fp8", 8, block[0], block[1], 4)
    return FP8_CHANNEL


def read_compressed(data: Mapping[str, object]) -> Scheme | None:
    """Return the scheme of compressed-tensors' first config group that quantizes weights."""
    for group in cfg.get_map(data, "config_groups").values():
        weights = cfg.get_map(group, "weights") if isinstance(group, dict) else {}
        bits = cfg.get_int(weights, "num_bits")
        if bits is None:
            continue
        size = cfg.get_int(weights, "group_size") or 0
        if cfg.get_text(weights, "type") == "float":
            return (NVFP4 if size == 16 else MXFP4) if bits == 4 else read_float(weights, size)
        return INT8 if bits == 8 and not size else make_scheme(bits, size, zeros=False)
    return None


def read_float(weights: Mapping[str, object], group: int) -> Scheme:
    """Return the fp8 scheme of a compressed-tensors group."""
    if cfg.get_text(weights, "strategy") == "block":
        return read_block({"weight_block_size": cfg.get_list(weights, "block_structure")})
    return MXFP8 if group == 32 else FP8_CHANNEL


def read_ignored(data: Mapping[str, object]) -> frozenset[tuple[int, str]]:
    """Return which parts of which layers stay unquantized.

    Patterns come from the checkpoint, so they are never compiled: `re:.*self_attn.*` and `*self_attn*`
    are both read as the name `self_attn`.
    """
    names = cfg.get_list(data, "ignore", "ignored_layers", "exclude_modules", "modules_to_not_convert", "exclude")
    cleaned = (clean_pattern(name) for name in names[:MAX_IGNORED] if isinstance(name, str))
    return frozenset(classify(name) for name in cleaned if name)


def is_ignored(quant: Quant, layer: int, part: str) -> bool:
    """Tell whether this part of this layer keeps its unquantized weights."""
    candidates = ((layer, part), (NO_LAYER, part), (layer, "")) if layer != NO_LAYER else ((layer, part),)
    return not quant.ignored.isdisjoint(candidates)


def clean_pattern(name: str) -> str:
    """Return the literal text of a glob or of a simple regular expression."""
    text = name[:200].lower().removeprefix("re:")
    for symbol in (".*", "*", "\\", "^", "$", "(", ")", "?", "+"):
        text = text.replace(symbol, "")
    return text.strip(".")


def measure(scheme: Scheme, rows: int, columns: int, copies: int = 1) -> tuple[int, int]:
    """Return the bytes of the weights and of the scales and zero points of `copies` matrices."""
    rows, columns = max(1, rows), max(1, columns)
    blocks = ceil_divide(rows, scheme.rows or rows) * ceil_divide(columns, scheme.columns or columns)
    weights = copies * ceil_divide(rows * columns * scheme.bits, 8)
    return weights, copies * (blocks * scheme.scale + ceil_divide(blocks * scheme.zero, 8))

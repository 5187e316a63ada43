"""How much memory one rank of a model needs: its share of the weights, its KV cache, and what the process takes.

Each rank of vLLM on CPUs loads 1/(TP x PP) of the weights (a data-parallel copy all of them once more), then reserves
VLLM_CPU_KVCACHE_SPACE for itself. Both must fit the NUMA node that the rank is bound to, else the worker is killed
(vllm-project/vllm#15800). Units: GiB (2**30 bytes).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from balloonist.catalog import KV_SPACE, Model
from balloonist.heads import kv_heads_per_rank

GIB: Final = 2**30

OVERHEAD_GIB: Final = 2.0
"""What a rank needs besides weights and KV cache: Python, PyTorch and oneDNN (about 1 GiB), and the activations of one
batch of 4096 tokens (vLLM's default on CPUs), which for models up to 70B stay below 1 GiB. An estimate, on the safe
side for models of one rank; ``memory_gib`` of the catalog replaces it."""

DEFAULT_KV_GIB: Final = 4
"""What vLLM takes where VLLM_CPU_KVCACHE_SPACE is not set ("is not set, using 4 by default")."""

DTYPE_BYTES: Final[Mapping[str, float]] = {
    **dict.fromkeys(("bfloat16", "float16", "bf16", "fp16"), 2.0),
    **dict.fromkeys(("float32", "fp32"), 4.0),
}
"""Bytes for each parameter of weights that are not quantised."""

QUANTIZED_BYTES: Final[Mapping[str, float]] = {"fp8": 1.0, "int8": 1.0, "awq": 0.53, "gptq": 0.53}
"""Bytes for each quantised parameter: 4 bits have a 16-bit scale and a 4-bit zero point for every 128 of them."""

UNQUANTIZED_B: Final = 1.0
"""Billions of parameters that quantised models keep in 16 bits: embeddings and output layer (128k tokens x 4096 x 2).
With it llama-3-8b-awq comes to 5.4 GiB; its files have 5.3."""


@dataclass(frozen=True)
class RankMemory:
    """Memory of one rank in GiB, and in words what it is made of."""

    gib: float
    parts: str
    kv_gib: int = 0
    rest_gib: float = 0.0


def rank_memory(model: Model) -> RankMemory | None:
    """What each rank of the model needs; None where neither ``memory_gib`` nor ``parameters_b`` is known."""
    if model.memory_gib is not None:
        share = model.memory_gib / model.ranks
        return RankMemory(share, f"memory_gib {model.memory_gib:g} / {model.ranks} ranks", rest_gib=share)
    weights = weights_gib(model)
    if weights is None:
        return None
    kv_gib, reason = kv_cache(model)
    share = weights / (model.tp * model.pp)
    shared = "".join(f" / {name} {size}" for name, size in (("tp", model.tp), ("pp", model.pp)) if size > 1)
    parts = f"weights {weights:.1f}{shared} + KV cache {kv_gib} ({reason}) + overhead {OVERHEAD_GIB:g}"
    return RankMemory(share + kv_gib + OVERHEAD_GIB, parts, kv_gib, share + OVERHEAD_GIB)


def weights_gib(model: Model) -> float | None:
    """All weights of the model; None where ``parameters_b`` is not known. Without a dtype they have 16 bits."""
    if model.parameters_b is None:
        return None
    plain = DTYPE_BYTES[model.dtype or "bfloat16"]
    quantized = QUANTIZED_BYTES.get(model.quantization)
    if quantized is None:
        return model.parameters_b * 1e9 * plain / GIB
    kept = min(UNQUANTIZED_B, model.parameters_b)
    return (kept * 2.0 + (model.parameters_b - kept) * quantized) * 1e9 / GIB


def kv_cache(model: Model) -> tuple[int, str]:
    """KV cache of each rank in GiB, and where the number is from."""
    if KV_SPACE in model.env:
        return int(model.env[KV_SPACE]), KV_SPACE
    if model.kv_cache_gib is not None:
        return model.kv_cache_gib, "kv_cache_gib"
    needed = kv_needed_gib(model)
    if needed is not None:
        return max(1, math.ceil(needed)), f"one sequence of {model.max_model_len} tokens"
    return DEFAULT_KV_GIB, "vLLM's default"


def kv_needed_gib(model: Model) -> float | None:
    """KV cache that each rank needs for one sequence of ``max_model_len``; None where the model's shape is unknown.

    vLLM refuses to start with less. Keys and values are kept in 16 bits (32 for float32).
    """
    shape = (model.max_model_len, model.layers, model.kv_heads or model.heads, model.head_dim)
    tokens, layers, kv_heads, head_dim = (value or 0 for value in shape)
    if not (tokens and layers and kv_heads and head_dim):
        return None
    width = DTYPE_BYTES[model.dtype or "bfloat16"]
    layers = -(-layers // model.pp)  # each pipeline stage caches its own layers
    return 2 * layers * kv_heads_per_rank(model.tp, kv_heads) * head_dim * width * tokens / GIB

"""Tensor-parallel sizes against the attention heads of a model, by vLLM's rules.

vLLM splits the attention heads evenly over the ranks, so their number must be divisible by TP (vllm-project/vllm#2652,
#414). KV heads are split evenly as well; with more ranks than KV heads each KV head is copied to TP / KV heads ranks,
which must be a whole number (``QKVParallelLinear``).
"""

from __future__ import annotations

from collections.abc import Iterable


def problem_with(tp: int, heads: int | None, kv_heads: int | None) -> str:
    """Why a model with these heads cannot be split over ``tp`` ranks; "" where it can, or as far as it is known."""
    if heads is not None and heads % tp:
        return f"{heads} attention heads do not divide by tp={tp}"
    if kv_heads is None or kv_heads % tp == 0:
        return ""
    if tp < kv_heads:
        return f"{kv_heads} KV heads do not divide by tp={tp}"
    if tp % kv_heads:
        return f"{kv_heads} KV heads cannot be copied evenly to tp={tp} ranks"
    return ""


def valid_sizes(sizes: Iterable[int], heads: int | None, kv_heads: int | None) -> tuple[int, ...]:
    """Those of ``sizes`` that the heads allow, ascending."""
    return tuple(tp for tp in sorted(set(sizes)) if not problem_with(tp, heads, kv_heads))


def kv_heads_per_rank(tp: int, kv_heads: int) -> int:
    """KV heads that each rank keeps: its share, or one copy."""
    return max(1, kv_heads // tp)

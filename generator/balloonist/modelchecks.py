"""Checks of a model by itself, which hold on every node: heads, KV cache, settings of vLLM on CPUs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from balloonist import heads
from balloonist.catalog import Model
from balloonist.modelmemory import kv_cache, kv_needed_gib
from balloonist.sizeclass import tp_name
from balloonist.verdict import Verdict

BINDING: Final = "VLLM_CPU_OMP_THREADS_BIND"
RESERVED_CPUS: Final = "VLLM_CPU_NUM_OF_RESERVED_CPU"


def check(model: Model, tp_on_nodes: Iterable[int]) -> tuple[Verdict, ...]:
    """All of them; ``tp_on_nodes`` are the TP sizes that any of the nodes asked can serve."""
    return (*_ranks(model), *_heads(model, tp_on_nodes), *_kv_cache(model), *_binding(model), *_shared_memory(model))


def _ranks(model: Model) -> Iterator[Verdict]:
    if model.layers is not None and model.layers < model.pp:
        message = f"{model.layers} layers cannot be split into {model.pp} pipeline stages"
        yield Verdict("layers", "error", message, nearest=f"pp <= {model.layers}")
    if model.stages > 1:
        message = (
            f"tp {model.tp} x pp {model.pp} x dp {model.dp} are {model.ranks} ranks, each on a NUMA node of its own:"
            f" the balloon is one of {model.ranks} NUMA nodes, type {tp_name(model.ranks)}"
        )
        yield Verdict("ranks", "note", message)


def _heads(model: Model, tp_on_nodes: Iterable[int]) -> Iterator[Verdict]:
    if model.heads is None and model.kv_heads is None:
        if model.tp > 1:
            message = f"heads of the model are not known: whether they divide by tp={model.tp} was not checked"
            yield Verdict("heads", "warning", message, nearest="give heads and kv_heads, or --model-config")
        return
    reason = heads.problem_with(model.tp, model.heads, model.kv_heads)
    if not reason:
        known = [f"{count} {what}" for count, what in ((model.heads, "heads"), (model.kv_heads, "KV heads")) if count]
        yield Verdict("heads", "ok", f"{' and '.join(known)} divide by tp={model.tp}")
        return
    valid = heads.valid_sizes(tp_on_nodes, model.heads, model.kv_heads)
    nearest = f"valid tp with the NUMA nodes of these machines: {', '.join(map(str, valid))}" if valid else ""
    yield Verdict("heads", "error", reason, nearest=nearest)


def _kv_cache(model: Model) -> Iterator[Verdict]:
    """vLLM refuses to start with a KV cache that cannot hold one sequence of max_model_len."""
    needed = kv_needed_gib(model)
    if needed is None or model.memory_gib is not None:
        return
    space, source = kv_cache(model)
    if space >= needed:
        return
    tokens = int((model.max_model_len or 0) * space / needed)
    message = (
        f"one sequence of {model.max_model_len} tokens needs {needed:.1f} GiB of KV cache on each rank, {source} gives"
        f" {space}: vLLM would not start"
    )
    yield Verdict(
        "kv-cache", "error", message, nearest=f"kv_cache_gib: {math.ceil(needed)}, or max_model_len: {tokens}"
    )


def _binding(model: Model) -> Iterator[Verdict]:
    """Explicit CPU lists know nothing of the balloon, and switch the reserved-CPU setting off (vllm#43240)."""
    binding = model.env.get(BINDING, "auto")
    reserved = model.env.get(RESERVED_CPUS)
    away = f"leave {BINDING} away: the balloon decides the CPUs and vLLM binds inside it"
    if reserved is not None and not (reserved.isascii() and reserved.isdigit()):
        message = f"{RESERVED_CPUS}={reserved!r} is not a whole number of CPUs"
        yield Verdict("binding", "error", message, nearest=f"{RESERVED_CPUS}: '0' or more")
        return
    if binding not in ("auto", "nobind"):
        ranks = len(binding.split("|"))
        if ranks != model.ranks:
            message = f"{BINDING}={binding!r} has lists for {ranks} ranks, the pod has {model.ranks}"
            yield Verdict("binding", "error", message, nearest=away)
        elif reserved is not None:
            message = f"{BINDING}={binding!r} is an explicit list: vLLM then ignores {RESERVED_CPUS}={reserved}"
            yield Verdict("binding", "error", message, nearest=f"{away}; or leave {RESERVED_CPUS} away")
        else:
            message = f"{BINDING}={binding!r} names CPUs, but which CPUs the balloon has is decided at its start"
            yield Verdict("binding", "warning", message, nearest=away)
    elif reserved is not None and binding == "auto" and int(reserved) >= model.size_class.cores_per_rank:
        cores = model.size_class.cores_per_rank
        message = f"{RESERVED_CPUS}={reserved} leaves none of the {cores} cores of a rank"
        yield Verdict("binding", "error", message, nearest=f"{RESERVED_CPUS}: '{cores - 1}' or less")


def _shared_memory(model: Model) -> Iterator[Verdict]:
    if model.ranks > 1:
        message = (
            f"the {model.ranks} ranks exchange data through /dev/shm, of which a container has 64 MiB: the pod needs an"
            " emptyDir with medium Memory there (vLLM's images are run with 4 GiB)"
        )
        yield Verdict("shm", "note", message)

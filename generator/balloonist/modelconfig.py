"""What a model's own ``config.json`` (as published on the Hugging Face hub) says of its shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from balloonist import yamlfile
from balloonist.catalog import Model
from balloonist.modelmemory import DTYPE_BYTES
from balloonist.problem import Problem, ProblemError, problem

_NUMBERS: Final[Mapping[str, str]] = {
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "layers": "num_hidden_layers",
    "head_dim": "head_dim",
}
_METHODS: Final[Mapping[str, str]] = {
    "awq": "awq",
    "gptq": "gptq",
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "int8": "int8",
    "w8a8_int8": "int8",
}

Facts = dict[str, Any]
"""Fields of :class:`Model` that a config.json decides."""


def read(path: Path) -> Facts:
    """Read a local ``config.json``; raises :class:`ProblemError` where it is none or contradicts itself."""
    document = yamlfile.read(path)
    if not isinstance(document, Mapping):
        raise problem(str(path), "", "is not a JSON object", "the config.json of the model's repository")
    return facts(document, str(path))


def facts(document: Mapping[str, Any], source: str) -> Facts:
    """The shape in a config.json. Multimodal models keep that of their language model in ``text_config``."""
    text = document.get("text_config")
    shape: Mapping[str, Any] = {**document, **text} if isinstance(text, Mapping) else document
    problems = list(_wrong_numbers(shape, source))
    if problems:
        raise ProblemError(problems)
    found: Facts = {field: shape[key] for field, key in _NUMBERS.items() if shape.get(key) is not None}
    if "heads" not in found:
        hint = "the config.json of the model's repository"
        raise problem(source, _NUMBERS["heads"], "is missing: this is no config of a language model", hint)
    # Without num_key_value_heads every attention head has keys and values of its own.
    found.setdefault("kv_heads", found["heads"])
    if "head_dim" not in found and shape.get("hidden_size") is not None:
        found["head_dim"] = shape["hidden_size"] // found["heads"]
    found |= _weights(document, shape, source)
    return found


def applied(model: Model, found: Facts, source: str) -> tuple[Model, tuple[Problem, ...]]:
    """The model with these facts, which beat the catalog's; a warning for each that the catalog says otherwise."""
    warnings = tuple(
        Problem(
            source,
            name,
            f"says {value!r}, the catalog says {getattr(model, name)!r} for {model.name}",
            "config.json counts",
            "warning",
        )
        for name, value in found.items()
        if getattr(model, name) not in (None, "", value) and not _same_dtype(name, getattr(model, name), value)
    )
    return replace(model, **found), warnings


def _same_dtype(name: str, left: object, right: object) -> bool:
    short = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
    return name == "dtype" and short.get(str(left), left) == right


def _wrong_numbers(shape: Mapping[str, Any], source: str) -> Iterator[Problem]:
    for key in (*_NUMBERS.values(), "hidden_size"):
        value = shape.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            yield Problem(source, key, f"{value!r} is not a whole number above 0")


def _weights(document: Mapping[str, Any], shape: Mapping[str, Any], source: str) -> Facts:
    """dtype and quantisation; what we have no figures for is an error, since the memory would be a guess."""
    found: Facts = {}
    dtype = shape.get("torch_dtype") or shape.get("dtype")
    if dtype is not None:
        if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
            raise problem(source, "torch_dtype", f"{dtype!r} is not known", f"known: {', '.join(DTYPE_BYTES)}")
        found["dtype"] = dtype
    settings = shape.get("quantization_config") or document.get("quantization_config")
    if settings is None:
        return found
    if not isinstance(settings, Mapping):
        raise problem(source, "quantization_config", "is not an object")
    method = str(settings.get("quant_method", ""))
    quantization = _METHODS.get(method) or _compressed(settings)
    if quantization is None or (quantization in ("awq", "gptq") and settings.get("bits", 4) not in (4, 8)):
        bits = f" with {settings['bits']} bits" if "bits" in settings else ""
        hint = "give memory_gib in the catalog and leave --model-config away"
        raise problem(source, "quantization_config.quant_method", f"{method!r}{bits} is not known", hint)
    found["quantization"] = "int8" if settings.get("bits") == 8 else quantization
    return found


def _compressed(settings: Mapping[str, Any]) -> str | None:
    """The format of ``compressed-tensors``: bits and type of the weights in its first group."""
    groups = settings.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    kinds = {(8, "float"): "fp8", (8, "int"): "int8", (4, "int"): "gptq"}
    return kinds.get((weights.get("num_bits", 0), weights.get("type", "")))

"""What the pods of a cluster mean for the pre-flight."""

from __future__ import annotations

from balloonist.livepods import Container, LivePod, balloon_type, read
from balloonist.sizeclass import SizeClass

KEY = "balloon.balloons.resource-policy.nri.io"
NAMES = {SizeClass(1, 16): "vllm-balloon-tp1", SizeClass(1, 8): "vllm-balloon-tp1-c8"}
THREADS = {"w1": 2}


def pod(name: str, *containers: Container, annotations: dict[str, str] | None = None, node: str = "w1") -> LivePod:
    return LivePod(node, "llm", name, annotations or {}, containers)


def test_an_annotated_container_is_a_model_of_its_size() -> None:
    live = read(
        [pod("a", Container("main", 32_000), annotations={f"{KEY}/container.main": "vllm-balloon-tp1"})], NAMES, THREADS
    )
    (running,) = live.running
    assert (running.node, running.label, running.balloon) == ("w1", "llm/a", "vllm-balloon-tp1")
    assert running.size_class == SizeClass(1, 16)
    assert live.system_milli == {"w1": 0}


def test_the_tp_of_a_type_that_the_layout_lacks_is_in_its_name() -> None:
    annotations = {f"{KEY}/pod": "vllm-balloon-tp4-c24"}
    (running,) = read([pod("a", Container("main", 48_000), annotations=annotations)], NAMES, THREADS).running
    assert running.size_class == SizeClass(4, 6)


def test_everything_else_asks_of_the_reserved_cpus() -> None:
    model = {f"{KEY}/container.main": "vllm-balloon-tp1"}
    pods = [
        pod("a", Container("main", 32_000), Container("proxy", 500), annotations=model),
        pod("b", Container("setup", 3000, init=True), Container("x", 1000), Container("y", 250)),
        pod("c", Container("log", 100), annotations={KEY: "reserved"}),
        pod("elsewhere", Container("x", 9000), node="w9"),
    ]
    live = read(pods, NAMES, THREADS)
    assert len(live.running) == 1
    assert live.system_milli == {"w1": 500 + 3000 + 100}


def test_the_most_special_annotation_counts() -> None:
    both = pod("a", Container("main", 1), annotations={KEY: "x", f"{KEY}/pod": "y", f"{KEY}/container.main": "z"})
    assert balloon_type(both, "main") == "z"
    assert balloon_type(both, "proxy") == "y"

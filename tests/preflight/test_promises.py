"""What the pre-flight says is what the simulated plugin does, and what it suggests is true."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from balloonist import layout
from balloonist.catalog import Model
from balloonist.config import PlannedBalloons
from balloonist.landing import View, pod, start
from balloonist.layout import Fleet
from balloonist.placements import Running
from balloonist.preflight import preflight
from balloonist.problem import ProblemError
from balloonist.topology import Topology
from balloonist.verdict import NodeAnswer
from machines import machines
from preflight.fleets import environment_of, runs, with_memory

many = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
few = settings(many, max_examples=40)


@st.composite
def models(draw: st.DrawFn, count: int = 4) -> list[Model]:
    drawn = []
    for index in range(draw(st.integers(1, count))):
        tp = draw(st.integers(1, 4))
        memory = draw(st.none() | st.integers(1, 600))
        drawn.append(Model(f"m{index}", "", draw(st.integers(tp, tp * 8)), tp, memory_gib=memory))
    return drawn


@st.composite
def scenes(draw: st.DrawFn, kind: str) -> tuple[Fleet, list[Model], list[Running]]:
    """A node with a plan, its catalog, and a part of what the plan has balloons for, running."""
    topology = draw(machines(max_cores=12))
    catalog = draw(models())
    try:
        fleet = layout.compute(environment_of(catalog, topology, layout=kind))
    except ProblemError:
        assume(False)
        raise
    running = [runs(draw(st.sampled_from(catalog))) for _ in range(draw(st.integers(0, 4)))]
    return fleet, catalog, running


def view_of(fleet: Fleet, running: list[Running]) -> View:
    return View(fleet.nodes[0], fleet.config, fleet.names, tuple(running), {}, 0)


@many
@given(scenes("fixed"), st.data())
def test_fixed_what_fits_starts_where_it_is_said_and_what_is_full_is_refused(
    scene: tuple[Fleet, list[Model], list[Running]], data: st.DataObject
) -> None:
    fleet, catalog, running = scene
    model = data.draw(st.sampled_from(catalog))
    answer = preflight(fleet, model, running, models=catalog).nodes[0]
    view = view_of(fleet, running)
    simulator = start(view)
    for index, one in enumerate(running):
        simulator.apply(pod(view, str(index), view.type_of(one.size_class), one.size_class))
    outcome = simulator.apply(pod(view, "model", view.type_of(model.size_class), model.size_class))
    no_room = {verdict.check for verdict in answer.verdicts if not verdict.ok} & {"numa", "cores", "balloon", "free"}
    assert outcome.ok == (not no_room)
    if outcome.ok:
        assert not outcome.spilled
        assert outcome.numa_nodes == answer.numa_nodes


@few
@given(scenes("elastic"), st.data())
def test_elastic_what_fits_does_not_spill(scene: tuple[Fleet, list[Model], list[Running]], data: st.DataObject) -> None:
    fleet, catalog, running = scene
    model = data.draw(st.sampled_from(catalog))
    answer = preflight(fleet, model, running).nodes[0]
    assume(answer.fits)
    view = view_of(fleet, running)
    simulator = start(view)
    for index, one in enumerate(running):
        simulator.apply(pod(view, str(index), view.type_of(one.size_class), one.size_class))
    outcome = simulator.apply(pod(view, "model", view.type_of(model.size_class), model.size_class))
    assert outcome.ok
    assert not outcome.spilled
    assert outcome.numa_nodes == answer.numa_nodes
    assert len(outcome.numa_nodes) == model.tp


CHANGES: dict[str, Callable[[Model, int], Model]] = {
    "tp": lambda model, value: replace(model, tp=value),
    "cpu": lambda model, value: replace(model, cpu=value),
    "kv_cache_gib": lambda model, value: replace(model, kv_cache_gib=value),
}


def suggested(model: Model, text: str) -> Model:
    for name, value in re.findall(r"(\w+) ?(?:<=|=) ?(\d+)", text.replace("balloon of tp", "balloon of")):
        if name in CHANGES:
            model = CHANGES[name](model, int(value))
    return model


def is_true(model: Model, text: str, topology: Topology, catalog: list[Model], running: list[Running]) -> bool:
    """Do what the suggestion says, by other means than the pre-flight's own: a plan written by hand."""
    changed = suggested(model, text)
    environment = environment_of([changed, *(one for one in catalog if one.name != model.name)], topology)
    if "new plan" in text:
        wanted = [*(one.size_class for one in running), changed.size_class]
        plan = tuple(PlannedBalloons(1, "", item.tp, item.cores) for item in wanted)
        settings_ = replace(environment.config, plan={"default": plan})
        fleet = layout.compute(replace(environment, config=settings_))
    else:
        environment = environment_of([*catalog, changed], topology)
        fleet = layout.compute(environment_of(catalog, topology))
        fleet = replace(fleet, names=layout.compute(environment).names)
    return preflight(fleet, changed, running).fits


@st.composite
def impossible(draw: st.DrawFn) -> tuple[Topology, Model, list[Model], list[Running]]:
    topology = draw(machines(max_cores=12))
    topology = with_memory(topology, {numa.id: draw(st.integers(4, 40)) * 1024 for numa in topology.numa_nodes})
    others = [replace(other, name=f"o{other.name}", memory_gib=1) for other in draw(models(2))]
    tp = draw(st.integers(1, 6))
    model = Model(
        "asked", "", draw(st.integers(tp, 90)), tp, parameters_b=draw(st.integers(1, 30)), heads=24, kv_heads=8
    )
    model = replace(model, kv_cache_gib=draw(st.integers(1, 40)), replicas=draw(st.sampled_from([None, 0])))
    return (
        topology,
        model,
        others,
        [runs(draw(st.sampled_from(others)), rank_gib=1.0) for _ in range(draw(st.integers(0, 2)))],
    )


@few
@given(impossible())
def test_every_suggestion_is_true(scene: tuple[Topology, Model, list[Model], list[Running]]) -> None:
    topology, model, others, running = scene
    catalog = [replace(model, replicas=0), *others]
    try:
        fleet = layout.compute(environment_of(catalog, topology))
    except ProblemError:
        assume(False)
        raise
    answer: NodeAnswer = preflight(fleet, model, running).nodes[0]
    for verdict in answer.verdicts:
        if verdict.ok:
            continue
        assert verdict.nearest
        for text in verdict.nearest.split("; "):
            if text.startswith("fits") and "balloon type" not in text:
                event("in a new plan" if "new plan" in text else "as planned")
                assert is_true(catalog[0], text, topology, catalog, running), text
                for limit in re.findall(r"<= (\d+)", text):
                    tp = suggested(model, text).tp
                    less = text.replace(f"<= {limit}", f"<= {max(tp, int(limit) // 2)}")
                    assert "cpu" not in text or is_true(catalog[0], less, topology, catalog, running), less

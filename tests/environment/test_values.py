"""The generated values: what is in them, that they are current, that nothing of others is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from balloonist import values
from commands import balloonist
from environments import write_environment
from machines import machine


def policies(env: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((env / "values" / "balloons-policy.yaml").read_text())
    return document


def test_the_same_input_gives_the_same_bytes_and_a_second_run_touches_nothing(tmp_path: Path) -> None:
    first = write_environment(tmp_path / "first")
    second = write_environment(tmp_path / "second")
    assert balloonist("values", "--env", first).code == 0
    assert balloonist("values", "--env", second).code == 0
    files = {path.name: path.read_bytes() for path in (first / "values").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (second / "values").iterdir()}
    assert sorted(files) == ["balloons-policy.yaml", "nri-balloons.yaml"]
    times = {path.name: path.stat().st_mtime_ns for path in (first / "values").iterdir()}
    again = balloonist("values", "--env", first)
    assert "wrote" not in again.out
    assert times == {path.name: path.stat().st_mtime_ns for path in (first / "values").iterdir()}
    assert str(tmp_path) not in "".join(text.decode() for text in files.values())


def test_check_says_whether_values_are_current_and_shows_the_difference(tmp_path: Path) -> None:
    env = write_environment(tmp_path / "env")
    missing = balloonist("values", "--env", env, "--check")
    assert missing.code == 1
    assert not (env / "values").exists()
    balloonist("values", "--env", env)
    assert balloonist("values", "--env", env, "--check").code == 0
    (env / "config.yaml").write_text("kubernetes_cpu_policy: nri-balloons\nnri_deployment_profile: full\n")
    outdated = balloonist("values", "--env", env, "--check")
    assert outdated.code == 1
    assert "+      minCPUs: 24" in outdated.out
    assert "balloons-policy.yaml: is not current" in outdated.err
    assert "balloonist values --env" in outdated.err
    assert balloonist("validate", "--env", env).code == 0  # old values are a warning there
    assert "not current" in balloonist("validate", "--env", env).err


def test_values_edited_by_hand_are_validated(tmp_path: Path) -> None:
    env = write_environment(tmp_path / "env")
    balloonist("values", "--env", env)
    path = env / "values" / "balloons-policy.yaml"
    path.write_text(path.read_text().replace("minBalloons", "minBallons", 1))
    outcome = balloonist("validate", "--env", env)
    assert outcome.code == 1
    assert "policies[0].spec.balloonTypes[" in outcome.err
    assert "did you mean 'minBalloons'?" in outcome.err


def test_half_written_values_are_found_and_mended(tmp_path: Path) -> None:
    env = write_environment(tmp_path / "env")
    balloonist("values", "--env", env)
    path = env / "values" / "balloons-policy.yaml"
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    assert balloonist("values", "--env", env, "--check").code == 1
    assert balloonist("values", "--env", env).code == 0
    assert path.read_text() == whole


def test_only_files_that_were_generated_are_removed(tmp_path: Path) -> None:
    env = write_environment(tmp_path / "env", {"kubernetes_cpu_policy": "kubelet-static"})
    balloonist("values", "--env", env)
    fragment = env / "values" / "kubelet" / "w1.yaml"
    assert fragment.exists()
    mine = env / "values" / "mine.yaml"
    mine.write_text("image: {}\n")
    (env / "config.yaml").write_text("kubernetes_cpu_policy: best-effort\n")
    outcome = balloonist("values", "--env", env)
    assert "removed" in outcome.out
    assert not fragment.exists()
    assert mine.exists()


def test_an_interrupted_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = write_environment(tmp_path / "env")
    balloonist("values", "--env", env)
    before = {path: path.read_bytes() for path in (env / "values").iterdir()}
    (env / "config.yaml").write_text("kubernetes_cpu_policy: nri-balloons\nnri_deployment_profile: full\n")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    outcome = balloonist("values", "--env", env)
    assert outcome.code == 1
    assert "No space left on device" in outcome.err
    assert before == {path: path.read_bytes() for path in (env / "values").iterdir()}


def test_kubelet_static_gives_a_fragment_for_each_node_and_turns_the_plugin_off(tmp_path: Path) -> None:
    nodes = [machine(node="w1"), machine(4, 4, 4, 1, node="w2")]
    env = write_environment(
        tmp_path / "env", {"kubernetes_cpu_policy": "kubelet-static", "nri_deployment_profile": "standard"}, nodes=nodes
    )
    assert balloonist("values", "--env", env).code == 0
    assert yaml.safe_load((env / "values" / "nri-balloons.yaml").read_text())["enabled"] is False
    assert policies(env)["enabled"] is False
    w1 = yaml.safe_load((env / "values" / "kubelet" / "w1.yaml").read_text())
    assert w1 == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "reservedSystemCPUs": "0-1,24-25,48-49,72-73,96-97,120-121,144-145,168-169",
        "topologyManagerPolicy": "restricted",
    }
    w2 = yaml.safe_load((env / "values" / "kubelet" / "w2.yaml").read_text())
    assert w2["topologyManagerPolicyOptions"] == {"max-allowable-numa-nodes": "16"}
    assert "cpuManagerPolicyOptions" not in w2


def test_best_effort_yields_neither_plugin_nor_fragments(tmp_path: Path) -> None:
    env = write_environment(tmp_path / "env", {"kubernetes_cpu_policy": "best-effort"})
    assert balloonist("values", "--env", env).code == 0
    assert sorted(path.name for path in (env / "values").iterdir()) == ["balloons-policy.yaml", "nri-balloons.yaml"]
    assert policies(env) == {"enabled": False, "policies": []}


def test_alike_nodes_share_one_layout_and_auto_makes_them_a_group(tmp_path: Path) -> None:
    nodes = [machine(node="w1"), machine(node="w2"), machine(1, 2, 32, node="w3")]
    env = write_environment(tmp_path / "env", nodes=nodes)
    balloonist("values", "--env", env)
    targets = [(policy["nodes"], policy["groups"]) for policy in policies(env)["policies"]]
    assert sorted(targets) == [(["w1", "w2"], []), (["w3"], [])]
    (env / "config.yaml").write_text("kubernetes_cpu_policy: nri-balloons\nnri_groups: auto\n")
    balloonist("values", "--env", env)
    by_nodes = {tuple(policy["nodes"]): policy for policy in policies(env)["policies"]}
    assert by_nodes[()]["groups"] == [by_nodes[()]["name"]]
    assert by_nodes["w3",]["groups"] == []


def test_reserved_lists_and_plans_by_node_group_and_default(tmp_path: Path) -> None:
    nodes = [machine(node="a1"), machine(node="a2"), machine(node="b1")]
    settings = {
        "nri_groups": {"a": ["a1"]},
        "nri_reserved_cpu_list": {"a": "0,96", "b1": "1,97", "default": "2,98"},
        "nri_plan": {"default": [{"tp": 1, "cpu": 20, "balloons": 2}], "b1": [{"model": "wide", "balloons": 1}]},
    }
    env = write_environment(tmp_path / "env", settings, nodes=nodes)
    assert balloonist("values", "--env", env).code == 0
    found = {
        (*policy["groups"], *policy["nodes"]): (
            policy["spec"]["reservedResources"]["cpu"],
            [kind["name"] for kind in policy["spec"]["balloonTypes"] if "maxBalloons" in kind],
        )
        for policy in policies(env)["policies"]
    }
    assert found == {
        ("a",): ("cpuset:0,96", ["vllm-balloon-tp1-c20"]),
        ("a2",): ("cpuset:2,98", ["vllm-balloon-tp1-c20"]),
        ("b1",): ("cpuset:1,97", ["vllm-balloon-tp2"]),
    }


def test_stale_looks_only_at_generated_files(tmp_path: Path) -> None:
    (tmp_path / "kubelet").mkdir()
    (tmp_path / "kubelet" / "w1.yaml").write_text(values.HEADER + "kind: KubeletConfiguration\n")
    (tmp_path / "kubelet" / "other.yaml").write_text("kind: KubeletConfiguration\n")
    assert values.stale(tmp_path, {}) == ("kubelet/w1.yaml",)


def test_a_metrics_port_is_told_to_the_plugin_and_to_every_policy(tmp_path: Path) -> None:
    env = write_environment(tmp_path / "env", {"nri_metrics_port": 8891, "nri_node_resource_topology": True})
    assert balloonist("values", "--env", env).code == 0
    plugin = yaml.safe_load((env / "values" / "nri-balloons.yaml").read_text())
    assert plugin == {"enabled": True, "nodeResourceTopology": True, "metrics": {"enabled": True, "port": 8891}}
    document = policies(env)
    endpoint = {"httpEndpoint": ":8891", "prometheusExport": True}
    assert document["default"]["instrumentation"] == endpoint
    assert [policy["spec"]["instrumentation"] for policy in document["policies"]] == [endpoint]
    assert document["policies"][0]["spec"]["agent"] == {"nodeResourceTopology": True}

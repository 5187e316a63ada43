"""YAML as people write it: strict where it would be silent, ordinary elsewhere."""

from __future__ import annotations

import pytest

from balloonist import yamlfile
from balloonist.problem import ProblemError


def test_anchors_and_merged_mappings_are_ordinary() -> None:
    text = "models:\n- &base {name: a, cpu: 4}\n- {<<: *base, name: b}\n- *base\n"
    names = [(model["name"], model["cpu"]) for model in yamlfile.parse(text, "models.yaml")["models"]]
    assert names == [("a", 4), ("b", 4), ("a", 4)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "f.yaml: line 2: key 'a' is there twice"),
        ("a:\n\tb: 1\n", "f.yaml: line 2: a tab is used for indentation"),
        ("a: 1\n---\nb: 2\n", "f.yaml: line 2: but found another document"),
        ("a: [1\n", "f.yaml: line 2"),
        ("a: &a [*a]\n", "recursive"),
        ("? [1]\n: 2\n", "unhashable key"),
        ("a: !!python/object:os.system {}\n", "could not determine a constructor"),
        ("a: \x00\n", "f.yaml"),
    ],
)
def test_what_is_refused_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ProblemError) as refused:
        yamlfile.parse(text, "f.yaml")
    assert message in str(refused.value)


def test_writing_is_canonical_and_without_anchors() -> None:
    shared = {"b": 1, "a": [1, {"c": None}]}
    text = yamlfile.dump({"one": shared, "two": shared})
    assert "&" not in text
    assert yamlfile.parse(text, "") == {"one": shared, "two": shared}
    assert text == yamlfile.dump(yamlfile.parse(text, ""))

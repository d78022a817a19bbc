"""Go templates over plain data: what kwok's stages are written in."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.kubelet.simulator.stages.template_parser import TemplateError
from bayplan.kubelet.simulator.stages.templates import Template

POD = {
    "metadata": {"name": "web", "annotations": {"a.b/c": "yes", "size": "3"}, "labels": {}},
    "spec": {
        "containers": [{"name": "main", "image": "app:1"}, {"name": "side", "image": 'x"y'}],
        "hostNetwork": False,
        "replicas": 3,
    },
}


def render(text: str, data: Any = POD, **functions: Any) -> str:
    return Template(text, tuple(functions)).render(data, functions)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("{{ .metadata.name }}", "web"),
        ("{{.spec.replicas}} {{ .spec.hostNetwork }} {{ .spec.nothing }}", "3 false <no value>"),
        ("{{ .spec.nothing.at.all }}", "<no value>"),
        ("{{ .metadata.name | Quote }} {{ Quote 1 }}", '"web" "1"'),
        ("{{ $x := .metadata.name }}{{ $x }}{{ $x | upper }}", "webWEB"),
        ("{{ $.metadata.name }}", "web"),
        ("{{ range .spec.containers }}[{{ .name }}]{{ end }}", "[main][side]"),
        ("{{ range $i, $c := .spec.containers }}{{ $i }}={{ $c.name }} {{ end }}", "0=main 1=side "),
        ("{{ range $c := .spec.containers }}{{ $c.name }} {{ end }}", "main side "),
        ("{{ range .spec.none }}x{{ else }}none{{ end }}", "none"),
        ("{{ range $k, $v := .metadata.annotations }}{{ $k }}={{ $v }};{{ end }}", "a.b/c=yes;size=3;"),
        ("{{ with .metadata.labels }}labels{{ else }}no labels{{ end }}", "no labels"),
        ("{{ with .metadata.name }}<{{ . }}>{{ end }}", "<web>"),
        ("{{ if eq .metadata.name `web` }}yes{{ end }}", "yes"),
        ("{{ if .spec.hostNetwork }}a{{ else if .spec.replicas }}b{{ else }}c{{ end }}", "b"),
        ("{{ if and (eq 1 1) (not false) (or nil 2) }}yes{{ end }}", "yes"),
        ('{{ index .metadata.annotations "a.b/c" }}{{ index .spec.containers 1 }}', 'yesmap[image:x"y name:side]'),
        ("{{ (index .spec.containers 0).image }}", "app:1"),
        ('{{ or ( index .metadata.annotations "missing" ) "fallback" }}', "fallback"),
        ("{{ $found := false }}{{ range .spec.containers }}{{ $found = true }}{{ end }}{{ $found }}", "true"),
        ("a {{- 1 -}} b", "a1b"),
        ("{{/* nothing */}}x", "x"),
        ('{{ printf "%s-%d%%" .metadata.name 5 }}', "web-5%"),
        ("{{ len .spec.containers }} {{ gt 2 1 }} {{ ne `a` `b` }}", "2 true true"),
        ("{{ $d := dict `k` 1 }}{{ $d.k }} {{ default 7 nil }} {{ add 1 2 }}", "1 7 3"),
        ("{{ YAML .metadata.annotations 1 }}", "\n  a.b/c: 'yes'\n  size: '3'\n  "),
        ("{{ Node | upper }}{{ With .metadata.name 2 }}", "Nweb2"),
    ],
)
def test_what_a_template_makes(text: str, expected: str) -> None:
    assert render(text, Node=lambda: "n", With=lambda name, count: f"{name}{count}") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ nope 1 }}", "line 1: function 'nope' is not supported; supported: "),
        ("{{ .a | nope }}", "function 'nope' is not supported"),
        ("a\n{{ if .a }}", "line 2: if has no end"),
        ("{{ end }}", "line 1: unexpected {{end}}"),
        ("{{ define `x` }}", "line 1: define is not supported"),
        ("{{ (eq 1 1 }}", "line 1: expected ')'"),
        ("{{ .a", "line 1: an action is not closed"),
        ("{{ ~ }}", "line 1: cannot read '~'"),
        ("{{ 1 2 }}", "line 1: expected one value"),
    ],
)
def test_what_cannot_be_understood_is_said_when_it_is_read(text: str, message: str) -> None:
    with pytest.raises(TemplateError) as refused:
        Template(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "{{ $x }}",
        "{{ $x = 1 }}",
        "{{ index .spec.containers 9 }}",
        "{{ lt 1 `a` }}",
        "{{ range 5 }}x{{ end }}",
        "{{ splitList `` `ab` }}",
        "{{ get `text` `key` }}",
        "{{ mod 1 0 }}",
    ],
)
def test_what_cannot_be_carried_out_is_said(text: str) -> None:
    with pytest.raises(TemplateError):
        render(text)

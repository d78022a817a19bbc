"""What kubectl prints without what differs by chance."""

from __future__ import annotations

import re
from typing import Final

from tests.differential.api.known import SOURCE_IN_YAML

_REPLACEMENTS: Final = (
    (re.compile(r"https?://127\.0\.0\.1:\d+"), "https://<server>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<server>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uid>"),
    (re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} UTC"), "<time>"),
    (re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} 20\d\d \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"\b[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \w+\.go:\d+\]"), "<log>"),
    (re.compile(r"(resourceVersion\"?: ?\"?|Resource Version: +)\d+"), r"\1<rv>"),
    (re.compile(r"/tmp/(LIVE|MERGED)-\d+"), r"/tmp/\1"),
    (re.compile(r"\b10\.0\.\d+\.\d+\b"), "<ip>"),
    (re.compile(r"\b3[0-2]\d{3}\b"), "<port>"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), "<token>"),
    (re.compile(r"(kube-api-access-)[a-z0-9]{5}"), r"\1<5>"),
    (re.compile(r"(?<![\w.])\d+(?:h\d+m\d+s|m\d+s|[smhd])(?: ago)?(?![\w.])"), "<age>"),
    (re.compile(r"<age> {2,}"), "<age>  "),
    (re.compile(r"/tmp/\S*kubectl\S*"), "<file>"),
    (re.compile(r"v1\.36\.2[\w+.-]*"), "<version>"),
)
_LAYOUT: Final = ((re.compile(r"(?<=\S) {2,}"), "  "), (re.compile(r"[ \t]+$", re.M), ""))
"""Columns are as wide as what stands in them, which differs by chance."""
_OF_DISTRIBUTION: Final = (
    re.compile(r"^.*(?:system:openshift|KubeAPIReadyz|/\.well-known).*\n", re.M),
    SOURCE_IN_YAML,
    re.compile(
        r",\n *\{\n *\"configMap\": \{\n *\"items\": \[\n *\{\n[^{}]*\}\n *\],\n *\"name\": \"openshift-service-ca.crt\"\n *\}\n *\}"
    ),
    re.compile(r"^ *ConfigMapName: *openshift-service-ca.crt\n *Optional: .*\n", re.M),
)
"""What a kube-apiserver built for a downstream distribution adds."""


def normalized(text: str) -> str:
    """Lines in their order, without what differs by chance; the width of columns depends on it and is not kept."""
    for pattern in _OF_DISTRIBUTION:
        text = pattern.sub("", text)
    for pattern, replacement in (*_REPLACEMENTS, *_LAYOUT):
        text = pattern.sub(replacement, text)
    return text

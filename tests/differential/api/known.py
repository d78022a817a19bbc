"""Differences that do not count: where Bayplan answers otherwise on purpose, the program is one of a downstream distribution, or chance decides.

`neutral` puts both answers into a form without what chance or the distribution adds; `KNOWN` has the differences that are left, each with its reason.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

_TEXTS: Final = (
    (re.compile(r"selfType\d+"), "selfType"),  # a name that kube-apiserver makes up
    (re.compile(r'(continue"?: "?)[\w-]{20,}'), r"\1<continue>"),
    (re.compile(r"\beyJ[\w-]+\.eyJ[\w-]+\.[\w-]+"), "<token>"),
    (re.compile(r'(\bresourceVersion: ")\d+'), r"\1<rv>"),  # in the YAML of watches
    (re.compile(r"in record \(\d+\)"), "in record (<rv>)"),
    (re.compile(r"\?hash=[0-9A-F]+"), "?hash=<hash>"),
    (re.compile(r'(nodePort\\*"?: ?)3\d{4}\b'), r"\1<port>"),
    (re.compile(r"\[\+\]etcd(?:-readiness)? (?:excluded: )?ok\n"), ""),  # which the distribution does not check
    (re.compile(r'warn: some health checks cannot be excluded: no matches for "etcd"\n'), ""),
    (re.compile(r": proxy (?:subresource|verb) changed to unsafeproxy"), ""),  # of the distribution, as all below
)
SOURCE_IN_YAML: Final = re.compile(
    r"(?m)^ *- configMap:\n {1,40}items:\n(?: (?![^\n]*configMap)[^\n]*\n)*? {1,40}name: openshift-service-ca.crt\n"
)
_SOURCE: Final = re.compile(
    r',?\{\\*"configMap\\*":\{(?:(?!configMap).)*?openshift-service-ca\.crt(?:(?!configMap).)*?\}\}'
)
_CHECKS_LEFT_OUT: Final = re.compile(r"/readyz/(?:etcd|etcd-readiness)|\[\+\](?:etcd|etcd-readiness) (?:excluded: )?ok")
"""The distribution has no such checks of readiness."""


_RULES: Final = ("resourceRules", "nonResourceRules")
"""What a user may do, by roles that come in an order of chance."""


def neutral(value: Any) -> Any:
    """An outcome without what differs by chance, or between distributions."""
    if isinstance(value, dict):
        events = value.get("events")
        if isinstance(events, list) and events and all(event.keys() == {"text"} for event in events):
            value = {**value, "events": "".join(event["text"] for event in events)}  # lines of YAML
        return {
            name: sorted(neutral(item), key=repr) if name in _RULES and isinstance(item, list) else neutral(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [neutral(item) for item in value if not _is_of_distribution(item)]
    if isinstance(value, str):
        for pattern, replacement in _TEXTS:
            value = pattern.sub(replacement, value)
        if value.startswith(
            "failed to create typed patch object"
        ):  # kube-apiserver walks through fields in an order of chance
            value = "\n".join(sorted(value.split("\n")))
        if "openshift" in value:
            value = SOURCE_IN_YAML.sub("", _SOURCE.sub("", value))
    return value


def _is_of_distribution(item: Any) -> bool:
    """Whether an item of a list is there in the one distribution only."""
    if isinstance(item, str):
        return item.startswith("system:openshift:") or _CHECKS_LEFT_OUT.fullmatch(item) is not None
    if not isinstance(item, dict):
        return False
    config_map, metadata = item.get("configMap"), item.get("metadata")
    return (
        (isinstance(config_map, dict) and config_map.get("name") == "openshift-service-ca.crt")
        or (isinstance(metadata, dict) and str(metadata.get("name")).startswith("system:openshift:"))
        or item.get("resources") == ["endpointslices/restricted"]
        or item.get("nonResourceURLs") == ["/.well-known", "/.well-known/*"]
    )


class Known(NamedTuple):
    """A difference that does not count."""

    reason: str
    request: str
    """Pattern that the step's name, method, path, query and body contain."""
    difference: str
    """Pattern that each of the step's differences contains."""


_VERSIONS: Final = (
    r"\.(info\.version|git\w+|compiler|goVersion|buildDate|platform|\w+Version|\w+Major|\w+Minor)\b|'version': 'v?1\.36"
)
_PROGRESS: Final = r"events.*(items instead|ERROR|Failure|RequestWatchProgress|InternalError|object\.|code)"
KNOWN: Final = (
    Known("a path that ends where a kind should follow is no error of the server", r"/api/v1/(watch|proxy) ", r"."),
    Known(
        "kube-apiserver ends the connection without an answer",
        r".",
        r"instead of 'no answer: |\.(body|headers): unexpected",
    ),
    Known(
        "names that servers make up stand in messages as they are",
        r"create|broken POST|generateName",
        r"details\.name: |message: .*[a-z0-9]{5}\"",
    ),
    Known(
        "names that servers make up stand in tables as they are",
        r"as=Table",
        r"\.cells\[\d+\]: '(.*)[bcdfghjklmnpqrstvwxz2456789]{5}' instead of '\1[bcdfghjklmnpqrstvwxz2456789]{5}'$",
    ),
    Known(
        "a page of a selection says that more may follow",
        r"^list page|\"(label|field)Selector\": .*\"limit\"|\"limit\".*\"(label|field)Selector\"",
        r"metadata\.continue: missing",
    ),
    Known(
        "the Service `kubernetes` leads to where a server listens",
        r" /\S*namespaces/default/\w+/kubernetes ",
        r"ort\b|ddresses",
    ),
    Known("an etcd takes larger requests if it is told to", r"that the store refuses for its size", r"."),
    Known("keys of maps stand in no certain order in lines of text", r"^events", r"\.text: '"),
    Known("escapes in paths that are none are refused by Go before anything else", r" .*%(?![0-9a-fA-F]{2})", r"."),
    Known("the version and build that a program says it has", r" /(openapi/v\d|version)\b|^document", _VERSIONS),
    Known(
        "who is meant by a path with empty parts is nobody's question",
        r" /api/v1/(/|namespaces//)",
        r"details\.name: missing|^\.body: .*\\ndetails: \{\}\\n.* instead of .*\\ndetails:\\n  name: ",
    ),
    Known(
        "objects that a server makes itself are as old as it is",
        r"as=Table",
        r"\.cells\[\d+\]: '\d+[smhd]\w*' instead of '\d+[smhd]\w*'$",
    ),
    Known(
        "a server publishes the authorities that it has", r" /api/v1/configmaps ", r"\.items: |ca-file|requestheader-"
    ),
    Known("a list at the revision 0 is as old as a cache", r"^custom list.*\"resourceVersion\": \"0\"", r"\.items\b"),
    Known("protobuf has no normal form", r"vnd\.kubernetes\.protobuf, application/json", r"\.body: 'k8s"),
    Known(
        "writes to a path with an empty namespace would be about all of them",
        r" (?:POST|DELETE) /api/v1/namespaces//",
        r".",
    ),
    Known("figures of a program are its own", r" /metrics ", r"."),
    Known(
        "an etcd before 3.4.25 cannot say how far a watch has come",
        r"^(events|watch|an empty streaming list|initial events and their end)",
        _PROGRESS,
    ),
    Known(
        "an etcd before 3.4.25 tells of a revision that is not there yet in another way",
        r'"resourceVersion": "9000000000", "resourceVersionMatch": "Exact"|"Exact", "resourceVersion": "999999999"',
        r"unexpected '?1'?$",
    ),
    Known("what a node without containers is reached for is told by Bayplan", r"nodes/.*proxy", r"."),
    Known(
        "what the distribution shows to everybody",
        r"/\.well-known.*",
        r".",
    ),
    Known("components that are not there are listed in an order of chance", r"componentstatuses", r"."),
    Known("the address at which clients reach a server depends on where it listens", r"^document", r"serverAddress"),
    Known(
        "1.0 is no integer for kube-apiserver before it has been stored",
        r"example\.com/.*\": \d+\.0\b",
        r".",
    ),
)


def reason_of(request: str, found: list[str]) -> str:
    """Why a step may differ so; "" if it may not."""
    for row in KNOWN:
        if re.search(row.request, request) and all(re.search(row.difference, one, re.S) for one in found):
            return row.reason
    return ""

"""`/flagz` and `/statusz`: with which flags a server runs, and since when, as text for people or as objects of `config.k8s.io`.

Source: KEP-4828 (flagz) and KEP-4827 (statusz), and what kube-apiserver 1.36 answers. Both pages answer any method; who may see them is authorized by path.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from bayplan import KUBERNETES_VERSION
from bayplan.api.errors import not_acceptable
from bayplan.apiserver.reads.negotiation import JSON, YAML, clauses_by_quality
from bayplan.apiserver.reads.representation import in_form
from bayplan.apiserver.requests import TEXT, Response
from bayplan.support.randomness import Randomness
from bayplan.support.timestamps import rfc3339

_COMPONENT: Final = "apiserver"
_PLAIN: Final = "text/plain"
_OFFERED: Final = (JSON, YAML, _PLAIN)
_DEPRECATED: Final = "v1alpha1"
_VERSIONS: Final = (_DEPRECATED, "v1beta1")
_DELIMITERS: Final = (":", ": ", "=", " ")
"""What may stand between names and values: drawn for each answer, so that no program reads the text."""
_NOT_FOR_DEBUGGING: Final = frozenset(("apis", "api", "openid", "openapi", ".well-known", "", "debug"))
"""First parts of paths that `/statusz` leaves out."""


def flagz(accept: str, flags: Mapping[str, str], randomness: Randomness) -> Response:
    """The flags of the server, sorted by name. Raises ApiError (406)."""
    version, media_type = _negotiated(accept, "Flagz")
    rows = dict(sorted(flags.items()))
    if media_type != _PLAIN:
        return _structured("Flagz", version, media_type, {"flags": rows})
    delimiter = randomness.choice(_DELIMITERS)
    return _text("flagz", "".join(f"{name}{delimiter}{value}\n" for name, value in rows.items()))


def statusz(accept: str, started: float, now: float, paths: Iterable[str], randomness: Randomness) -> Response:
    """Since when the server runs (both times in Unix seconds), its versions and the first parts of its paths. Raises ApiError (406)."""
    version, media_type = _negotiated(accept, "Statusz")
    release = ".".join(KUBERNETES_VERSION.split(".")[:2])
    implementation = f"{platform.python_implementation()} {platform.python_version()}"
    roots = sorted({f"/{root}" for path in paths if (root := path.split("/", 2)[1]) not in _NOT_FOR_DEBUGGING})
    uptime = max(0, int(now) - int(started))
    if media_type != _PLAIN:
        fields = {
            "startTime": rfc3339(started),
            "uptimeSeconds": uptime,
            "goVersion": implementation,
            "binaryVersion": release,
            "emulationVersion": release,
            "paths": roots,
        }
        return _structured("Statusz", version, media_type, fields)
    minutes, seconds = divmod(uptime, 60)
    hours, minutes = divmod(minutes, 60)
    moment = datetime.fromtimestamp(int(started), UTC)
    rows = {
        "Started": f"{moment:%a %b} {moment.day:2d} {moment:%H:%M:%S} UTC {moment.year}",
        "Up": f"{hours} hr {minutes:02d} min {seconds:02d} sec",
        "Go version": implementation,
        "Binary version": release,
        "Emulation version": release,
        "Paths": " ".join(roots),
    }
    delimiter = randomness.choice(_DELIMITERS)
    return _text("statusz", "\n" + "".join(f"{name}{delimiter} {value}\n" for name, value in rows.items()))


def _negotiated(accept: str, kind: str) -> tuple[str, str]:
    """Version and media type of an answer; text has no version. Raises ApiError (406)."""
    if not accept.strip():
        return "", _PLAIN
    for clause in clauses_by_quality(accept):
        media_type, parameters = clause.media_type, clause.parameters
        wanted = parameters.get("as")
        if media_type in ("*/*", "text/*", _PLAIN) and wanted is None:
            return "", _PLAIN
        structured = JSON if media_type in ("*/*", "application/*") else media_type
        version = parameters.get("v", "")
        is_known = wanted == kind and parameters.get("g") == "config.k8s.io" and version in _VERSIONS
        if structured in (JSON, YAML) and is_known:
            return version, structured
    raise not_acceptable(_OFFERED)


def _text(page: str, rows: str) -> Response:
    head = (
        f"\n{_COMPONENT} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for "
        "debugging purposes only.\n"
    )
    return Response(200, (head + rows).encode(), TEXT, is_final=True)


def _structured(kind: str, version: str, media_type: str, fields: Mapping[str, Any]) -> Response:
    tree = {"kind": kind, "apiVersion": f"config.k8s.io/{version}", "metadata": {"name": _COMPONENT}, **fields}
    data = msgspec.json.encode(tree)
    body = data + b"\n" if media_type == JSON else in_form(data, media_type)
    warning = f"This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."
    return Response(
        200,
        body,
        f"{media_type};g=config.k8s.io;v={version};as={kind}",
        warnings=(warning,) if version == _DEPRECATED else (),
        is_final=True,
    )

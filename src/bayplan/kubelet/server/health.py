"""The texts of /healthz (k8s.io/apiserver/pkg/server/healthz). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.kubelet.server.errors import RequestError


def health_text(name: str, problems: Mapping[str, str], *, verbose: bool) -> str:
    """What is said of the checks: of all, or of the one that is named.

    problems: check -> what is wrong, or "". Raises RequestError: 500 where something is, without the reason if all are asked for; 404 for an unknown check.
    """
    if name:
        if name not in problems:
            raise RequestError(404, "404 page not found\n")
        if problems[name]:
            raise RequestError(500, f"internal server error: {problems[name]}\n")
        return "ok"
    lines = [f"[-]{check} failed: reason withheld\n" if why else f"[+]{check} ok\n" for check, why in problems.items()]
    if any(problems.values()):
        raise RequestError(500, "".join((*lines, "healthz check failed\n")))
    return "".join((*lines, "healthz check passed\n")) if verbose else "ok"

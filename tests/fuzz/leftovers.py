"""What a run has made in a cluster, and its end: memory is judged without it, since what is stored takes memory for a reason."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from benchmarks.load import Target

_PATIENCE = 60.0
"""Seconds until what is deleted has gone."""
_LEAVES = json.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}).encode()
_UNHELD = json.dumps({"metadata": {"finalizers": None}}).encode()
_MADE_BY_ITSELF = frozenset(("events", "leases", "endpoints", "endpointslices", "controllerrevisions"))
"""Of objects that a cluster writes by itself, and ends by itself."""


class Leftovers:
    """Objects that were not there when this was made."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.before = frozenset(self._objects())
        """Paths of what was there."""

    def delete(self) -> list[str]:
        """Delete them, whatever holds them back. Returns the paths of those that do not go."""
        deadline = time.monotonic() + _PATIENCE
        while (left := sorted(set(self._objects()) - self.before)) and time.monotonic() < deadline:
            for path in left:
                self.ask("PATCH", path, _UNHELD, "application/merge-patch+json")
                self.ask("DELETE", path, _LEAVES)
            time.sleep(1.0)
        return left

    def _objects(self) -> Iterator[str]:
        """The paths of all objects that can be deleted."""
        groups = self.ask("GET", "/apis")["groups"]
        for version in ("/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)):
            for resource in self.ask("GET", version).get("resources", ()):
                name = resource["name"]
                if "/" in name or name in _MADE_BY_ITSELF or not {"list", "delete"} <= set(resource["verbs"]):
                    continue
                for item in self.ask("GET", f"{version}/{name}").get("items") or ():
                    metadata = item["metadata"]
                    place = f"/namespaces/{metadata['namespace']}" if resource["namespaced"] else ""
                    yield f"{version}{place}/{name}/{quote(metadata['name'], safe='')}"

    def ask(self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json") -> Any:
        """The answer; `{}` if the request is refused."""
        target = self._target
        headers = {"Authorization": f"Bearer {target.token}", "Content-Type": content_type}
        request = urllib.request.Request(
            f"https://{target.host}:{target.port}{path}", data=body, headers=headers, method=method
        )
        try:
            with urllib.request.urlopen(request, context=target.tls) as answer:
                return json.load(answer)
        except urllib.error.HTTPError:
            return {}

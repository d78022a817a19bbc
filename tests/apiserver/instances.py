"""What took the fast path for creates, and the creates of the transcripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.codec import decoder
from bayplan.apiserver.writes import create_templates
from bayplan.apiserver.writes.create_templates import Instance, Template

_GOLDEN = Path(__file__).parent.parent / "golden" / "api"


def note_instances(monkeypatch: pytest.MonkeyPatch, note: Callable[[Any], None]) -> None:
    """Tell of each object that comes of a template from now on. It must be what its bytes say. Only the first of a template is decoded."""
    instance = Template.instance
    monkeypatch.setattr(create_templates, "_DECODED", 1)

    def noted(self: Template, cls: Any, context: Any, texts: Any) -> Instance:
        one = instance(self, cls, context, texts)
        assert one.obj == decoder(cls)(one.value)
        note(one.obj)
        return one

    monkeypatch.setattr(Template, "instance", noted)


def recorded_creates() -> Iterator[tuple[str, dict[str, Any]]]:
    """Paths and bodies of all creates in the transcripts."""
    for file in sorted(_GOLDEN.glob("*.json")):
        steps = [step for one in json.loads(file.read_text())["scenarios"] for step in one["steps"]]
        for request in [step["request"] for step in steps if step.get("request", {}).get("method") == "POST"]:
            body = request.get("body")
            if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
                yield request["path"].partition("?")[0], body

"""Plugins that exist for one test: registered as if a package had installed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bayplan.scheduler import registry
from bayplan.scheduler.framework.extension_points import Plugin


class _Point:
    """Stands for an installed entry point."""

    def __init__(self, plugin: type[Plugin]) -> None:
        self.name = plugin.name
        self._plugin = plugin

    def load(self) -> type[Plugin]:
        return self._plugin


def install(monkeypatch: pytest.MonkeyPatch, plugins: Sequence[type[Plugin]]) -> dict[str, Any]:
    """Register plugins for the length of a test; returns a configuration that enables them at all points."""
    points = {plugin.name: _Point(plugin) for plugin in plugins}
    monkeypatch.setattr(registry, "_third_party", lambda: points)
    return {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": plugin.name} for plugin in plugins]}}}]}

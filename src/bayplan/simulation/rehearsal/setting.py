"""What one side of a rehearsal schedules by: a configuration, plugins from files, the rules of a release of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bayplan.scheduler import registry
from bayplan.scheduler.configuration.settings import SchedulerSettings, load
from bayplan.scheduler.development.plugin_files import load_plugins
from bayplan.scheduler.development.plugin_reload import with_plugins
from bayplan.simulation.rehearsal.gates import LATEST, VERSIONS
from bayplan.simulation.rehearsal.older_rules import settings_under, workload_under
from bayplan.simulation.replay.run import Workload

_ENTRIES: Final = ("config", "plugin", "kubernetes")


class RehearsalError(Exception):
    """A setting makes no sense: it names the entry and what may stand there."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One side of a rehearsal."""

    config: str | Path | Mapping[str, Any] | None = None
    """A scheduler configuration; None for the defaults."""
    plugins: tuple[str | Path, ...] = ()
    """Files with plugins. One that no profile of the configuration names is enabled in all, with weight 1."""
    kubernetes: str = LATEST
    """The release whose feature gates hold, one of `VERSIONS`."""

    def __post_init__(self) -> None:
        if self.kubernetes not in VERSIONS:
            raise RehearsalError(f"kubernetes={self.kubernetes}: the rules of {', '.join(VERSIONS)} are known")

    @staticmethod
    def of(entries: Iterable[str]) -> Setting:
        """`config=FILE`, `plugin=FILE` (several times) and `kubernetes=1.33`. Raises RehearsalError."""
        found: dict[str, list[str]] = {}
        for entry in entries:
            name, equals, value = entry.partition("=")
            if name not in _ENTRIES or not equals or not value:
                raise RehearsalError(f"{entry!r}: expected config=FILE, plugin=FILE or kubernetes=VERSION")
            found.setdefault(name, []).append(value)
        for name in ("config", "kubernetes"):
            if len(found.get(name, ())) > 1:
                raise RehearsalError(f"{name} is given twice: {' and '.join(found[name])}")
        config, version = found.get("config", [None])[0], found.get("kubernetes", [LATEST])[0]
        return Setting(config, tuple(found.get("plugin", ())), version)

    def __str__(self) -> str:
        config = "the defaults" if self.config is None else self.config
        shown = config if isinstance(config, str | Path) else "a configuration"
        plugins = "".join(f" with {path}" for path in self.plugins)
        rules = f", rules of {self.kubernetes}" if self.kubernetes != LATEST else ""
        return f"{shown}{plugins}{rules}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        config = str(self.config) if isinstance(self.config, Path) else self.config
        return {"config": config, "plugins": [str(path) for path in self.plugins], "kubernetes": self.kubernetes}

    def workload(self, workload: Workload) -> Workload:
        """The workload as this release takes it."""
        return workload_under(workload, self.kubernetes)

    @contextmanager
    def settings(self) -> Iterator[SchedulerSettings]:
        """The configuration, while the plugins of the files are known. Raises SettingsError, PluginFileError, RehearsalError."""
        classes = [plugin for path in self.plugins for plugin in load_plugins(path)]
        with ExitStack() as stack:
            for plugin in classes:
                stack.enter_context(registry.known(plugin))
            config = str(self.config) if isinstance(self.config, Path) else self.config
            settings = settings_under(_loaded(config), self.kubernetes)
            yield with_plugins(settings, classes)


def _loaded(config: str | Mapping[str, Any] | None) -> SchedulerSettings:
    try:
        return load(config)
    except OSError as error:
        raise RehearsalError(f"config={config}: {error.strerror or error}") from error

"""Plugins from a file of Python, without a package that is installed: for rehearsals and while a plugin is developed.

Each content of a file is a module of its own, so that two versions of one plugin live side by side. The file is compiled from its
text, never from a cache of bytecode, which knows two versions of the same size and second as one.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from bayplan.scheduler.errors import SchedulerError
from bayplan.scheduler.framework.extension_points import Plugin


class PluginFileError(SchedulerError):
    """A file has no plugin, or cannot be run: it names file and line."""


def load_plugins(path: str | Path) -> tuple[type[Plugin], ...]:
    """The plugin classes that a file defines, in their order there. Raises PluginFileError."""
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        raise PluginFileError(f"{path}: {error.strerror or error}") from error
    return plugins_of(source, str(path))


def plugins_of(source: bytes, path: str) -> tuple[type[Plugin], ...]:
    """The plugin classes of the text of a file. Raises PluginFileError."""
    module = _module(source, path)
    for one in vars(module).values():
        if missing := _lacks(one, module):
            raise PluginFileError(f"{path}: {one.__name__} is no plugin yet: it lacks {', '.join(missing)}")
    found = [one for one in vars(module).values() if _is_plugin_of(one, module)]
    if not found:
        raise PluginFileError(f"{path}: there is no plugin: a class with a name that derives from an extension point")
    return tuple(dict.fromkeys(found))


Read = Callable[[Path], bytes]
"""Reads a file. Raises OSError."""


class PluginFiles:
    """Plugins of some files, and what becomes of them as the files change: a file that breaks keeps its last good plugins."""

    def __init__(self, paths: Iterable[Path], read: Read = Path.read_bytes, *, follows: bool = True) -> None:
        """follows: whether whoever uses the plugins is to look at the files again. Raises PluginFileError if a file is broken from the beginning."""
        self.follows = follows
        self._read = read
        self._sources: dict[Path, bytes] = {}
        self._plugins: dict[Path, tuple[type[Plugin], ...]] = {}
        for path in paths:
            try:
                self._sources[path] = read(path)
            except OSError as error:
                raise PluginFileError(f"{path}: {error.strerror or error}") from error
            self._plugins[path] = plugins_of(self._sources[path], str(path))

    @property
    def classes(self) -> tuple[type[Plugin], ...]:
        """The last good plugins of all files."""
        return tuple(plugin for plugins in self._plugins.values() for plugin in plugins)

    def look(self) -> tuple[list[Path], list[str]]:
        """Look at the files again: those whose plugins are other ones now, and what is wrong with others that changed.

        A file that is not there for a moment, as while an editor replaces it, is no change.
        """
        changed, problems = [], []
        for path, before in self._sources.items():
            try:
                source = self._read(path)
            except OSError:
                continue
            if source == before:
                continue
            self._sources[path] = source
            try:
                self._plugins[path] = plugins_of(source, str(path))
                changed.append(path)
            except PluginFileError as error:
                problems.append(str(error))
        return changed, problems


def _module(source: bytes, path: str) -> ModuleType:
    digest = hashlib.sha256(b"\0".join((path.encode(), source))).hexdigest()
    name = f"bayplan_plugin_{digest[:16]}"
    known = sys.modules.get(name)
    if known is not None:
        return known
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # dataclasses look their module up while it is being run
    try:
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    except Exception as error:
        del sys.modules[name]
        raise PluginFileError(f"{path}{_line(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: BaseException, path: str) -> str:
    """`:12` for the last line of the file that the error passed through."""
    if isinstance(error, SyntaxError):
        return ""
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f":{lines[-1]}" if lines else ""


def _lacks(thing: Any, module: ModuleType) -> list[str]:
    """What a class with a name of its own, which no other plugin is made from, would have to have to be a plugin."""
    if not inspect.isabstract(thing) or not issubclass(thing, Plugin) or thing.__module__ != module.__name__:
        return []
    is_base = any(inspect.isclass(one) and one is not thing and issubclass(one, thing) for one in vars(module).values())
    return sorted(thing.__abstractmethods__) if vars(thing).get("name") and not is_base else []


def _is_plugin_of(thing: Any, module: ModuleType) -> bool:
    return (
        inspect.isclass(thing)
        and issubclass(thing, Plugin)
        and thing.__module__ == module.__name__
        and not inspect.isabstract(thing)
        and bool(getattr(thing, "name", ""))
    )

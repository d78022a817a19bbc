"""Where keys of the store stand in etcd: under a prefix, and some folders under other names.

    layout = KeyLayout("/registry", {"/registry/core/pods/": "pods/", "/registry/core/nodes/": "minions/"}, root="/registry/")
    layout.to_etcd("/registry/core/pods/default/a")    b"/registry/pods/default/a"
    layout.to_etcd("/registry/example.com/cars/x")     b"/registry/example.com/cars/x"

A range within one folder keeps its order. One over several folders comes in etcd's order.
"""

from __future__ import annotations

from collections.abc import Mapping


class KeyLayout:
    """A mapping of keys in both directions; keys of etcd outside the prefix have no counterpart."""

    def __init__(self, prefix: str, folders: Mapping[str, str] | None = None, *, root: str = "") -> None:
        """prefix: of all keys in etcd. folders: of keys -> of etcd under the prefix, both with the slash at the end. root: how all keys begin, which the prefix
        replaces."""
        self._prefix = prefix if not root else prefix.rstrip("/") + "/"
        self._root = root
        self._folders = dict(folders or {})
        self._back = {there: here for here, there in self._folders.items()}
        self._depths = sorted({there.count("/") for there in self._back}, reverse=True)
        self._here_depths = sorted({here.count("/") for here in self._folders}, reverse=True)
        self.start = self._prefix.encode()
        """The first key of the prefix in etcd; `end` is the first behind it."""
        self.end = end_of_prefix(self.start)

    def _folder(self, key: str) -> str | None:
        """The renamed folder that holds a key."""
        for depth in self._here_depths:
            parts = key.split("/", depth)
            if len(parts) > depth:
                folder = key[: len(key) - len(parts[depth])]
                if folder in self._folders:
                    return folder
        return None

    def to_etcd(self, key: str) -> bytes:
        """Where a key, or the prefix of keys, stands in etcd. A key outside the root has no place. Raises ValueError."""
        folder = self._folder(key) if self._folders else None
        if folder is not None:
            return f"{self._prefix}{self._folders[folder]}{key[len(folder) :]}".encode()
        if not key.startswith(self._root):
            raise ValueError(f"the key {key!r} does not begin with {self._root!r}")
        return (self._prefix + key[len(self._root) :]).encode()

    def range_to_etcd(self, start: str, end: str) -> tuple[bytes, bytes]:
        """The range in etcd for keys k with start <= k < end: of any keys, if no folders are renamed, else within one folder or of all."""
        first = self.to_etcd(start)
        if not self._root:
            return first, self.to_etcd(end)
        if end == self._root[:-1] + "0":
            return first, self.end
        whole = self._folders.get(end[:-1] + "/") if end.endswith("0") else None
        if whole is not None:
            return first, f"{self._prefix}{whole[:-1]}0".encode()
        return first, self.to_etcd(end)

    def from_etcd(self, key: bytes) -> str | None:
        """The key that stands at a place in etcd; None if that is outside the prefix, or no text."""
        if not key.startswith(self.start):
            return None
        try:
            rest = key[len(self.start) :].decode()
        except UnicodeDecodeError:
            return None
        for depth in self._depths:
            parts = rest.split("/", depth)
            if len(parts) > depth:
                here = self._back.get(rest[: len(rest) - len(parts[depth])])
                if here is not None:
                    return here + parts[depth]
        return self._root + rest


def end_of_prefix(prefix: bytes) -> bytes:
    """The first key behind all keys with a prefix; a zero byte, etcd's sign for the end of all keys, if there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else b"\0"

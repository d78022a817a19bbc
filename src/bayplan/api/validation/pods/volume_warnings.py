"""Warnings about volumes of pods and templates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bayplan.api.types import core_v1


@dataclass(frozen=True)
class _Target:
    """A path that a volume writes, and the source it comes from (empty if there is only one)."""

    path: str
    source: str = ""

    def __str__(self) -> str:
        return f'"{self.path}" ({self.source})' if self.source else f'"{self.path}"'

    def overlaps(self, other: _Target) -> bool:
        """Whether one of the paths is, or lies below, the other."""
        mine, its = f"{self.path}/", f"{other.path}/"
        return bool(other.path) and (its.startswith(mine) or mine.startswith(its))


def overlap_warnings(volume: core_v1.Volume) -> Iterator[str]:
    """Paths of one volume that hide one another."""
    if volume.config_map is not None:
        targets = [_Target(item.path) for item in volume.config_map.items]
        yield from _overlaps(volume, f'ConfigMap "{volume.config_map.name}"', targets)
    if volume.secret is not None:
        targets = [_Target(item.path) for item in volume.secret.items]
        yield from _overlaps(volume, f'Secret "{volume.secret.secret_name}"', targets)
    if volume.downward_api is not None:
        yield from _overlaps(volume, "DownwardAPI", [_Target(item.path) for item in volume.downward_api.items])
    if volume.projected is not None:
        targets = []
        nothing = core_v1.VolumeProjection()
        for source in volume.projected.sources:
            if source == nothing:
                yield f'volume "{volume.name}" (Projected) has no sources provided'
            targets.extend(_targets(source))
        yield from _overlaps(volume, "Projected", targets)


def _targets(source: core_v1.VolumeProjection) -> list[_Target]:
    """The paths of one source of a projected volume."""
    if source.config_map is not None and source.config_map.items:
        return [_Target(item.path, f'ConfigMap "{source.config_map.name}"') for item in source.config_map.items]
    if source.secret is not None and source.secret.items:
        return [_Target(item.path, f'Secret "{source.secret.name}"') for item in source.secret.items]
    if source.downward_api is not None and source.downward_api.items:
        return [_Target(item.path, "DownwardAPI") for item in source.downward_api.items]
    if source.service_account_token is not None:
        return [_Target(source.service_account_token.path, "ServiceAccountToken")]
    return []


def _overlaps(volume: core_v1.Volume, what: str, targets: list[_Target]) -> Iterator[str]:
    before: list[_Target] = []
    for target in targets:
        trimmed = _Target(target.path.rstrip("/"), target.source)
        if trimmed.path:
            for other in before:
                if trimmed.overlaps(other):
                    yield f'volume "{volume.name}" ({what}): overlapping paths: {trimmed} with {other}'
        before.append(trimmed)

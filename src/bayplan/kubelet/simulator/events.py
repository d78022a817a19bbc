"""What simulated kubelets tell about pods, in the words of Kubernetes' kubelet.

Warnings, and whatever else is out of the ordinary, are told by default; the ordinary course of starts and stops only if asked for, since it costs three writes per
container.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.annotation_checks import mistakes

NORMAL, WARNING = "Normal", "Warning"
NONE, WARNINGS, ALL = "none", "warnings", "all"
CHOICES = (NONE, WARNINGS, ALL)


class Told(NamedTuple):
    """One event about a pod."""

    type: str
    reason: str
    message: str
    container: str = ""
    """The container that it is about; empty for the pod as a whole."""
    ordinary: bool = False
    """Whether it belongs to starts and stops as they should be."""


def chosen(events: Iterable[Told], choice: str) -> tuple[Told, ...]:
    """The events to tell. choice: one of `CHOICES`."""
    if choice == NONE:
        return ()
    return tuple(one for one in events if choice == ALL or not one.ordinary)


def about_annotations(pod: core_v1.Pod) -> tuple[Told, ...]:
    """What cannot be understood of a pod that is about to start."""
    return tuple(Told(WARNING, "InvalidAnnotation", text) for text in mistakes(pod.metadata.annotations))


def about_start(container: str, image: str) -> tuple[Told, ...]:
    """A container was started."""
    text = f'Container image "{image}" already present on machine and can be accessed by the pod'
    return (
        Told(NORMAL, "Pulled", text, container, True),
        Told(NORMAL, "Created", "Container created", container, True),
        Told(NORMAL, "Started", "Container started", container, True),
    )


def about_stop(container: str) -> Told:
    """A container is stopped with its pod."""
    return Told(NORMAL, "Killing", f"Stopping container {container}", container, True)


def about_deletion(pod: core_v1.Pod) -> tuple[Told, ...]:
    """The containers of a pod are being stopped because it is deleted."""
    return tuple(about_stop(one.name) for one in pod.status.container_statuses if one.state.running is not None)


def about_pull(image: str, error: str, container: str) -> tuple[Told, ...]:
    """An image was pulled in vain."""
    return (
        Told(NORMAL, "Pulling", f'Pulling image "{image}"', container),
        Told(WARNING, "Failed", f'Failed to pull image "{image}": {error}', container),
    )

"""What the audit log is told of webhooks that are asked.

Source: `k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bayplan.apiserver.admission.chain import AdmissionRequest
from bayplan.apiserver.webhooks.matching import Hook

_MUTATING, _VALIDATING = "mutation.webhook.admission.k8s.io/", "validating.webhook.admission.k8s.io/"
_PATCH = "patch.webhook.admission.k8s.io/"


class HookNotes:
    """Notes of one question to one webhook. They go nowhere if the request is not recorded."""

    __slots__ = ("_hook", "_place", "_record")

    def __init__(self, request: AdmissionRequest, hook: Hook, index: int, again: int = 0) -> None:
        """index: of the webhook among those that may be asked. again: 1 if it has been asked before."""
        self._record = request.call.request.audit
        self._hook = hook
        self._place = f"round_{again}_index_{index}"

    def said(self, annotations: Mapping[str, str]) -> None:
        """What the webhook itself wants noted."""
        if self._record is not None:
            for key, value in annotations.items():
                self._record.annotate_admission(f"{self._hook.name}/{key}", value)

    def failed_open(self, *, mutating: bool) -> None:
        """It could not be asked, and that does not matter."""
        if self._record is not None:
            prefix = _MUTATING if mutating else _VALIDATING
            self._record.annotate(f"failed-open.{prefix}{self._place}", self._hook.name)

    def skipped(self, *, mutating: bool) -> None:
        """It was not called: its pods are simulated."""
        if self._record is not None:
            prefix = _MUTATING if mutating else _VALIDATING
            self._record.annotate(f"skipped-simulated.{prefix}{self._place}", self._hook.name)

    def mutated(self, *, changed: bool) -> None:
        """Whether it has changed the object."""
        if self._record is not None:
            self._record.annotate(_MUTATING + self._place, self._value(mutated=changed))

    def patched(self, operations: Sequence[Any]) -> None:
        """Its patch has been applied."""
        if self._record is not None and self._record.has_objects:
            self._record.annotate(_PATCH + self._place, self._value(patch=list(operations), patchType="JSONPatch"))

    def took(self, seconds: float, *, mutating: bool) -> None:
        """How long the answer took. Mutating webhooks are asked in turn, validating ones all at once."""
        if self._record is not None:
            if mutating:
                self._record.took("mutating-webhook", seconds)
            else:
                self._record.took("validating-webhook", seconds, max)

    def _value(self, **rest: Any) -> str:
        named = {"configuration": self._hook.configuration, "webhook": self._hook.name}
        return msgspec.json.encode({**named, **rest}).decode()

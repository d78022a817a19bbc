"""How role bindings look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import object_age, printers


def _subjects(binding: Any, kind: str) -> str:
    found = [subject for subject in binding.subjects if subject.kind == kind]
    return ", ".join(
        f"{subject.namespace}/{subject.name}" if kind == "ServiceAccount" else subject.name for subject in found
    )


def _binding(obj: Any, now: float) -> list[Any]:
    role = obj.role_ref
    subjects = [_subjects(obj, kind) for kind in ("User", "Group", "ServiceAccount")]
    return [obj.metadata.name, f"{role.kind}/{role.name}", object_age(obj, now), *subjects]


PRINTERS = printers("rbac", {"ClusterRoleBinding": _binding, "RoleBinding": _binding})

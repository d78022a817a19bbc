"""Objects of kwok (`kwok.x-k8s.io/v1alpha1`) about what pods on simulated nodes answer, and what they use.

    Logs, Attach          files in the format of container runtimes      of one pod, which has the object's name and namespace
    Exec, PortForward     commands and addresses of this machine
    ResourceUsage         what containers use
    Metric                pages of metrics of all nodes
    ClusterLogs, ...      the same, of all pods that a selector names

Source of the fields: kwok's `pkg/apis/v1alpha1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from bayplan.kubelet.simulator.answers.metric_objects import MetricPage, page_problem
from bayplan.kubelet.simulator.answers.usage_values import UsageValue, usage_problem
from bayplan.kubelet.simulator.errors import KwokFileError


class EnvVar(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A variable of a command."""

    name: str
    value: str = ""


class SecurityContext(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """As whom a command runs."""

    run_as_user: int | None = None
    run_as_group: int | None = None


class LocalTarget(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How a command runs on this machine."""

    work_dir: str = ""
    envs: tuple[EnvVar, ...] = ()
    security_context: SecurityContext | None = None


class LogRule(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Where the log of containers is."""

    containers: tuple[str, ...] = ()
    logs_file: str = ""
    previous_logs_file: str = ""
    follow: bool = False
    """Accepted; what the client asks for counts, as in kwok."""


class AttachRule(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What those see who attach to containers."""

    containers: tuple[str, ...] = ()
    logs_file: str = ""


class ExecRule(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Where commands of containers run."""

    containers: tuple[str, ...] = ()
    local: LocalTarget | None = None


class ForwardTarget(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """An address."""

    address: str
    port: int


class ForwardRule(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What answers at ports."""

    ports: tuple[int, ...] = ()
    target: ForwardTarget | None = None
    command: tuple[str, ...] = ()


class UsageRule(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What containers use."""

    containers: tuple[str, ...] = ()
    usage: dict[str, UsageValue] = {}


class Selector(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which pods are meant; nothing named means all."""

    match_namespaces: tuple[str, ...] = ()
    match_names: tuple[str, ...] = ()

    def holds(self, namespace: str, name: str) -> bool:
        """Whether a pod is meant."""
        by_namespace = not self.match_namespaces or namespace in self.match_namespaces
        return by_namespace and (not self.match_names or name in self.match_names)


class _Logs(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    selector: Selector | None = None
    logs: tuple[LogRule, ...]


class _Attach(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    selector: Selector | None = None
    attaches: tuple[AttachRule, ...]


class _Exec(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    selector: Selector | None = None
    execs: tuple[ExecRule, ...]


class _PortForward(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    selector: Selector | None = None
    forwards: tuple[ForwardRule, ...]


class _ResourceUsage(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    selector: Selector | None = None
    usages: tuple[UsageRule, ...] = ()


Rule = LogRule | AttachRule | ExecRule | ForwardRule | UsageRule | MetricPage
_SPECS: Final[Mapping[str, tuple[type[msgspec.Struct], str]]] = {
    "Logs": (_Logs, "logs"),
    "Attach": (_Attach, "attaches"),
    "Exec": (_Exec, "execs"),
    "PortForward": (_PortForward, "forwards"),
    "ResourceUsage": (_ResourceUsage, "usages"),
}
KINDS: Final = (*_SPECS, *(f"Cluster{kind}" for kind in _SPECS), "Metric")
"""Kinds that are read here."""
_MOST_PORTS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class AnswerObject:
    """One object, read."""

    kind: str
    """Without `Cluster`."""
    name: str
    namespace: str
    """"" of one for all pods that the selector names."""
    rules: tuple[Rule, ...]
    selector: Selector = field(default_factory=Selector)


def read_answer(document: Mapping[str, Any], file: Path) -> AnswerObject:
    """An object of one of `KINDS`; files that it names are found from the directory that its own lies in. Raises KwokFileError."""
    metadata, kind = document.get("metadata") or {}, str(document["kind"])
    name, whole = str(metadata.get("name") or ""), kind.removeprefix("Cluster")
    is_cluster = whole != kind
    namespace = "" if is_cluster else str(metadata.get("namespace") or "default")
    where = f"{file}: {kind} {name}"
    if not name:
        raise KwokFileError(f"{where}: metadata.name is required")
    if kind == "Metric":
        return AnswerObject(kind, name, "", (_read_page(document.get("spec") or {}, where),))
    type_, member = _SPECS[whole]
    try:
        spec: Any = msgspec.convert(document.get("spec") or {}, type_)
    except msgspec.ValidationError as error:
        raise KwokFileError(f"{where}: spec: {error}") from error
    if spec.selector is not None and not is_cluster:
        raise KwokFileError(f"{where}: spec.selector: only Cluster{kind} has one")
    rules = tuple(
        _checked(rule, file.parent, f"{where}: spec.{member}[{i}]") for i, rule in enumerate(getattr(spec, member))
    )
    return AnswerObject(whole, name, namespace, rules, spec.selector or Selector())


def _read_page(spec: Mapping[str, Any], where: str) -> MetricPage:
    """Raises KwokFileError."""
    try:
        page = msgspec.convert(spec, MetricPage)
    except msgspec.ValidationError as error:
        raise KwokFileError(f"{where}: spec: {error}") from error
    if problem := page_problem(page):
        raise KwokFileError(f"{where}: spec.{problem}")
    return page


def _checked(rule: Rule, directory: Path, where: str) -> Rule:
    """A rule whose files are found from here. Raises KwokFileError for one that could not be carried out."""
    if isinstance(rule, LogRule | AttachRule):
        if not rule.logs_file:
            raise KwokFileError(f"{where}.logsFile is required")
        found = {"logs_file": str(directory / rule.logs_file)}
        if isinstance(rule, LogRule) and rule.previous_logs_file:
            found["previous_logs_file"] = str(directory / rule.previous_logs_file)
        return msgspec.structs.replace(rule, **found)
    if isinstance(rule, ExecRule):
        if rule.local is None:
            raise KwokFileError(f"{where}.local is required: commands run on this machine")
        return rule
    if isinstance(rule, UsageRule):
        for resource, given in rule.usage.items():
            if problem := usage_problem(given):
                raise KwokFileError(f"{where}.usage.{resource}: {problem}")
        return rule
    assert isinstance(rule, ForwardRule)
    if rule.target is None and not rule.command:
        raise KwokFileError(f"{where}: target or command is required")
    ports = (*rule.ports, *(() if rule.target is None else (rule.target.port,)))
    if wrong := [port for port in ports if not 0 < port < _MOST_PORTS]:
        raise KwokFileError(f"{where}: {wrong[0]} is no port")
    return rule

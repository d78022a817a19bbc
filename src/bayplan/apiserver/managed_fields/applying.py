"""Server-side apply of a configuration to an object: what is merged, who owns it then, and who is in conflict.

The rules are in `bayplan.api.managedfields`.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import msgspec

from bayplan.api.codec import DecodeError, encode, from_tree
from bayplan.api.conversions.kinds import WebhookNeeded, convert
from bayplan.api.custom_resources.defaulting import drop_nulls
from bayplan.api.errors import ApiError, failure
from bayplan.api.feature_gates import may_have_gated_fields
from bayplan.api.json.decode_problems import Refused
from bayplan.api.json.nesting import DepthError, check_depth
from bayplan.api.json.unstructured import COMPARED_IN_BYTES, as_converted, first_unstructured_problem
from bayplan.api.kinds import Kind
from bayplan.api.managedfields.compare import compare, field_set
from bayplan.api.managedfields.fieldset import FieldSet, difference, has, paths
from bayplan.api.managedfields.managers import (
    APPLY,
    BEFORE_FIRST_APPLY,
    UPDATE,
    Conflict,
    ConversionError,
    Managers,
    Versions,
    apply,
    conflict_texts,
    identity,
    update,
    write_entries,
)
from bayplan.api.managedfields.merge import validate, validated_fields
from bayplan.api.managedfields.typed import Type, TypedError
from bayplan.api.schema import definition_of, fields_of_gates
from bayplan.api.strategies.base import clone
from bayplan.api.times import FormError, settle
from bayplan.api.types import meta_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.managed_fields.diff import type_of
from bayplan.apiserver.managed_fields.managers import check_size, given_managers, now_of
from bayplan.apiserver.requests import bool_parameter
from bayplan.apiserver.writes.emptied_lists import emptied

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Applier:
    """Server-side apply of one configuration, which may have to be repeated if somebody else writes in between."""

    def __init__(
        self, call: Call, applied: dict[str, Any], subresource: str, kind: Kind | None = None, *, has_floats: bool
    ) -> None:
        """has_floats: whether numbers of the configuration are floats."""
        self.call = call
        self.kind = kind or call.kind
        """What is applied."""
        self.applied = applied
        self._has_floats = has_floats
        self.subresource = subresource
        self.manager = call.request.query.get("fieldManager", "")
        self.force = bool_parameter(call.request.query, "force")
        self.merged: dict[str, Any] = {}
        """What came of it last."""

    def apply(self, live: Any | None) -> Any:
        """The object, in the served version, that comes of applying to `live` (None: there is none yet), with its managers.

        Raises ApiError (409 conflicts, 500 a configuration that does not fit the schema).
        """
        kind = self.kind
        check_size(self.call, self.applied, kind, self.subresource)
        cls = kind.type
        managers: Managers = given_managers(live.metadata.managed_fields) if live is not None else {}
        served = None if live is None else self._served(live)
        start = served if served is not None else cls()
        tree = self._tree(start)
        if not managers and live is not None:
            managers = self._first(tree)
        merged, managers = self._merged(tree, managers)
        obj = clone(start) if merged is None else self._object(merged)
        obj.metadata.managed_fields = write_entries(managers)
        if self.manager == "kubectl" and obj.metadata.annotations.get(_LAST_APPLIED):
            obj.metadata.annotations = {**obj.metadata.annotations, _LAST_APPLIED: self._as_last_applied()}
        return obj

    def _object(self, merged: dict[str, Any]) -> Any:
        """What comes of a merge, as an object of the kind. Raises ApiError (500)."""
        self.merged = merged
        if None in (
            (merged.get("metadata") or {}).get("managedFields") or ()
        ):  # nobody takes them for managers, so they are nothing
            merged = {**merged, "metadata": {**merged["metadata"], "managedFields": []}}
        try:
            return self._decoded(merged)
        except (DecodeError, FormError) as error:
            raise self.refused(error) from None

    def _decoded(self, merged: dict[str, Any]) -> Any:
        """Raises DecodeError, FormError."""
        cls = self.kind.type
        if self.kind.is_custom:
            found = from_tree(cls, merged)
            drop_nulls(found.content, cls.schema, unless_refused=True)
            return found
        try:
            if not self._has_floats and self.kind.kind not in COMPARED_IN_BYTES:
                return settle(from_tree(cls, merged))
        except DecodeError:  # numbers may be larger than their fields
            pass
        try:
            return settle(from_tree(cls, as_converted(cls, merged)))
        except Refused as refusal:
            raise DecodeError(str(refusal)) from None

    def _decoded_in(self, kind: Kind, tree: dict[str, Any]) -> Any:
        """An object that is to be converted. What is applied may not fit, trees of other versions do. Raises ApiError (500)."""
        if kind is not self.kind or kind.is_custom:
            return from_tree(kind.type, tree)
        return self._object(tree)

    def refused(self, error: DecodeError | FormError) -> ApiError:
        """The answer to a configuration of which no object of the kind comes."""
        kind, metadata = self.kind, self._metadata()
        name, what = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}", f"{kind.group}/{kind.version}"
        why = first_unstructured_problem(kind.type, self.merged) or error
        text = f"unable to convert unstructured object to {what}, Kind={kind.kind}: {why}"
        shown = f"failed to convert new object ({name}; {what}, Kind={kind.kind}) to proper version: {text}"
        return failure(500, "", shown, details=False)

    def _served(self, live: Any) -> Any:
        """The object in the version in which something is applied to it."""
        stored = self.call.stored
        return live if self.kind is stored else convert(clone(live), stored, self.kind)

    def _tree(self, obj: Any) -> dict[str, Any]:
        data = encode(self.call.strategy.shown(obj))
        tree: dict[str, Any] = msgspec.json.decode(data)
        for path in paths(emptied(self.kind, data)):
            container = tree if len(path) == 1 else tree[path[0].removeprefix("f:")]
            container[path[-1].removeprefix("f:")] = None
        tree.get("metadata", {}).pop("managedFields", None)
        return {**tree, "kind": self.kind.kind, "apiVersion": self.kind.api_version}

    def _first(self, tree: dict[str, Any]) -> Managers:
        """Who was not known before: all that is there belongs to one manager of that name. Raises ApiError (500) as `_merged` does."""
        kind = self.kind
        try:
            validate(tree, type_of(kind.type), unique=False)
        except TypedError as error:
            text = f"failed to convert new object ({self._shown(tree)}) to smd typed: {error}"
            raise failure(500, "", f"failed to create manager for existing fields: {text}", details=False) from None
        changes = compare(self._tree(kind.type()), tree, type_of(kind.type)).filtered(self._keep)
        who = identity(BEFORE_FIRST_APPLY, UPDATE, kind.api_version, self.subresource)
        return update({}, changes, who=who, api_version=kind.api_version, now=now_of(self.call))

    def _keep(self, fields: FieldSet) -> FieldSet:
        return self.call.strategy.ownable(self.subresource, fields)

    def _merged(self, tree: dict[str, Any], managers: Managers) -> tuple[Any | None, Managers]:
        try:
            self._check_gates()
            return self._apply(tree, managers, force=self.force)
        except Conflict as conflict:
            if self.manager == "kubectl" and self._were_applied(tree, conflict):
                return self._apply(tree, managers, force=True)
            raise _conflict_error(conflict) from None
        except ConversionError as error:
            raise failure(500, "", str(error), details=False) from None
        except TypedError as error:
            shown = f"failed to create typed patch object ({self._shown(self.applied)}): {self._in_order(error)}"
            raise failure(500, "", shown, details=False) from None

    def _in_order(self, error: TypedError) -> TypedError:
        """What is wrong with the configuration, found in the order of its names, from which Go's maps begin somewhere."""
        try:
            validated_fields(msgspec.to_builtins(self.applied, order="sorted"), type_of(self.kind.type))
        except TypedError as found:
            return found
        return error

    def _check_gates(self) -> None:
        """Raises TypedError for fields whose feature gates are off."""
        gates = self.call.context.settings.feature_gates
        if self.kind.is_custom or not may_have_gated_fields(self.call.request.body, gates):
            return
        if found := fields_of_gates(self.applied, definition_of(self.kind.type), gates):
            problems = [f".{path}: field not declared in schema" for path in found]
            raise TypedError(problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems]))

    def _shown(self, tree: dict[str, Any]) -> str:
        """An object in an error of the field manager: namespace, name and kind."""
        kind, metadata = self.kind, tree.get("metadata")
        names: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
        namespace, name = (one if isinstance(one, str) else "" for one in map(names.get, ("namespace", "name")))
        return f"{namespace}/{name}; {kind.group}/{kind.version}, Kind={kind.kind}"

    def _metadata(self) -> dict[str, Any]:
        """The configuration's metadata, which may be no map."""
        metadata = self.applied.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    def _apply(self, tree: dict[str, Any], managers: Managers, *, force: bool) -> tuple[Any | None, Managers]:
        version = self.kind.api_version
        return apply(
            tree,
            self.applied,
            managers,
            who=identity(self.manager, APPLY, version, self.subresource),
            api_version=version,
            now=now_of(self.call),
            force=force,
            keep=self._keep,
            versions=Versions(self._type_in, functools.partial(self._convert, tree)),
            live_fits=not self.kind.is_custom,
        )

    def _kind_in(self, version: str) -> Kind | None:
        kind = self.call.context.kinds.of_kind(version, self.kind.kind)
        return kind if kind is not None and kind.type is not None else None

    def _type_in(self, version: str) -> Type | None:
        kind = self._kind_in(version)
        return type_of(kind.type) if kind is not None else None

    def _convert(self, live: Any, tree: Any, source: str, target: str) -> Any:
        if source == target or tree is None:
            return tree
        old, new = self._kind_in(source), self._kind_in(target)
        assert old is not None
        assert new is not None
        try:
            converted = self.call.convert(self._decoded_in(old, tree), old, new)
        except WebhookNeeded as needed:
            needed.purpose = f"failed to convert {'old' if tree is live else 'new'} object: "
            raise
        return {**msgspec.json.decode(encode(converted)), "kind": new.kind, "apiVersion": new.api_version}

    def _were_applied(self, tree: dict[str, Any], conflict: Conflict) -> bool:
        """Whether all fields in conflict still are as `kubectl apply` without --server-side left them: then they were kubectl's anyway.

        Fields that are not so stay in the conflict.
        """
        text = ((tree.get("metadata") or {}).get("annotations") or {}).get(_LAST_APPLIED)
        kind = self.kind
        try:
            check_depth((text or "").encode())
            last = msgspec.json.decode(text or "")
            if not isinstance(last, dict) or last.get("apiVersion") != kind.api_version:
                return False
            validate(last, type_of(kind.type))
            same = field_set(last, type_of(kind.type))
            for changed in compare(last, tree, type_of(kind.type)):
                same = difference(same, changed)
        except (msgspec.DecodeError, DepthError, TypedError):
            return False
        conflict.conflicts = [one for one in conflict.conflicts if not has(same, one[2])]
        return not conflict.conflicts

    def _as_last_applied(self) -> str:
        """The configuration as `kubectl apply` without --server-side would remember it."""
        metadata = dict(self._metadata())
        annotations = {key: item for key, item in (metadata.get("annotations") or {}).items() if key != _LAST_APPLIED}
        if "annotations" in metadata:
            metadata["annotations"] = annotations
        return msgspec.json.encode({**self.applied, "metadata": metadata}, order="sorted").decode() + "\n"


def _conflict_error(conflict: Conflict) -> Exception:
    message, causes = conflict_texts(conflict)
    error = failure(409, "Conflict", message)
    error.status.details = meta_v1.StatusDetails(
        causes=tuple(
            meta_v1.StatusCause(reason="FieldManagerConflict", message=text, field=path) for text, path in causes
        )
    )
    return error

"""`metadata.managedFields` of every write: who made it, what changed, and what server-side apply makes of it.

The rules are in `bayplan.api.managedfields`; here requests and typed objects (`managed_fields_diff`) meet them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.api.codec import DecodeError, encode, from_tree
from bayplan.api.conversions.kinds import WebhookNeeded, convert
from bayplan.api.custom_resources.defaulting import drop_nulls
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.errors import ApiError, failure
from bayplan.api.feature_gates import may_have_gated_fields
from bayplan.api.json.decode_problems import Refused
from bayplan.api.json.nesting import DepthError, check_depth
from bayplan.api.json.unstructured import as_converted, first_unstructured_problem
from bayplan.api.kinds import Kind
from bayplan.api.managedfields.bounds import exceeds
from bayplan.api.managedfields.compare import Comparison, compare, field_set
from bayplan.api.managedfields.fieldset import LEAF, FieldSet, difference, has, paths, union
from bayplan.api.managedfields.managers import (
    APPLY,
    BEFORE_FIRST_APPLY,
    UPDATE,
    Conflict,
    ConversionError,
    Identity,
    MalformedError,
    Managers,
    Owned,
    Versions,
    apply,
    conflict_texts,
    identity,
    read_entries,
    update,
    write_entries,
)
from bayplan.api.managedfields.merge import validate, validated_fields
from bayplan.api.managedfields.typed import Type, TypedError
from bayplan.api.schema import definition_of, fields_of_gates
from bayplan.api.strategies.base import clone
from bayplan.api.times import FormError, settle
from bayplan.api.types import meta_v1
from bayplan.api.types.meta_v1 import ManagedFieldsEntry
from bayplan.apiserver.context import Call
from bayplan.apiserver.managed_fields.diff import compare_objects, fields_of, type_of
from bayplan.apiserver.managed_fields.memo import entries_after
from bayplan.apiserver.managed_fields.object_parts import parts_of
from bayplan.apiserver.managed_fields.renewal import renewed
from bayplan.apiserver.objects import too_large
from bayplan.apiserver.requests import bool_parameter
from bayplan.apiserver.writes.emptied_lists import emptied, with_emptied
from bayplan.support.memory.memo import memoized
from bayplan.support.timestamps import rfc3339

SERVER = "kube-apiserver"
"""The manager of what the server itself writes while it serves somebody."""
_MANAGER_LENGTH = 128
_SMALL = 128 * 1024
"""Bytes of a configuration whose managed fields can be made without a look at what they will take."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def manager_name(call: Call) -> str:
    """The name under which the writer is recorded: `fieldManager`, or else the first part of the User-Agent header."""
    given = call.request.query.get("fieldManager")
    return given or _from_user_agent(call.request.user_agent)


@memoized(512)
def _from_user_agent(user_agent: str) -> str:
    printable = "".join(letter for letter in user_agent.partition("/")[0] if letter.isprintable())
    return printable.encode()[:_MANAGER_LENGTH].decode(errors="ignore")


def _now(call: Call) -> str:
    return rfc3339(call.context.clock.now())


def given_managers(entries: tuple[ManagedFieldsEntry, ...]) -> dict[Identity, Owned]:
    """Managers as somebody sent them; nobody if they are malformed."""
    try:
        return read_entries(entries)
    except MalformedError:
        return {}


def _is_reset(entries: tuple[ManagedFieldsEntry, ...]) -> bool:
    """Whether somebody sent one empty entry, which stands for `forget all managers`."""
    return len(entries) == 1 and entries[0] == ManagedFieldsEntry()


def _check_size(call: Call, sent: Any, kind: Kind, subresource: str) -> None:
    """Raises ApiError (500) if the managed fields of what a writer sends would be larger than an object may be, or twice as large with those that are dropped
    later: to make and compare them takes seconds."""
    if len(call.request.body) <= _SMALL:
        return
    tree = sent if isinstance(sent, dict) else _members(sent)
    owned = {name: item for name, item in tree.items() if call.strategy.ownable(subresource, {f"f:{name}": LEAF})}
    most, whole = call.context.objects.max_object_bytes, type_of(kind.type)
    if exceeds(owned, whole, most) or exceeds(tree, whole, 2 * most):
        raise too_large()


def _members(obj: Any) -> dict[str, Any]:
    """The fields of an object by their names in JSON."""
    if isinstance(obj, CustomObject):
        return obj.tree()
    return {part.wire: getattr(obj, part.attribute) for part in parts_of(obj.__class__, every=True)}


def track_create(call: Call, obj: Any, api_version: str = "", subresource: str = "") -> None:
    """Record who makes a new object. `obj` is in the stored version, defaulted, not yet admitted.

    api_version, subresource: of an object that is posted to a subresource and not kept.
    """
    metadata = obj.metadata
    given = metadata.managed_fields
    served = call.strategy.shown(obj if call.kind is call.stored else convert(clone(obj), call.stored, call.kind))
    _check_size(call, served, call.kind, "")
    try:
        below, fields = fields_of(served)
    except TypedError:
        metadata.managed_fields = ()
        return  # a list item without its keys: validation will say so, or ownership cannot be told
    version = api_version or call.kind.api_version
    who = identity(manager_name(call), UPDATE, version, subresource)
    empty = emptied(call.kind, call.request.body, type(obj).__name__ if subresource else "")
    if given or empty or not call.strategy.reset_by_update.keys().isdisjoint(fields):
        nodes = {key: known.node for key, known in fields.items()}
        if below:
            nodes["f:metadata"] = {key: known.node for key, known in below.items()}
            nodes = dict(sorted(nodes.items()))
        changes = Comparison({}, {}, call.strategy.ownable("", union(nodes, empty)))
        metadata.managed_fields = write_entries(
            update(given_managers(given), changes, who=who, api_version=version, now=_now(call))
        )
        return
    parts = [known.stored for known in fields.values()]
    if below:
        parts.append(b'"f:metadata":{%b}' % b",".join([known.stored for known in below.values()]))
        parts.sort()
    metadata.managed_fields = (
        (
            ManagedFieldsEntry(
                manager=who.manager,
                operation=UPDATE,
                api_version=version,
                time=_now(call),
                fields_type="FieldsV1",
                fields_v1=msgspec.Raw(b"{%b}" % b",".join(parts)),
                subresource=subresource,
            ),
        )
        if parts
        else ()
    )


def track_update(
    call: Call,
    obj: Any,
    old: Any,
    subresource: str,
    given: tuple[ManagedFieldsEntry, ...],
    *,
    reset: bool = False,
    manager: str = "",
) -> None:
    """Record who changes an object. `obj` is as the writer wants it, before any rule is applied.

    given: managed fields that the writer sent. reset: the writer sent an empty list of them. manager: who writes, if that is not who sent the
    request.
    """
    metadata = obj.metadata
    entries = old.metadata.managed_fields
    if not subresource:
        if reset or _is_reset(given):
            metadata.managed_fields = ()
            return
        if given and given != entries and given_managers(given):
            entries = given
    metadata.managed_fields = entries
    if not entries:
        return  # nobody is known to have made it; that does not begin with an update
    version = call.kind.api_version
    who = identity(manager or manager_name(call), UPDATE, version, subresource)
    if entries is not given and call.kind is call.stored:
        renewal = renewed(entries, old, obj, who, _now(call))
        if renewal is not None:
            metadata.managed_fields = renewal
            return
    try:
        changes = with_emptied(_all_changes(call, old, obj, call.kind), call.kind, call.request.body)
    except TypedError:
        metadata.managed_fields = ()
        return  # as for a new object
    ownable = functools.partial(call.strategy.ownable, subresource)
    if entries is not given:
        known = entries_after(
            entries,
            changes,
            who=who,
            api_version=version,
            now=_now(call),
            way_in=(call.strategy, subresource),
            ownable=ownable,
        )
        if known is not None:
            metadata.managed_fields = known
            return
    changes = changes.filtered(ownable)
    if not changes.is_same:
        changes_in = _changes_in(call, old, obj, subresource)
        metadata.managed_fields = _updated(call, entries, changes, who, changes_in)
    elif entries is given:
        metadata.managed_fields = write_entries(given_managers(entries))


def _updated(
    call: Call,
    entries: tuple[ManagedFieldsEntry, ...],
    changes: Comparison,
    who: Identity,
    changes_in: Callable[[str], Comparison | None],
) -> tuple[ManagedFieldsEntry, ...]:
    """The managers after changes; changes_in: what they are in other versions."""
    managers, version = given_managers(entries), call.kind.api_version
    try:
        found = update(managers, changes, who=who, api_version=version, now=_now(call), changes_in=changes_in)
    except TypedError:
        return ()  # the object does not fit a version in which others manage it
    return write_entries(found)


def _all_changes(call: Call, old: Any, obj: Any, kind: Kind) -> Comparison:
    """What a write changes, in a version of the kind."""
    if kind is not call.stored:
        old, obj = call.convert(old, call.stored, kind), call.convert(obj, call.stored, kind)
    return compare_objects(call.strategy.shown(old), call.strategy.shown(obj))


def _changes(call: Call, old: Any, obj: Any, subresource: str, kind: Kind) -> Comparison:
    """What a write changes, in a version of the kind, as far as this way in can own it."""
    return _all_changes(call, old, obj, kind).filtered(functools.partial(call.strategy.ownable, subresource))


def _changes_in(call: Call, old: Any, obj: Any, subresource: str) -> Callable[[str], Comparison | None]:
    def changes_in(version: str) -> Comparison | None:
        kind = call.context.kinds.of_kind(version, call.kind.kind)
        if kind is None or kind.type is None or kind.storage_prefix != call.stored.storage_prefix:
            return None
        return _changes(call, old, obj, subresource, kind)

    return changes_in


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
        _check_size(self.call, self.applied, kind, self.subresource)
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
        if self.manager == "kubectl" and obj.metadata.annotations.get(LAST_APPLIED):
            obj.metadata.annotations = {**obj.metadata.annotations, LAST_APPLIED: self._as_last_applied()}
        return obj

    def _object(self, merged: dict[str, Any]) -> Any:
        """What comes of a merge, as an object of the kind. Raises ApiError (500)."""
        self.merged = merged
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
            if not self._has_floats:
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
        return update({}, changes, who=who, api_version=kind.api_version, now=_now(self.call))

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
            now=_now(self.call),
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
        text = ((tree.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
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
        annotations = {key: item for key, item in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
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

"""The contract of a strategy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from bayplan.api.codec import decoder, encode
from bayplan.api.errors import FieldError
from bayplan.api.managedfields.fieldset import FieldSet, of_paths, recursive_difference
from bayplan.api.validation.meta import UpdateChecks

_STATUS = of_paths(("f:status",))


class Strategy:
    """Rules of one kind. One instance serves all requests, so it holds no state.

    The order of a create is `default`, (mutating admission, `default` again), `prepare_create`, `validate`,
    `validate_create`; of an update `default`, `prepare_update`, (mutating admission), `validate`, `validate_update`.
    Objects handed in are freshly decoded and belong to the caller alone, so `default` and `prepare_*` change them in
    place; `old` is shared and must not be changed.
    """

    counts_generation = False
    """Whether `metadata.generation` starts at 1 and counts changes of what the user wants (by default: of
    everything but metadata and status)."""
    allow_unconditional_update = True
    """Whether an update without a resourceVersion overwrites whatever is there."""
    allow_create_on_update = False
    """Whether a PUT of a missing object creates it."""
    has_status = False
    """Whether `status` is kept apart: dropped on create, untouched by updates, changed only through the `status`
    subresource."""
    returns_object_on_delete = False
    """Whether a deletion answers with the object instead of a Status."""
    orphans_dependents = False
    """Whether a deletion that says nothing about dependents orphans them."""
    reset_by_update = _STATUS
    """Fields that a write of the object itself does not change, so that its writer owns none of them, if it has a status."""
    reset_by_status = of_paths(("f:spec",))
    """Fields that a write of status, or through another subresource, does not change, so that its writer owns none of
    them."""
    name_is_checked_as = "dns-1123-subdomain"
    """Rule for `metadata.name`: `dns-1123-subdomain`, `dns-1123-label`, `dns-1035-label`, `path-segment`, or
    `any` where `validate` checks it."""

    def name_errors(self, obj: Any) -> list[FieldError]:
        """What is wrong with the name of a new object besides its form, which are told together."""
        return []

    tells_every_error = True
    """Whether each error that the rules make is one that they return, so that they may be stopped at the one that is one too many."""

    def default(self, obj: Any) -> None:
        """Fill in what the user left out, as Kubernetes' defaulting does, and spell quantities canonically. Must be
        idempotent.

        Raises codec.DecodeError for what Kubernetes finds while it decodes, such as a malformed quantity.
        """

    def least_bytes(self, obj: Any) -> int:
        """What the JSON of an object is long at least once it is defaulted, as far as that is told by counting: objects whose defaults are too
        large to be stored need not be made. 0 if nothing is known."""
        return 0

    def default_times(self, obj: Any, now: float) -> None:
        """Fill in times that the user left out; part of `default` for those few kinds whose defaults depend on when that is (unix time)."""

    def renew_times(self, obj: Any, old: Any, now: float) -> None:
        """Set times that an update of the object changes though its writer has not; part of `prepare_update` for those few kinds that have such (unix time)."""

    def renew_status_times(self, obj: Any, old: Any, now: float) -> None:
        """Set times that an update of the status changes though its writer has not, for those few kinds that have such (unix time)."""

    def prepare_create(self, obj: Any) -> None:
        """Take out what a creator may not set. Called with metadata already filled in."""
        if self.has_status:
            obj.status = type(obj.status)()

    times_are_free = False
    """Whether times in an object decide nothing: a write that is one of before but for times has the same outcome but for times, as long as these are in the
    same order. Says it where objects are written again and again for a time's sake."""
    has_gated_fields = False
    """Whether the kind has fields of Kubernetes' feature gates; see `apply_gates`."""

    def apply_gates(self, obj: Any, old: Any | None, gates: Collection[str]) -> None:
        """Take out fields of feature gates that are not among those that are on, unless the object before (`old`, None for a new one) has them, and fill in
        the defaults of gates that are on."""

    def prepare_update(self, obj: Any, old: Any) -> None:
        """Restore what an update of the main resource may not change."""
        if self.has_status:
            obj.status = old.status

    def prepare_status_update(self, obj: Any, old: Any) -> None:
        """Restore what an update of `status` may not change: everything but status and the free parts of metadata."""
        for field in obj.__struct_fields__:
            if field not in ("kind", "api_version", "metadata", "status"):
                setattr(obj, field, getattr(old, field))

    def begin_deletion(self, obj: Any, now: str) -> bool:
        """Write into an object that its deletion has begun, for kinds whose objects stay until a controller has cleaned up, whatever
        finalizers they have; `now` as RFC 3339. Only metadata may be changed in place: all else is shared.

        False for kinds that go as their finalizers and their grace allow.
        """
        return False

    def spec_changed(self, obj: Any, old: Any) -> bool:
        """Whether the change counts for `metadata.generation`."""
        return any(
            getattr(obj, field) != getattr(old, field)
            for field in obj.__struct_fields__
            if field not in ("kind", "api_version", "metadata", "status")
        )

    def shown(self, obj: Any) -> Any:
        """What clients see of an object: the object, or a copy without what is kept but not shown."""
        return obj

    def validate(self, obj: Any) -> list[FieldError]:
        """What is wrong with the object itself (metadata is checked by the server, for all kinds alike)."""
        return []

    def validate_create(self, obj: Any) -> list[FieldError]:
        """What is wrong only because the object is new; `validate` is called as well."""
        return []

    def validate_update(self, obj: Any, old: Any) -> list[FieldError]:
        """What is wrong with this change: immutable fields, transitions. `validate` is called as well."""
        return []

    def validate_status_update(self, obj: Any, old: Any) -> list[FieldError]:
        """What is wrong with this change of status; nothing else is checked then."""
        return []

    def prepare_subresource_update(self, subresource: str, obj: Any, old: Any) -> None:
        """Restore what a write through another subresource than `status` (`ephemeralcontainers`, `resize`,
        `approval`, `finalize`) may not change. Without rules of its own it may change what `status` may."""
        self.prepare_status_update(obj, old)

    def validate_subresource_update(self, subresource: str, obj: Any, old: Any) -> list[FieldError]:
        """What is wrong with a write through such a subresource; nothing else is checked then."""
        return self.validate_status_update(obj, old)

    def ownable(self, subresource: str, fields: FieldSet) -> FieldSet:
        """The part of some changed fields that their writer can own: not what a write this way does not change."""
        if subresource:
            return recursive_difference(fields, self.reset_by_status)
        return recursive_difference(fields, self.reset_by_update) if self.has_status else fields

    def metadata_rule(self, obj: Any) -> str | None:
        """How the name is checked, together with the rest of the object (`name_is_checked_as`). None: the rules of the kind leave metadata alone,
        so they are only looked at, as those of any object, when nothing else is wrong."""
        return self.name_is_checked_as

    update_checks = UpdateChecks()
    """How often updates of metadata are checked by the rules of the kind."""
    status_checks = UpdateChecks()
    """The same for updates of the status."""

    metadata_comes_second = False
    """Whether what is wrong with metadata is told after what is wrong with the object, but before what is wrong with the creation or change."""
    changes_come_first = False
    """Whether what is wrong with a creation or change is told before what is wrong with the object."""

    checks_generated_names = True
    """Whether the prefix of a generated name is checked as well as the name."""
    completes_names = True
    """Whether random characters follow a `generateName`."""
    names_unnamed = False
    """Whether an object without a name gets a random one."""

    def warnings(self, obj: Any, old: Any | None) -> list[str]:
        """Texts for the Warning headers of a create (`old` is None) or update."""
        return []

    def early_warnings(self, obj: Any) -> list[str]:
        """Texts for the Warning headers of a create that are given before the object is looked at, even if it is refused."""
        return []

    def status_warnings(self, obj: Any) -> list[str]:
        """Texts for the Warning headers of an update of the status."""
        return []

    def selectable_fields(self, obj: Any) -> dict[str, str]:
        """Fields for field selectors, besides `metadata.name` and `metadata.namespace`: path -> value as text."""
        return {}

    observed_fields: tuple[str, ...] = ()
    """All that `selectable_fields` reads of an object, as attributes with dots between them: the rest need not be decoded for it. None: perhaps everything."""
    selectable_field_names: frozenset[str] = frozenset()
    """The names of these fields; a selector with any other name is refused."""

    knows_finalizers = True
    """Whether finalizers without a domain must be ones that Kubernetes knows."""

    checks_served_version = False
    """Whether objects that come in another version than the stored one are checked in that version, by its own strategy."""

    def stored_field_names(self, group: str) -> Mapping[str, str] | None:
        """How fields are selected in another served group: name there -> name here. None if they have the same names."""
        return None


def clone(obj: Any) -> Any:
    """An independent deep copy of an API object."""
    return decoder(type(obj))(encode(obj))

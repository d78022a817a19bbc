"""Volume attachments."""

from __future__ import annotations

from bayplan.api.defaults.quantities import canonical_list
from bayplan.api.defaults.volumes import default_volume_source
from bayplan.api.errors import FieldError, forbidden, invalid, required, too_long
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import storage_v1
from bayplan.api.validation.fields import check_format, check_unchanged
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.persistent_volumes import check_volume_spec
from bayplan.api.validation.storage import check_csi_driver_name
from bayplan.api.validation.values import formats

_MAX_METADATA = 256 * 1024
_MAX_MESSAGE = 1024


class VolumeAttachmentStrategy(Strategy):
    """Rules of volume attachments: the spec never changes."""

    update_checks = UpdateChecks(whole=1, change=0)
    status_checks = UpdateChecks(change=0)
    reset_by_status = of_paths(("f:spec",), ("f:metadata",))
    has_status = True
    allow_unconditional_update = False
    returns_object_on_delete = True

    def default(self, obj: storage_v1.VolumeAttachment) -> None:
        inline = obj.spec.source.inline_volume_spec
        if inline is not None:
            canonical_list(inline.capacity)
            default_volume_source(inline)

    def validate(self, obj: storage_v1.VolumeAttachment) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        check_csi_driver_name(errors, "spec.attacher", spec.attacher)
        source = spec.source
        if source.inline_volume_spec is None and source.persistent_volume_name is None:
            errors.append(
                required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
            )
        elif source.inline_volume_spec is not None and source.persistent_volume_name is not None:
            text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
            errors.append(forbidden("spec.source", text))
        elif source.inline_volume_spec is not None:
            check_volume_spec(errors, "spec.source.inlineVolumeSpec", source.inline_volume_spec, "", inline=True)
        elif not source.persistent_volume_name:
            where = "spec.source.persistentVolumeName"
            errors.append(required(where, "must specify non empty persistentVolumeName"))
        check_format(errors, "spec.nodeName", spec.node_name, formats.dns_subdomain)
        if source.persistent_volume_name is not None:
            where = "spec.source.persistentVolumeName"
            check_format(errors, where, source.persistent_volume_name, formats.dns_subdomain)
        return errors

    def validate_update(self, obj: storage_v1.VolumeAttachment, old: storage_v1.VolumeAttachment) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec", obj.spec, old.spec)
        return errors

    def validate_status_update(
        self, obj: storage_v1.VolumeAttachment, old: storage_v1.VolumeAttachment
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        status = obj.status
        size = 0
        for key, value in status.attachment_metadata.items():
            size += formats.size(key) + formats.size(value)
        if size > _MAX_METADATA:
            errors.append(too_long("status.attachmentMetadata", _MAX_METADATA))
        for name, error in (("attachError", status.attach_error), ("detachError", status.detach_error)):
            if error is None:
                continue
            if formats.size(error.message) > _MAX_MESSAGE:
                errors.append(too_long(f"status.{name}.message", _MAX_METADATA))
            if error.error_code is not None and error.error_code < 0:
                text = formats.range_message(0, 2**31 - 1)
                errors.append(invalid(f"status.{name}.errorCode", error.error_code, text))
        return errors


STRATEGY = VolumeAttachmentStrategy()

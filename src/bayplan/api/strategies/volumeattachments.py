"""Volume attachments."""

from __future__ import annotations

from bayplan.api.errors import FieldError, invalid, required, too_long
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import storage_v1
from bayplan.api.validation import formats
from bayplan.api.validation.fields import check_format, check_unchanged
from bayplan.api.validation.storage import check_csi_driver_name

_MAX_METADATA = 256 * 1024
_MAX_MESSAGE = 1024


class VolumeAttachmentStrategy(Strategy):
    """Rules of volume attachments: the spec never changes."""

    reset_by_status = of_paths(("f:spec",), ("f:metadata",))
    has_status = True
    allow_unconditional_update = False
    returns_object_on_delete = True

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
            errors.append(invalid("spec.source", source, text))
        elif source.persistent_volume_name is not None:
            where = "spec.source.persistentVolumeName"
            if not source.persistent_volume_name:
                errors.append(required(where, "must specify non empty persistentVolumeName"))
            check_format(errors, where, source.persistent_volume_name, formats.dns_subdomain)
        check_format(errors, "spec.nodeName", spec.node_name, formats.dns_subdomain)
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
            if not key:
                errors.append(invalid("status.attachmentMetadata", key, "field can not be empty."))
            size += len(key.encode()) + len(value.encode())
        if size > _MAX_METADATA:
            errors.append(too_long("status.attachmentMetadata", _MAX_METADATA))
        for name, error in (("attachError", status.attach_error), ("detachError", status.detach_error)):
            if error is not None and len(error.message.encode()) > _MAX_MESSAGE:
                errors.append(too_long(f"status.{name}.message", _MAX_MESSAGE))
        return errors


STRATEGY = VolumeAttachmentStrategy()

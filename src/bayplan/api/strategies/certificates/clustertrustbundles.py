"""Bundles of trust anchors, of a signer or of nobody in particular."""

from __future__ import annotations

from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import certificates_v1beta1
from bayplan.api.validation.fields import check_unchanged
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.signers import check_signer_name
from bayplan.api.validation.trust_bundles import bundle_name_errors, check_trust_bundle

ClusterTrustBundle = certificates_v1beta1.ClusterTrustBundle


class ClusterTrustBundleStrategy(Strategy):
    """Rules of trust bundles: the name begins with that of the signer, which never changes."""

    allow_unconditional_update = False
    name_is_checked_as = "any"
    update_checks = UpdateChecks(whole=1)
    selectable_field_names = frozenset(("spec.signerName",))

    def name_errors(self, obj: ClusterTrustBundle) -> list[FieldError]:
        return bundle_name_errors(obj.metadata.name, obj.spec.signer_name)

    def validate(self, obj: ClusterTrustBundle) -> list[FieldError]:
        errors: list[FieldError] = []
        if obj.spec.signer_name:
            check_signer_name(errors, "spec.signerName", obj.spec.signer_name)
        return errors

    def validate_create(self, obj: ClusterTrustBundle) -> list[FieldError]:
        errors: list[FieldError] = []
        check_trust_bundle(errors, "spec.trustBundle", obj.spec.trust_bundle)
        return errors

    def validate_update(self, obj: ClusterTrustBundle, old: ClusterTrustBundle) -> list[FieldError]:
        errors: list[FieldError] = []
        errors += self.name_errors(obj)
        if obj.spec.trust_bundle != old.spec.trust_bundle:
            check_trust_bundle(errors, "spec.trustBundle", obj.spec.trust_bundle)
        check_unchanged(errors, "spec.signerName", obj.spec.signer_name, old.spec.signer_name)
        return errors

    def selectable_fields(self, obj: ClusterTrustBundle) -> dict[str, str]:
        return {"spec.signerName": obj.spec.signer_name}


STRATEGY = ClusterTrustBundleStrategy()

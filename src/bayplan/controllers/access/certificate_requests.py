"""Certificate signing requests: requests of kubelets are approved, approved ones are signed, old ones go. Decisions are in `certificate_rules`.

The three controllers share nothing but the requests.
"""

from __future__ import annotations

import base64
import logging

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.types import authorization_v1, certificates_v1
from bayplan.client.errors import ClientError
from bayplan.controllers.access import certificate_rules as rules
from bayplan.controllers.base import Controller, ControllerContext, delete_if_there
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

POLLING_SECONDS = 3600.0
"""Between two rounds of the cleaner."""


class _Requests(Controller):
    """Queues every request that is new or has changed, from when the controllers run."""

    workers = 2

    def setup(self) -> None:
        pass

    async def run_background(self) -> None:
        self.requests = self.informer(certificates_v1.CertificateSigningRequest)
        self.watch_keys(self.requests)

    async def reconcile(self, key: str) -> None:
        csr: certificates_v1.CertificateSigningRequest | None = self.requests.cache.by_key(key)
        if csr is None or csr.metadata.deletion_timestamp:
            return
        try:
            await self.handle(csr)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            self.queue.add_rate_limited(key)

    async def handle(self, csr: certificates_v1.CertificateSigningRequest) -> None:
        """Do what is to be done about a request. Raises ApiError."""
        raise TypeError(f"{type(self).__name__} has no handle")

    def condition(self, kind: str, reason: str, message: str) -> certificates_v1.CertificateSigningRequestCondition:
        """A true condition, as of now."""
        now = rfc3339(self.clock.now())
        return certificates_v1.CertificateSigningRequestCondition(
            type=kind, status="True", reason=reason, message=message, last_update_time=now, last_transition_time=now
        )


class SigningController(_Requests):
    """Signs what was approved for the signers of Kubernetes itself."""

    name = "certificatesigningrequest-signing-controller"

    def __init__(self, context: ControllerContext, authority: rules.Authority) -> None:
        self.authority = authority
        super().__init__(context)

    async def handle(self, csr: certificates_v1.CertificateSigningRequest) -> None:
        if not rules.is_to_be_signed(csr):
            return
        status = csr.status
        try:
            request = rules.parse(csr)
            rules.check(request, csr.spec.usages, csr.spec.signer_name)
            certificate = rules.signed(
                self.authority,
                request,
                csr.spec.usages,
                csr.spec.expiration_seconds,
                int(self.context.randomness.uuid4().replace("-", ""), 16) >> 1,
                self.clock.now(),
            )
        except rules.BadRequest as error:
            failed = self.condition("Failed", "SignerValidationFailure", str(error))
            status = msgspec.structs.replace(status, conditions=(*status.conditions, failed))
        else:
            status = msgspec.structs.replace(status, certificate=base64.b64encode(certificate).decode())
        await self.client.update_status(msgspec.structs.replace(csr, status=status))


class ApprovingController(_Requests):
    """Approves kubelets' requests for client certificates, if the requester may have them."""

    name = "certificatesigningrequest-approving-controller"

    async def handle(self, csr: certificates_v1.CertificateSigningRequest) -> None:
        if csr.status.certificate or rules.condition(csr, "Approved") or rules.condition(csr, "Denied"):
            return
        asked = rules.approvals(csr)
        for subresource, message in asked:
            if await self._is_allowed(csr, subresource):
                approved = self.condition("Approved", "AutoApproved", message)
                conditions = (*csr.status.conditions, approved)
                status = msgspec.structs.replace(csr.status, conditions=conditions)
                await self.client.update(msgspec.structs.replace(csr, status=status), subresource="approval")
                return
        if asked:
            self.queue.add_rate_limited(csr.metadata.name)  # roles may come later

    async def _is_allowed(self, csr: certificates_v1.CertificateSigningRequest, subresource: str) -> bool:
        attributes = authorization_v1.ResourceAttributes(
            group="certificates.k8s.io",
            resource="certificatesigningrequests",
            verb="create",
            subresource=subresource,
            version="*",
        )
        spec = authorization_v1.SubjectAccessReviewSpec(
            user=csr.spec.username,
            uid=csr.spec.uid,
            groups=csr.spec.groups,
            extra=csr.spec.extra,
            resource_attributes=attributes,
        )
        review = await self.client.create(authorization_v1.SubjectAccessReview(spec=spec))
        return review.status.allowed


class CleanerController(Controller):
    """Removes requests that have served their time. Works in rounds, without its queue."""

    name = "certificatesigningrequest-cleaner-controller"
    workers = 0

    def setup(self) -> None:
        pass

    async def run_background(self) -> None:
        while True:
            try:
                await self.clean()
            except (ApiError, ClientError) as error:
                logger.warning("certificate signing requests were not cleaned up: %s", error)
            await self.clock.sleep(POLLING_SECONDS)

    async def clean(self) -> None:
        """One round. Raises ApiError, ClientError."""
        now = self.clock.now()
        for csr in (await self.client.list(certificates_v1.CertificateSigningRequest)).items:
            if rules.has_served(csr, now):
                await delete_if_there(self.client, csr)

"""Old requests for certificates of pods are removed: whatever becomes of them does within minutes.

Source of the behaviour: Kubernetes' `pkg/controller/certificates/cleaner/pcrcleaner.go`.
"""

from __future__ import annotations

from typing import Final

from bayplan.api.optional_kinds import POD_CERTIFICATE_REQUEST
from bayplan.api.types import certificates_v1beta1
from bayplan.controllers.base import delete_if_there
from bayplan.controllers.optional_kinds import OptionalController
from bayplan.informers import InformerFactory
from bayplan.support.timestamps import parse_rfc3339

Request = certificates_v1beta1.PodCertificateRequest
_CLEANED_EVERY: Final = 300.0
_KEPT: Final = 900.0


class PodCertificateRequestCleaner(OptionalController):
    """See the module. Works in rounds, without its queue."""

    name = "podcertificaterequest-cleaner-controller"
    workers = 0
    kinds = (POD_CERTIFICATE_REQUEST,)

    def begin(self, informers: InformerFactory) -> None:
        self.requests = informers.informer(Request)

    async def work(self) -> None:
        await self.requests.wait_for_sync()
        await self.clean_every(_CLEANED_EVERY, self.clean)

    async def clean(self) -> None:
        """One round. Raises ApiError, ClientError."""
        now = self.clock.now()
        for request in list(self.requests.cache):
            created = request.metadata.creation_timestamp
            if created and now - parse_rfc3339(created) >= _KEPT:
                await delete_if_there(self.client, request)

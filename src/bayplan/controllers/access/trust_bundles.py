"""The trust bundle of the API server's serving certificate: one ClusterTrustBundle with the cluster's CA, named after its content.

Source of the behaviour: Kubernetes' `pkg/controller/certificates/clustertrustbundlepublisher`.
"""

from __future__ import annotations

import hashlib
from typing import Final

from bayplan.api.errors import ApiError
from bayplan.api.optional_kinds import CLUSTER_TRUST_BUNDLE
from bayplan.api.types import certificates_v1beta1, meta_v1
from bayplan.controllers.base import ControllerContext, delete_if_there
from bayplan.controllers.optional_kinds import OptionalController
from bayplan.informers import InformerFactory

Bundle = certificates_v1beta1.ClusterTrustBundle
SIGNER: Final = "kubernetes.io/kube-apiserver-serving"
_HASHED_BYTES: Final = 12
_MARK: Final = "-----BEGIN CERTIFICATE-----"


def bundle_name(content: str) -> str:
    """The name of the bundle with a content."""
    digest = hashlib.sha256(content.encode()).digest()[:_HASHED_BYTES]
    return f"{SIGNER.replace('/', ':')}:{digest.hex()}"


class TrustBundlePublisher(OptionalController):
    """See the module. There is one key."""

    name = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
    workers = 1
    kinds = (CLUSTER_TRUST_BUNDLE,)

    def __init__(self, context: ControllerContext, root_ca: str) -> None:
        self._root_ca = root_ca if _MARK in root_ca else ""
        """"" in clusters without certificates."""
        super().__init__(context)

    def begin(self, informers: InformerFactory) -> None:
        self.bundles = informers.informer(Bundle)
        self.bundles.on_change(
            add=self._touch,
            update=lambda old, new: self._touch(new),
            delete=self._touch,
        )
        if self._root_ca:
            self.queue.add(SIGNER)

    def _touch(self, bundle: Bundle) -> None:
        if self._root_ca and bundle.spec.signer_name == SIGNER:
            self.queue.add(SIGNER)

    async def reconcile(self, key: str) -> None:
        await self.bundles.wait_for_sync()
        name = bundle_name(self._root_ca)
        if self.bundles.cache.by_key(name) is None:
            wanted = Bundle(
                metadata=meta_v1.ObjectMeta(name=name),
                spec=certificates_v1beta1.ClusterTrustBundleSpec(signer_name=SIGNER, trust_bundle=self._root_ca),
            )
            try:
                await self.client.create(wanted)
            except ApiError as error:
                if error.code != 409:
                    raise
        for bundle in [one for one in self.bundles.cache if one.spec.signer_name == SIGNER]:
            if bundle.metadata.name != name:
                await delete_if_there(self.client, bundle)

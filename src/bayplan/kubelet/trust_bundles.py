"""Trust anchors for pods: the certificates of ClusterTrustBundles (pkg/kubelet/clustertrustbundle)."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from bayplan.api.codec import decode
from bayplan.api.errors import ApiError
from bayplan.api.selectors.labels import SelectorError, compile_selector
from bayplan.api.types import certificates_v1beta1, meta_v1
from bayplan.api.validation.values.der import pem_blocks
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.kubelet.objects import ObjectError
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

PATH = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
KEPT_SECONDS = 50.0
"""How long a list is used: less than volumes take to be brought up to date."""
_LINE = 64


class TrustBundles:
    """Reads the bundles of an API server that has them; Bayplan's own has not."""

    def __init__(self, client: Client, clock: Clock, randomness: Randomness) -> None:
        self._client = client
        self._clock = clock
        self._randomness = randomness
        self._known: tuple[float, tuple[certificates_v1beta1.ClusterTrustBundle, ...]] | None = None

    async def anchors(
        self, *, name: str | None, signer: str | None, selector: meta_v1.LabelSelector | None, optional: bool
    ) -> bytes:
        """See ObjectSource.trust_anchors."""
        bundles = await self._bundles()
        if name is not None:
            found = [each for each in bundles if each.metadata.name == name]
            text = f'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "{name}" not found'
        else:
            matching = _selected(bundles, selector)
            found = [each for each in matching if each.spec.signer_name == signer]
            text = "combination of signerName and labelSelector matched zero ClusterTrustBundles"
        if not found and not optional:
            raise ObjectError(text)
        anchors = distinct_certificates(each.spec.trust_bundle.encode() for each in found)
        self._randomness.shuffle(anchors)  # so that nobody relies on an order
        return b"".join(map(pem_certificate, anchors))

    async def _bundles(self) -> tuple[certificates_v1beta1.ClusterTrustBundle, ...]:
        now = self._clock.monotonic()
        if self._known is not None and now - self._known[0] < KEPT_SECONDS:
            return self._known[1]
        try:
            data = await self._client.raw("GET", PATH)
        except (ApiError, TransportError) as error:
            raise ObjectError(f"while listing ClusterTrustBundles: {error}") from error
        listed: certificates_v1beta1.ClusterTrustBundleList = decode(certificates_v1beta1.ClusterTrustBundleList, data)
        self._known = (now, tuple(listed.items))
        return self._known[1]


def _selected(
    bundles: Iterable[certificates_v1beta1.ClusterTrustBundle], selector: meta_v1.LabelSelector | None
) -> list[certificates_v1beta1.ClusterTrustBundle]:
    """Without a selector nothing matches, with an empty one everything."""
    try:
        compiled = compile_selector(selector)
    except SelectorError as error:
        raise ObjectError(f"while parsing label selector: {error}") from error
    return [each for each in bundles if compiled.matches(each.metadata.labels)]


def distinct_certificates(bundles: Iterable[bytes]) -> list[bytes]:
    """The certificates (DER) of PEM texts, each once, in order of their bytes."""
    return sorted({block.content for text in bundles for block in pem_blocks(text)})


def pem_certificate(certificate: bytes) -> bytes:
    """A certificate (DER) as PEM."""
    text = base64.b64encode(certificate)
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    return b"\n".join((b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----", b""))

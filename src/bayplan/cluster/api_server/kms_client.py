"""Key management services behind unix sockets: gRPC, `v2.KeyManagementService`, with calls that block.

Source: `k8s.io/kms/apis/v2/api.proto`. See `bayplan.apiserver.encryption.envelopes` for why they may block.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from bayplan.apiserver.encryption.envelopes import EncryptedSeed, KmsError, KmsStatus
from bayplan.support.grpc.calls import BlockingConnection
from bayplan.support.grpc.errors import RpcError, go_name
from bayplan.support.grpc.message_tables import message_classes

_MESSAGES: Final = {
    "StatusRequest": "",
    "StatusResponse": "version: string, healthz: string, key_id: string",
    "DecryptRequest": "ciphertext: bytes, uid: string, key_id: string, annotations: {bytes}",
    "DecryptResponse": "plaintext: bytes",
    "EncryptRequest": "plaintext: bytes, uid: string",
    "EncryptResponse": "ciphertext: bytes, key_id: string, annotations: {bytes}",
}


@cache
def kms_messages() -> dict[str, Any]:
    """The classes of all messages, by name."""
    return message_classes("v2", _MESSAGES)


class KmsClient:
    """See `envelopes.KmsService`."""

    def __init__(self, endpoint: str, seconds: float) -> None:
        """endpoint: `unix:///PATH`, or `unix:///@NAME` for an abstract socket. seconds: of the longest call."""
        path = endpoint.removeprefix("unix://")
        self._connection = BlockingConnection(f"unix-abstract:{path[2:]}" if path.startswith("/@") else f"unix:{path}")
        self._seconds = seconds

    def status(self) -> KmsStatus:
        answer = self._call("Status", {})
        return KmsStatus(answer.version, answer.healthz, answer.key_id)

    def encrypt(self, uid: str, plaintext: bytes) -> EncryptedSeed:
        answer = self._call("Encrypt", {"plaintext": plaintext, "uid": uid})
        return EncryptedSeed(answer.key_id, answer.ciphertext, dict(answer.annotations))

    def decrypt(self, uid: str, seed: EncryptedSeed) -> bytes:
        request = {"ciphertext": seed.source, "uid": uid, "key_id": seed.key_id, "annotations": dict(seed.annotations)}
        plaintext: bytes = self._call("Decrypt", request).plaintext
        return plaintext

    def close(self) -> None:
        self._connection.close()

    def _call(self, method: str, fields: dict[str, Any]) -> Any:
        """Raises KmsError."""
        classes = kms_messages()
        request, answer = classes[f"{method}Request"](**fields), classes[f"{method}Response"]
        try:
            return self._connection.call(f"/v2.KeyManagementService/{method}", request, answer, self._seconds)
        except RpcError as error:
            raise KmsError(str(error), go_name(error.code)) from None

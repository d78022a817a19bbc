"""The gRPC health protocol (grpc.health.v1.Health/Check), as far as a probe needs it."""

from __future__ import annotations

from typing import Final

from bayplan.support.grpc.errors import rpc_text

_METHOD: Final = "/grpc.health.v1.Health/Check"
_STATES: Final = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


class GrpcHealthError(Exception):
    """The server did not say how it is."""


def _request(service: str) -> bytes:
    """A HealthCheckRequest: field 1, the service's name."""
    name = service.encode()
    if not name:
        return b""
    size, length = len(name), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return b"\x0a" + bytes(length) + name


def _state(response: bytes) -> int:
    """The status of a HealthCheckResponse: field 1, a number below 128; absent means 0."""
    return response[1] if len(response) >= 2 and response[0] == 0x08 else 0


async def is_serving(address: str, service: str, seconds: float) -> str:
    """The state that a server tells of a service, such as SERVING. Raises GrpcHealthError, and TimeoutError after `seconds`."""
    import grpc

    options = (("grpc.primary_user_agent", "kube-probe/1.36"), ("grpc.enable_http_proxy", 0))
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        check = channel.unary_unary(_METHOD, request_serializer=_request, response_deserializer=_state)
        try:
            state = await check(service, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details() or ""
            if code is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise TimeoutError from None
            if code is grpc.StatusCode.UNIMPLEMENTED:
                text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
                raise GrpcHealthError(f"{text}: {details}") from None
            if code is grpc.StatusCode.UNAVAILABLE:
                raise GrpcHealthError(f'error: failed to connect service at "{address}": {details}') from None
            raise GrpcHealthError(f"error: health rpc probe failed: {rpc_text(code.name, details)}") from None
    return _STATES.get(state, str(state))

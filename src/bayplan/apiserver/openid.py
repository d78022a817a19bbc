"""How others verify this server's service account tokens: OpenID discovery and the key set. Source: Kubernetes' `pkg/serviceaccount/openidmetadata.go`."""

from __future__ import annotations

import msgspec

from bayplan.api.errors import failure, method_not_allowed
from bayplan.apiserver.requests import Request, Response
from bayplan.apiserver.service_account_tokens.issuing import TokenIssuer

CONFIGURATION, KEY_SET = "/.well-known/openid-configuration", "/openid/v1/jwks"
_KEY_SET_TYPE = "application/jwk-set+json"
_CACHE = {"Cache-Control": "public, max-age=3600"}


def handle(request: Request, path: str, issuer: TokenIssuer, address: str) -> Response | None:
    """The answer, or None if the path is another. `address`: where this server is found (host:port). Raises ApiError (405, 406)."""
    if path not in (CONFIGURATION, KEY_SET):
        return None
    if request.method != "GET":
        raise method_not_allowed()
    produced = _KEY_SET_TYPE if path == KEY_SET else "application/json"
    if not _accepts(request.accept, produced):
        raise failure(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {produced}")
    if path == KEY_SET:
        return Response(200, issuer.keys.jwks(), produced, dict(_CACHE), is_final=True)
    body = {
        "issuer": issuer.issuer,
        "jwks_uri": issuer.jwks_uri or f"https://{address}{KEY_SET}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": issuer.keys.algorithms(),
    }
    return Response(200, msgspec.json.encode(body), produced, dict(_CACHE), is_final=True)


def _accepts(accept: str, media_type: str) -> bool:
    """Whether an Accept header takes a media type; without one everything is taken."""
    if not accept:
        return True
    wanted = {part.partition(";")[0].strip() for part in accept.split(",")}
    return bool(wanted & {"*/*", media_type})

"""`serviceaccounts/token`: a token for an account, for some time, perhaps bound to a pod, secret or node.

Source: Kubernetes' `pkg/registry/core/serviceaccount/storage/token.go`.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.errors import (
    FieldError,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_found_error,
    quoted,
)
from bayplan.api.types import authentication_v1, core_v1
from bayplan.api.validation.values import formats
from bayplan.apiserver.admission.chain import CREATE, AdmissionRequest
from bayplan.apiserver.context import Call
from bayplan.apiserver.managed_fields.managers import track_create
from bayplan.apiserver.reads.other_forms import answer_in_form
from bayplan.apiserver.requests import Response
from bayplan.apiserver.service_account_tokens.issuing import (
    EXTENDED_SECONDS,
    WARN_ONLY_SECONDS,
    ObjectName,
    TokenGrant,
    TokenIssuer,
)
from bayplan.apiserver.verbs.create import OTHER_NAMESPACE, wipe_system_fields
from bayplan.apiserver.writes.bodies import body_object
from bayplan.support.timestamps import rfc3339

_GROUP, _VERSION = "authentication.k8s.io", "authentication.k8s.io/v1"
_HEAD = f'{{"kind":"TokenRequest","apiVersion":"{_VERSION}",'.encode()
_DEFAULT_SECONDS, _LEAST_SECONDS, _MOST_SECONDS = 3600, 600, 1 << 32
_BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
TokenRequest = authentication_v1.TokenRequest


async def handle(call: Call) -> Response:
    """create on `serviceaccounts/NAME/token`. Raises ApiError."""
    request: TokenRequest = body_object(call, TokenRequest, "TokenRequest", _VERSION)
    _check_place(call, request)
    account = call.context.find("ServiceAccount", call.path.namespace, call.path.name)
    if account is None:
        raise not_found_error("serviceaccounts", "", call.path.name)
    issuer = call.context.service_accounts.issuer
    now = call.context.clock.now()
    _complete(call, request, now)
    admission = AdmissionRequest(call, CREATE, request, None, "token", name=call.path.name)
    plan = call.context.admission.plan(call.stored, CREATE, "token")
    await plan.admit(admission)  # NodeRestriction compares the audiences that were asked for with those of the pod
    request.spec.audiences = tuple(request.spec.audiences) or issuer.audiences
    await plan.validate(admission)
    bound, node = _bound(call, request)
    seconds, warn_after = _lifetime(call, request, issuer, bound)
    named = ObjectName(bound.metadata.name, bound.metadata.uid) if bound is not None else None
    grant = TokenGrant(
        namespace=call.path.namespace,
        account=ObjectName(account.metadata.name, account.metadata.uid),
        audiences=tuple(request.spec.audiences),
        seconds=seconds,
        token_id=call.context.randomness.uuid4(),
        pod=named if isinstance(bound, core_v1.Pod) else None,
        secret=named if isinstance(bound, core_v1.Secret) else None,
        node=named if isinstance(bound, core_v1.Node) else node,
        warn_after=warn_after,
    )
    if call.request.audit is not None:
        call.request.audit.annotate("authentication.kubernetes.io/issued-credential-id", f"JTI={grant.token_id}")
    shown = request.spec.expiration_seconds or 0
    request.status = authentication_v1.TokenRequestStatus(
        token=issuer.issue(grant, now), expiration_timestamp=rfc3339(now + shown)
    )
    request.kind = request.api_version = ""
    return answer_in_form(call, 201, _HEAD, request, "authentication")


def _check_place(call: Call, request: TokenRequest) -> None:
    """Raises ApiError (422) if the body names another account."""
    metadata, path = request.metadata, call.path
    problem: FieldError | None = None
    if metadata.name and metadata.name != path.name:
        problem = invalid("metadata.name", metadata.name, "must match the service account name if specified")
    if metadata.namespace and metadata.namespace != path.namespace:
        raise bad_request(OTHER_NAMESPACE)
    if problem is not None:
        raise invalid_object("TokenRequest", _GROUP, path.name, [problem])


def _complete(call: Call, request: TokenRequest, now: float) -> None:
    """Fill in what the request leaves open. Raises ApiError (422)."""
    spec, metadata = request.spec, request.metadata
    if spec.expiration_seconds is None:
        spec.expiration_seconds = _DEFAULT_SECONDS
    wipe_system_fields(metadata)
    track_create(call, request, _VERSION, "token")
    metadata.name, metadata.namespace = call.path.name, call.path.namespace
    metadata.uid = call.context.randomness.uuid4()
    metadata.creation_timestamp = rfc3339(now)
    seconds, errors = spec.expiration_seconds, []
    if seconds < _LEAST_SECONDS:
        errors.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MOST_SECONDS:
        text = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid("spec.expirationSeconds", seconds, text))
    if errors:
        raise invalid_object("TokenRequest", _GROUP, "", errors)


def _bound(call: Call, request: TokenRequest) -> tuple[Any, ObjectName | None]:
    """The object that the token is bound to, and the node of a pod. Raises ApiError (400, 404, 409)."""
    reference = request.spec.bound_object_ref
    if reference is None:
        return None, None
    group, _, version = reference.api_version.rpartition("/")
    if group or reference.kind not in _BOUND:
        shown = f"{group}/{version}, Kind={reference.kind}"
        raise bad_request(f"cannot bind token to object of type {shown}")
    if not reference.name:
        raise bad_request("Name parameter required.")
    if problems := formats.path_segment(reference.name):
        raise bad_request(f"Name parameter invalid: {quoted(reference.name)}: {';'.join(problems)}")
    namespace = "" if reference.kind == "Node" else call.path.namespace
    found = call.context.find(reference.kind, namespace, reference.name)
    if found is None:
        raise not_found_error(_BOUND[reference.kind], "", reference.name)
    node = None
    if reference.kind == "Pod":
        if call.path.name != found.spec.service_account_name:
            raise bad_request(
                f"cannot bind token for serviceaccount {quoted(call.path.name)} to pod running with different serviceaccount name."
            )
        if found.spec.node_name:
            there = call.context.find("Node", "", found.spec.node_name)
            node = ObjectName(found.spec.node_name, there.metadata.uid if there is not None else "")
    if reference.uid and reference.uid != found.metadata.uid:
        detail = (
            f"the UID in the bound object reference ({reference.uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise conflict(reference.kind, "", reference.name, detail)
    return found, node


def _lifetime(call: Call, request: TokenRequest, issuer: TokenIssuer, bound: Any) -> tuple[int, int]:
    """Seconds that the token is good, and after which its use is noted as stale (0 for never)."""
    spec = request.spec
    seconds = spec.expiration_seconds or _DEFAULT_SECONDS
    if issuer.max_seconds and seconds > issuer.max_seconds:
        call.warnings.append(f"requested expiration of {seconds} seconds shortened to {issuer.max_seconds} seconds")
        seconds = spec.expiration_seconds = issuer.max_seconds
    own = set(spec.audiences) == set(issuer.audiences)
    if issuer.extend and isinstance(bound, core_v1.Pod) and seconds == WARN_ONLY_SECONDS and own:
        return EXTENDED_SECONDS, seconds
    return seconds, 0

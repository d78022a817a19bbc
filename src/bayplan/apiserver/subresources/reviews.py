"""Reviews: questions that are posted and answered at once, never kept. Who am I, whose token is this, who may do what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bayplan.api.errors import bad_request, internal_error, invalid_object, not_acceptable
from bayplan.api.types import authentication_v1, authorization_v1
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.authorization.interface import Decision
from bayplan.apiserver.authorization.rbac import aggregate
from bayplan.apiserver.authorization.waiting import decided
from bayplan.apiserver.context import Call
from bayplan.apiserver.managed_fields.managers import track_create
from bayplan.apiserver.reads.negotiation import OFFERED
from bayplan.apiserver.reads.other_forms import answer_in_form
from bayplan.apiserver.requests import Response, User
from bayplan.apiserver.subresources.review_rules import review_errors
from bayplan.apiserver.verbs.create import wipe_system_fields
from bayplan.apiserver.writes.bodies import body_object
from bayplan.support.timestamps import rfc3339


async def self_subject(call: Call) -> Response:
    """SelfSubjectReview: who am I?"""
    _body(call, authentication_v1.SelfSubjectReview)
    review = authentication_v1.SelfSubjectReview()
    review.metadata.creation_timestamp = rfc3339(call.context.clock.now())
    review.status = authentication_v1.SelfSubjectReviewStatus(user_info=_user_info(call.request.user))
    return _answer(call, review)


async def token_review(call: Call) -> Response:
    """TokenReview: whose token is this, and for which of these audiences is it? Raises ApiError (400, 500)."""
    review = _body(call, authentication_v1.TokenReview)
    if not review.spec.token:
        raise bad_request("token is required for TokenReview in authentication")
    found = await call.context.authenticator.review_all(review.spec.token, review.spec.audiences)
    status = authentication_v1.TokenReviewStatus(error=found.error)
    if found.user is not None:
        if not found.audiences:
            raise internal_error("unable to validate audience")
        status = authentication_v1.TokenReviewStatus(
            authenticated=True, user=_user_info(found.user), audiences=found.audiences
        )
    review.status = status
    return _answer(call, review)


def _user_info(user: User) -> authentication_v1.UserInfo:
    return authentication_v1.UserInfo(
        username=user.name,
        uid=user.uid,
        groups=user.groups,
        extra={key: tuple(values) for key, values in user.extra.items()},
    )


async def access_review(call: Call) -> Response:
    """SubjectAccessReview and LocalSubjectAccessReview: may somebody do this? Raises ApiError (422)."""
    kinds = (authorization_v1.SubjectAccessReview, authorization_v1.LocalSubjectAccessReview)
    review = _body(call, kinds[call.kind.namespaced])
    namespace = call.path.namespace if call.kind.namespaced else None
    if namespace is not None and not review.metadata.namespace:
        review.metadata.namespace = namespace
    elif namespace is not None and review.metadata.namespace != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    _check(review_errors(review, has_user=True, namespace=namespace))
    spec = review.spec
    user = User(spec.user, tuple(spec.groups), spec.uid, spec.extra)
    review.status = await decided(_decide, call, user, spec)
    return _answer(call, review)


async def self_access_review(call: Call) -> Response:
    """SelfSubjectAccessReview: may I do this? Raises ApiError (422)."""
    review = _body(call, authorization_v1.SelfSubjectAccessReview)
    _check(review_errors(review, has_user=False, namespace=None))
    review.status = await decided(_decide, call, call.request.user, review.spec)
    return _answer(call, review)


def _check(errors: Sequence[Any]) -> None:
    if errors:
        raise invalid_object("", "authorization.k8s.io", "", errors)


def _decide(call: Call, user: User, spec: Any) -> authorization_v1.SubjectAccessReviewStatus:
    wanted, other = spec.resource_attributes, spec.non_resource_attributes
    if wanted is None:
        asked = Attributes(user, other.verb, path=other.path, is_resource=False)
    else:
        asked = Attributes(
            user,
            wanted.verb,
            group=wanted.group,
            version=wanted.version or "*",
            resource=wanted.resource,
            subresource=wanted.subresource,
            namespace=wanted.namespace,
            name=wanted.name,
            field_selector=_field_selector(wanted.field_selector),
            label_selector=_label_selector(wanted.label_selector),
        )
    verdict = call.context.authorizer.authorize(asked)
    return authorization_v1.SubjectAccessReviewStatus(
        allowed=verdict.decision is Decision.ALLOW, denied=verdict.decision is Decision.DENY, reason=verdict.reason
    )


def _field_selector(selector: authorization_v1.FieldSelectorAttributes | None) -> str:
    """A field selector as a query has it; requirements that no query can express narrow nothing."""
    if selector is None:
        return ""
    if selector.raw_selector:
        return selector.raw_selector
    signs = {"In": "=", "NotIn": "!="}
    parts = [
        f"{one.key}{signs[one.operator]}{one.values[0]}"
        for one in selector.requirements
        if one.operator in signs and len(one.values) == 1
    ]
    return ",".join(parts)


def _label_selector(selector: authorization_v1.LabelSelectorAttributes | None) -> str:
    """A label selector as a query has it; requirements that make no sense narrow nothing."""
    if selector is None:
        return ""
    if selector.raw_selector:
        return selector.raw_selector
    forms = {"In": "{0} in ({1})", "NotIn": "{0} notin ({1})", "Exists": "{0}", "DoesNotExist": "!{0}"}
    return ",".join(
        forms[one.operator].format(one.key, ",".join(one.values))
        for one in selector.requirements
        if one.operator in forms and bool(one.values) == one.operator.endswith("In")
    )


async def rules_review(call: Call) -> Response:
    """SelfSubjectRulesReview: what may I do in this namespace? Raises ApiError (400)."""
    review = _body(call, authorization_v1.SelfSubjectRulesReview)
    namespace = review.spec.namespace
    if not namespace:
        raise bad_request("no namespace on request")
    found = call.context.authorizer.rules_for(call.request.user, namespace)
    resources = tuple(
        authorization_v1.ResourceRule(
            verbs=rule.verbs, api_groups=rule.api_groups, resources=rule.resources, resource_names=rule.resource_names
        )
        for rule in found.rules
        if rule.resources
    )
    others = tuple(
        authorization_v1.NonResourceRule(verbs=rule.verbs, non_resource_urls=rule.non_resource_urls)
        for rule in found.rules
        if rule.non_resource_urls
    )
    status = authorization_v1.SubjectRulesReviewStatus(
        resource_rules=resources,
        non_resource_rules=others,
        incomplete=found.is_incomplete,
        evaluation_error=aggregate(found.problems) if found.problems else "",
    )
    return _answer(call, authorization_v1.SelfSubjectRulesReview(status=status))


def _body(call: Call, cls: type[Any]) -> Any:
    """The review that was posted, with who posted it."""
    review = body_object(call, cls, call.kind.kind, call.kind.api_version)
    wipe_system_fields(review.metadata)
    if not call.kind.namespaced:
        review.metadata.namespace = ""
    track_create(call, review)
    return review


def _answer(call: Call, review: Any) -> Response:
    review.kind = review.api_version = ""
    return answer_in_form(call, 201, call.kind.type_meta, review, call.kind.group.partition(".")[0])


def answer(call: Call, body: bytes) -> Response:
    """A review as it is answered; there are no tables of reviews. Raises ApiError (406)."""
    if call.form.convert_to:
        raise not_acceptable(OFFERED)
    return Response(201, call.kind.type_meta + body[1:], warnings=call.warnings)


REVIEWS: dict[str, Callable[[Call], Awaitable[Response]]] = {
    "SelfSubjectReview": self_subject,
    "TokenReview": token_review,
    "SubjectAccessReview": access_review,
    "LocalSubjectAccessReview": access_review,
    "SelfSubjectAccessReview": self_access_review,
    "SelfSubjectRulesReview": rules_review,
}

"""Reviews: questions that are posted and answered at once, never kept."""

from __future__ import annotations

from bayplan.api.codec import encode
from bayplan.api.errors import not_acceptable
from bayplan.api.types import authentication_v1
from bayplan.apiserver.context import BODY_TYPES, Call
from bayplan.apiserver.negotiation import YAML, negotiate
from bayplan.apiserver.representation import to_yaml
from bayplan.apiserver.requests import Response
from bayplan.support.timestamps import rfc3339


async def self_subject(call: Call) -> Response:
    """SelfSubjectReview: who am I?"""
    review: authentication_v1.SelfSubjectReview = call.body_object(
        authentication_v1.SelfSubjectReview, "SelfSubjectReview", call.kind.api_version
    )
    user = call.request.user
    review.metadata.creation_timestamp = rfc3339(call.context.clock.now())
    review.status = authentication_v1.SelfSubjectReviewStatus(
        user_info=authentication_v1.UserInfo(
            username=user.name,
            uid=user.uid,
            groups=user.groups,
            extra={key: tuple(values) for key, values in user.extra.items()},
        )
    )
    review.kind = review.api_version = ""
    return answer(call, encode(review))


def answer(call: Call, body: bytes) -> Response:
    """A review as it is answered; there are no tables of reviews. Raises ApiError (406)."""
    form = negotiate(call.request.accept)
    if form.convert_to:
        raise not_acceptable(BODY_TYPES)
    data = call.kind.type_meta + body[1:]
    if form.media_type == YAML:
        return Response(201, to_yaml(data), YAML, warnings=call.warnings)
    return Response(201, data, warnings=call.warnings)

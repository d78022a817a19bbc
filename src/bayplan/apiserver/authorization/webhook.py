"""Authorization by a webhook that gets a SubjectAccessReview. Source: `k8s.io/apiserver/plugin/pkg/authorizer/webhook/webhook.go`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from bayplan.api.errors import quoted
from bayplan.api.selectors.fields import parse_fields
from bayplan.api.selectors.labels import DOES_NOT_EXIST, EQUALS, EXISTS, IN, NOT_EQUALS, NOT_IN, SelectorError
from bayplan.api.selectors.syntax import parse_labels
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.authorization.interface import NO_OPINION, Decision, Verdict
from bayplan.apiserver.authorization.match_conditions import ConditionError, match
from bayplan.apiserver.authorization.metrics import AuthorizationMetrics
from bayplan.apiserver.authorization.waiting import Undecided, known, note_waiting
from bayplan.apiserver.configuration.expressions import Expression
from bayplan.apiserver.webhooks.posting import ReviewError, ReviewWebhook
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

_GROUP: Final = "authorization.k8s.io"
_MOST_VERDICTS: Final = 8192
_LONGEST_KEPT: Final = 10_000
"""Letters of what a client chooses in a request; longer ones are not kept."""
_OPERATORS: Final = {
    IN: "In",
    EQUALS: "In",
    NOT_IN: "NotIn",
    NOT_EQUALS: "NotIn",
    EXISTS: "Exists",
    DOES_NOT_EXIST: "DoesNotExist",
}


class _Status(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _Review(msgspec.Struct):
    status: _Status | None = None


class _Kept(NamedTuple):
    verdict: Verdict
    until: float
    """Monotonic seconds."""


class WebhookSettings(NamedTuple):
    """How a webhook is asked, and what its answers mean."""

    name: str
    version: str
    """Of the access reviews that it gets: v1 or v1beta1."""
    authorized_seconds: float
    """How long it is kept that something is allowed; 0: not at all."""
    unauthorized_seconds: float
    """How long it is kept that something is not allowed; 0: not at all."""
    denies_on_failure: bool
    """Whether nothing is allowed while it does not answer; else the next authorizer is asked."""
    conditions: Sequence[Expression] = ()
    """What must be true of a request for it to be asked."""


class WebhookAuthorizer:
    """See Authorizer. What it does not know raises Undecided."""

    def __init__(
        self, settings: WebhookSettings, webhook: ReviewWebhook, clock: Clock, metrics: AuthorizationMetrics
    ) -> None:
        self._settings = settings
        self._webhook = webhook
        self._clock = clock
        self._metrics = metrics
        self._kept: dict[bytes, _Kept] = {}
        self._on_failure = Verdict(Decision.DENY) if settings.denies_on_failure else NO_OPINION

    def authorize(self, attributes: Attributes) -> Verdict:
        """See Authorizer. Raises Undecided."""
        spec = review_spec(attributes)
        text = msgspec.json.encode(spec)
        key = (self, text)
        answered = known(key)
        if answered is not None:
            return answered
        if self._settings.conditions:
            try:
                if not self._matches(spec):
                    return NO_OPINION
            except ConditionError as error:
                logger.error("the match conditions of the authorizer %s: %s", self._settings.name, error)
                return self._on_failure
        kept = self._kept.get(text)
        if kept is not None:
            if kept.until > self._clock.monotonic():
                return kept.verdict
            del self._kept[text]
        raise Undecided(key, lambda: self._ask(spec, text, may_keep=_may_keep(attributes)))

    def _matches(self, spec: dict[str, Any]) -> bool:
        """Raises ConditionError."""
        started, found, has_errors = self._clock.monotonic(), True, False
        try:
            found = match(self._settings.conditions, spec)
            return found
        except ConditionError:
            has_errors = True
            raise
        finally:
            self._metrics.conditions(
                self._settings.name, self._clock.monotonic() - started, has_errors=has_errors, excludes=not found
            )

    async def _ask(self, spec: dict[str, Any], text: bytes, *, may_keep: bool) -> Verdict:
        settings, result = self._settings, "success"

        def tried(error: ReviewError | None, seconds: float) -> None:
            nonlocal result
            result = "success" if error is None else "timeout" if error.is_timeout else "error"
            self._metrics.evaluated(settings.name, result, seconds)
            note_waiting(seconds)

        try:
            answer = await self._webhook.post(review(spec, settings.version), tried)
            status = msgspec.json.decode(answer, type=_Review).status or _Status()
        except (ReviewError, msgspec.DecodeError, UnicodeDecodeError) as error:
            logger.error("Failed to make webhook authorizer request: %s", error)
            if not settings.denies_on_failure:
                self._metrics.failed_open(settings.name, "error" if result == "success" else result)
            return self._on_failure
        if status.denied and status.allowed:
            logger.error("the authorizer %s has both allowed and denied a request", settings.name)
        if status.denied:
            verdict = Verdict(Decision.DENY, status.reason)
        else:
            verdict = Verdict(Decision.ALLOW if status.allowed else Decision.NO_OPINION, status.reason)
        seconds = settings.authorized_seconds if status.allowed else settings.unauthorized_seconds
        if may_keep and seconds > 0:
            if len(self._kept) >= _MOST_VERDICTS:
                del self._kept[next(iter(self._kept))]
            self._kept[text] = _Kept(verdict, self._clock.monotonic() + seconds)
        return verdict

    async def close(self) -> None:
        """Let go of all connections."""
        await self._webhook.close()

    def __repr__(self) -> str:
        return f"WebhookAuthorizer({quoted(self._settings.name)})"


def _may_keep(attributes: Attributes) -> bool:
    texts = (
        *(attributes.namespace, attributes.verb, attributes.group, attributes.version),
        *(attributes.resource, attributes.subresource, attributes.name, attributes.path),
    )
    return sum(map(len, texts)) < _LONGEST_KEPT


def review_spec(attributes: Attributes) -> dict[str, Any]:
    """What a review (version v1) says of a request; empty fields are left out."""
    user = attributes.user
    spec: dict[str, Any] = {}
    if attributes.is_resource:
        resource: dict[str, Any] = {
            "namespace": attributes.namespace,
            "verb": attributes.verb,
            "group": attributes.group,
            "version": attributes.version,
            "resource": attributes.resource,
            "subresource": attributes.subresource,
            "name": attributes.name,
        }
        resource = {name: value for name, value in resource.items() if value}
        for name, requirements in (
            ("fieldSelector", _field_requirements(attributes.field_selector)),
            ("labelSelector", _label_requirements(attributes.label_selector)),
        ):
            if requirements:
                resource[name] = {"requirements": requirements}
        spec["resourceAttributes"] = resource
    else:
        spec["nonResourceAttributes"] = {
            name: value for name, value in (("path", attributes.path), ("verb", attributes.verb)) if value
        }
    spec |= {"user": user.name} if user.name else {}
    spec |= {"groups": list(user.groups)} if user.groups else {}
    spec |= {"extra": {key: list(values) for key, values in user.extra.items()}} if user.extra else {}
    spec |= {"uid": user.uid} if user.uid else {}
    return spec


def review(spec: dict[str, Any], version: str) -> bytes:
    """The review that a webhook gets."""
    if version == "v1beta1" and "groups" in spec:
        spec = {("group" if name == "groups" else name): value for name, value in spec.items()}
    return msgspec.json.encode(
        {
            "kind": "SubjectAccessReview",
            "apiVersion": f"{_GROUP}/{version}",
            "metadata": {},
            "spec": spec,
            "status": {"allowed": False},
        }
    )


def _field_requirements(text: str) -> list[dict[str, Any]]:
    """A field selector as a review has it; nothing of one that cannot be read, which narrows nothing."""
    try:
        found = parse_fields(text).requirements if text else ()
    except SelectorError:
        return []
    return [{"key": one.field, "operator": _OPERATORS[one.operator], "values": [one.value]} for one in found]


def _label_requirements(text: str) -> list[dict[str, Any]]:
    """The same of a label selector; comparisons of numbers narrow nothing."""
    try:
        found = list(parse_labels(text)) if text else []
    except SelectorError:
        return []
    return [
        {
            "key": one.key,
            "operator": _OPERATORS[one.operator],
            **({"values": list(one.values)} if one.values else {}),
        }
        for one in found
        if one.operator in _OPERATORS
    ]

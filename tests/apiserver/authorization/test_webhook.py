"""Authorization by a webhook: what it is sent, what its answers mean, how long they are kept, what happens without them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayplan.api.cel.evaluation import CompilationError
from bayplan.api.errors import ApiError
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.authorization.interface import Decision, Verdict
from bayplan.apiserver.authorization.match_conditions import ConditionError, compiled, match
from bayplan.apiserver.authorization.metrics import AuthorizationMetrics
from bayplan.apiserver.authorization.waiting import Undecided, decided
from bayplan.apiserver.authorization.webhook import WebhookAuthorizer, WebhookSettings, review, review_spec
from bayplan.apiserver.requests import User
from bayplan.apiserver.webhooks.posting import ReviewError, ReviewWebhook
from bayplan.support.clock import LoopClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run

CLOCK = LoopClock(0.0)
ALICE = User("alice", ("dev",), "7", {"team": ("red",)})
PODS = Attributes(
    ALICE,
    "list",
    version="v1",
    resource="pods",
    namespace="n",
    field_selector="a=b,c!=d",
    label_selector="x in (1,2),!y,z>3",
)


class Answers:
    """See ReviewPoster: one answer after the other, the last one for ever."""

    def __init__(self, *answers: dict[str, Any] | ReviewError | bytes) -> None:
        self.answers = list(answers)
        self.reviews: list[Any] = []

    async def post(self, body: bytes) -> bytes:
        self.reviews.append(json.loads(body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ReviewError):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps({"status": answer}).encode()

    async def close(self) -> None:
        """Nothing is open."""


def authorizer(
    answers: Answers, registry: Registry | None = None, *conditions: str, denies: bool = False, version: str = "v1"
) -> WebhookAuthorizer:
    settings = WebhookSettings("hook", version, 60.0, 10.0, denies, [compiled(one) for one in conditions])
    webhook = ReviewWebhook(answers, CLOCK, SeededRandomness(0), seconds=5)
    return WebhookAuthorizer(settings, webhook, CLOCK, AuthorizationMetrics(registry or Registry()))


def test_a_webhook_gets_all_that_is_known_of_a_request() -> None:
    spec = review_spec(PODS)
    assert spec == {
        "user": "alice",
        "groups": ["dev"],
        "uid": "7",
        "extra": {"team": ["red"]},
        "resourceAttributes": {
            "namespace": "n",
            "verb": "list",
            "version": "v1",
            "resource": "pods",
            "fieldSelector": {
                "requirements": [
                    {"key": "a", "operator": "In", "values": ["b"]},
                    {"key": "c", "operator": "NotIn", "values": ["d"]},
                ]
            },
            "labelSelector": {
                "requirements": [
                    {"key": "x", "operator": "In", "values": ["1", "2"]},
                    {"key": "y", "operator": "DoesNotExist"},
                ]
            },
        },
    }
    other = review_spec(Attributes(User("bob"), "get", path="/a", is_resource=False))
    assert other == {"user": "bob", "nonResourceAttributes": {"path": "/a", "verb": "get"}}
    old, new = json.loads(review(spec, "v1beta1")), json.loads(review(spec, "v1"))
    assert (old["apiVersion"], old["kind"]) == ("authorization.k8s.io/v1beta1", "SubjectAccessReview")
    assert old["spec"]["group"] == new["spec"]["groups"] == ["dev"]
    assert "groups" not in old["spec"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"allowed": True}, Verdict(Decision.ALLOW)),
        ({"allowed": True, "reason": "why"}, Verdict(Decision.ALLOW, "why")),
        ({"allowed": False, "reason": "no"}, Verdict(Decision.NO_OPINION, "no")),
        ({"denied": True, "reason": "no"}, Verdict(Decision.DENY, "no")),
        ({"denied": True, "allowed": True}, Verdict(Decision.DENY)),
        ({}, Verdict(Decision.NO_OPINION)),
    ],
)
def test_what_its_answers_mean(status: dict[str, Any], expected: Verdict) -> None:
    assert run(decided(authorizer(Answers(status)).authorize, PODS)) == expected


def test_who_does_not_wait_gets_no_answer_at_all() -> None:
    async def case() -> None:
        with pytest.raises(Undecided):
            authorizer(Answers({"allowed": True})).authorize(PODS)

    run(case())


@pytest.mark.parametrize(
    ("status", "seconds"), [({"allowed": True}, 60), ({"allowed": False}, 10), ({"denied": True}, 10)]
)
def test_answers_are_kept_for_a_while(status: dict[str, Any], seconds: float) -> None:
    async def case() -> None:
        answers = Answers(status)
        asked = authorizer(answers)
        for wait, count in ((0, 1), (seconds - 0.5, 1), (1, 2)):
            await CLOCK.sleep(wait)
            await decided(asked.authorize, PODS)
            assert len(answers.reviews) == count
        await decided(asked.authorize, Attributes(ALICE, "list", resource="secrets"))
        assert len(answers.reviews) == 3

    run(case())


def test_answers_about_very_long_names_are_not_kept() -> None:
    async def case() -> None:
        answers = Answers({"allowed": True})
        asked = authorizer(answers)
        for _ in range(2):
            await decided(asked.authorize, Attributes(ALICE, "get", resource="pods", name="n" * 10_000))
        assert len(answers.reviews) == 2

    run(case())


@pytest.mark.parametrize("denies", [False, True])
@pytest.mark.parametrize("answer", [ReviewError("away"), ReviewError("no", 403), b"nonsense", b'{"status": []}'])
def test_without_an_answer_others_decide_or_nobody_does(answer: ReviewError | bytes, denies: bool) -> None:
    async def case() -> None:
        registry, answers = Registry(), Answers(answer)
        asked = authorizer(answers, registry, denies=denies)
        for _ in range(2):
            verdict = await decided(asked.authorize, PODS)
            assert verdict.decision is (Decision.DENY if denies else Decision.NO_OPINION)
        assert len(answers.reviews) == 2  # a failure is not kept
        text = registry.render()
        assert (b'webhook_evaluations_fail_open_total{name="hook",result="error"} 2\n' in text) is not denies

    run(case())


def test_a_failure_of_a_moment_is_tried_again() -> None:
    async def case() -> None:
        registry = Registry()
        answers = Answers(ReviewError("busy", 429), ReviewError("broken", 500), {"allowed": True})
        verdict = await decided(authorizer(answers, registry).authorize, PODS)
        assert verdict.allowed
        assert len(answers.reviews) == 3
        text = registry.render().decode()
        assert 'apiserver_authorization_webhook_evaluations_total{name="hook",result="error"} 2\n' in text
        assert 'apiserver_authorization_webhook_duration_seconds_count{name="hook",result="success"} 1\n' in text

    run(case())


def test_a_webhook_that_is_slow_has_not_answered() -> None:
    class Slow(Answers):
        async def post(self, body: bytes) -> bytes:
            await CLOCK.sleep(6)
            return await super().post(body)

    async def case() -> None:
        registry = Registry()
        verdict = await decided(authorizer(Slow({"allowed": True}), registry, denies=True).authorize, PODS)
        assert verdict.decision is Decision.DENY
        assert b'webhook_evaluations_total{name="hook",result="timeout"} 1\n' in registry.render()

    run(case())


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (("request.user == 'alice'",), True),
        (("request.user == 'bob'",), False),
        (("request.resourceAttributes.namespace == 'n'", "'dev' in request.groups"), True),
        (("has(request.resourceAttributes)", "request.resourceAttributes.name == ''"), True),
        (("!has(request.nonResourceAttributes)",), True),
        (("request.extra['team'] == ['red']", "request.uid == '7'"), True),
        (
            ("request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'a' && r.operator == 'In')",),
            True,
        ),
        (("request.resourceAttributes.?labelSelector.requirements.hasValue()",), True),
        (("request.nonResourceAttributes.path == '/'",), None),
        (("request.nonResourceAttributes.path == '/'", "false"), False),
        (("request.groups.map(g, g)[7] == 'x'", "true"), None),
    ],
)
def test_conditions_say_when_it_is_asked(conditions: tuple[str, ...], expected: bool | None) -> None:
    made, spec = [compiled(one) for one in conditions], review_spec(PODS)
    if expected is None:
        with pytest.raises(ConditionError, match="cel evaluation error: expression"):
            match(made, spec)
    else:
        assert match(made, spec) is expected


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("request.name == 'a'", "undefined field 'name'"),
        ("request.user", "must evaluate to bool but got string"),
        ("object.a == 1", "undeclared reference to 'object'"),
        ("request.user ==", "compilation failed: ERROR"),
    ],
)
def test_conditions_that_make_no_sense_do_not_compile(condition: str, problem: str) -> None:
    with pytest.raises(CompilationError, match=problem):
        compiled(condition)


@pytest.mark.parametrize(("denies", "expected"), [(False, Decision.NO_OPINION), (True, Decision.DENY)])
def test_conditions_that_fail_are_failures(denies: bool, expected: Decision) -> None:
    async def case() -> None:
        registry, answers = Registry(), Answers({"allowed": True})
        asked = authorizer(answers, registry, "request.nonResourceAttributes.path == '/'", denies=denies)
        assert (await decided(asked.authorize, PODS)).decision is expected
        assert not answers.reviews
        text = registry.render().decode()
        labels = '{name="hook",type="Webhook"}' if '{name="hook",type' in text else '{type="Webhook",name="hook"}'
        assert f"apiserver_authorization_match_condition_evaluation_errors_total{labels} 1\n" in text

    run(case())


def test_conditions_that_are_false_keep_requests_from_it() -> None:
    async def case() -> None:
        registry, answers = Registry(), Answers({"denied": True})
        verdict = await decided(authorizer(answers, registry, "request.user != 'alice'").authorize, PODS)
        assert verdict.decision is Decision.NO_OPINION
        assert not answers.reviews
        assert b"apiserver_authorization_match_condition_exclusions_total" in registry.render()

    run(case())


def test_a_condition_that_costs_too_much_is_a_failure() -> None:
    async def case() -> None:
        user = User("alice", tuple(map(str, range(2000))))
        asked = authorizer(
            Answers({"allowed": True}), None, "request.groups.all(a, request.groups.all(b, a + 'x' != b))", denies=True
        )
        verdict = await decided(asked.authorize, Attributes(user, "get", resource="pods"))
        assert verdict.decision is Decision.DENY

    run(case())


def test_a_step_that_never_ends_to_ask_is_given_up() -> None:
    async def case() -> None:
        count = 0

        def step() -> None:
            nonlocal count
            count += 1

            async def ask() -> Verdict:
                return Verdict(Decision.ALLOW)

            raise Undecided((object(), b""), ask)

        with pytest.raises(ApiError, match="authorization needs too many answers"):
            await decided(step)
        assert count == 1000

    run(case())

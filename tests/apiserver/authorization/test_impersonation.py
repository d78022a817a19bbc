"""Acting as somebody else."""

from __future__ import annotations

import pytest

from bayplan.api.errors import ApiError
from bayplan.apiserver.authentication.headers import impersonation
from bayplan.apiserver.authorization.impersonation import impersonated_user
from bayplan.apiserver.requests import Impersonation, Request, User
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client
from tests.apiserver.authorization.roles import CAROL, cluster_binding, cluster_role, rule, run, subject
from tests.apiserver.serving import ADMIN

PODS = "/api/v1/namespaces/default/pods"


def become(api: ApiServer, user: User, wanted: Impersonation, method: str = "GET") -> User:
    request = Request(method, PODS, {}, user, impersonation=wanted)
    return impersonated_user(api.context.authorizer, request, {})


def test_headers_are_read_without_regard_to_case() -> None:
    found = impersonation(
        [
            ("Impersonate-User", "zoe"),
            ("impersonate-group", "a"),
            ("Impersonate-Group", "b"),
            ("Impersonate-Uid", "u"),
            ("Impersonate-Extra-Example.com%2Fscope", "x"),
            ("Accept", "y"),
        ]
    )
    assert found == Impersonation("zoe", "u", ("a", "b"), {"example.com/scope": ("x",)})
    assert impersonation([("Accept", "y")]) is None


def test_masters_become_anybody_and_groups_are_completed() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        assert become(api, ADMIN, Impersonation("zoe", groups=("a",))).groups == ("a", "system:authenticated")
        assert become(api, ADMIN, Impersonation("system:serviceaccount:ns:robot")).groups == (
            "system:serviceaccounts",
            "system:serviceaccounts:ns",
            "system:authenticated",
        )
        assert become(api, ADMIN, Impersonation("system:node:n1")).groups == ("system:nodes", "system:authenticated")
        assert become(api, ADMIN, Impersonation("system:anonymous")).groups == ("system:unauthenticated",)
        assert become(api, ADMIN, Impersonation("z", groups=("system:masters",))).groups[0] == "system:masters"

    run(case)


def test_how_somebody_became_another_last_is_tried_first() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        last: dict[str, str] = {}

        def groups(name: str, *, uid: str = "") -> tuple[str, ...]:
            request = Request("GET", PODS, {}, ADMIN, impersonation=Impersonation(name, uid))
            return impersonated_user(api.context.authorizer, request, last).groups

        assert groups("system:node:n1") == ("system:nodes", "system:authenticated")
        assert last == {ADMIN.name: "arbitrary-node"}
        assert groups("system:node:n1", uid="u") == ("system:authenticated",)
        assert groups("system:node:n1") == ("system:authenticated",)

    run(case)


def test_a_group_without_a_user_is_an_error() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        with pytest.raises(ApiError, match="without impersonating a user name") as caught:
            become(api, ADMIN, Impersonation("", groups=("a",)))
        assert caught.value.code == 400

    run(case)


def test_the_old_verb_allows_every_request_but_each_part_needs_permission() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        await admin.create(cluster_role("i", rule("impersonate", "users", names="zoe")))
        await admin.create(cluster_binding("i", subject("User", "carol")))
        assert become(api, CAROL, Impersonation("zoe")).name == "zoe"
        for wanted in (Impersonation("bob"), Impersonation("zoe", groups=("ops",)), Impersonation("zoe", uid="1")):
            with pytest.raises(ApiError) as caught:
                become(api, CAROL, wanted)
            assert caught.value.code == 403

    run(case)


def test_a_constrained_mode_needs_the_request_and_the_user() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        await admin.create(
            cluster_role(
                "i",
                rule("impersonate-on:serviceaccount:list", "pods"),
                rule("impersonate:serviceaccount", "serviceaccounts", ("authentication.k8s.io",), "robot"),
            )
        )
        await admin.create(cluster_binding("i", subject("User", "carol")))
        robot = Impersonation("system:serviceaccount:ns:robot")
        assert become(api, CAROL, robot).name == robot.name
        with pytest.raises(ApiError, match="cannot impersonate-on:serviceaccount:create"):
            become(api, CAROL, robot, "POST")
        with pytest.raises(ApiError, match="cannot impersonate:serviceaccount resource"):
            become(api, CAROL, Impersonation("system:serviceaccount:ns:other"))

    run(case)


def test_no_constrained_mode_gives_away_the_masters_group() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        rules = (rule("impersonate-on:user-info:list impersonate:user-info", "*", ("*",)),)
        await admin.create(cluster_role("i", *rules))
        await admin.create(cluster_binding("i", subject("User", "carol")))
        assert become(api, CAROL, Impersonation("zoe", groups=("ops",))).groups == ("ops", "system:authenticated")
        with pytest.raises(ApiError, match="impersonating the system:masters group is not allowed"):
            become(api, CAROL, Impersonation("zoe", groups=("system:masters",)))

    run(case)

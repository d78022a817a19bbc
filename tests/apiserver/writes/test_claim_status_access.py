"""Who may change which part of a resource claim's status."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.requests import User
from bayplan.apiserver.settings import ApiServerSettings
from tests.apiserver.serving import ADMIN, opened

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
STATUS = f"{CLAIMS}/one/status"
MERGE = "application/merge-patch+json"
JSON = "application/json"
RULE_OF_STATUS = (("update", "patch"), "resourceclaims/status", ())
Rule = tuple[tuple[str, ...], str, tuple[str, ...]]
Tree = dict[str, Any]


def role(rules: tuple[Rule, ...]) -> Tree:
    """Rules: verbs, resource, names."""
    found = [
        {"apiGroups": ["resource.k8s.io"], "verbs": [*verbs], "resources": [resource], "resourceNames": [*names]}
        for verbs, resource, names in rules
    ]
    return {"metadata": {"name": "given"}, "rules": found}


def allocation(node: str = "n1", *, admin: bool = False) -> Tree:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    results = [
        {"request": "r", "driver": one, "pool": "p", "device": "d"} for one in ("a.example.com", "b.example.com")
    ]
    if admin:
        results[0]["adminAccess"] = True  # type: ignore[assignment]
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}}


def said(*drivers: str) -> list[Tree]:
    return [{"driver": one, "pool": "p", "device": "d", "data": {"by": one}} for one in drivers]


def pod_on(node: str) -> User:
    name = "system:serviceaccount:default:driver"
    return User(name, ("system:authenticated",), extra={"authentication.kubernetes.io/node-name": (node,)})


PERSON = User("someone", ("system:authenticated",))
BINDING: Rule = (("update", "patch"), "resourceclaims/binding", ())
ANYWHERE: Rule = (("arbitrary-node:patch",), "resourceclaims/driver", ())
ON_ITS_NODE: Rule = (("associated-node:patch",), "resourceclaims/driver", ("a.example.com",))
NEEDS_BINDING = (
    'ResourceClaim.resource.k8s.io "one" is invalid: status.allocation: Forbidden: changing status.allocation or status.reservedFor requires '
    'resource="resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io is forbidden: User "someone" cannot patch resource '
    '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
)


async def patched(user: User, rules: tuple[Rule, ...], status: Tree, before: Tree | None = None) -> tuple[int, str]:
    """The answer to a patch of a claim's status. rules: of a cluster role of the user's. before: the status as it is."""
    settings = ApiServerSettings(authorization_modes=("RBAC",))
    async with opened(None, settings) as api:
        admin, endpoint = InProcessEndpoint(api, ADMIN), InProcessEndpoint(api, user)

        async def make(method: str, path: str, body: Tree, content_type: str = JSON) -> None:
            code, answer = await admin.call(method, path, {}, json.dumps(body).encode(), content_type)
            assert code in (200, 201), answer

        rbac = "/apis/rbac.authorization.k8s.io/v1"
        await make("POST", f"{rbac}/clusterroles", role((RULE_OF_STATUS, *rules)))
        kind = "ServiceAccount" if user is not PERSON else "User"
        subject = {"kind": kind, "name": user.name.rpartition(":")[2]}
        subject |= {"namespace": "default"} if kind == "ServiceAccount" else {"apiGroup": "rbac.authorization.k8s.io"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "given"}
        await make(
            "POST",
            f"{rbac}/clusterrolebindings",
            {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]},
        )
        request = {"name": "r", "exactly": {"deviceClassName": "c", "count": 2}}
        await make("POST", CLAIMS, {"metadata": {"name": "one"}, "spec": {"devices": {"requests": [request]}}})
        if before is not None:
            await make("PATCH", STATUS, {"status": before}, MERGE)
        code, answer = await endpoint.call("PATCH", STATUS, {}, json.dumps({"status": status}).encode(), MERGE)
        return code, json.loads(answer).get("message", "")


ALLOCATED = {"allocation": allocation()}
CONSUMER = {"resource": "pods", "name": "p", "uid": "u"}


@pytest.mark.parametrize(
    ("user", "rules", "status", "before", "code"),
    [
        (PERSON, (), ALLOCATED, None, 422),
        (PERSON, (BINDING,), ALLOCATED, None, 200),
        (PERSON, (), {"reservedFor": [CONSUMER]}, ALLOCATED, 422),
        (PERSON, (BINDING,), {"reservedFor": [CONSUMER]}, ALLOCATED, 200),
        (PERSON, (BINDING,), {"devices": said("a.example.com")}, ALLOCATED, 422),
        (PERSON, (ANYWHERE,), {"devices": said("a.example.com")}, ALLOCATED, 200),
        (PERSON, (ON_ITS_NODE,), {"devices": said("a.example.com")}, ALLOCATED, 422),
        (pod_on("n1"), (ON_ITS_NODE,), {"devices": said("a.example.com")}, ALLOCATED, 200),
        (pod_on("n1"), (ON_ITS_NODE,), {"devices": said("a.example.com", "b.example.com")}, ALLOCATED, 422),
        (pod_on("n2"), (ON_ITS_NODE,), {"devices": said("a.example.com")}, ALLOCATED, 422),
        (pod_on("n2"), (ANYWHERE,), {"devices": said("a.example.com")}, ALLOCATED, 200),
        (PERSON, (), {"devices": []}, ALLOCATED | {"devices": said("a.example.com")}, 422),
        (PERSON, (ANYWHERE,), {"devices": []}, ALLOCATED | {"devices": said("a.example.com")}, 200),
        (PERSON, (), {"devices": said("a.example.com")}, ALLOCATED | {"devices": said("a.example.com")}, 200),
        (PERSON, (BINDING,), {"allocation": allocation(admin=True)}, None, 422),
    ],
)  # fmt: skip
def test_parts_of_a_status_need_rights_of_their_own(
    user: User, rules: tuple[Rule, ...], status: Tree, before: Tree | None, code: int
) -> None:
    assert asyncio.run(patched(user, rules, status, before))[0] == code


def test_the_answer_says_which_right_is_needed() -> None:
    assert asyncio.run(patched(PERSON, (), ALLOCATED)) == (422, NEEDS_BINDING)
    code, text = asyncio.run(patched(pod_on("n1"), (), {"devices": said("b.example.com")}, ALLOCATED))
    assert code == 422
    assert (
        'requires resource="resourceclaims/driver", verb="[associated-node:patch arbitrary-node:patch]" permission: '
        in text
    )
    assert text.endswith('"resourceclaims/driver" in API group "resource.k8s.io" in the namespace "default"')
    assert 'resourceclaims.resource.k8s.io "b.example.com" is forbidden' in text

"""Service accounts, their tokens and what they may do, as typed clients ask. Conformance: ServiceAccounts, SubjectReview."""

from __future__ import annotations

from tests.integration.conformance.requests import STRATEGIC_PATCH
from tests.integration.conformance.typed_requests import TypedRequests
from tests.integration.conformance.workloads import PAUSE, Space, Workloads

MOUNTED = "/var/run/secrets/kubernetes.io/serviceaccount"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"


def test_accounts_and_pods_say_whether_a_token_is_mounted(workloads: Workloads) -> None:
    """ServiceAccounts should allow opting out of API token automount."""

    async def scenario(space: Space) -> None:
        choices = {"unsaid": None, "yes": True, "no": False}
        for account, says in choices.items():
            said = {} if says is None else {"automountServiceAccountToken": says}
            await space.api.create(space.core("serviceaccounts"), {"metadata": {"name": account}, **said})
        for account, by_account in choices.items():
            for name, by_pod in choices.items():
                said = {} if by_pod is None else {"automountServiceAccountToken": by_pod}
                spec = {"serviceAccountName": account, "containers": [{"name": "main", "image": PAUSE}], **said}
                created = await space.api.create(
                    space.core("pods"), {"metadata": {"name": f"{account}-{name}"}, "spec": spec}
                )
                mounts = [one["mountPath"] for one in created["spec"]["containers"][0].get("volumeMounts", ())]
                wanted = by_account is not False if by_pod is None else by_pod
                assert mounts == [MOUNTED] * wanted, (account, name)

    workloads.run(scenario)


def test_an_account_is_followed_from_its_creation_to_its_end(workloads: Workloads) -> None:
    """ServiceAccounts should run through the lifecycle of a ServiceAccount."""

    async def scenario(space: Space) -> None:
        api, accounts, query = space.api, space.core("serviceaccounts"), {"labelSelector": f"crew={space.name}"}
        created = await api.create(accounts, {"metadata": {"name": "mate", "labels": {"crew": space.name}}})
        assert (await api.get(f"{accounts}/mate"))["metadata"]["uid"] == created["metadata"]["uid"]
        async with api.watch(accounts, timeoutSeconds="180", **query) as watch:
            await watch.until("ADDED")
            await api.patch(f"{accounts}/mate", {"automountServiceAccountToken": False}, STRATEGIC_PATCH)
            await watch.until("MODIFIED")
            (found,) = (await api.get("/api/v1/serviceaccounts", **query))["items"]
            assert (found["metadata"]["namespace"], found["automountServiceAccountToken"]) == (space.name, False)
            await api.delete(accounts)
            await watch.until("DELETED")
        await space.until(f"{accounts}/default", lambda obj: obj["metadata"]["uid"])

    workloads.run(scenario)


def test_an_account_is_updated(workloads: Workloads) -> None:
    """ServiceAccounts should update a ServiceAccount."""

    async def scenario(space: Space) -> None:
        path = space.core("serviceaccounts")
        body = {"metadata": {"name": "mate"}, "automountServiceAccountToken": False}
        assert (await space.api.create(path, body))["automountServiceAccountToken"] is False
        updated = await space.changed(f"{path}/mate", lambda obj: obj.update(automountServiceAccountToken=True))
        assert updated["automountServiceAccountToken"] is True

    workloads.run(scenario)


def test_a_token_that_was_asked_for_without_a_wish_passes_a_review(workloads: Workloads) -> None:
    """ServiceAccounts should create a serviceAccountToken and ensure a successful TokenReview."""

    async def scenario(space: Space) -> None:
        await space.api.create(space.core("serviceaccounts"), {"metadata": {"name": "mate"}})
        answer = await space.api.create(space.core("serviceaccounts/mate/token"), {"spec": {"audiences": []}})
        assert answer["status"]["token"]
        review = {"metadata": {"name": "trial"}, "spec": {"token": answer["status"]["token"]}}
        status = (await space.api.create("/apis/authentication.k8s.io/v1/tokenreviews", review))["status"]
        assert (status["authenticated"], status.get("error", "")) == (True, "")
        assert status["user"]["username"] == f"system:serviceaccount:{space.name}:mate"

    workloads.run(scenario)


def test_reviews_say_what_requests_in_the_place_of_an_account_find(workloads: Workloads) -> None:
    """SubjectReview should support SubjectReview API operations."""

    async def scenario(space: Space) -> None:
        api = space.api
        account = await api.create(space.core("serviceaccounts"), {"metadata": {"name": "mate"}})
        name, uid = f"system:serviceaccount:{space.name}:mate", account["metadata"]["uid"]
        groups = ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{space.name}"]
        asked = {"verb": "list", "resource": "configmaps", "namespace": space.name, "version": "v1"}
        spec = {"resourceAttributes": asked, "user": name, "groups": groups, "uid": uid}
        reviewed = await api.create(f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec})
        other = TypedRequests(api.server)
        other.headers = {
            **api.headers,
            "Impersonate-User": name,
            "Impersonate-Uid": uid,
            "Impersonate-Group": groups[1],
        }
        refused = await other.refused("GET", space.core("configmaps"))
        assert (refused.reason, reviewed["status"]["allowed"]) == ("Forbidden", False)
        local = await api.create(
            f"{AUTHORIZATION}/namespaces/{space.name}/localsubjectaccessreviews",
            {"metadata": {"namespace": space.name}, "spec": {**spec, "user": "mate"}},
        )
        assert local["status"]["allowed"] is False

    workloads.run(scenario)

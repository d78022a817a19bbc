"""With whom the claims of a StatefulSet's pods go."""

import pytest

from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.controllers.workloads import statefulset_claims as claims

Owner = meta_v1.OwnerReference


def a_set(when_deleted: str = "Delete", when_scaled: str = "Delete") -> apps_v1.StatefulSet:
    policy = apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy(when_deleted=when_deleted, when_scaled=when_scaled)
    template = core_v1.PersistentVolumeClaim(metadata=meta_v1.ObjectMeta(name="data"))
    return apps_v1.StatefulSet(
        metadata=meta_v1.ObjectMeta(name="web", namespace="default", uid="set"),
        spec=apps_v1.StatefulSetSpec(
            volume_claim_templates=(template,), persistent_volume_claim_retention_policy=policy
        ),
    )


def owner(kind: str, name: str, uid: str, *, controls: bool | None = True) -> Owner:
    version = "v1" if kind == "Pod" else "apps/v1"
    return Owner(api_version=version, kind=kind, name=name, uid=uid, controller=controls, block_owner_deletion=controls)


def a_claim(*owners: Owner) -> core_v1.PersistentVolumeClaim:
    return core_v1.PersistentVolumeClaim(metadata=meta_v1.ObjectMeta(name="data-web-0", owner_references=owners))


POD = core_v1.Pod(metadata=meta_v1.ObjectMeta(name="web-0", uid="pod"))
SET_OWNS, POD_OWNS = owner("StatefulSet", "web", "set"), owner("Pod", "web-0", "pod")
OTHER, CONTROLLER = owner("Deployment", "x", "x", controls=None), owner("Deployment", "x", "x")
EARLIER_SET, EARLIER_POD = owner("StatefulSet", "web", "old"), owner("Pod", "web-0", "old")


@pytest.mark.parametrize(
    ("when_deleted", "when_scaled", "condemned", "wanted"),
    [
        ("Retain", "Retain", False, ()),
        ("Retain", "Retain", True, ()),
        ("Delete", "Retain", False, (SET_OWNS,)),
        ("Delete", "Retain", True, (SET_OWNS,)),
        ("Retain", "Delete", False, ()),
        ("Retain", "Delete", True, (POD_OWNS,)),
        ("Delete", "Delete", False, (SET_OWNS,)),
        ("Delete", "Delete", True, (POD_OWNS,)),
    ],
)
@pytest.mark.parametrize("before", [(), (SET_OWNS,), (POD_OWNS,), (owner("StatefulSet", "web", "set", controls=None),)])
def test_the_retention_policy_names_the_owner(
    when_deleted: str, when_scaled: str, condemned: bool, wanted: tuple[Owner, ...], before: tuple[Owner, ...]
) -> None:
    one = a_set(when_deleted, when_scaled)
    assert claims.claim_owners(one, a_claim(*before), POD, condemned=condemned) == wanted
    assert claims.claim_owners(one, a_claim(OTHER, *before), POD, condemned=condemned) == (OTHER, *wanted)


def test_owners_that_fit_stay_in_their_order() -> None:
    assert claims.claim_owners(a_set(), a_claim(SET_OWNS, OTHER), POD, condemned=False) == (SET_OWNS, OTHER)


@pytest.mark.parametrize("earlier", [EARLIER_SET, EARLIER_POD])
@pytest.mark.parametrize("condemned", [False, True])
def test_a_claim_of_an_earlier_owner_is_left_alone(earlier: Owner, condemned: bool) -> None:
    assert claims.claim_owners(a_set(), a_claim(earlier), POD, condemned=condemned) == (earlier,)


def test_a_claim_that_another_controls_gets_no_owner() -> None:
    held = a_claim(CONTROLLER, SET_OWNS)
    assert claims.has_conflict(a_set(), held, POD)
    assert claims.claim_owners(a_set(), held, POD, condemned=False) == (CONTROLLER,)
    assert not claims.has_conflict(a_set("Retain", "Retain"), held, POD)
    assert not claims.has_conflict(a_set(), a_claim(OTHER, SET_OWNS), POD)


def test_a_new_pod_waits_for_the_claims_of_an_earlier_one() -> None:
    new = core_v1.Pod(metadata=meta_v1.ObjectMeta(name="web-0"))
    assert claims.blocks_creation(a_set(), a_claim(EARLIER_POD), new)
    assert not claims.blocks_creation(a_set("Delete", "Retain"), a_claim(EARLIER_POD), new)
    assert not claims.blocks_creation(a_set(), a_claim(SET_OWNS), new)


def test_new_claims_belong_to_the_set_if_they_go_with_it() -> None:
    (kept,) = claims.claims_of(a_set("Retain", "Delete"), "web-0")
    (going,) = claims.claims_of(a_set("Delete", "Retain"), "web-0")
    assert (kept.metadata.name, kept.metadata.owner_references) == ("data-web-0", ())
    assert going.metadata.owner_references == (SET_OWNS,)

"""Why a claim is not bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bayplan.api.quantity import parse
from bayplan.api.types import core_v1, storage_v1
from bayplan.simulation.explanations.base import Explanation, Facts, key_of

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_FAILURES: Final = ("ProvisioningFailed", "FailedBinding", "VolumeMismatch", "ClaimLost", "ClaimMisbound")


def class_name(claim: core_v1.PersistentVolumeClaim) -> str | None:
    """The storage class that a claim names; "" means none at all, None the default one."""
    return claim.metadata.annotations.get(_OLD_CLASS, claim.spec.storage_class_name)


def claims_of(facts: Facts, pod: core_v1.Pod) -> Iterator[tuple[str, core_v1.PersistentVolumeClaim | None]]:
    """The claims of a pod by name, None for those that do not exist."""
    namespace = pod.metadata.namespace or "default"
    for volume in pod.spec.volumes:
        name = ""
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            name = f"{pod.metadata.name}-{volume.name}"
        if name:
            yield name, facts.named("PersistentVolumeClaim", namespace, name)


def users_of(facts: Facts, claim: core_v1.PersistentVolumeClaim) -> list[core_v1.Pod]:
    """The pods that use a claim."""
    home = claim.metadata.namespace or "default"
    pods = (pod for pod in facts.copy.of("Pod") if (pod.metadata.namespace or "default") == home)
    return [pod for pod in pods if any(name == claim.metadata.name for name, _ in claims_of(facts, pod))]


def explain_claim(facts: Facts, claim: core_v1.PersistentVolumeClaim) -> Explanation:
    """Whether a claim is bound, and what keeps it from it."""
    found = Explanation("PersistentVolumeClaim", key_of(claim), "is bound")
    volume = facts.named("PersistentVolume", "", claim.spec.volume_name) if claim.spec.volume_name else None
    if claim.status.phase == "Bound":
        found.answer = f"is bound to volume {claim.spec.volume_name}"
        if claim.metadata.deletion_timestamp:
            _explain_deletion(facts, claim, found)
        return found
    found.good = False
    if claim.status.phase == "Lost":
        found.answer = "is lost"
        found.because.append(f"its volume {claim.spec.volume_name} does not exist any more, or is another claim's")
        found.advice.append("restore the volume, or delete the claim and make it again; the data of the volume is gone")
        return found
    found.answer = "is not bound"
    if claim.spec.volume_name:
        _explain_named_volume(claim, volume, found)
    else:
        _explain_class(facts, claim, found)
    return found


def _explain_deletion(facts: Facts, claim: core_v1.PersistentVolumeClaim, found: Explanation) -> None:
    found.good = False
    found.answer = "is being deleted"
    users = [pod.metadata.name for pod in users_of(facts, claim)]
    if users:
        found.because.append(f"pods still use it: {', '.join(users[:3])}")
    else:
        found.because.append(f"it waits for its finalizers {', '.join(claim.metadata.finalizers)}")


def _explain_named_volume(claim: core_v1.PersistentVolumeClaim, volume: Any, found: Explanation) -> None:
    name = claim.spec.volume_name
    if volume is None:
        found.because.append(f"it asks for volume {name} (spec.volumeName), which does not exist")
        found.advice.append(f"create the PersistentVolume {name}, or make the claim again without spec.volumeName")
        return
    holder = volume.spec.claim_ref
    if holder is not None and (holder.namespace, holder.name) != (claim.metadata.namespace, claim.metadata.name):
        found.because.append(f"it asks for volume {name}, which belongs to claim {holder.namespace}/{holder.name}")
        found.advice.append("name a volume that is free")
        return
    problem = _misfit(claim, volume)
    found.because.append(f"it asks for volume {name}, which {problem or 'is about to be bound'}")


def _explain_class(facts: Facts, claim: core_v1.PersistentVolumeClaim, found: Explanation) -> None:
    classes: dict[str, storage_v1.StorageClass] = {one.metadata.name: one for one in facts.copy.of("StorageClass")}
    name = class_name(claim)
    if name is None:
        defaults = [one for one in classes.values() if one.metadata.annotations.get(_DEFAULT_CLASS) == "true"]
        if not defaults:
            found.because.append("it names no storage class, and no storage class is the default")
            found.advice.append(
                f"name one with spec.storageClassName ({_listed(classes)}), or make one the default:"
                f" kubectl annotate storageclass NAME {_DEFAULT_CLASS}=true"
            )
            return
        name = min(one.metadata.name for one in defaults)
    if not name:
        found.because.append(
            f"it wants no provisioned volume (storageClassName is empty), {_no_volume(facts, claim, '')}"
        )
        found.advice.append("create a PersistentVolume that fits, or name a storage class")
        return
    storage_class = classes.get(name)
    if storage_class is None:
        found.because.append(f"its storage class {name} does not exist")
        found.advice.append(
            f"create the StorageClass {name}, or make the claim again with one that exists: {_listed(classes)}"
        )
        return
    _explain_provisioning(facts, claim, storage_class, found)


def _explain_provisioning(
    facts: Facts, claim: core_v1.PersistentVolumeClaim, storage_class: storage_v1.StorageClass, found: Explanation
) -> None:
    name = storage_class.metadata.name
    selected = claim.metadata.annotations.get(_SELECTED_NODE, "")
    if storage_class.volume_binding_mode == "WaitForFirstConsumer" and not selected:
        users = users_of(facts, claim)
        mode = f"its storage class {name} waits for the first pod that uses it (WaitForFirstConsumer)"
        if not users:
            found.because.append(f"{mode}, and no pod does")
            found.advice.append("nothing is wrong; it is bound once a pod that uses it is scheduled")
            return
        waiting = users[0].metadata.name
        found.because.append(f"{mode}, and pod {waiting} has no node yet")
        found.advice.append(f"bayplan explain {waiting} -n {claim.metadata.namespace or 'default'}")
        return
    failure = facts.last_message("PersistentVolumeClaim", claim, _FAILURES)
    if failure:
        found.because.append(failure)
    if storage_class.provisioner == NO_PROVISIONER:
        found.because.append(f"its storage class {name} makes no volumes, {_no_volume(facts, claim, name)}")
        found.advice.append(f"create a PersistentVolume of class {name} that fits")
        return
    where = f" for node {selected}" if selected else ""
    found.because.append(
        f"provisioner {storage_class.provisioner} of storage class {name} has made no volume{where} yet"
    )
    found.advice.append(f"see whether the driver {storage_class.provisioner} runs, and what it logs")


def _listed(classes: dict[str, Any]) -> str:
    return ", ".join(sorted(classes)[:5]) or "the cluster has none"


def _no_volume(facts: Facts, claim: core_v1.PersistentVolumeClaim, name: str) -> str:
    """Why none of the volumes of a class will do."""
    volumes = [one for one in facts.copy.of("PersistentVolume") if one.spec.storage_class_name == name]
    free = [one for one in volumes if one.spec.claim_ref is None]
    if not free:
        return f"and no volume is free ({len(volumes)} have a claim)" if volumes else "and there is no volume for it"
    problems = sorted({problem for one in free if (problem := _misfit(claim, one))})
    return f"and none of {len(free)} free volumes fits: it {'; it '.join(problems)}" if problems else "and one is free"


def _misfit(claim: core_v1.PersistentVolumeClaim, volume: core_v1.PersistentVolume) -> str:
    """Why a volume does not fit a claim; empty if it does."""
    asked, offered = claim.spec.resources.requests.get("storage"), volume.spec.capacity.get("storage")
    if asked is not None and offered is not None and parse(offered).value() < parse(asked).value():
        return f"is smaller ({offered}) than what is asked for ({asked})"
    missing = [mode for mode in claim.spec.access_modes if mode not in volume.spec.access_modes]
    if missing:
        return f"lacks access mode {', '.join(missing)}"
    if (claim.spec.volume_mode or "Filesystem") != (volume.spec.volume_mode or "Filesystem"):
        return f"has volumeMode {volume.spec.volume_mode or 'Filesystem'}"
    labels = claim.spec.selector.match_labels if claim.spec.selector is not None else {}
    if any(volume.metadata.labels.get(key) != value for key, value in labels.items()):
        return "does not match the claim's selector"
    return ""

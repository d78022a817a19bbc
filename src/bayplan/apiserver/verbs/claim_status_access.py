"""Who may change which part of a resource claim's status: the scheduler what is allocated, and drivers what they say of their devices.

A right to update `resourceclaims/status` is not enough. Whoever changes the allocation or who uses it needs one on `resourceclaims/binding` in the whole
cluster; whoever changes what is said of a driver's devices one on `resourceclaims/driver` of the driver's name, with a verb that says which nodes it is about:

    arbitrary-node:update     devices of any node
    associated-node:update    devices that are allocated on the node on which the service account's pod runs

Source: Kubernetes' `pkg/registry/resource/utils.go` (KEP-4817, `DRAResourceClaimGranularStatusAuthorization`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bayplan.api.errors import FieldError, forbidden
from bayplan.api.types import resource_v1
from bayplan.api.validation.values import formats
from bayplan.apiserver.authorization.attributes import Attributes, attributes_of
from bayplan.apiserver.authorization.interface import Decision
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import User
from bayplan.apiserver.verbs.admin_access import gives_admin_access

_ASSOCIATED, _ARBITRARY = "associated-node:", "arbitrary-node:"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""What a token that is bound to a pod says of the pod's node."""
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_SERVICE_ACCOUNT_PARTS: Final = 4

Claim = resource_v1.ResourceClaim
Status = resource_v1.ResourceClaimStatus
Device = resource_v1.AllocatedDeviceStatus


def claim_status_problems(call: Call, obj: Claim, old: Claim) -> list[FieldError]:
    """What the requester may not change of the status of a claim. Raises Undecided."""
    return [
        *_admin_access(call, obj, old),
        *_binding(call, obj.status, old.status),
        *(_devices(call, obj.status, old.status) if obj.status.allocation is not None else ()),
    ]


def _admin_access(call: Call, obj: Claim, old: Claim) -> list[FieldError]:
    """Devices that others use are allocated in namespaces only that are marked for it."""
    if any(one.admin_access for one in _results(old)):
        return []
    for index, one in enumerate(_results(obj)):
        if one.admin_access:
            return gives_admin_access(call, obj.metadata.namespace, f"status.allocation.devices.results[{index}]")
    return []


def _results(claim: Claim) -> Sequence[resource_v1.DeviceRequestAllocationResult]:
    allocation = claim.status.allocation
    return allocation.devices.results if allocation is not None else ()


def _binding(call: Call, new: Status, before: Status) -> list[FieldError]:
    if (new.allocation, new.reserved_for) == (before.allocation, before.reserved_for):
        return []
    asked = attributes_of(call.request)
    asked.subresource, asked.namespace, asked.name = "binding", "", ""
    refusal = _refusal(call, asked)
    if not refusal:
        return []
    needed = f'resource="resourceclaims/binding", verb="{asked.verb}" permission'
    text = f"changing status.allocation or status.reservedFor requires {needed}: {refusal}"
    return [forbidden("status.allocation", text)]


def _devices(call: Call, new: Status, before: Status) -> list[FieldError]:
    errors = []
    verb = attributes_of(call.request).verb
    verbs = [_ARBITRARY + verb]
    if _is_on_node(call.request.user, _node_of(new.allocation)):
        verbs.insert(0, _ASSOCIATED + verb)
    for driver in sorted(_changed_drivers(new, before)):
        refusals = []
        for one in verbs:
            asked = attributes_of(call.request)
            asked.verb, asked.subresource, asked.name = one, "driver", driver
            refusals.append(_refusal(call, asked))
            if not refusals[-1]:
                break
        else:
            needed = f'resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission'
            errors.append(forbidden("status.devices", f"changing status.devices requires {needed}: {refusals[0]}"))
    return errors


def _refusal(call: Call, asked: Attributes) -> str:
    """Why something is not allowed; "" if it is. Raises Undecided."""
    verdict = call.context.authorizer.authorize(asked)
    return "" if verdict.decision is Decision.ALLOW else asked.refused(verdict.reason).status.message


def _changed_drivers(new: Status, before: Status) -> set[str]:
    """The drivers of whose devices something else is said."""
    known = {_device_key(one): one for one in before.devices}
    changed = {one.driver for one in new.devices if known.pop(_device_key(one), None) != one}
    return changed | {one.driver for one in known.values()}


def _device_key(device: Device) -> tuple[str, str, str, str]:
    return device.driver, device.pool, device.device, device.share_id or ""


def _node_of(allocation: resource_v1.AllocationResult | None) -> str:
    """The one node that an allocation is for; "" if there are others."""
    selector = allocation.node_selector if allocation is not None else None
    if selector is None or len(selector.node_selector_terms) != 1:
        return ""
    (term,) = selector.node_selector_terms
    if term.match_expressions or len(term.match_fields) != 1:
        return ""
    (field,) = term.match_fields
    is_name = field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1
    return field.values[0] if is_name else ""


def _is_on_node(user: User, node: str) -> bool:
    """Whether a requester is a service account, in a pod on this node."""
    if not node or not user.name.startswith(_SERVICE_ACCOUNT):
        return False
    if len(user.name.split(":")) != _SERVICE_ACCOUNT_PARTS:
        return False
    return list(user.extra.get(_NODE_NAME, ())) == [node] and not formats.dns_subdomain(node)

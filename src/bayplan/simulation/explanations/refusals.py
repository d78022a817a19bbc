"""What the API server's refusals of pods mean, and what to do about them."""

from __future__ import annotations

import re
from typing import Final

_KNOWN: Final = (
    (
        re.compile(r"exceeded quota: (?P<name>[^,\s]+)"),
        "raise ResourceQuota {name} or free some of it: kubectl describe quota {name} -n {namespace}",
    ),
    (
        re.compile(r"failed quota: (?P<name>[^:]+): must specify"),
        "let every container say what ResourceQuota {name} counts, or give defaults with a LimitRange",
    ),
    (
        re.compile(r"violates PodSecurity \"(?P<name>[^\"]+)\""),
        "let the template meet the level {name}, or change the label pod-security.kubernetes.io/enforce of"
        " namespace {namespace}",
    ),
    (
        re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']+)'"),
        "let the template meet ValidatingAdmissionPolicy {name}: kubectl get validatingadmissionpolicy {name} -o yaml",
    ),
    (
        re.compile(r"(?:(?:maximum|minimum) \S+ usage per|limit to request ratio)", re.IGNORECASE),
        "stay within the LimitRange of the namespace: kubectl describe limits -n {namespace}",
    ),
    (
        re.compile(r"serviceaccounts? \"?(?P<name>[^\"\s]+)\"? not found|serviceaccount (?P<other>\S+) was not found"),
        "create the ServiceAccount {name} in namespace {namespace}",
    ),
    (re.compile(r"no PriorityClass with name (?P<name>\S+)"), "create the PriorityClass {name}"),
    (
        re.compile(r"admission webhook \"(?P<name>[^\"]+)\" denied"),
        "let the template be as webhook {name} wants it",
    ),
    (
        re.compile(r"failed calling webhook \"(?P<name>[^\"]+)\""),
        "see to the server of webhook {name}: it cannot be called",
    ),
    (re.compile(r"because it is being terminated"), "wait until the namespace is gone, or use another"),
)
"""What messages look like, and the advice that each deserves."""


def advice_on(message: str, namespace: str) -> str:
    """What to do about a refusal; empty if it speaks for itself."""
    for pattern, advice in _KNOWN:
        found = pattern.search(message)
        if found is not None:
            names = [one for one in found.groups() if one]
            return advice.format(name=names[0].strip() if names else "", namespace=namespace)
    return ""

"""Parts that the server made itself are not checked again; what merely looks like them is."""

from __future__ import annotations

import msgspec

from bayplan.api.strategies.core.pods import STRATEGY
from bayplan.api.trusted import is_trusted, trust
from bayplan.api.types import core_v1, meta_v1

NAMELESS = core_v1.SecretProjection()
MALFORMED = core_v1.ProjectedVolumeSource(sources=(core_v1.VolumeProjection(secret=NAMELESS),))


def pod(source: core_v1.ProjectedVolumeSource) -> core_v1.Pod:
    container = core_v1.Container(name="c", image="i")
    volume = core_v1.Volume(name="v", projected=source)
    made = core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name="p", namespace="default"),
        spec=core_v1.PodSpec(containers=(container,), volumes=(volume,), service_account_name="default"),
    )
    STRATEGY.default(made)
    return made


def test_only_the_very_instance_is_trusted() -> None:
    known = trust(msgspec.structs.replace(MALFORMED))
    twin = msgspec.structs.replace(known)
    assert is_trusted(known)
    assert not is_trusted(twin)
    assert STRATEGY.validate(pod(known)) == []
    assert STRATEGY.validate(pod(twin)) != []

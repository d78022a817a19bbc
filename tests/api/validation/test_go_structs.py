"""Whole objects in messages are shown as Go's internal types: names, order, and fields that stand elsewhere there."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.api.types import core_v1, resource_v1
from bayplan.api.validation.go_structs import go_part, go_struct

_CASES = [
    (
        core_v1.HTTPGetAction(port=80, path="/"),
        '{"Path":"/","Port":80,"Host":"","Scheme":"","HTTPHeaders":null}',
    ),
    (
        core_v1.ISCSIVolumeSource(iqn="i", chap_auth_session=True),
        '{"TargetPortal":"","IQN":"i","Lun":0,"ISCSIInterface":"","FSType":"","ReadOnly":false,"Portals":null,'
        '"DiscoveryCHAPAuth":false,"SessionCHAPAuth":true,"SecretRef":null,"InitiatorName":null}',
    ),
    (
        resource_v1.DeviceAttribute(string="a"),
        '{"IntValue":null,"BoolValue":null,"StringValue":"a","VersionValue":null,"IntValues":null,"BoolValues":null,'
        '"StringValues":null,"VersionValues":null}',
    ),
]


@pytest.mark.parametrize(("value", "shown"), _CASES, ids=[type(value).__name__ for value, _ in _CASES])
def test_fields_have_go_names_in_the_order_of_the_internal_type(value: msgspec.Struct, shown: str) -> None:
    assert msgspec.json.encode(go_struct(value)).decode() == shown


def test_what_concerns_the_host_stands_in_the_security_context_of_a_pod() -> None:
    spec = core_v1.PodSpec(host_network=True, host_users=False, security_context=core_v1.PodSecurityContext())
    shown = msgspec.json.decode(msgspec.json.encode(go_struct(spec)))
    assert "HostNetwork" not in shown
    context = shown["SecurityContext"]
    assert list(context)[:5] == ["HostNetwork", "HostPID", "HostIPC", "ShareProcessNamespace", "HostUsers"]
    assert (context["HostNetwork"], context["HostPID"], context["HostUsers"]) == (True, False, False)


def test_parts_of_a_struct_are_shown_alone() -> None:
    spec = core_v1.PersistentVolumeSpec(local=core_v1.LocalVolumeSource(path="/a"), storage_class_name="s")
    assert msgspec.json.encode(go_part(spec, ["local", "nfs"])) == b'{"NFS":null,"Local":{"Path":"/a","FSType":null}}'

"""Messages of the Container Runtime Interface."""

from __future__ import annotations

import pytest

from bayplan.kubelet.runtime.cri_messages import to_container_config
from bayplan.kubelet.runtime.types import (
    ContainerConfig,
    ContainerSecurity,
    IdMapping,
    Mount,
    NamespaceMode,
    Namespaces,
    UserNamespace,
)

RANGE = (IdMapping(65536, 0, 65536),)


@pytest.mark.parametrize(
    ("users", "first"),
    [
        (None, []),
        (UserNamespace(NamespaceMode.NODE), []),
        (UserNamespace(NamespaceMode.POD, RANGE, RANGE), [65536]),
    ],
    ids=["nothing is said", "the node's", "its own"],
)
def test_files_show_the_owners_that_they_have_in_the_user_namespace(
    users: UserNamespace | None, first: list[int]
) -> None:
    security = ContainerSecurity(namespaces=Namespaces(users=users))
    config = ContainerConfig("main", 0, "app:1", "app:1", mounts=(Mount("/data", "/host"),), security=security)
    [mount] = to_container_config(config).mounts
    assert [each.host_id for each in mount.uidMappings] == first
    assert [each.host_id for each in mount.gidMappings] == first

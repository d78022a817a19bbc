"""ServiceAccount and root CA publisher: every namespace has the account `default` and the config map with the cluster's CA."""

from __future__ import annotations

from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.controllers.base import Controller, ControllerContext

ACCOUNT = "default"
CONFIG_MAP = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or "
    "kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)


class _PerNamespace(Controller):
    """Keeps one object of a fixed name in every namespace that is not going away."""

    workers = 16
    cls: type[Any]
    object_name = ""

    def setup(self) -> None:
        self.namespaces = self.informer(core_v1.Namespace)
        self.objects = self.informer(self.cls)
        self.watch_keys(self.namespaces)
        self.objects.on_change(update=lambda old, new: self._touch(new), delete=self._touch)

    def _touch(self, obj: Any) -> None:
        if obj.metadata.name == self.object_name:
            self.queue.add(obj.metadata.namespace)

    def wanted(self, namespace: str) -> Any:
        """The object as it should be."""
        raise TypeError(f"{type(self).__name__} has no object")

    def is_current(self, obj: Any) -> bool:
        """Whether an existing object will do."""
        return True

    async def reconcile(self, key: str) -> None:
        namespace = self.namespaces.cache.by_key(key)
        if namespace is None or namespace.status.phase == "Terminating":
            return
        existing = self.objects.cache.get(key, self.object_name)
        try:
            if existing is None:
                await self.client.create(self.wanted(key))
            elif not self.is_current(existing):
                await self.client.update(self.wanted(key))
        except ApiError as error:
            if error.code not in (403, 404, 409):
                raise


class ServiceAccountController(_PerNamespace):
    """The account `default`."""

    name = "serviceaccount-controller"
    cls = core_v1.ServiceAccount
    object_name = ACCOUNT

    def wanted(self, namespace: str) -> core_v1.ServiceAccount:
        return core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name=ACCOUNT, namespace=namespace))


class RootCaPublisher(_PerNamespace):
    """The config map `kube-root-ca.crt`."""

    name = "root-ca-certificate-publisher-controller"
    cls = core_v1.ConfigMap
    object_name = CONFIG_MAP

    def __init__(self, context: ControllerContext, root_ca: str) -> None:
        self.root_ca = root_ca
        super().__init__(context)

    def wanted(self, namespace: str) -> core_v1.ConfigMap:
        annotations = {"kubernetes.io/description": _DESCRIPTION}
        return core_v1.ConfigMap(
            metadata=meta_v1.ObjectMeta(name=CONFIG_MAP, namespace=namespace, annotations=annotations),
            data={"ca.crt": self.root_ca},
        )

    def is_current(self, obj: Any) -> bool:
        return bool(obj.data == {"ca.crt": self.root_ca})


__all__ = ["RootCaPublisher", "ServiceAccountController"]

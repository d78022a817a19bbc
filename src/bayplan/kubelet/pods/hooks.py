"""Lifecycle hooks of containers: a command, a request or a pause (pkg/kubelet/lifecycle/handlers.go)."""

from __future__ import annotations

from bayplan.api.types import core_v1
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.errors import HookError
from bayplan.kubelet.http_actions import HttpActionError, action_headers, action_url, http_get
from bayplan.kubelet.pods.container_events import WARNING, ContainerEvents
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.support.clock import Clock

_USER_AGENT = "kube-lifecycle/1.36"
_HTTP_SECONDS = 30.0 * 60
"""How long a request of a hook may take; what it delays is bounded by the grace period."""


def describe(pod: core_v1.Pod) -> str:
    """A pod as kubelet's messages name it: `name_namespace(uid)`."""
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"


class HookRunner:
    """Runs hooks. What is answered to a request does not matter, only that it is."""

    def __init__(self, runtime: Runtime, events: ContainerEvents, clock: Clock) -> None:
        self._runtime = runtime
        self._events = events
        self._clock = clock

    async def run(
        self,
        handler: core_v1.LifecycleHandler,
        pod: core_v1.Pod,
        container: AnyContainer,
        container_id: str,
        ips: tuple[str, ...],
    ) -> None:
        """Run one hook to its end. ips: of the pod. Raises HookError."""
        if handler.exec is not None:
            await self._exec(handler.exec, pod, container, container_id)
        elif handler.http_get is not None:
            await self._http(handler.http_get, pod, container, ips)
        elif handler.sleep is not None:
            await self._clock.sleep(handler.sleep.seconds)
        else:
            raise HookError("Cannot run handler: invalid handler")

    async def _exec(
        self, action: core_v1.ExecAction, pod: core_v1.Pod, container: AnyContainer, container_id: str
    ) -> None:
        try:
            result = await self._runtime.exec_sync(container_id, action.command, 0)
        except RuntimeRequestError as error:
            raise self._exec_error(action, pod, container, str(error), b"") from None
        if result.exit_code:
            output = result.stdout + result.stderr
            text = f"command '{' '.join(action.command)}' exited with {result.exit_code}: {output.decode(errors='replace')}"
            raise self._exec_error(action, pod, container, text, output)

    @staticmethod
    def _exec_error(
        action: core_v1.ExecAction, pod: core_v1.Pod, container: AnyContainer, text: str, output: bytes
    ) -> HookError:
        return HookError(
            f'Exec lifecycle hook ([{" ".join(action.command)}]) for Container "{container.name}" in Pod '
            f'"{describe(pod)}" failed - error: {text}, message: "{output.decode(errors="replace")}"'
        )

    async def _http(
        self, action: core_v1.HTTPGetAction, pod: core_v1.Pod, container: AnyContainer, ips: tuple[str, ...]
    ) -> None:
        try:
            if not action.host and not ips:
                raise HttpActionError("failed to find networking container")
            url = action_url(action, container, ips[0] if ips else "")
            headers = action_headers(action, _USER_AGENT)
            try:
                await http_get(url, headers, _HTTP_SECONDS)
            except HttpActionError as error:
                if not url.startswith("https:") or "wrong version number" not in str(error).lower():
                    raise
                headers.pop("Authorization", None)
                await http_get(f"http{url[5:]}", headers, _HTTP_SECONDS)
                text = (
                    f"request to HTTPS lifecycle hook {url.split('/')[2]} got HTTP response, retry with HTTP succeeded"
                )
                self._events.pod(pod, WARNING, "LifecycleHTTPFallback", text)
        except (HttpActionError, ValueError) as error:
            raise HookError(
                f'HTTP lifecycle hook ({action.path}) for Container "{container.name}" in Pod '
                f'"{describe(pod)}" failed - error: {error}'
            ) from None

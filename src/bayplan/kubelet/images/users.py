"""As whom images run."""

from __future__ import annotations

from collections import OrderedDict

from bayplan.kubelet.core.containers.security import SecurityError
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime

_DIGEST = "sha256:"
_MOST = 1000
"""Images of which the user is remembered: more than a node has."""


class ImageUsers:
    """Asks the runtime for the users of images: once for references that are digests, whose images never change."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: OrderedDict[str, tuple[int | None, str]] = OrderedDict()

    async def of(self, image_ref: str) -> tuple[int | None, str]:
        """As whom an image runs: (id, ""), (None, name), or root where it does not say. Raises SecurityError."""
        known = self._known.get(image_ref)
        if known is not None:
            self._known.move_to_end(image_ref)
            return known
        found = await self._read(image_ref)
        if image_ref.startswith(_DIGEST):
            self._known[image_ref] = found
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return found

    async def _read(self, image_ref: str) -> tuple[int | None, str]:
        try:
            image = await self._runtime.image_status(image_ref)
        except RuntimeRequestError as error:
            raise SecurityError(str(error)) from error
        if image is None:
            raise SecurityError(f'image "{image_ref}" not found')
        if image.user_id is not None:
            return image.user_id, ""
        return (None, image.username) if image.username else (0, "")

"""The check that every request passes: as whom it is made, whether that user may make it, and which resource it names."""

from __future__ import annotations

from bayplan.api.errors import ApiError
from bayplan.apiserver.authorization.impersonation import impersonated_user
from bayplan.apiserver.authorization.waiting import decided
from bayplan.apiserver.context import Context
from bayplan.apiserver.requests import Request, ResourcePath, resolve


class PermittedPaths:
    """Finds the resources of requests that are permitted: who may not ask does not learn what there is."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._impersonations: dict[str, str] = {}
        """The mode in which users, by name, became somebody else last."""

    def find(self, request: Request) -> ResourcePath | None:
        """The path of a request, taken apart; None if it names no resource of this server. Raises ApiError (400, 403, 404), Undecided."""
        if request.impersonation is not None:
            self.impersonate(request)
        return self._permitted(request)

    async def find_waiting(self, request: Request) -> ResourcePath | None:
        """The same if webhooks may have to be asked. Raises ApiError (400, 403, 404)."""
        if request.impersonation is not None:
            await decided(self.impersonate, request)
        return await decided(self._permitted, request)

    def impersonate(self, request: Request) -> None:
        """Let the user of a request become who they want to be. Raises ApiError (400, 403), Undecided."""
        asker = request.user.name
        request.user = impersonated_user(self._context.authorizer, request, self._impersonations)
        request.impersonation = None
        if request.audit is not None:
            request.audit.impersonated(request.user, self._impersonations[asker])

    def _permitted(self, request: Request) -> ResourcePath | None:
        """Raises ApiError (403, 404), Undecided."""
        authorizer = self._context.authorizer
        if self._context.aggregated.find(request.path) is not None:
            authorizer.admit(request, None)
            return None
        try:
            path = resolve(self._context.kinds, request.info)
        except ApiError:
            authorizer.admit(request, None)
            raise
        authorizer.admit(request, path)
        return path

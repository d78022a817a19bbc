"""How the server writes objects of its own: what is missing is created, and what it keeps up to date is corrected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.api.errors import ApiError, internal_error
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.apiserver.context import Call, Context
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Request, ResourcePath, User
from bayplan.apiserver.verbs.create import create_object
from bayplan.apiserver.verbs.delete import delete_entry
from bayplan.apiserver.verbs.update import modify

LOOPBACK = User("system:apiserver", ("system:masters",))


def own_call(context: Context, kind: Kind, namespace: str, name: str = "", manager: str = "kube-apiserver") -> Call:
    """A request that the server makes of itself, as a manager of fields."""
    request = Request("POST", kind.path(namespace, name), {}, LOOPBACK, user_agent=manager)
    return Call.of(context, request, ResourcePath(kind, namespace, name, None))


def kind_of(context: Context, api_version: str, name: str) -> Kind:
    """A kind that every server has."""
    kind = context.kinds.of_kind(api_version, name)
    if kind is None:
        raise internal_error(f"this server has no {name} of {api_version}")
    return kind


async def ensure(context: Context, obj: Any, api_version: str, manager: str = "kube-apiserver") -> bool:
    """Create an object unless it is there. Returns whether it was created; another server may be faster."""
    kind = kind_of(context, api_version, type(obj).__name__)
    namespace = obj.metadata.namespace
    if context.objects.cache(kind).get(namespace, obj.metadata.name) is not None:
        return False
    try:
        await create_object(own_call(context, kind, namespace, manager=manager), obj, plain=True)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        return False
    return True


async def remove(context: Context, kind: Kind, entry: Entry) -> None:
    """Delete an object unless it is gone already. Raises ApiError."""
    try:
        await delete_entry(own_call(context, kind, "", entry.name), entry, meta_v1.DeleteOptions())
    except ApiError as error:
        if error.reason != "NotFound":
            raise


async def change(
    context: Context,
    api_version: str,
    kind: str,
    namespace: str,
    name: str,
    change_it: Callable[[Any], Any],
    *,
    plain: bool = True,
    track: bool = True,
    manager: str = "kube-apiserver",
) -> None:
    """Change an object by a function from a fresh copy to the wanted one, which may be the same object.

    plain: rules of users do not apply, and the change does not count for the generation. track: whether the server keeps the managed fields;
    otherwise they are as the function leaves them. An object that cannot be read, which is logged, stays as it is: the server starts without it.
    """
    of_kind = kind_of(context, api_version, kind)
    if context.objects.cache(of_kind).unreadable.get(of_kind.storage_key(namespace, name)) is not None:
        return
    call = own_call(context, of_kind, namespace, name, manager)
    await modify(call, change_it, plain=plain, track=track)

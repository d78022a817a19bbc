"""What expressions of CEL see of the claims of a token, and of the user that they have become. Pure.

Source: `k8s.io/apiserver/pkg/authentication/cel`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bayplan.api.cel.checker import Environment
from bayplan.api.cel.schema_types import unescaped
from bayplan.api.cel.types import ANY, STRING, list_of, map_of, struct
from bayplan.api.cel.values import ABSENT, Map
from bayplan.apiserver.requests import User

CLAIMS: Final = Environment({"claims": map_of(STRING, ANY)})
_USER_INFO: Final = "kubernetes.UserInfo"
USER: Final = Environment(
    {"user": struct(_USER_INFO)},
    {
        _USER_INFO: {
            "username": STRING,
            "uid": STRING,
            "groups": list_of(STRING),
            "extra": map_of(STRING, list_of(STRING)),
        }
    },
)


class _Fields(Map):
    """An object whose fields are also found by the names that expressions escape (`a__dot__b`)."""

    __slots__ = ("_fields", "_found", "type_name")

    def __init__(self, fields: Mapping[str, Any], type_name: str) -> None:
        self._fields = fields
        self._found: dict[str, Any] = {}
        self.type_name = type_name

    def __len__(self) -> int:
        return len(self._fields)

    def find(self, key: Any) -> Any:
        """The value of a key, ABSENT if there is none."""
        if type(key) is not str:
            return ABSENT
        name = unescaped(key) or key
        if name not in self._found:
            self._found[name] = _value(self._fields[name]) if name in self._fields else ABSENT
        return self._found[name]

    def keys(self) -> Iterable[Any]:
        """All keys."""
        return self._fields.keys()

    def members(self) -> Iterable[Any]:
        """See Map."""
        return map(_value, self._fields.values())


def _value(found: Any) -> Any:
    """A value of decoded JSON: all numbers are doubles, as Go decodes them."""
    if isinstance(found, Mapping):
        return _Fields(found, "map")
    if isinstance(found, list | tuple):
        return [_value(one) for one in found]
    return float(found) if type(found) is int else found


def claims_value(claims: Mapping[str, Any]) -> Map:
    """`claims` as expressions see it."""
    return _Fields(claims, "kubernetes.claims")


def user_value(user: User) -> Map:
    """`user` as expressions see it."""
    fields = {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra}
    return _Fields(fields, _USER_INFO)

"""What the generated modules share: the base class, the scalar types, and the defaults of fields that are always written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Quantity = str | int | float
"""As it stands on the wire; `bayplan.api.quantity` gives it meaning. The API server stores and serves canonical strings."""
IntOrString = Int32 | str
Time = str
"""RFC 3339 in whole seconds, UTC."""
MicroTime = str
"""RFC 3339 with microseconds, UTC."""
Raw = msgspec.Raw
"""JSON that is kept as it came, because hardly anybody reads it (`metadata.managedFields`)."""
NO_JSON = msgspec.Raw()
"""No such JSON: the field is left out."""

if TYPE_CHECKING:
    from typing import TypeAlias, TypeVar

    T = TypeVar("T")
    NullList: TypeAlias = tuple[T, ...]
else:

    class NullList:
        """A list that is written as null when it is empty, as Go does with a list that was never made.

        In memory it is always a tuple. Null is taken on decoding, and the class that holds such a list turns it into ();
        `bayplan.api.codec.with_null_lists` writes it.
        """

        def __class_getitem__(cls, item: Any) -> Any:
            return tuple[item, ...] | None


class Object(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """Base of all API types. A field nobody knows is refused here and dealt with by `bayplan.api.codec`."""


# Functions, not values: msgspec leaves a field out if it equals its default value, but never if a function made the default.


def always_list() -> tuple[()]:
    """An empty list that is written."""
    return ()


def always_map() -> dict[str, Any]:
    """An empty map that is written."""
    return {}


def always_null() -> None:
    """A null that is written."""
    return


def always_zero() -> int:
    """A zero that is written."""
    return 0


def always_zero_quantity() -> str:
    """A zero quantity that is written."""
    return "0"

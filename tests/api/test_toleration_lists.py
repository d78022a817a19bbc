"""Lists of tolerations are merged and compared by what they include."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.pods.tolerations import includes, merged, within
from bayplan.api.types.core_v1 import Toleration
from tests.cpu_time import cpu_time_below

_TOLERATIONS = st.lists(
    st.builds(
        Toleration,
        key=st.sampled_from(["", "a", "b"]),
        operator=st.sampled_from(["", "Equal", "Exists", "Lt"]),
        value=st.sampled_from(["", "x", "y"]),
        effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
        toleration_seconds=st.sampled_from([None, 1, 2]),
    ),
    max_size=8,
)


@given(_TOLERATIONS, _TOLERATIONS)
def test_merged_lists_hold_what_no_other_one_includes(first: list[Toleration], second: list[Toleration]) -> None:
    every, kept = [*first, *second], list[Toleration]()
    for index, toleration in enumerate(every):
        known = any(includes(one, toleration) for one in kept)
        later = any(includes(one, toleration) and not includes(toleration, one) for one in every[index + 1 :])
        if not known and not later:
            kept.append(toleration)
    assert merged(first, second) == tuple(kept)


@given(_TOLERATIONS, _TOLERATIONS)
def test_a_list_is_within_another_that_includes_each(some: list[Toleration], allowed: list[Toleration]) -> None:
    expected = not allowed or all(any(includes(bound, one) for bound in allowed) for one in some)
    assert within(some, allowed) is expected


def test_thousands_of_tolerations_are_merged_quickly() -> None:
    def distinct(field: str) -> tuple[Toleration, ...]:
        plain = Toleration(key="k", operator="Equal")
        return tuple(msgspec.structs.replace(plain, **{field: f"n{number}"}) for number in range(20_000))

    for field in ("key", "value", "effect"):
        some = distinct(field)
        with cpu_time_below(3):
            assert merged(some, some) == some
            assert within(some, some)

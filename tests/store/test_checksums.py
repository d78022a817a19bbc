"""The checksums of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.store.checksums import (
    facts_checksum,
    has_intact_facts,
    has_intact_value,
    record_checksums,
    value_checksum,
)

_NUMBERS = st.integers(0, 2**62)
_FACTS = (7, "/a", 5, 3, 12.5, 0, 99)


@given(
    _NUMBERS, st.text(), _NUMBERS, _NUMBERS, st.none() | st.floats(0, 1e12), st.integers(0, 1), st.none() | st.binary()
)
def test_both_ways_to_compute_them_agree(
    revision: int, key: str, created: int, previous: int, expires: float | None, deleted: int, value: bytes | None
) -> None:
    if any("\ud800" <= character <= "\udfff" for character in key):
        return
    facts = (revision, key, created, previous, expires, deleted)
    of_value, of_facts = record_checksums(*facts, value)
    assert of_value == value_checksum(value)
    assert of_facts == facts_checksum(*facts, of_value)
    assert has_intact_value(value, of_value)
    assert has_intact_facts((*facts, of_value), of_facts)


@pytest.mark.parametrize("position", range(7))
@pytest.mark.parametrize("other", [None, 8, 8.5, "/b", b"/a", -1], ids=repr)
def test_every_fact_counts_whatever_it_was_changed_to(position: int, other: object) -> None:
    changed = (*_FACTS[:position], other, *_FACTS[position + 1 :])
    assert has_intact_facts(_FACTS, facts_checksum(*_FACTS))
    assert not has_intact_facts(changed, facts_checksum(*_FACTS))


@pytest.mark.parametrize("value", [b"valuf", b"value\0", b"", None, "value", 5])
def test_another_value_is_noticed(value: object) -> None:
    assert not has_intact_value(value, value_checksum(b"value"))

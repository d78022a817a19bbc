"""Hands of queues, as Kubernetes deals them."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.apiserver.flow_control.shuffle_sharding import deal, deck_error, flow_hash, required_bits


def test_the_example_of_the_module() -> None:
    assert deal(7, 4, 2) == (3, 1)


@pytest.mark.parametrize(
    ("deck", "hand", "error"),
    [
        (-100, 8, "deckSize -100 or handSize 8 is not positive"),
        (100, 0, "deckSize 100 or handSize 0 is not positive"),
        (100, 101, "handSize 101 is greater than deckSize 100"),
        (1 << 27, 2, "deckSize 134217728 is impractically large"),
        (512, 8, "required entropy bits of deckSize 512 and handSize 8 is greater than 60"),
        (1024, 6, ""),
    ],
)
def test_which_decks_can_be_dealt(deck: int, hand: int, error: str) -> None:
    assert deck_error(deck, hand) == error


def test_bits_that_a_hand_uses() -> None:
    assert required_bits(1024, 6) == 60
    assert required_bits(512, 8) == 72


@given(st.integers(0, 2**64 - 1), st.integers(1, 512), st.integers(1, 15))
def test_a_hand_has_each_queue_once(value: int, deck: int, hand: int) -> None:
    cards = deal(value, deck, min(deck, hand))
    assert len(set(cards)) == len(cards) == min(deck, hand)
    assert all(0 <= card < deck for card in cards)


@pytest.mark.parametrize(("deck", "hand"), [(6, 3), (10, 2), (5, 5)])
def test_hands_are_dealt_evenly(deck: int, hand: int) -> None:
    count = 1
    for index in range(hand):
        count *= deck - index
    found = Counter(deal(value, deck, hand) for value in range(count))
    assert len(found) == count
    assert set(found.values()) == {1}


def test_a_flow_is_hashed_as_kubernetes_does() -> None:
    """The first eight bytes of SHA-256 over both names with a zero byte between, least significant first."""
    digest = hashlib.sha256(b"global-default\x00alice").digest()
    assert flow_hash("global-default", "alice") == int.from_bytes(digest[:8], "little")
    assert flow_hash("a", "bc") != flow_hash("ab", "c")

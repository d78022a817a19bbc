"""Shuffle sharding: each flow gets a hand of queues, so that two flows seldom have all their queues in common.

Worked example: of a deck of 4 queues, hash 7 deals a hand of 2 like this. 7 % 4 = 3 is the first card, 7 // 4 = 1 is left; 1 % 3 = 1 is the second one, counted
among the cards that are left (0, 1, 2). The hand is (3, 1).

Source: Kubernetes' `apiserver/pkg/util/shufflesharding`.
"""

from __future__ import annotations

import hashlib
import math
from typing import Final

MAXIMUM_HASH_BITS: Final = 60
"""Bits of the hash that hands may use; with all 64 the last cards would not be dealt evenly."""
_MAXIMUM_DECK: Final = 1 << 26


def flow_hash(schema: str, distinguisher: str) -> int:
    """The hash of a flow: 64 bits."""
    digest = hashlib.sha256(f"{schema}\0{distinguisher}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little")


def required_bits(deck: int, hand: int) -> int:
    """Bits of a hash that a hand of so many queues out of a deck uses up, estimated from above."""
    return math.ceil(math.log2(deck) * hand)


def deck_error(deck: int, hand: int) -> str:
    """Why such hands cannot be dealt; "" if they can."""
    if deck <= 0 or hand <= 0:
        return f"deckSize {deck} or handSize {hand} is not positive"
    if hand > deck:
        return f"handSize {hand} is greater than deckSize {deck}"
    if deck > _MAXIMUM_DECK:
        return f"deckSize {deck} is impractically large"
    if required_bits(deck, hand) > MAXIMUM_HASH_BITS:
        return f"required entropy bits of deckSize {deck} and handSize {hand} is greater than {MAXIMUM_HASH_BITS}"
    return ""


def deal(hash_value: int, deck: int, hand: int) -> tuple[int, ...]:
    """The hand of a hash: indexes below `deck`, each once, in the order in which they are dealt."""
    remainders = []
    for index in range(hand):
        hash_value, remainder = divmod(hash_value, deck - index)
        remainders.append(remainder)
    cards = []
    for index, remainder in enumerate(remainders):
        card = remainder
        for before in reversed(remainders[:index]):
            if card >= before:
                card += 1
        cards.append(card)
    return tuple(cards)

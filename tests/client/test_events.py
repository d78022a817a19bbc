"""What events may say."""

from __future__ import annotations

import pytest

from bayplan.client.events import shortened


@pytest.mark.parametrize(("message", "size"), [("a" * 1024, 1024), ("a" * 1025, 1024), ("é" * 600, 1024), ("short", 5)])
def test_messages_are_cut_to_what_an_event_takes(message: str, size: int) -> None:
    cut = shortened(message)
    assert len(cut.encode()) <= size
    assert cut == message or cut.endswith(" ...")
    assert (cut == message) == (len(message.encode()) <= 1024)

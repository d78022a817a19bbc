"""What counts as the same output."""

from __future__ import annotations

import pytest

from tests.docs.outputs import difference

SAME = [
    (["ready: https://127.0.0.1:39099 with 3 nodes"], "ready: https://127.0.0.1:41233 with 3 nodes"),
    (["NAME  AGE   MEMORY", "ci    1s    117Mi"], "NAME  AGE  MEMORY\nci    1m12s 98Mi\n"),
    (["pod web-74wbbt59bg-rzjb9 moves"], "pod web-6dcf8bbb5k-x2x4w moves"),
    (["a", "...", "z"], "a\nb\nc\nz"),
    (["a", "..."], "a"),
    (["..."], ""),
    (["most free: cpu ..."], "most free: cpu 3750m on node-2"),
]
OTHER = [
    (["3 nodes"], "4 nodes"),
    (["a"], ""),
    (["a"], "a\nb"),
    (["a", "...", "z"], "a\nb"),
    (["pod web-1 moves"], "pod db-1 moves"),
    (["most free: cpu ..."], "most free: memory 1Gi"),
    (["v1.36"], "v1.37"),
]


@pytest.mark.parametrize(("shown", "printed"), SAME, ids=[str(one) for one in range(len(SAME))])
def test_what_always_differs_does_not_count(shown: list[str], printed: str) -> None:
    assert difference(shown, printed) == ""


@pytest.mark.parametrize(("shown", "printed"), OTHER, ids=[str(one) for one in range(len(OTHER))])
def test_all_else_does(shown: list[str], printed: str) -> None:
    assert "shown" in difference(shown, printed)

"""Which mutants count."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="needs pip install 'bayplan[mutants]'")

from tools.mutants import EQUIVALENT, PACKAGES, changed_line

ROOT = Path(__file__).parents[2]
DIFFERENCE = """--- a/queue.py
+++ b/queue.py
@@ -83,7 +83,7 @@
         if queued is not None:
-            if priority > -queued[0]:
+            if priority >= -queued[0]:
                 self._enqueue(key, priority, queued[1])
"""


def test_a_mutant_that_means_the_same_is_known_by_the_line_that_it_changes() -> None:
    assert changed_line(DIFFERENCE) in EQUIVALENT
    assert changed_line(DIFFERENCE.replace(">=", "<")) not in EQUIVALENT


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_and_their_tests_are_there(name: str) -> None:
    package = PACKAGES[name]
    missing = [path for path in (package.sources, *package.tests) if not (ROOT / path).exists()]
    assert not missing

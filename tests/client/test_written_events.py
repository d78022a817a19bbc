"""Which events are still known to have been written."""

from __future__ import annotations

from bayplan.client.digest_table import SETS, WAYS
from bayplan.client.written_events import KEPT_SECONDS, WrittenEvents

NOW = 1_800_000_000.0
ENDING = "00112233445566ff"


def key(number: int) -> tuple[str, ...]:
    return ("Pod", "default", f"pod-{number}", "Scheduled")


def test_a_repeated_event_is_counted_under_its_first_name() -> None:
    written = WrittenEvents()
    assert written.count(key(1), NOW) is None
    written.put(key(1), ENDING, NOW)
    assert written.count(key(2), NOW) is None
    assert [written.count(key(1), NOW) for _ in range(3)] == [(ENDING, 2), (ENDING, 3), (ENDING, 4)]


def test_parts_of_a_key_do_not_run_into_each_other() -> None:
    written = WrittenEvents()
    written.put(("a", "bc"), ENDING, NOW)
    assert written.count(("ab", "c"), NOW) is None


def test_an_event_written_anew_is_counted_from_one() -> None:
    written = WrittenEvents()
    for ending in (ENDING, ENDING[::-1]):
        written.put(key(1), ending, NOW)
        assert written.count(key(1), NOW) == (ending, 2)


def test_what_was_not_repeated_for_an_hour_is_forgotten() -> None:
    written = WrittenEvents()
    written.put(key(1), ENDING, NOW)
    assert written.count(key(1), NOW + KEPT_SECONDS) == (ENDING, 2)
    assert written.count(key(1), NOW + 2 * KEPT_SECONDS) == (ENDING, 3)
    assert written.count(key(1), NOW + 3 * KEPT_SECONDS + 1) is None


def test_memory_is_bounded_and_what_was_used_last_stays() -> None:
    written = WrittenEvents()
    written.put(key(0), ENDING, NOW)
    for number in range(1, 4 * SETS * WAYS):
        written.put(key(number), ENDING, NOW + number)
        assert written.count(key(0), NOW + number) == (ENDING, number + 1)
    known = [number for number in range(4 * SETS * WAYS) if written.count(key(number), NOW + 10**4) is not None]
    assert len(known) <= SETS * WAYS
    assert len(known) > 0.9 * SETS * WAYS
    assert len([one for one in known if one > 2 * SETS * WAYS]) > 0.9 * SETS * WAYS

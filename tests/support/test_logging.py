"""Log forms and verbosity."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
from collections.abc import Iterator

import pytest

from bayplan.support.logging import level_of_verbosity, set_up_logging


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, hook = list(root.handlers), root.level, threading.excepthook
    yield
    root.handlers[:], threading.excepthook = handlers, hook
    root.setLevel(level)
    logging.captureWarnings(False)
    for name in ("asyncio", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_verbosity_is_klogs() -> None:
    assert [level_of_verbosity(verbosity) for verbosity in (0, 1, 2, 3, 4, 10)] == [
        logging.WARNING, logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG, logging.DEBUG,
    ]  # fmt: skip


def test_text_has_klogs_form() -> None:
    stream = io.StringIO()
    set_up_logging(stream=stream)
    logging.getLogger("bayplan.test").info("bound %s", "default/web")
    logging.getLogger("bayplan.test").debug("not shown")
    assert re.fullmatch(
        r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_logging\.py:\d+\] bound default/web\n", stream.getvalue()
    )


def test_errors_carry_their_traceback_in_both_forms() -> None:
    for form in ("text", "json"):
        stream = io.StringIO()
        set_up_logging(stream=stream, form="json" if form == "json" else "text")
        try:
            raise ValueError("broken")
        except ValueError:
            logging.getLogger("bayplan.test").exception("failed")
        text = stream.getvalue()
        if form == "json":
            fields = json.loads(text)
            assert (fields["msg"], fields["level"], fields["logger"]) == ("failed", "error", "bayplan.test")
            text = fields["err"]
        assert "ValueError: broken" in text


def test_json_is_one_object_per_line() -> None:
    stream = io.StringIO()
    set_up_logging(verbosity=4, form="json", stream=stream)
    logging.getLogger("bayplan.test").debug("first\nsecond")
    logging.getLogger("bayplan.test").info("third")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["msg"], first["v"], second["msg"], second["v"]) == ("first\nsecond", 4, "third", 2)


def test_crashes_of_threads_are_logged() -> None:
    stream = io.StringIO()
    set_up_logging(stream=stream)
    thread = threading.Thread(target=lambda: 1 // 0, name="doomed")
    thread.start()
    thread.join()
    assert "doomed crashed" in stream.getvalue()
    assert "ZeroDivisionError" in stream.getvalue()

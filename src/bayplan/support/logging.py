"""Log output of the command line: klog's text form, or its JSON form, with klog's `--v` verbosity."""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import Literal, TextIO

Form = Literal["text", "json"]

_LETTERS = {logging.DEBUG: "I", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}


def level_of_verbosity(verbosity: int) -> int:
    """The logging level for klog's `--v`: 0-1 warnings and up, 2-3 information (Kubernetes' usual setting), 4 and more
    everything."""
    if verbosity >= 4:
        return logging.DEBUG
    return logging.INFO if verbosity >= 2 else logging.WARNING


class KlogFormatter(logging.Formatter):
    """`I0102 03:04:05.000006    4711 module.py:12] message`"""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone()
        letter = _LETTERS.get(record.levelno, "I")
        head = f"{letter}{moment:%m%d %H:%M:%S}.{moment.microsecond:06d} {record.process or 0:7d}"
        return f"{head} {record.filename}:{record.lineno}] {record.getMessage()}{self._trace(record)}"

    def _trace(self, record: logging.LogRecord) -> str:
        if record.exc_info and record.exc_info[0] is not None:
            return "\n" + self.formatException(record.exc_info)
        return ""


class JsonFormatter(logging.Formatter):
    """One JSON object per line with the fields of Kubernetes' `--logging-format=json`: ts (milliseconds), caller, msg,
    v or err."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "ts": round(record.created * 1000, 3),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "caller": f"{record.filename}:{record.lineno}",
            "logger": record.name,
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
        }
        if record.levelno < logging.WARNING:
            fields["v"] = 4 if record.levelno <= logging.DEBUG else 2
        if record.exc_info and record.exc_info[0] is not None:
            fields["err"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


_verbosity = 2
"""With which `set_up_logging` was called."""


def logging_verbosity() -> int:
    """The verbosity of this process's log."""
    return _verbosity


def set_up_logging(*, verbosity: int = 2, form: Form = "text", stream: TextIO | None = None) -> None:
    """Send the log to `stream` (standard error if None). Replaces what an earlier call set up; for the edge of a
    program only.

    Uncaught exceptions of threads are logged too, so that none is lost among the output.
    """
    global _verbosity
    _verbosity = verbosity
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else KlogFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level_of_verbosity(verbosity))
    logging.captureWarnings(True)
    if verbosity < 6:
        for name in ("asyncio", "aiohttp.access"):
            logging.getLogger(name).setLevel(logging.WARNING)
    threading.excepthook = _log_thread_crash


def change_verbosity(verbosity: int) -> None:
    """Log as much as after `set_up_logging` with this verbosity, from now on."""
    global _verbosity
    _verbosity = verbosity
    logging.getLogger().setLevel(level_of_verbosity(verbosity))


def _log_thread_crash(crash: threading.ExceptHookArgs) -> None:
    name = crash.thread.name if crash.thread is not None else "a thread"
    if crash.exc_value is not None:
        trace = (crash.exc_type, crash.exc_value, crash.exc_traceback)
        logging.getLogger(__name__).error("%s crashed", name, exc_info=trace)

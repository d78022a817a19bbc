"""Questions about the cluster: the command line program answers them, in a process of its own.

So an answer is what `bayplan explain` and `bayplan simulate` say, and a question about a large cluster takes no time from the page's server, which may share its
process with an API server. A process is killed when it takes too long or when the page that asked is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from bayplan.support.system.programs import output_of
from bayplan.ui.errors import RequestError

_PROGRAM: Final = (sys.executable, "-c", "from bayplan.cli.main import run; run()")
_PATIENCE: Final = 300.0
"""Seconds that an answer may take."""
_AT_ONCE: Final = 2
_REPORTS_KEPT: Final = 8
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:_-]*[A-Za-z0-9])?")
_NO_SENSE: Final = 2
"""Exit code of a question that makes no sense; 0 and 1 are answers."""
_STEPS: Final[Mapping[str, str]] = {
    "drain": "--drain",
    "deleteNodes": "--delete-node",
    "cordon": "--cordon",
    "failZones": "--fail-zone",
    "scale": "--scale",
}
"""What a page may have done to the cluster, in thought -> the option of `bayplan simulate`."""


class Questions:
    """Asks about one cluster."""

    def __init__(self, source: Sequence[str], scheduler_config: Path | None = None) -> None:
        """source: the options that say which cluster, such as `--kubeconfig FILE`."""
        config = (f"--scheduler-config={scheduler_config}",) if scheduler_config is not None else ()
        self._options = (*source, *config, "--output=json")
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._reports: OrderedDict[str, bytes] = OrderedDict()
        self._asked = 0

    async def why(self, namespace: str, name: str) -> Any:
        """What the scheduler says of every node for a pod. Raises RequestError."""
        return await self._answer("explain", f"--namespace={named(namespace)}", "--", f"{namespace}/{named(name)}")

    async def fixes(self, namespace: str, name: str) -> Any:
        """The smallest changes that would place a pod. Raises RequestError."""
        return await self._answer(
            "explain", "--fix", f"--namespace={named(namespace)}", "--", f"{namespace}/{named(name)}"
        )

    async def what_if(self, steps: Mapping[str, Any]) -> dict[str, Any]:
        """What happens if something is done: the outcome, and the number of the report about it; the same in `other` for another scheduler
        configuration, if there is one in the steps. Raises RequestError."""
        config = steps.get("schedulerConfig") or ""
        arguments, manifest = simulate_arguments(steps)
        if not config:
            return await self._outcome(arguments, manifest)
        if fields := configuration_errors(config):
            raise RequestError(422, "the scheduler configuration has errors", fields)
        with tempfile.TemporaryDirectory(prefix="bayplan-ui-") as directory:
            file = Path(directory) / "scheduler.yaml"
            file.write_text(config, encoding="utf-8")
            answer, other = await asyncio.gather(
                self._outcome(arguments, manifest),
                self._outcome([*arguments, f"--scheduler-config={file}"], manifest),
            )
        return {**answer, "other": other}

    async def _outcome(self, arguments: Sequence[str], manifest: bytes) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="bayplan-ui-") as directory:
            report = Path(directory) / "report.html"
            outcome = await self._answer("simulate", *arguments, f"--html={report}", stdin=manifest)
            self._asked += 1
            self._reports[str(self._asked)] = report.read_bytes()
        while len(self._reports) > _REPORTS_KEPT:
            self._reports.popitem(last=False)
        return {"outcome": outcome, "report": str(self._asked)}

    def report(self, number: str) -> bytes:
        """The report about an outcome, as HTML. Raises RequestError."""
        try:
            return self._reports[number]
        except KeyError:
            raise RequestError(404, "this report is not kept any more; ask again") from None

    async def _answer(self, verb: str, *arguments: str, stdin: bytes = b"") -> Any:
        async with self._places:
            code, output, errors = await program_output((verb, *self._options, *arguments), stdin)
        if code < _NO_SENSE:
            with contextlib.suppress(msgspec.DecodeError):
                return msgspec.json.decode(output)
        said = errors.decode(errors="replace").strip().splitlines()
        raise RequestError(422, said[-1].removeprefix("bayplan: ") if said else f"bayplan {verb} ended with {code}")


def simulate_arguments(steps: Mapping[str, Any]) -> tuple[list[str], bytes]:
    """The options of `bayplan simulate` for what a page asks, and its standard input. Raises RequestError."""
    arguments: list[str] = []
    for key, option in _STEPS.items():
        given = steps.get(key) or []
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise RequestError(400, f"{key}: a list of texts is expected")
        arguments += [f"{option}={one if key == 'scale' else named(one)}" for one in given]
    add = steps.get("addNodes") or 0
    if not isinstance(add, int) or not 0 <= add <= 10_000:
        raise RequestError(400, "addNodes: a number of nodes up to 10000 is expected")
    if add:
        arguments.append(f"--add-nodes={add}")
        arguments += [f"--like={named(steps['like'])}"] if steps.get("like") else []
    manifest = steps.get("apply") or ""
    if not isinstance(manifest, str):
        raise RequestError(400, "apply: a text is expected")
    if manifest.strip():
        arguments.append("--apply=-")
    if steps.get("placeAnew") or (steps.get("schedulerConfig") and not arguments):
        arguments.append("--place-anew")
    if not arguments:
        raise RequestError(400, "choose something to do")
    return arguments, manifest.encode()


def configuration_errors(text: Any) -> list[dict[str, str]]:
    """What is wrong with the text of a KubeSchedulerConfiguration, by field; nothing if it is right. Raises RequestError if it is no text."""
    from bayplan.scheduler.configuration.settings import parse_text
    from bayplan.scheduler.errors import SettingsError

    if not isinstance(text, str):
        raise RequestError(400, "schedulerConfig: a text is expected")
    try:
        parse_text(text)
    except SettingsError as error:
        return [{"field": field, "problem": problem} for field, problem in error.fields]
    return []


def named(text: Any) -> str:
    """A name of an object, as it is. Raises RequestError for what can be none."""
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise RequestError(400, f"{str(text)[:80]!r} is no name")
    return text


async def program_output(arguments: Sequence[str], stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of the command line program. Raises RequestError if it takes too long."""
    # Input from a file: a pipe would have to be read while the program starts.
    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        process = await asyncio.create_subprocess_exec(
            *_PROGRAM, *arguments, stdin=file, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    try:
        output, errors = await output_of(process, _PATIENCE)
    except TimeoutError:
        raise RequestError(504, f"there was no answer within {_PATIENCE:.0f} s") from None
    return process.returncode or 0, output, errors

"""Plays recorded transcripts against a running API server and says which answers differ.

The format of the recordings is that of `transcripts`; here are the requests, watches and waits. The server is any Kubernetes API: Bayplan's own, or a real
one to check the player itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from bayplan.testing import transcripts

_HEADERS = (
    "Content-Type",
    "Warning",
    "Retry-After",
    "Content-Encoding",
    "Allow",
    "Accept-Patch",
    "Location",
    "WWW-Authenticate",
    "Vary",
)
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass
class Answer:
    """One HTTP answer."""

    code: int
    headers: CIMultiDictProxy[str]
    body: bytes


@dataclass
class Report:
    """How one scenario went."""

    scenario: str
    compared: int = 0
    differing: dict[str, list[str]] = field(default_factory=dict)
    """Step id and name -> differences."""

    @property
    def matches(self) -> bool:
        """Whether every compared step was answered as recorded."""
        return not self.differing


class _Watch:
    """A watch that runs beside the steps."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.closed = False
        self.opened: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.changed = asyncio.Condition()
        self.task: asyncio.Task[None] | None = None

    async def read(self, response: aiohttp.ClientResponse) -> None:
        """Gather the lines until the server or the player ends the watch."""
        with contextlib.suppress(aiohttp.ClientError):
            async for line in response.content:
                if line.strip():
                    self.events.append(_event_of(line))
                    await self._tell()
        self.closed = True
        await self._tell()

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()


class Player:
    """Plays scenarios one after another.

    tokens: bearer token by user name. patience: seconds to wait at most for what a transcript waits for; pauses in which a real server's
    informers would catch up are left out.
    """

    def __init__(
        self, server: str, tokens: Mapping[str, str], session: aiohttp.ClientSession, *, patience: float = 5.0
    ) -> None:
        self.server = server.rstrip("/")
        self.tokens = tokens
        self.patience = patience
        self._session = session
        self._variables: dict[str, Any] = {}
        self._normalizer = transcripts.Normalizer("", set())
        self._watches: dict[str, _Watch] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._created: list[str] = []

    async def play(self, scenario: Mapping[str, Any]) -> Report:
        """Play one scenario in a namespace of its own and clean up after it."""
        self.begin(scenario)
        report = Report(scenario["scenario"])
        try:
            for step in scenario["steps"]:
                actual = await self.step(step)
                if actual is None or "expect" not in step or step.get("compare") == "none":
                    continue
                report.compared += 1
                found = transcripts.compare(step, actual)
                if found:
                    report.differing[f"{step['id']} {step.get('name', '')}"] = found
        finally:
            await self.end()
        return report

    def begin(self, scenario: Mapping[str, Any]) -> None:
        """Forget the scenario before: `step` plays the steps of this one, then `end` cleans up."""
        self._variables = {"ns": scenario["namespace"]}
        self._normalizer = transcripts.Normalizer(scenario["namespace"], transcripts.literals(scenario["steps"]))
        self._watches, self._created, self._tasks = {}, [], []

    async def end(self) -> None:
        """Stop watching, and delete what the scenario has created."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        namespace = f"/api/v1/namespaces/{self._variables['ns']}"
        for path in (f"{namespace}/services", *reversed(self._created), namespace):
            await self._send({"method": "DELETE", "path": path, "query": {"gracePeriodSeconds": 0}})

    async def step(self, step: Mapping[str, Any]) -> dict[str, Any] | None:
        """Play one step; returns what came of it in normal form, None if that is nothing to compare."""
        if "sleep" in step:
            return None
        if "parallel" in step:
            answers = await asyncio.gather(*map(self._send, step["parallel"]))
            return {"outcome": {"codes": dict(Counter(str(answer.code) for answer in answers))}}
        if "watch" in step:
            return await self._watch(step)
        if "collect" in step:
            return await self._collect(step["collect"])
        if "check" in step:
            return {"outcome": {name: self._holds(name, names) for name, names in step["check"].items()}}
        return await self._request(step)

    def _holds(self, name: str, names: list[str]) -> bool:
        if name == "matches":
            return bool(re.match(names[1], str(self._variables.get(names[0]))))
        values = [self._variables.get(one) for one in names]
        if name == "equal":
            return None not in values and all(value == values[0] for value in values)
        if name == "different":
            return None not in values and len(set(map(str, values))) == len(values)
        numbers = [int(str(value)) for value in values]
        return all(first < second for first, second in itertools.pairwise(numbers))

    async def _request(self, step: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._send(step["request"])
        retry = step.get("retry")
        tries = int(self.patience / 0.1) if retry else 0
        while tries and not self._satisfied(retry, answer):
            await asyncio.sleep(0.1)
            answer = await self._send(step["request"])
            tries -= 1
        self._note(step["request"], answer)
        return self._outcome(step, answer)

    def _satisfied(self, retry: Any, answer: Answer) -> bool:
        until, parsed = retry["until"], _parsed(answer)
        if until.get("code", answer.code) != answer.code:
            return False
        return all(transcripts.lookup(parsed, pointer) == value for pointer, value in until.get("match", {}).items())

    def _note(self, request: Mapping[str, Any], answer: Answer) -> None:
        """Remember cluster-wide objects, which do not go away with the namespace."""
        path = str(transcripts.expand(request["path"], self._variables)).partition("?")[0].rstrip("/")
        if answer.code not in (200, 201) or "/namespaces/" in path or "dryRun" in request.get("query", {}):
            return
        if request["method"] == "POST" and "review" not in path:
            name = transcripts.lookup(_parsed(answer), "/metadata/name")
            self._created += [f"{path}/{name}"] if name else []
        elif request["method"] in ("PUT", "PATCH"):
            self._created.append(path)

    def _build(self, request: Mapping[str, Any]) -> tuple[URL, dict[str, str], bytes | None]:
        path = str(transcripts.expand(request["path"], self._variables))
        pairs = [
            (key, str(transcripts.expand(value, self._variables)))
            for key, values in (request.get("query") or {}).items()
            for value in (values if isinstance(values, list) else [values])
        ]
        if pairs:
            path += ("&" if "?" in path else "?") + urlencode(pairs)
        headers: dict[str, Any] = {"Accept": "application/json", "User-Agent": "golden-replay/1"}
        body = None
        if "body" in request:
            tree = transcripts.expand(request["body"], self._variables)
            body = json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()
        elif "text" in request:
            body = str(transcripts.expand(request["text"], self._variables)).encode(errors="surrogateescape")
        if body is not None:
            headers["Content-Type"] = "application/json"
        user = request.get("user", "admin")
        if "token" in request:
            headers["Authorization"] = f"Bearer {transcripts.expand(request['token'], self._variables)}"
        elif user != "anonymous":
            headers["Authorization"] = f"Bearer {self.tokens.get(user, f'gold-{user}-token')}"
        headers |= request.get("headers") or {}
        if request.get("gzip") and body is not None:
            body = gzip.compress(body)
            headers["Content-Encoding"] = "gzip"
        expanded = {
            key: str(transcripts.expand(value, self._variables)) for key, value in headers.items() if value is not None
        }
        return URL(self.server + path, encoded=True), expanded, body

    async def _send(self, request: Mapping[str, Any]) -> Answer:
        url, headers, body = self._build(request)
        skipped = ("Content-Type",) if body is None else ()
        data = None if body is None else io.BytesIO(body)
        async with self._session.request(
            request["method"], url, headers=headers, data=data, skip_auto_headers=skipped, allow_redirects=False
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    def _outcome(self, step: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
        parsed, normalizer = _parsed(answer), self._normalizer
        for name, pointer in step.get("capture", {}).items():
            value = transcripts.lookup(parsed, pointer)
            self._variables.pop(name, None)
            if value is not None:
                self._variables[name] = value
            if isinstance(value, str) and not pointer.endswith("/resourceVersion"):
                normalizer.captured[name] = value
        wanted = step.get("view")
        body: Any = parsed
        if wanted == "binary":
            body = {"startsWith": answer.body[:4].decode("latin-1")}
        elif parsed is None and answer.body != b"null":
            body = normalizer.document(answer.body.decode("utf-8", "replace"))
        if isinstance(wanted, dict) and "jwt" in wanted:
            body, wanted = transcripts.view(body, wanted), None
        body = normalizer.tree(body, managed_fields=bool(step.get("managedFields")), ages=not step.get("exactAges"))
        for pointer in step.get("ignore", ()):
            body = transcripts.without(body, pointer.split("/")[1:])
        if wanted != "binary":
            body = transcripts.view(body, wanted)
        if step.get("only"):
            body = transcripts.only(body, [pointer.split("/")[1:] for pointer in step["only"]])
        outcome = {"code": answer.code, "headers": self._headers(answer), "body": _sorted_causes(body)}
        return outcome | ({"layout": _layout(answer, parsed)} if step.get("layout") else {})

    def _headers(self, answer: Answer) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in _HEADERS:
            values = [self._normalizer.text(value) for value in answer.headers.getall(name, ())]
            if values:
                found[name] = sorted(values) if name == "Warning" else ", ".join(values)
        return found

    async def _watch(self, step: Mapping[str, Any]) -> dict[str, Any]:
        watch = self._watches[step["watch"]] = _Watch()
        watch.task = asyncio.create_task(self._run_watch(step["request"], watch))
        self._tasks.append(watch.task)
        outcome = self._outcome(step, await watch.opened)
        if outcome["code"] == 200:
            outcome["body"] = None
        return outcome

    async def _run_watch(self, request: Mapping[str, Any], watch: _Watch) -> None:
        url, headers, _ = self._build(request)
        async with self._session.get(url, headers=headers, timeout=aiohttp.ClientTimeout(total=None)) as response:
            body = b"" if response.status == 200 else await response.read()
            watch.opened.set_result(Answer(response.status, response.headers, body))
            if response.status == 200:
                await watch.read(response)
            else:
                watch.closed = True

    async def _collect(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        watch, until = self._watches[wanted["watch"]], wanted.get("until") or {}

        def useful() -> list[dict[str, Any]]:
            return _useful(watch.events, bookmarks=bool(wanted.get("bookmarks")))

        def finished() -> bool:
            events = useful()
            if watch.closed or ("count" in until and len(events) >= until["count"]):
                return True
            return ("type" in until or "name" in until) and any(self._is_last(event, until) for event in events)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(wanted.get("timeoutSeconds", 10), self.patience)), watch.changed:
                await watch.changed.wait_for(finished)
        events, closed = useful(), watch.closed
        for name, (index, pointer) in (wanted.get("captureEvent") or {}).items():
            if index < len(events):
                self._variables[name] = transcripts.lookup(events[index], pointer)
        if watch.task is not None and not wanted.get("keep"):
            watch.task.cancel()
        return {
            "events": [self._event(event, wanted) for event in events],
            "closed": closed if until.get("close") else None,
        }

    def _is_last(self, event: dict[str, Any], until: Mapping[str, Any]) -> bool:
        name = transcripts.expand(until.get("name"), self._variables)
        return event.get("type") == until.get("type", event.get("type")) and name in (
            None,
            transcripts.lookup(event, "/object/metadata/name"),
        )

    def _event(self, event: dict[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
        marked = self._normalizer.tree(event, managed_fields=bool(wanted.get("managedFields")))
        for pointer in wanted.get("ignore", ()):
            marked = transcripts.without(marked, pointer.split("/")[1:])
        if wanted.get("view"):
            marked = {"type": marked.get("type"), "object": transcripts.view(marked.get("object"), wanted["view"])}
        if wanted.get("only"):
            paths = [pointer.split("/")[1:] for pointer in wanted["only"]]
            marked = {"type": marked.get("type"), "object": transcripts.only(marked.get("object"), paths)}
        return dict(marked)


def _useful(events: list[dict[str, Any]], *, bookmarks: bool) -> list[dict[str, Any]]:
    """Events without bookmarks (or with one of several in a row), but always with the one that ends the initial events."""
    found: list[dict[str, Any]] = []
    for event in events:
        is_bookmark = event.get("type") == "BOOKMARK"
        is_end = is_bookmark and _INITIAL_EVENTS_END in json.dumps(event)
        repeated = bool(found) and found[-1].get("type") == "BOOKMARK"
        if not is_bookmark or is_end or (bookmarks and not repeated):
            found.append(event)
    return found


def _event_of(line: bytes) -> dict[str, Any]:
    """A line of a watch as a tree; what is no JSON object, such as a line of YAML, as text."""
    with contextlib.suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict):
            return found
    return {"text": line.decode(errors="replace")}


def _parsed(answer: Answer) -> Any:
    """The body as a JSON tree, None if it is none."""
    media_type = answer.headers.get("Content-Type", "").lower()
    if "json" not in media_type and (answer.body[:1] not in (b"{", b"[") or "yaml" in media_type):
        return None
    try:
        return json.loads(answer.body)
    except ValueError:
        return None


def _sorted_causes(body: Any) -> Any:
    if isinstance(body, dict) and body.get("kind") == "Status" and (body.get("details") or {}).get("causes"):
        causes = sorted(body["details"]["causes"], key=lambda cause: json.dumps(cause, sort_keys=True))
        return {**body, "details": {**body["details"], "causes": causes}}
    return body


def _layout(answer: Answer, parsed: Any) -> dict[str, Any]:
    text = answer.body.decode("utf-8", "replace")
    indent = re.match(r"\{\n( *)", text)
    found: dict[str, Any] = {
        "multiLine": "\n" in text.strip(),
        "indent": len(indent[1]) if indent else 0,
        "endsWithNewline": text.endswith("\n"),
    }
    return found | ({"firstKeys": list(parsed)[:3]} if isinstance(parsed, dict) else {})

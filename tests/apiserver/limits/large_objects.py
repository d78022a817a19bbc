"""Large objects of every built-in kind, and the CPU time that requests with them cost: `python -m tests.apiserver.limits.large_objects [KIND...]`,
or `--sample SECONDS --seed N` for requests chosen at random among all.

For every list and map that an object of a kind can hold there are objects in which that one is as long as a number of bytes allows: with distinct items,
with equal ones and with wrong ones. Each is created, replaced, applied and patched in this process. What costs more than the limit is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.api.schema import Schema, definition_of, definitions
from bayplan.apiserver.requests import Request
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, opened
from tests.fuzz.verdicts import is_fault
from tests.fuzz.wire import Answer

GOLDEN = Path(__file__).parents[2] / "golden" / "api"
NAMESPACE = "default"
DEPTH = 9
METADATA_OF = "ConfigMap"
"""The kind whose metadata stands for those of all."""
TEMPLATED = frozenset(
    ("DaemonSet", "Job", "CronJob", "PodTemplate", "ReplicaSet", "ReplicationController", "StatefulSet")
)
"""Kinds whose pod templates are left out: those of Deployments are looked at, and the rules are the same."""
LISTS, MAPS = "list", "map"
VARIANTS = ("distinct", "equal", "wrong")
VERBS = ("create", "update", "apply", "strategic", "merge", "json", "whole")
"""json: a JSON patch that adds item by item; whole: one that replaces the list or map."""
TOO_LARGE = b"etcdserver: request is too large"
_ENCODER = msgspec.json.Encoder()
_NAMES = ("name", "key", "type", "ip", "uid", "mountPath", "devicePath", "topologyKey", "containerPort", "port")
"""Fields that an item has even if they are not required."""


@dataclass(frozen=True)
class Collection:
    """A list or map somewhere in an object."""

    path: tuple[str, ...]
    """Field names; "0" for the only item of a list."""
    many: str
    item: str
    """The schema of an item, as JSON."""


@dataclass(frozen=True)
class Cost:
    """One request."""

    verb: str
    variant: str
    collection: Collection
    items: int
    code: int
    seconds: float
    answer: bytes

    def is_fault(self, limit: float) -> bool:
        """Whether it cost more CPU seconds than the limit, or the server failed for another reason than the size of the object."""
        return self.seconds > limit or (TOO_LARGE not in self.answer and is_fault(Answer(self.code, self.answer)))

    def __str__(self) -> str:
        place = ".".join(self.collection.path)
        return f"{self.seconds:7.2f}s {self.code} {len(self.answer):>9,}B {self.verb:9} {self.variant:8} {self.items:>7,} {place}"


def collections(definition: str, *, skip: frozenset[str] = frozenset()) -> Iterator[Collection]:
    """The lists and maps of a definition."""
    yield from _collections({"$ref": definition}, (), frozenset(), skip)


def _collections(
    schema: Schema, path: tuple[str, ...], above: frozenset[str], skip: frozenset[str]
) -> Iterator[Collection]:
    reference = schema.get("$ref", "")
    if reference in above or len(path) > DEPTH or any(".".join(path[:count]) in skip for count in range(1, 4)):
        return
    resolved = definitions()[reference] if reference else schema
    for name, inner in resolved.get("properties", {}).items():
        yield from _collections(inner, (*path, name), above | {reference}, skip)
    if resolved.get("type") == "array":
        yield Collection(path, LISTS, json.dumps(resolved["items"]))
        yield from _collections(resolved["items"], (*path, "0"), above, skip)
    elif isinstance(resolved.get("additionalProperties"), dict):
        yield Collection(path, MAPS, json.dumps(resolved["additionalProperties"]))


def value_of(schema: Schema, index: int, *, wrong: bool, name: str = "", depth: int = 0) -> Any:
    """An item: numbered by `index`, or as wrong as its type allows."""
    reference = schema.get("$ref", "")
    short = reference.rpartition(".")[2]
    special: dict[str, Any] = {
        "Quantity": "-1" if wrong else "1",
        "IntOrString": -1 if wrong else index + 1,
        "FieldsV1": {},
    }
    special |= {
        "Time": "2026-01-02T03:04:05Z",
        "MicroTime": "2026-01-02T03:04:05.000006Z",
        "RawExtension": {"a": index},
    }
    if short in special:
        return special[short]
    resolved = definitions()[reference] if reference else schema
    kind = resolved.get("type")
    if "properties" in resolved:
        wanted = set(resolved.get("required", ())) | {one for one in _NAMES if one in resolved["properties"]}
        members = {one: resolved["properties"][one] for one in sorted(wanted)} if depth < 5 else {}
        return {one: value_of(inner, index, wrong=wrong, name=one, depth=depth + 1) for one, inner in members.items()}
    if kind == "array":
        return [value_of(resolved["items"], index, wrong=wrong, name=name, depth=depth + 1)]
    if kind == "object":
        return {}
    if kind == "integer":
        return -1 if wrong else index % 60000 + 1
    if kind == "string":
        if resolved.get("format") == "byte":
            return "YQ=="
        return f"!Ä {index}" if wrong else f"/n{index}" if name.endswith("Path") else f"n{index}"
    return {"boolean": True, "number": 0.5}.get(str(kind), {})


def large(collection: Collection, size: int, variant: str) -> list[Any] | dict[str, Any]:
    """A list or map of about `size` bytes."""
    schema = json.loads(collection.item)

    def item(index: int) -> Any:
        return value_of(schema, 0 if variant == "equal" else index, wrong=variant == "wrong")

    if collection.many == LISTS:
        return list(_fitting(size, lambda index: (item(index), len(_compact(item(index))) + 1)))
    key: Callable[[int], str] = (lambda index: f"!Ä {index}") if variant == "wrong" else (lambda index: f"n{index}")
    entries = _fitting(
        size, lambda index: ((key(index), item(index)), len(_compact(key(index))) + len(_compact(item(index))) + 2)
    )
    return dict(entries)


def _fitting(size: int, entry: Callable[[int], tuple[Any, int]]) -> Iterator[Any]:
    """Entries, at least one, as long as the bytes that they say they have fit."""
    index, used = 0, 0
    while True:
        made, length = entry(index)
        used += length
        if used > size and index:
            return
        yield made
        index += 1


def _compact(value: Any) -> bytes:
    """As JSON without spaces: as many items as possible in the bytes of a body."""
    return _ENCODER.encode(value)


def base_objects() -> dict[str, dict[str, Any]]:
    """Objects of as many kinds as the transcripts create, by version and kind."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(GOLDEN.glob("*.json")):
        text = file.read_text().replace("${ns}", NAMESPACE)
        for scenario in json.loads(text)["scenarios"]:
            for step in scenario["steps"]:
                request, expect = step.get("request") or {}, step.get("expect") or {}
                body = request.get("body")
                if request.get("method") == "POST" and expect.get("code") == 201 and isinstance(body, dict):
                    found.setdefault(f"{body.get('apiVersion')} {body.get('kind')}", body)
    return found


def placed(base: dict[str, Any], collection: Collection, value: Any) -> dict[str, Any]:
    """A copy of an object with a value put where a collection stands."""
    made = copy.deepcopy(base)
    node: Any = made
    *heads, last = collection.path
    for at, name in enumerate(heads):
        follows = heads[at + 1] if at + 1 < len(heads) else last
        empty: Any = [] if follows == "0" else {}
        if isinstance(node, list):
            if not node:
                node.append(empty)
            node = node[0]
        else:
            if not isinstance(node.get(name), type(empty)):
                node[name] = empty
            node = node[name]
    if isinstance(node, list):
        node[:1] = [value]
    else:
        node[last] = value
    return made


class Measured:
    """Requests to a server, each with the CPU time that it cost."""

    def __init__(self, api: ApiServer, kind: Kind) -> None:
        self.api = api
        self.kind = kind
        self._count = 0

    async def prepare(self) -> None:
        """Create what pods need."""
        await self.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", b'{"metadata":{"name":"default"}}')

    async def ask(
        self, method: str, path: str, body: bytes, content_type: str = "application/json", **query: str
    ) -> tuple[int, float, bytes]:
        """Status code, CPU seconds, answer."""
        request = Request(method, path, query, ADMIN, body, content_type)
        started = time.process_time()
        response = await self.api.handle(request)
        return response.code, time.process_time() - started, response.whole_body()

    async def costs(
        self,
        base: dict[str, Any],
        collection: Collection,
        size: int,
        *,
        variants: Sequence[str] = VARIANTS,
        verbs: Sequence[str] = VERBS,
    ) -> Iterator[Cost]:
        """The costs of a collection in every variant by every verb."""
        found = []
        for variant in variants:
            value = large(collection, size, variant)
            for verb in verbs:
                code, seconds, answer = await self._request(
                    verb, base, placed(base, collection, value), collection, value
                )
                found.append(Cost(verb, variant, collection, len(value), code, seconds, answer))
        return iter(found)

    async def _request(
        self, verb: str, base: dict[str, Any], wanted: dict[str, Any], collection: Collection, value: Any
    ) -> tuple[int, float, bytes]:
        self._count += 1
        name = f"{base['metadata'].get('name') or 'generated'}-{self._count}"
        for one in (base, wanted):
            one["kind"], one["apiVersion"] = self.kind.kind, self.kind.api_version
            one["metadata"] = {key: item for key, item in one["metadata"].items() if key != "namespace"} | {
                "name": name
            }
        collection_path = self.kind.path(NAMESPACE if self.kind.namespaced else "")
        path = f"{collection_path}/{name}"
        changed = f"{path}/status" if collection.path[0] == "status" and self.kind.subresource("status") else path
        data = _compact(wanted)
        if verb == "create":
            result = await self.ask("POST", collection_path, data)
        elif verb == "apply":
            result = await self.ask("PATCH", path, data, "application/apply-patch+yaml", fieldManager="m", force="true")
        else:
            await self.ask("POST", collection_path, _compact(base))
            if verb == "update":
                result = await self.ask("PUT", changed, data)
            elif verb == "whole":
                pointer = "/" + "/".join(collection.path[:1])
                operations = [{"op": "add", "path": pointer, "value": wanted[collection.path[0]]}]
                result = await self.ask("PATCH", changed, _compact(operations), "application/json-patch+json")
            elif verb == "json":
                pointer = "/" + "/".join(collection.path)
                operations = [{"op": "add", "path": pointer, "value": [] if collection.many == LISTS else {}}]
                items = value if collection.many == LISTS else value.values()
                at = "0" if collection.many == LISTS else "k"
                operations += [{"op": "add", "path": f"{pointer}/{at}", "value": one} for one in list(items)[:9990]]
                result = await self.ask("PATCH", changed, _compact(operations), "application/json-patch+json")
            else:
                kind = "strategic-merge-patch" if verb == "strategic" else "merge-patch"
                result = await self.ask("PATCH", changed, data, f"application/{kind}+json")
        await self.ask("DELETE", path, b'{"gracePeriodSeconds":0}')
        return result


def kinds(wanted: frozenset[str] = frozenset()) -> list[Kind]:
    """The kinds that are stored, in their stored versions."""
    return [
        kind
        for kind in DEFAULT_KINDS
        if kind.is_stored and "create" in kind.verbs and (not wanted or kind.kind in wanted)
        if DEFAULT_KINDS.storage_kind(kind) is kind
    ]


def collections_of(kind: Kind) -> list[Collection]:
    """The lists and maps of a kind that no other kind stands for."""
    skip = {"metadata"} if kind.kind != METADATA_OF else set()
    skip |= {"spec.template.spec", "spec.jobTemplate", "template.spec"} if kind.kind in TEMPLATED else set()
    return list(collections(definition_of(kind.type), skip=frozenset(skip)))


async def sampled(
    size: int, rng: random.Random, wanted: frozenset[str] = frozenset()
) -> AsyncIterator[tuple[Kind, Cost]]:
    """The costs of requests that are chosen at random, each to a server of its own; without end."""
    bases = base_objects()
    choices = [(kind, one) for kind in kinds(wanted) for one in collections_of(kind)]
    while True:
        kind, collection = rng.choice(choices)
        base = copy.deepcopy(bases.get(f"{kind.api_version} {kind.kind}") or {"metadata": {"name": "n"}})
        async with opened() as api:
            measured = Measured(api, kind)
            await measured.prepare()
            costs = await measured.costs(
                base, collection, size, variants=[rng.choice(VARIANTS)], verbs=[rng.choice(VERBS)]
            )
            for cost in costs:
                yield kind, cost


async def measure_sample(size: int, limit: float, wanted: frozenset[str], seconds: float, seed: int) -> None:
    """Print what costs more than the limit among requests chosen at random for some seconds."""
    deadline, count, worst = time.monotonic() + seconds, 0, 0.0
    async for kind, cost in sampled(size, random.Random(seed), wanted):
        count, worst = count + 1, max(worst, cost.seconds)
        if cost.is_fault(limit):
            print(f"{kind.kind:24} {cost}", flush=True)
        if time.monotonic() > deadline:
            break
    print(f"{count} requests, worst {worst:.2f}s", flush=True)


async def measure(size: int, limit: float, wanted: frozenset[str], verbs: Sequence[str]) -> None:
    """Print what costs more than the limit."""
    bases = base_objects()
    for kind in kinds(wanted):
        base = bases.get(f"{kind.api_version} {kind.kind}") or {"metadata": {"name": "n"}}
        started = time.process_time()
        async with opened() as api:
            measured = Measured(api, kind)
            await measured.prepare()
            worst = 0.0
            for collection in collections_of(kind):
                for cost in await measured.costs(base, collection, size, verbs=verbs):
                    worst = max(worst, cost.seconds)
                    if cost.is_fault(limit):
                        print(f"{kind.kind:24} {cost}", flush=True)
        known = "" if len(base) > 1 else " (no base)"
        print(f"{kind.kind}{known}: worst {worst:.2f}s, all {time.process_time() - started:.0f}s", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--size", type=int, default=3_100_000, help="bytes of a list or map; a body holds 3 MiB")
    parser.add_argument("--limit", type=float, default=2.0, help="CPU seconds from which on a request is printed")
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=VERBS)
    parser.add_argument(
        "--sample", type=float, default=0.0, help="seconds of requests chosen at random, instead of all"
    )
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    wanted = frozenset(given.kinds)
    if given.sample:
        asyncio.run(measure_sample(given.size, given.limit, wanted, given.sample, given.seed))
    else:
        asyncio.run(measure(given.size, given.limit, wanted, given.verbs))


if __name__ == "__main__":
    main()

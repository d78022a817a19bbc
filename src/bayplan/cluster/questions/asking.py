"""Asking the scheduler of a running cluster about pods that are not there.

The API server is asked first what it would make of a pod (a dry run: defaults, priorities, limit ranges, webhooks), so that the scheduler decides about what it
would really get. Then the question goes to the scheduler: through the API server of a cluster of Bayplan's, or to the address of a `bayplan scheduler`.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from bayplan.api.codec import DecodeError, to_tree
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.credentials import Credentials
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import default_paths, load
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.manifests.reading import gather_manifests
from bayplan.cluster.questions.what_if import SERVER_PATH
from bayplan.scheduler.errors import QuestionError
from bayplan.scheduler.questions.manifests import read_question

Tree = dict[str, Any]
SCHEDULER_PATH: Final = "/what-if"
"""Where a `bayplan scheduler` takes questions."""
_TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"), ("spec", "template")
    ),
}
"""Kind -> where its pods' template stands."""


class AskError(ClusterError):
    """A question that cannot be answered; the text says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was answered."""

    answer: Tree
    """The PlacementAnswer, as docs/ask.md describes it."""
    refused: dict[str, str] = field(default_factory=dict)
    """`Kind namespace/name` -> why the API server would not take its pods. They were not asked about."""
    notes: tuple[str, ...] = ()
    """What the answer does not take into account."""


def ask(
    manifests: str | Path | Mapping[str, Any] | Iterable[str | Path | Mapping[str, Any]],
    *,
    kubeconfig: str | Path | None = None,
    context: str = "",
    namespace: str = "default",
    scheduler: str = "",
    token: str = "",
    explain: bool = False,
    admission: bool = True,
) -> Asked:
    """Ask a running cluster's scheduler where pods would go that are not there; nothing is changed.

    manifests: files, directories, texts or objects. scheduler: URL of a `bayplan scheduler`; "" for a cluster that `bayplan up` runs. token: for the scheduler, in
    place of the kubeconfig's. See `ask_scheduler` for the rest. Raises AskError, ManifestError, KubeconfigError, TransportError.
    """
    sources = [manifests] if isinstance(manifests, str | Path | Mapping) else list(manifests)
    objects = [obj for _, obj in gather_manifests(sources)]
    paths = [Path(kubeconfig)] if kubeconfig is not None else default_paths(os.environ)
    credentials = load(paths, context)

    async def run() -> Asked:
        client = Client(HttpTransport(credentials))
        try:
            return await ask_scheduler(
                client,
                objects,
                scheduler=scheduler_at(scheduler, token, credentials) if scheduler else None,
                namespace=namespace,
                explain=explain,
                admission=admission,
            )
        finally:
            await client.close()

    return asyncio.run(run())


def scheduler_at(url: str, token: str, credentials: Credentials) -> Credentials:
    """How a `bayplan scheduler` is reached: with a token, or else that of a kubeconfig's user. Raises AskError."""
    if not url.startswith(("http://", "https://")):
        raise AskError(f"{url!r} is no URL of a scheduler, such as http://127.0.0.1:10259")
    return Credentials(url, token=token or credentials.token, source=None if token else credentials.source)


async def ask_scheduler(
    client: Client,
    objects: Sequence[Tree],
    *,
    scheduler: Credentials | None = None,
    namespace: str = "default",
    explain: bool = False,
    admission: bool = True,
) -> Asked:
    """Ask about objects that make pods. scheduler: how a `bayplan scheduler` is reached; None to ask through the API server.

    namespace: of objects that name none. explain: judge each pod node by node. admission: ask the API server first what it would make of the pods.
    Raises AskError, TransportError.
    """
    asked, refused, notes = [copy.deepcopy(one) for one in objects], dict[str, str](), dict[str, None]()
    if admission:
        taken: list[Tree] = []
        for one in asked:
            why = await _admit(client, one, namespace, notes)
            if why:
                refused[_shown(one, namespace)] = why
            else:
                taken.append(one)
        asked = taken
        if not any(one.get("kind") in _TEMPLATES for one in asked) and refused:
            empty = {"nodes": 0, "placed": 0, "pending": 0, "pods": []}
            return Asked(empty, refused, tuple(notes))
    question = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": asked})
    query = {"namespace": namespace} | ({"explain": "true"} if explain else {})
    answer = await _post(client, scheduler, query, question)
    return Asked(answer, refused, tuple(notes))


async def _post(client: Client, scheduler: Credentials | None, query: Mapping[str, str], question: bytes) -> Tree:
    try:
        if scheduler is None:
            data = await client.raw("POST", SERVER_PATH, query, question)
        else:
            transport = HttpTransport(scheduler)
            try:
                data = await transport.request("POST", SCHEDULER_PATH, query, question)
            finally:
                await transport.close()
    except ApiError as error:
        raise AskError(_why_not(error, scheduler)) from error
    found: Tree = msgspec.json.decode(data)
    return found


def _why_not(error: ApiError, scheduler: Credentials | None) -> str:
    if scheduler is None and error.code == 404:
        return (
            "this cluster's API server takes no questions: it is none that `bayplan up` runs with its scheduler. "
            "Name the address of a `bayplan scheduler` with --scheduler, such as http://127.0.0.1:10259"
        )
    if scheduler is not None and error.code == 401:
        return (
            f"{scheduler.server} does not know who asks: it takes bearer tokens only; "
            "give one with --token, such as that of `kubectl create token default`"
        )
    return error.message


async def _admit(client: Client, tree: Tree, namespace: str, notes: dict[str, None]) -> str:
    """Let the API server complete the spec of an object's pods, in place; why it would not take them, "" if it does. Raises AskError."""
    kind = tree.get("kind")
    if kind not in _TEMPLATES:
        return ""
    try:
        pods = read_question(msgspec.json.encode(_with_one_pod(tree)), namespace).pods
    except (QuestionError, DecodeError) as error:
        raise AskError(str(error)) from error
    pod = pods[0].pod
    metadata = meta_v1.ObjectMeta(
        generate_name=f"{pod.metadata.name}-"[:50],
        namespace=pod.metadata.namespace,
        labels=pod.metadata.labels,
        annotations=pod.metadata.annotations,
    )
    try:
        made = await client.create(core_v1.Pod(metadata=metadata, spec=pod.spec), dry_run=True)
    except ApiError as error:
        if error.code == 403 and 'cannot create resource "pods"' in error.message:
            notes[
                "defaults, priorities and limits of the API server are left out: without the right to create pods it cannot be asked"
            ] = None
            return ""
        return error.message
    holder = tree
    for name in _TEMPLATES[str(kind)]:
        holder = holder[name]
    spec = to_tree(made.spec)
    spec["volumes"] = holder.get("spec", {}).get("volumes") or []
    holder["spec"] = {name: value for name, value in spec.items() if name != "nodeName"}
    return ""


def _with_one_pod(tree: Tree) -> Tree:
    """The object, with one replica: to see one of its pods."""
    spec = tree.get("spec")
    if not isinstance(spec, dict):
        return tree
    if "replicas" in spec:
        return {**tree, "spec": {**spec, "replicas": 1}}
    if tree.get("kind") == "Job":
        return {**tree, "spec": {**spec, "parallelism": 1, "completions": 1}}
    return tree


def _shown(tree: Tree, namespace: str) -> str:
    metadata = tree.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or "?"
    return f"{tree.get('kind')} {metadata.get('namespace') or namespace}/{name}"

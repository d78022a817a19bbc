"""A custom resource for tests, and requests about it."""

from __future__ import annotations

import json
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.client import Client

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/stable.example.com/v1"
Tree = dict[str, Any]


def crontabs(**properties: Tree) -> Tree:
    """A definition; properties: schemas of fields of the spec."""
    spec = {"type": "object", "properties": {"replicas": {"type": "integer", "default": 1}, **properties}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "scope": "Namespaced",
            "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "shortNames": ["ct"]},
            "versions": [version],
        },
    }


def crontab(name: str, spec: Tree | None = None, **metadata: Any) -> Tree:
    return {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": name, **metadata},
        "spec": spec or {},
    }


def owner(obj: Tree, **more: Any) -> Tree:
    """A reference to an object."""
    metadata = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        **more,
    }


def path(name: str = "", namespace: str = "default") -> str:
    whole = f"{GROUP}/namespaces/{namespace}/crontabs"
    return f"{whole}/{name}" if name else whole


async def create(client: Client, where: str, obj: Tree) -> Tree:
    made: Tree = json.loads(await client.raw("POST", where, {}, json.dumps(obj).encode()))
    return made


async def read(client: Client, where: str) -> Tree | None:
    """An object or list; None if it is not there."""
    try:
        found: Tree = json.loads(await client.raw("GET", where))
    except ApiError as error:
        if error.code != 404:
            raise
        return None
    return found


async def served(client: Client) -> bool:
    """Whether the resource can be used."""
    return await read(client, path()) is not None


async def is_gone(client: Client, where: str) -> bool:
    return await read(client, where) is None

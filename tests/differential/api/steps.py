"""Steps of scenarios, in the form of transcripts."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

Tree = dict[str, Any]
Step = dict[str, Any]

PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
ACCEPTS = (
    *("application/json", "*/*", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    *(
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ),
    *(
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/json;as=Nosuch;v=v1;g=meta.k8s.io",
    ),
    *(
        "application/json;as=Table;v=v2;g=meta.k8s.io",
        "text/html",
        "text/plain",
        "application/xml",
        "application/*",
        "",
    ),
    *(
        "application/json;q=0.5,application/yaml",
        "application/yaml;q=0.1,application/json;q=0.9",
        "application/json;stream=watch",
    ),
    *(
        "application/json;charset=utf-8",
        "application/json;pretty=1",
        "application/cbor",
        "application/json;as=Table",
        ";;",
    ),
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    *(
        "*",
        "*,application/yaml",
        "application/yaml;q=x,application/json;q=0.1",
        "Application/YAML",
        "a/b/c,application/yaml",
        ",",
        "application/json,",
    ),
    *(
        "application/json;v=v1",
        "application/yaml;g=meta.k8s.io,application/json;q=0.5",
        "application/json;sv=v1",
        "application/json;sv=v2",
        "text/*;q=0.1,*/*;q=0",
    ),
    *(
        "application/yaml;stream=watch",
        "application/json;stream=x,application/yaml;q=0.2",
        "application/yaml;q=0.1;q=0.9,application/json;q=0.5",
    ),
    *(
        "application/yaml ; q = 0.9 , application/json;q=0.2",
        "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.1,application/yaml;q=0.9",
        "application/*;as=Table;v=v1;g=meta.k8s.io",
    ),
    *(
        "*/*;q=0.9,application/*,application/yaml;q=0.5",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io,application/yaml",
        "application/json;q=1=2",
    ),
)


def step(method: str, path: str, name: str, body: Any = None, **more: Any) -> Step:
    """A request. name: of its family, by which differences are grouped. more: query, headers, text, user of the request; capture and the like of the step."""
    request: Tree = {"method": method, "path": path}
    if body is not None:
        request["body"] = body
    for key in ("query", "headers", "text", "user", "gzip"):
        if more.get(key) is not None:
            request[key] = more[key]
        more.pop(key, None)
    return {"name": name, "request": request, **more}


def patch(path: str, form: str, body: Any, **more: Any) -> Step:
    """A patch of one of the four types."""
    headers = {"Content-Type": PATCHES[form], **more.pop("headers", {})}
    return step("PATCH", path, more.pop("name", f"patch {form}"), body, headers=headers, **more)


def scenario(number: int, seed: int, title: str, steps: Iterable[Step]) -> Tree:
    """A scenario in a namespace of its own."""
    path = "/api/v1/namespaces"
    space = step("POST", path, "namespace", {"metadata": {"name": "${ns}"}})
    account = step("POST", f"{path}/${{ns}}/serviceaccounts", "service account", {"metadata": {"name": "default"}})
    numbered = [{"id": f"{at:03d}", **one} for at, one in enumerate([space, account, *steps])]
    return {
        "scenario": f"{title}-{seed}-{number}",
        "title": title,
        "namespace": f"diff-{seed}-{number}",
        "steps": numbered,
    }


def some(chance: Random, options: Tree, most: int = 2) -> Tree:
    """Some of the options of a request, each with one of its values."""
    chosen = chance.sample(sorted(options), chance.randrange(min(most, len(options)) + 1))
    return {key: chance.choice(options[key]) for key in chosen}

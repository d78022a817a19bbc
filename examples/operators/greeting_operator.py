"""An operator of a custom resource, written with kopf: every Greeting gets a ConfigMap with its text, and tells in its status what was said.

`greetings.yaml` beside it has the definition. The ConfigMap belongs to the Greeting, so that it goes when the Greeting goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import kopf
import kubernetes

LANGUAGES = {"en": "Hello", "fr": "Bonjour"}


@kopf.on.create("example.com", "v1", "greetings")
@kopf.on.update("example.com", "v1", "greetings", field="spec")
def say(spec: Mapping[str, Any], name: str, namespace: str, patch: kopf.Patch, **_: Any) -> None:
    """Write the text, and say so in the status."""
    text = ", ".join([LANGUAGES[spec["language"]], spec["name"]])
    greeting: dict[str, Any] = {"metadata": {"name": name}, "data": {"text": text}}
    kopf.adopt(greeting)
    core: Any = kubernetes.client.CoreV1Api()
    try:
        core.create_namespaced_config_map(namespace, greeting)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
        core.patch_namespaced_config_map(name, namespace, greeting)
    patch.status["text"] = text

"""The OpenAPI description of questions to a scheduler."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bayplan import __version__

API_VERSION: Final = "whatif.bayplan.dev/v1"
KIND: Final = "PlacementAnswer"
_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_NAMES: Final = {"type": "array", "items": _TEXT}


def openapi_document(path: str) -> bytes:
    """The description as JSON. path: where questions are posted."""
    return msgspec.json.encode(
        {
            "openapi": "3.0.3",
            "info": {
                "title": "Bayplan scheduler: questions",
                "version": __version__,
                "description": "Where pods that are not there would go, and why. Nothing is changed by a question.",
            },
            "paths": {path: {"post": _post()}},
            "components": {
                "schemas": {KIND: _answer(), "PodAnswer": _pod_answer()},
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{"bearer": []}],
        }
    )


def _post() -> dict[str, Any]:
    return {
        "operationId": "askWhatIf",
        "summary": "Ask about a pod, a workload that makes pods, or a v1 List of them",
        "parameters": [
            {
                "name": "namespace",
                "in": "query",
                "schema": _TEXT | {"default": "default"},
                "description": "Of objects that name none.",
            },
            {
                "name": "explain",
                "in": "query",
                "schema": {"type": "boolean", "default": False},
                "description": "Judge each pod node by node.",
            },
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object", "required": ["apiVersion", "kind"]}}},
        },
        "responses": {
            "200": {
                "description": "What the scheduler would do now",
                "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{KIND}"}}},
            },
            "400": {"description": "The question makes no sense (a Kubernetes Status)"},
            "401": {"description": "Nobody, or nobody who is known"},
            "403": {"description": "Without the right to post to this path"},
            "413": {"description": "Longer than 3 MiB"},
            "503": {"description": "The scheduler does not know the cluster at the moment"},
        },
    }


def _answer() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["apiVersion", "kind", "nodes", "placed", "pending", "pods"],
        "properties": {
            "apiVersion": _TEXT | {"enum": [API_VERSION]},
            "kind": _TEXT | {"enum": [KIND]},
            "nodes": _COUNT | {"description": "Nodes of the cluster."},
            "placed": _COUNT | {"description": "Pods for which there is a node."},
            "pending": _COUNT | {"description": "Pods for which there is none."},
            "pods": {"type": "array", "items": {"$ref": "#/components/schemas/PodAnswer"}},
        },
    }


def _pod_answer() -> dict[str, Any]:
    refusal = {"type": "object", "properties": {"reason": _TEXT, "nodes": _COUNT}}
    return {
        "type": "object",
        "required": ["pod", "workload", "scheduled"],
        "description": "Of the pods of a workload, the first one with a node and the first one without have the details.",
        "properties": {
            "pod": _TEXT | {"description": "namespace/name"},
            "workload": _TEXT | {"description": "Kind namespace/name of what would make the pod; its own for a pod."},
            "scheduled": {"type": "boolean"},
            "node": _TEXT,
            "profile": _TEXT | {"description": "Scheduler name of the profile that decides."},
            "feasible": _COUNT | {"description": "Nodes that fit."},
            "decidedBy": _TEXT | {"description": "What decided without scores."},
            "score": _COUNT | {"description": "Of the node, weighted and added up."},
            "scores": {"type": "object", "additionalProperties": {"type": "integer"}, "description": "By plugin."},
            "equallyGood": _COUNT | {"description": "Nodes with the highest score; the scheduler takes any of them."},
            "best": _NAMES | {"description": "Ten of these at most, by name."},
            "reason": _TEXT,
            "message": _TEXT | {"description": "As the pod's condition PodScheduled would have it."},
            "plugins": _NAMES | {"description": "What refuses the pod or nodes."},
            "refusals": {"type": "array", "items": refusal},
            "preemption": {
                "type": "object",
                "properties": {"node": _TEXT, "victims": _NAMES},
                "description": "Where room would be made, and which pods would be evicted for that.",
            },
            "fits": _COUNT | {"description": "Of a DaemonSet: on how many nodes its pods fit."},
            "decision": {"type": "object", "description": "With explain: every node, every plugin."},
        },
    }

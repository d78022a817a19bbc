"""Webhooks in virtual time, for admission and for conversion: functions instead of servers.

async def add_label(request): return {"patch": [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]}
cluster.webhooks["https://hook.default.svc:443/mutate"] = add_label

def convert(request): return {"convertedObjects": [in_version(one, request["desiredAPIVersion"]) for one in request["objects"]]}
cluster.webhooks["https://hook.default.svc:443/convert"] = convert
"""

from __future__ import annotations

import asyncio
import base64
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from bayplan.apiserver.webhooks.calling import SendError, Target

Tree = dict[str, Any]
WebhookFunction = Callable[[Tree], "Tree | Awaitable[Tree]"]
"""From the `request` of an AdmissionReview or a ConversionReview to its `response`. Allowed, or a success, is what is not said to be refused, or failed; a
patch may be a list of operations."""


class FunctionSender:
    """A `Sender` to functions, by URL."""

    def __init__(self, functions: Mapping[str, WebhookFunction]) -> None:
        self._functions = functions

    def dials(self, url: str) -> bool:
        """See Sender: a function answers also where pods are simulated; without one the webhook is in its pods."""
        return url not in self._functions

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        """See Sender."""
        function = self._functions.get(target.url)
        if function is None:
            known = ", ".join(sorted(self._functions)) or "none"
            raise SendError(f"no function answers for it; there are functions for: {known}")
        review = msgspec.json.decode(body)
        try:
            async with asyncio.timeout(seconds):
                found = function(review["request"])
                answer = await found if inspect.isawaitable(found) else found
        except TimeoutError:
            raise SendError("context deadline exceeded") from None
        fine = {"result": {"status": "Success"}} if review["kind"] == "ConversionReview" else {"allowed": True}
        response = {"uid": review["request"]["uid"], **fine, **answer}
        if isinstance(response.get("patch"), list):
            patch = base64.b64encode(msgspec.json.encode(response["patch"])).decode()
            response |= {"patchType": "JSONPatch", "patch": patch}
        return msgspec.json.encode({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response})

    async def close(self) -> None:
        """Nothing is held."""

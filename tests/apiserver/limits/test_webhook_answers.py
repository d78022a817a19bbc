"""Answers of webhooks are as deep as requests may be, or they are errors of the webhook."""

from __future__ import annotations

import base64

import pytest

from bayplan.api.json.nesting import EXCEEDED
from bayplan.apiserver.webhooks.conversion_reviews import _unstructured
from bayplan.apiserver.webhooks.reviews import ReviewError, read_answer

_HEAD = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,'


def _patched(patch: bytes) -> bytes:
    return _HEAD + b'"patchType":"JSONPatch","patch":"%b"}}' % base64.b64encode(patch)


@pytest.mark.parametrize("levels", [200, 100_000])
def test_deep_answers_of_admission_webhooks_are_errors(levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    patch = b'[{"op":"add","path":"/data","value":%b}]' % deep
    for data in (_HEAD + b'"status":{"x":%b}}}' % deep, _patched(patch)):
        with pytest.raises(ReviewError, match=EXCEEDED):
            read_answer("v1", "u", data, mutating=True)
    assert read_answer("v1", "u", _patched(b'[{"op":"remove","path":"/data"}]'), mutating=True).patch


@pytest.mark.parametrize("levels", [200, 100_000])
def test_deep_objects_of_conversion_webhooks_are_errors(levels: int) -> None:
    deep = b'{"kind":"A","x":' + b"[" * levels + b"]" * levels + b"}"
    with pytest.raises(ValueError, match=EXCEEDED):
        _unstructured(deep)

"""Bookmarks in every form in which a watch may be asked for."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.apiserver.reads.bookmarks import INITIAL_EVENTS_END, bookmark_entry
from bayplan.apiserver.reads.negotiation import negotiate_stream
from bayplan.apiserver.reads.representation import Shape
from bayplan.apiserver.reads.watching import BOOKMARK

FORMS = (
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
)
WATCHED = [kind for kind in DEFAULT_KINDS if kind.is_stored and "watch" in kind.verbs]


@pytest.mark.parametrize("accept", FORMS)
@pytest.mark.parametrize("kind", WATCHED, ids=lambda kind: f"{kind.plural}.{kind.version}.{kind.group}")
def test_every_kind_has_bookmarks_in_every_form(kind: Kind, accept: str) -> None:
    stored = DEFAULT_KINDS.storage_kind(kind)
    form = negotiate_stream(accept)
    shape = Shape(kind, stored, form, "Metadata", 0.0)
    entry = bookmark_entry(stored, 7, ends_initial_events=True)
    render = shape.watch_renderer()
    if render is None:
        assert msgspec.json.decode(b"{" + entry.body)["metadata"]["resourceVersion"] == "7"
        return
    frame = render(BOOKMARK, entry, None)
    assert b"BOOKMARK" in frame
    assert INITIAL_EVENTS_END.encode() in frame

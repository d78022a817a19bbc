"""What every verb needs of the server, and the steps that several verbs share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bayplan.api.codec import (
    DecodeError,
    decoder,
    encode,
    takes_more_than,
)
from bayplan.api.conversions.kinds import WebhookNeeded, convert
from bayplan.api.errors import ApiError, failure
from bayplan.api.kinds import Kind, KindTable
from bayplan.api.strategies import strategy_for
from bayplan.api.strategies.base import Strategy, clone
from bayplan.apiserver.admission.chain import AdmissionChain
from bayplan.apiserver.admission.idle import IdleAdmission
from bayplan.apiserver.admission.metrics import AdmissionMetrics
from bayplan.apiserver.aggregation.registry import AggregatedApis
from bayplan.apiserver.allocation import Allocators
from bayplan.apiserver.authentication import Authenticator
from bayplan.apiserver.authorization.chain import AuthorizerChain
from bayplan.apiserver.custom_resources.mixed_cache import mixed
from bayplan.apiserver.custom_resources.progress import ServedDefinitions
from bayplan.apiserver.objects import ObjectStore, too_large
from bayplan.apiserver.reads.negotiation import (
    LOGS,
    OFFERED,
    PLAIN,
    Form,
    check_produced,
    negotiate,
    negotiate_custom,
    negotiate_log,
)
from bayplan.apiserver.reads.representation import Shape
from bayplan.apiserver.reads.storage_key import check_key
from bayplan.apiserver.reads.tables import without_tables
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Request, ResourcePath, Response
from bayplan.apiserver.routing.service_routes import ServiceRoutes
from bayplan.apiserver.service_account_tokens.verification import ServiceAccountTokens
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.simulated.addresses import SimulatedAddresses
from bayplan.apiserver.simulated.pods import PodAnswers
from bayplan.apiserver.simulated.webhooks import SimulatedReports
from bayplan.apiserver.writes.body_errors import undecodable
from bayplan.apiserver.writes.create_templates import CreateTemplates
from bayplan.apiserver.writes.repeated_writes import RepeatedWrites
from bayplan.apiserver.writes.unchanged_writes import UnchangedWrites
from bayplan.apiserver.writes.write_memo import WriteMemo
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness

if TYPE_CHECKING:
    from bayplan.apiserver.aggregation.probing import Send
    from bayplan.apiserver.tracing import Tracing
    from bayplan.apiserver.webhooks.calling import Sender

_SMALL: Final = 128 * 1024
"""Bytes of a body that defaults cannot make too large for the server to work on."""
_MOST_SIZES: Final = 10
"""The JSON of a defaulted object may be so many times as long as the largest message of an object that can be stored."""


@dataclass(slots=True)
class Context:
    """The server's parts, handed to every verb."""

    settings: ApiServerSettings
    kinds: KindTable
    objects: ObjectStore
    admission: AdmissionChain
    authenticator: Authenticator
    authorizer: AuthorizerChain
    service_accounts: ServiceAccountTokens
    allocators: Allocators
    clock: Clock
    randomness: Randomness
    simulated: SimulatedAddresses
    services: ServiceRoutes
    """Where calls for services go."""
    aggregated: AggregatedApis
    """The group versions that other servers answer."""
    ask_aggregated: Send | None = None
    """Sends a question to an aggregated server; None if this server reaches none."""
    webhook_sender: Sender | None = None
    """What reaches webhooks; None if this server calls none."""
    kubelet_page: Callable[[str, str, str], Awaitable[bytes]] | None = None
    """Reads a page of a kubelet: (host, port, path) -> body, or ApiError; None if this server reaches none."""
    pod_answers: PodAnswers | None = None
    """What users want simulated pods to answer; None if they say nothing."""
    simulated_reports: SimulatedReports = field(default_factory=SimulatedReports)
    """What events are to tell of webhooks in simulated pods."""
    idle_admission: IdleAdmission = field(default_factory=IdleAdmission)
    create_templates: CreateTemplates = field(default_factory=CreateTemplates)
    write_memo: WriteMemo = field(default_factory=WriteMemo)
    repeated_writes: RepeatedWrites = field(default_factory=RepeatedWrites)
    unchanged_writes: UnchangedWrites = field(default_factory=UnchangedWrites)
    definitions: ServedDefinitions = field(default_factory=ServedDefinitions)
    """Whether what definitions say is served."""
    metrics: Registry = field(default_factory=Registry)
    """Where the server measures itself."""
    tracing: Tracing | None = None
    """Takes spans; None if requests are not traced."""
    admission_metrics: AdmissionMetrics = field(default_factory=lambda: AdmissionMetrics(Registry()))
    component_failures: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """Why each component of the same cluster does not run ("" if it does), by name; nothing about components that run elsewhere."""
    key_service_error: Callable[[], str] | None = None
    """Which key management services are not well ("" if all are); None if none is asked."""
    add_on_failures: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """The same of what runs for the nodes of this machine. The server itself does not need it."""

    def find(self, kind_name: str, namespace: str, name: str, api_version: str = "v1") -> Any:
        """An object of a built-in kind as it is stored; None if there is none. It is shared: do not change it."""
        kind = self.kinds.of_kind(api_version, kind_name)
        assert kind is not None
        cache = self.objects.cache(kind)
        entry = cache.get(namespace, name)
        return None if entry is None else cache.shared(entry)


@dataclass(slots=True)
class Call:
    """One request on a resource, while it is being served."""

    context: Context
    request: Request
    path: ResourcePath
    kind: Kind
    stored: Kind
    """The version in which the request is worked on: that of the store or, of kinds that ask a webhook, the served one, as in Kubernetes."""
    strategy: Strategy
    """Rules of the stored version; versions of custom resources have rules of their own."""
    warnings: list[str] = field(default_factory=list)
    resets_managers: bool = False
    """The writer sent an empty list of managed fields: nobody manages anything any more."""
    changed: Entry | None = None
    """What was changed: the object as it was just before it was written."""
    deletes_for_show: bool | None = None
    """Whether the options of a deletion, which may be in its body, ask for a dry run; None if it is none."""
    _converted: dict[tuple[Kind, Kind, bytes], bytes] | None = None
    """What webhooks have converted for this call: source, target and original -> object."""

    @classmethod
    def of(cls, context: Context, request: Request, path: ResourcePath) -> Call:
        """The call of a request."""
        kind = path.kind
        stored = kind if kind.asks_webhook else context.kinds.storage_kind(kind)
        return cls(context, request, path, kind, stored, strategy_for(kind if stored.is_custom else stored))

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be written."""
        if self.deletes_for_show is not None:
            return self.deletes_for_show
        value = self.request.query.get("dryRun")
        if value and value != "All":
            raise failure(400, "BadRequest", f"invalid dryRun: only All is supported, not {value}", details=False)
        return value == "All"

    @property
    def ttl(self) -> float | None:
        """After how many seconds the object goes by itself: events do."""
        is_event = self.stored.kind == "Event" and not self.stored.is_custom
        return self.context.settings.event_ttl if is_event else None

    @property
    def form(self) -> Form:
        """The form that the client wants. Raises ApiError (406)."""
        subresource = self.path.subresource.name if self.path.subresource is not None else ""
        if self.kind.is_custom:
            return negotiate_custom(self.request.accept)
        accept = self.request.accept
        if "Table" in accept and subresource:
            check_produced(accept, LOGS if subresource == "log" else OFFERED)
            accept = without_tables(accept, self.kind, subresource)
        elif "Table" in accept:
            accept = without_tables(accept, self.kind, "")
        if subresource == "log":
            return negotiate_log(accept)
        is_list = (not self.path.name or self.request.info.has_verb_prefix) and self.request.method == "GET"
        return negotiate(accept, is_list=is_list)

    def shape(self, *, is_list: bool = False) -> Shape:
        """The form of the answer. Raises ApiError (406, 400)."""
        shape = Shape(
            self.kind,
            self.stored,
            self.form,
            self.request.query.get("includeObject", "Metadata"),
            self.context.clock.now(),
        )
        shape.check(is_list=is_list)
        return shape

    def answer(self, code: int, entry: Entry) -> Response:
        """An answer that shows one object, if somebody reads it."""
        if not (self.request.reads_answer or self.request.audit):
            return Response(code, warnings=self.warnings)
        if self.kind is self.stored and self.form is PLAIN:
            return Response(code, self.kind.type_meta + entry.body, warnings=self.warnings)
        shape = self.shape()
        return Response(code, shape.one(entry), shape.form.media_type, warnings=self.warnings)

    def entry(self, namespace: str, name: str) -> Entry | None:
        """The current state of an object, or None. Raises ApiError (400, 500) for a name or namespace that none can have, or if it cannot be read."""
        check_key(self.kind, namespace, name)
        cache = self.context.objects.cache(self.stored)
        if cache.unreadable:
            cache.unreadable.check(self.stored.storage_key(namespace, name))
        return cache.get(namespace, name)

    async def in_served_version(self, entry: Entry) -> Entry:
        """An entry of a kind that asks a webhook, in the version of the path. Raises ApiError (500)."""
        return (await mixed(self.context.objects.cache(self.kind)).in_version(self.kind, [entry]))[0]

    def convert(self, obj: Any, source: Kind, target: Kind) -> Any:
        """A new object of another version, of any kind. Raises WebhookNeeded if a webhook has to be asked (see `conversion.resolved`)."""
        if self._converted is not None and target.asks_webhook:
            known = self._converted.get((source, target, encode(obj)))
            if known is not None:
                return decoder(target.type)(known)
        return convert(clone(obj), source, target)  # a copy: the object may change before the webhook is asked about it

    def note_converted(self, needed: WebhookNeeded, obj: Any) -> None:
        """What a webhook has made of an object."""
        if self._converted is None:
            self._converted = {}
        self._converted[needed.source, needed.target, encode(needed.obj)] = encode(obj)

    def decode_stored(self, entry: Entry) -> Any:
        """A fresh object in the stored version; the caller owns it."""
        return self.context.objects.cache(self.stored).decode(entry)

    def check_quantities(self, obj: Any, refused: Callable[[DecodeError], ApiError] | None = None) -> None:
        """Whether those quantities are some that are read with the defaults. To be asked before anything else is said of an object, which comes second.

        refused: see `to_stored`. Raises ApiError (400).
        """
        if type(obj) is not self.kind.type:
            return
        try:
            strategy_for(self.kind).default(clone(obj))
        except DecodeError as error:
            raise (refused(error) if refused else undecodable(self.kind.kind, self.kind.api_version, error)) from None

    def to_stored(self, obj: Any, refused: Callable[[DecodeError], ApiError] | None = None) -> Any:
        """An object of the served version, defaulted and in the stored version.

        refused: the error for what no object can hold, if it is not the usual one. Raises ApiError (400).
        """
        most = _MOST_SIZES * self.context.objects.max_object_bytes
        if strategy_for(self.kind).least_bytes(obj) > most:
            raise too_large()
        try:
            if self.kind is not self.stored:
                strategy_for(self.kind).default(obj)
                obj = convert(obj, self.kind, self.stored)
            strategy_for(self.stored).default(obj)
            self.strategy.default_times(obj, self.context.clock.now())
        except DecodeError as error:
            raise (refused(error) if refused else undecodable(self.kind.kind, self.kind.api_version, error)) from None
        if len(self.request.body) > _SMALL and takes_more_than(obj, most):
            raise too_large()
        return obj

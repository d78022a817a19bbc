"""What every verb needs of the server, and the steps that several verbs share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bayplan.api import protobuf
from bayplan.api.codec import (
    MAX_FIELD_ERRORS,
    DecodeError,
    decode,
    decode_reporting,
    decoder,
    encode,
    field_problems,
    may_repeat_fields,
    takes_more_than,
)
from bayplan.api.conversion import WebhookNeeded, convert
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.strategy import type_errors
from bayplan.api.errors import ApiError, bad_request, failure, invalid_object, quoted, unsupported_media_type
from bayplan.api.json_syntax import has_valid_texts, repaired
from bayplan.api.kinds import Kind, KindTable
from bayplan.api.nesting import EXCEEDED, is_too_deep
from bayplan.api.registered_versions import is_registered
from bayplan.api.schema import definition_of
from bayplan.api.strategies import strategy_for
from bayplan.api.strategies.base import Strategy, clone
from bayplan.apiserver.admission.chain import AdmissionChain
from bayplan.apiserver.admission.metrics import AdmissionMetrics
from bayplan.apiserver.aggregation.registry import AggregatedApis
from bayplan.apiserver.allocation import Allocators
from bayplan.apiserver.authentication import Authenticator
from bayplan.apiserver.authorization.chain import AuthorizerChain
from bayplan.apiserver.custom_resources.mixed_cache import mixed
from bayplan.apiserver.custom_resources.progress import ServedDefinitions
from bayplan.apiserver.objects import ObjectStore, too_large
from bayplan.apiserver.reads.negotiation import PLAIN, Form, negotiate, negotiate_custom
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
from bayplan.apiserver.writes.body_errors import (
    Unrecognized,
    head_in_any_case,
    head_of,
    head_problem,
    is_without_resource,
    media_type_of,
    version_problem,
)
from bayplan.apiserver.writes.create_templates import CreateTemplates
from bayplan.apiserver.writes.repeated_writes import RepeatedWrites
from bayplan.apiserver.writes.write_memo import WriteMemo
from bayplan.support.clock import Clock
from bayplan.support.metrics import Registry
from bayplan.support.randomness import Randomness

if TYPE_CHECKING:
    from bayplan.apiserver.aggregation.probing import Send
    from bayplan.apiserver.tracing import Tracing
    from bayplan.apiserver.webhooks.calling import Sender

_SMALL: Final = 128 * 1024
"""Bytes of a body that defaults cannot make too large for the server to work on."""
_MOST_SIZES: Final = 10
"""The JSON of a defaulted object may be so many times as long as the largest message of an object that can be stored."""

_OTHER_CASES: Final = frozenset(('unknown field "kind"', 'unknown field "apiversion"'))
"""Problems, in lower case, with members that Go takes for those that say what an object is."""
_SCHEMES: Final = {
    "apiextensions.k8s.io": "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
    "apiregistration.k8s.io": "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
}
"""Where the groups of servers of their own are registered, as messages name it."""
BODY_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


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
    create_templates: CreateTemplates = field(default_factory=CreateTemplates)
    write_memo: WriteMemo = field(default_factory=WriteMemo)
    repeated_writes: RepeatedWrites = field(default_factory=RepeatedWrites)
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
        if self.kind.is_custom and (self.path.subresource is None or self.path.subresource.name != "scale"):
            return negotiate_custom(self.request.accept)
        is_list = (not self.path.name or self.request.info.has_verb_prefix) and self.request.method == "GET"
        subresource = self.path.subresource.name if self.path.subresource is not None else ""
        return negotiate(without_tables(self.request.accept, self.kind, subresource), is_list=is_list)

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
            raise (
                refused(error) if refused else self._undecodable(self.kind.kind, self.kind.api_version, error)
            ) from None
        if len(self.request.body) > _SMALL and takes_more_than(obj, most):
            raise too_large()
        return obj

    def _undecodable(self, kind_name: str, api_version: str, error: Exception) -> ApiError:
        version = api_version.rpartition("/")[2]
        return bad_request(f'{kind_name} in version "{version}" cannot be handled as a {kind_name}: {error}')

    def body_object(self, cls: type[Any], kind_name: str, api_version: str) -> Any:
        """The object in the request's body, with field validation. Raises ApiError (400, 415)."""
        data = self.body_json(kind_name)
        mode = self.request.query.get("fieldValidation") or "Warn"
        try:
            obj, problems = decode_reporting(cls, data, self.context.settings.feature_gates)
        except (DecodeError, UnicodeDecodeError) as error:
            data = self._readable(data, kind_name)
            try:
                obj, problems = decode_reporting(cls, data, self.context.settings.feature_gates)
            except DecodeError as mended:
                self._check_registered(data, kind_name, api_version)
                if self.kind.is_custom and (head := head_of(data)) is not None and not head.kind:
                    raise self._without_kind(kind_name) from None
                why = mended if isinstance(error, UnicodeDecodeError) else error
                raise self._undecodable(kind_name, api_version, why) from None
        self._check_type(_head_of(data, obj, problems), kind_name, api_version)
        if mode == "Strict":
            problems = [*self._yaml_problems(), *self._field_problems(data, problems)]
        elif mode == "Warn" and data is not self.request.body and self.request.reads_warnings:
            repeated = [line.strip() for one in self._yaml_problems() for line in one.splitlines()[1:]]
            problems = [*repeated, *problems]
        elif mode == "Warn" and self.request.reads_warnings and may_repeat_fields(data):
            problems = self._field_problems(data, problems)
        if problems and mode == "Strict":
            raise self._strict_error(kind_name, api_version, problems)
        if mode == "Warn":
            self.warnings.extend(problems)
        return obj

    def _field_problems(self, data: bytes, unknown: list[str]) -> list[str]:
        """What is wrong with fields of the body: unknown ones of custom resources are only found when it has been read, so that those given twice come first."""
        return (
            [*field_problems(data), *unknown][:MAX_FIELD_ERRORS]
            if self.kind.is_custom
            else field_problems(data, unknown)
        )

    @staticmethod
    def _strict_error(kind_name: str, api_version: str, problems: Sequence[str]) -> ApiError:
        shown = f'{kind_name} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {kind_name}'
        return bad_request(f"{shown}: strict decoding error: {', '.join(problems)}")

    def _readable(self, data: bytes, kind_name: str) -> bytes:
        """A body that could not be read, with texts that are valid; that may help. Raises ApiError (400) if it is no object at all."""
        if problem := head_problem(data):
            raise Unrecognized(kind_name, problem, self.request.body)
        return data if has_valid_texts(data) else repaired(data)

    def _yaml_problems(self) -> list[str]:
        """What is wrong with a YAML body that its JSON form does not show."""
        if self.request.content_type.partition(";")[0].strip() != "application/yaml":
            return []
        from bayplan.apiserver.yaml.documents import repeated_keys  # slow to import, and seldom needed

        repeated = repeated_keys(self.request.body)
        return [repeated] if repeated else []

    def _as_json(self, kind_name: str) -> bytes:
        """The body as JSON, whatever that holds. Raises ApiError (400, 415)."""
        request = self.request
        media_type = media_type_of(request.content_type)
        if media_type == "application/json":
            return request.body
        if media_type == "application/yaml":
            return yaml_to_json(request.body, kind_name)
        if media_type == protobuf.MEDIA_TYPE:
            return protobuf_to_json(request.body, kind_name, self.context.kinds)
        raise unsupported_media_type(BODY_TYPES)

    def body_json(self, kind_name: str) -> bytes:
        """The body as JSON. Raises ApiError (400, 415)."""
        request, data = self.request, self._as_json(kind_name)
        if data[:1] != b"{":
            data = data.strip()
            if data == b"null":
                return b"{}"
            if data[:1] != b"{":
                raise Unrecognized(kind_name, head_problem(data or request.body), request.body)
        if is_too_deep(data):
            raise Unrecognized(kind_name, head_problem(data) or EXCEEDED, request.body)
        return data

    def _check_registered(self, data: bytes, kind_name: str, api_version: str) -> None:
        """Of a body that cannot be decoded it is first told that nobody knows its kind. Raises ApiError (400)."""
        head = None if self.kind.is_custom else head_of(data)
        if (
            head is not None
            and self.context.kinds.of_kind(head.api_version or api_version, head.kind or kind_name) is None
        ):
            self._check_type(head, kind_name, api_version)

    def _without_kind(self, kind_name: str) -> ApiError:
        """400: the body does not say what it is, which only bodies of built-in kinds need not."""
        shown = self._as_json(kind_name).decode(errors="replace") if self.request.body else ""
        return Unrecognized(kind_name, f"Object 'Kind' is missing in '{shown}'", self.request.body)

    def _check_type(self, obj: Any, kind_name: str, api_version: str) -> None:
        given_version, given_kind = obj.api_version, obj.kind
        if given_version == "/":  # a group and a version without a name
            given_version = ""
        if isinstance(obj, CustomObject):
            if not given_kind:
                raise self._without_kind(kind_name)
            if given_version != api_version:
                found = f"the API version in the data ({given_version})"
                raise bad_request(f"{found} does not match the expected API version ({api_version})")
            # its rules look at the kind that it says it is of, unless it comes to them in another version
            if self.kind is not self.stored and (errors := type_errors(self.kind, obj)):
                raise invalid_object(given_kind, self.kind.group, obj.metadata.name, errors)
            return
        if (given_kind and given_kind != kind_name) or (given_version and given_version != api_version):
            if unreadable := version_problem(given_version):
                raise Unrecognized(kind_name, unreadable, self.request.body)
            if given_kind in ("", kind_name) and is_registered(kind_name, given_version):
                self._note_unknown_fields(kind_name, given_version)
                found = f"the API version in the data ({given_version})"
                raise bad_request(f"{found} does not match the expected API version ({api_version})")
            version = (given_version or api_version).rpartition("/")[2]
            what = self.other_type(given_version, given_kind, kind_name, api_version)
            raise bad_request(
                f"{given_kind or kind_name} in version {quoted(version)} cannot be handled as a {kind_name}: {what}"
            )

    def _note_unknown_fields(self, kind_name: str, given_version: str) -> None:
        """A body of another version is decoded as that first: fields that it does not have are warned of, or refused (400)."""
        mode = self.request.query.get("fieldValidation") or "Warn"
        given = self.context.kinds.of_kind(given_version, kind_name)
        if mode == "Ignore" or given is None:
            return
        try:
            problems = decode_reporting(given.type, self.body_json(kind_name))[1]
        except DecodeError:  # whose fields are not of the types of that version: it is refused anyway
            return
        if problems and mode == "Strict":
            raise self._strict_error(kind_name, given_version, problems)
        self.warnings.extend(problems)

    def other_type(self, given_version: str, given_kind: str, kind_name: str, api_version: str) -> str:
        """Why something of a type that it says it has is not of the one that is wanted."""
        given_kind, given_version = given_kind or kind_name, given_version or api_version
        kinds = self.context.kinds
        item = given_kind.removesuffix("List")  # lists are registered too, that of anything in `v1`
        is_list = item != given_kind and (
            (given_version, given_kind) == ("v1", "List")
            or ((listed := kinds.of_kind(given_version, item)) is not None and listed.is_stored)
        )
        if (
            not is_list
            and not is_without_resource(given_version, given_kind)
            and kinds.of_kind(given_version, given_kind) is None
        ):
            scheme = _SCHEMES.get(api_version.partition("/")[0], "pkg/api/legacyscheme/scheme.go:30")
            return (
                f'no kind {quoted(given_kind)} is registered for version {quoted(given_version)} in scheme "{scheme}"'
            )
        group = api_version.rpartition("/")[0].partition(".")[0] or "core"
        if kind_name == "Event":  # one type for both groups
            group = "core"
        version = given_version.rpartition("/")[2]
        return f"converting ({version}.{given_kind}) to ({group}.{kind_name}): unknown conversion"


def _head_of(data: bytes, obj: Any, problems: list[str]) -> Any:
    """What says of which type an object is: the object, if no member of its body is called as those are that do, but in another case."""
    if problems and not isinstance(obj, CustomObject) and any(one.lower() in _OTHER_CASES for one in problems):
        return head_in_any_case(data)
    return obj


def yaml_to_json(data: bytes, kind_name: str) -> bytes:
    """A YAML document as JSON. Raises ApiError (400)."""
    import yaml  # slow to import, and seldom needed

    from bayplan.apiserver.yaml.documents import problem_text, to_json

    try:
        return to_json(data)
    except yaml.YAMLError as error:
        raise Unrecognized(kind_name, problem_text(error), data) from None


def protobuf_to_json(data: bytes, kind_name: str, kinds: KindTable) -> bytes:
    """A protobuf body as JSON. Raises ApiError (400)."""
    try:
        if data in (b"", protobuf.MAGIC):
            raise protobuf.ProtobufError("empty body" if data else "empty data")
        api_version, given_kind, message = protobuf.unwrap(data)
        if not (given_kind or message):
            return b"{}"
        kind = kinds.of_kind(api_version, given_kind)
        definition = definition_of(kind.type) if kind is not None else _definition_of_other(api_version, given_kind)
        tree = protobuf.to_tree(definition, message)
    except (protobuf.ProtobufError, KeyError) as error:
        raise Unrecognized(kind_name, str(error), data) from None
    return encode(
        {
            "kind": given_kind,
            "apiVersion": api_version,
            **{key: item for key, item in tree.items() if key not in ("kind", "apiVersion")},
        }
    )


def _definition_of_other(api_version: str, kind: str) -> str:
    """The definition of something that is no kind with a path of its own: Scale, Eviction, DeleteOptions."""
    group, _, version = api_version.rpartition("/")
    if kind == "DeleteOptions":
        return "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    return f"io.k8s.api.{group.split('.')[0] or 'core'}.{version}.{kind}"


def decode_options(cls: type[Any], data: bytes) -> Any:
    """DeleteOptions and the like from a body; unknown fields are ignored. Raises ApiError (400)."""
    try:
        return decode(cls, data)
    except DecodeError as error:
        raise bad_request(str(error)) from None


__all__ = ["ApiError", "Call", "Context", "decode_options", "yaml_to_json"]

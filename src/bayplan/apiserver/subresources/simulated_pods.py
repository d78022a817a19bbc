"""`log`, `exec`, `attach` and `portforward` of pods on simulated nodes, and metrics of these nodes: what users want, or else what happened."""

from __future__ import annotations

import functools
from collections.abc import Callable

from aiohttp import web

from bayplan.api.errors import ApiError, bad_request, internal_error
from bayplan.api.nodes import is_simulated
from bayplan.api.pods.container_logs import LogOptions
from bayplan.api.types import core_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Response, bool_parameter, int_parameter
from bayplan.apiserver.routing.relays import Purpose, Relay, unavailable
from bayplan.apiserver.simulated.logs import log_of, run_of
from bayplan.apiserver.subresources.connection_options import PodPortForwardOptions, PodStreamOptions, wanted_streams
from bayplan.apiserver.subresources.metrics import simulated_usage
from bayplan.streaming.commands import serve_command
from bayplan.streaming.interface import CommandStreams, Run, Stream, StreamError
from bayplan.streaming.port_forwards import serve_port_forward
from bayplan.support.metrics.instruments import CONTENT_TYPE
from bayplan.support.timestamps import parse_rfc3339


def answer_for(
    call: Call, pod: core_v1.Pod, container: str, options: PodStreamOptions | PodPortForwardOptions | None
) -> Relay:
    """What answers. options: None of a log. Raises ApiError."""
    try:
        if options is None:
            return _log(call, pod, container)
        if isinstance(options, PodPortForwardOptions):
            return _relay(pod, _port_forward(call, pod, options))
        return _relay(pod, _command(call, pod, container, options))
    except StreamError as error:
        raise bad_request(str(error)) from None


def metrics_page(call: Call, node_name: str) -> Response | None:
    """A page of metrics that users want simulated nodes to have; None if this is none."""
    context = call.context
    answers, node = context.pod_answers, context.find("Node", "", node_name)
    if answers is None or node is None or not is_simulated(node) or call.request.method != "GET":
        return None

    def pods() -> list[core_v1.Pod]:
        cache = context.objects.cache(context.kinds.of_type(core_v1.Pod))
        return [cache.shared(one) for one in cache.ordered() if one.fields.get("spec.nodeName") == node_name]

    now, chance = context.clock.now(), context.randomness.random
    usage = functools.partial(simulated_usage, call, now=now)
    body = answers.page(f"/{call.path.rest}", node, pods, usage, now, chance)
    return None if body is None else Response(200, body, CONTENT_TYPE, is_final=True)


def _relay(pod: core_v1.Pod, stream: Stream) -> Relay:
    name = pod.metadata.name
    return Relay(purpose=Purpose.STREAM, scheme="", host="", port="", path="", query="", subject=name, stream=stream)


def _log(call: Call, pod: core_v1.Pod, container: str) -> Relay:
    """Raises ApiError (400) if there is none yet, StreamError."""
    query, clock = call.request.query, call.context.clock
    seconds, since = int_parameter(query, "sinceSeconds"), query.get("sinceTime", "")
    options = LogOptions(
        follow=bool_parameter(query, "follow"),
        previous=bool_parameter(query, "previous"),
        timestamps=bool_parameter(query, "timestamps"),
        since=clock.now() - seconds if seconds is not None else parse_rfc3339(since) if since else None,
        tail_lines=int_parameter(query, "tailLines"),
        limit_bytes=int_parameter(query, "limitBytes"),
    )
    run, answers, log = run_of(pod, container, previous=options.previous), call.context.pod_answers, None
    if answers is not None:
        log = answers.log(pod, container, options, _still_runs(call, pod, container))
    if log is None:
        log = log_of(pod, run, options, clock, lambda: _now(call, pod))
    name = pod.metadata.name
    return Relay(purpose=Purpose.LOG, scheme="", host="", port="", path="", query="", subject=name, log=log)


def _command(call: Call, pod: core_v1.Pod, container: str, options: PodStreamOptions) -> Stream:
    """Raises ApiError (400, 500, 503) for nothing to do, if nothing runs there, or nothing is to answer, StreamError."""
    wanted = wanted_streams(options)
    if not (wanted.stdin or wanted.stdout or wanted.stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    still_runs, answers = _still_runs(call, pod, container), call.context.pod_answers
    if not still_runs():
        raise internal_error(f'unable to upgrade connection: container not found ("{container}")')
    subresource = call.path.subresource
    if subresource is not None and subresource.name == "attach":
        run = answers.attach(pod, container, still_runs) if answers is not None else None
        run = run or _tell(call, pod, container)
    elif not options.command:
        raise bad_request("you must specify a command")
    else:
        found = answers.command(pod, container, options.command, tty=options.tty) if answers is not None else None
        if found is None:
            raise _nothing(pod, "exec")
        run = found
    clock = call.context.clock

    async def serve(http: web.BaseRequest) -> web.StreamResponse:
        return await serve_command(http, wanted, run, clock)

    return serve


def _port_forward(call: Call, pod: core_v1.Pod, options: PodPortForwardOptions) -> Stream:
    """Raises ApiError (503) if nothing is to answer."""
    answers, clock = call.context.pod_answers, call.context.clock
    if answers is None or not answers.connects(pod):
        raise _nothing(pod, "portforward")
    connect = functools.partial(answers.connect, pod)
    subject = f"{pod.metadata.name}, uid {pod.metadata.uid}"

    async def serve(http: web.BaseRequest) -> web.StreamResponse:
        return await serve_port_forward(http, options.ports, connect, subject, clock)

    return serve


def _nothing(pod: core_v1.Pod, what: str) -> ApiError:
    """The error for what nothing answers."""
    return unavailable(f"node {pod.spec.node_name} runs no containers that {what} could reach")


def _now(call: Call, pod: core_v1.Pod) -> core_v1.Pod | None:
    """A pod as it is now; None if it has gone."""
    found: core_v1.Pod | None = call.context.find("Pod", pod.metadata.namespace, pod.metadata.name)
    return found if found is not None and found.metadata.uid == pod.metadata.uid else None


def _still_runs(call: Call, pod: core_v1.Pod, container: str) -> Callable[[], bool]:
    """Whether a container runs, whenever it is asked."""

    def runs() -> bool:
        now = _now(call, pod)
        if now is None:
            return False
        status = now.status
        statuses = (*status.container_statuses, *status.init_container_statuses, *status.ephemeral_container_statuses)
        return any(one.name == container and one.state.running is not None for one in statuses)

    return runs


def _tell(call: Call, pod: core_v1.Pod, container: str) -> Run:
    """Shows what happens to a container. Raises ApiError (400)."""

    run = run_of(pod, container, previous=False)

    async def show(streams: CommandStreams) -> int:
        async for piece in log_of(pod, run, LogOptions(follow=True), call.context.clock, lambda: _now(call, pod)):
            if piece and streams.stdout is not None:
                await streams.stdout.write(piece)
        return 0

    return show

"""Extenders: what they are asked, what their answers do, and how they are reached."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from aiohttp import web

from bayplan.apiserver.certificates import make_authority, sign
from bayplan.scheduler import Planner, evaluate, place
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import Outcome
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.extenders.blocking import BlockingDoor
from bayplan.scheduler.extenders.http import HttpDoor
from bayplan.scheduler.extenders.protocol import Answer, Call, Extender, ExtenderError, TlsSettings, bind_call
from bayplan.scheduler.framework.extension_points import PostFilterPlugin
from bayplan.scheduler.framework.post_filter import Candidate, PostFilterContext, PostFilterOutcome
from tests.scheduler.installing import install
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.running import World, play
from tests.scheduler.test_core import Setup

Handler = Callable[[Tree], Answer]


def extender(**fields: Any) -> Tree:
    return {"urlPrefix": "http://helper", **fields}


class Helper:
    """Extenders in the test: answers by verb, and what was asked."""

    def __init__(self, **verbs: Handler) -> None:
        self.verbs = verbs
        self.asked: list[tuple[str, Tree]] = []

    def answer(self, call: Call) -> Answer:
        question = json.loads(call.body)
        self.asked.append((call.verb, question))
        try:
            return json.loads(json.dumps(self.verbs[call.verb](question)))
        except ExtenderError as error:
            return error


def attempt(setup: Setup, helper: Helper) -> Outcome:
    """One attempt, with the helper behind the door."""
    steps, answers = setup.core.attempt(), list[Answer]()
    try:
        calls = next(steps)
        while True:
            answers = [helper.answer(call) for call in calls]
            calls = steps.send(answers)
    except StopIteration as finished:
        outcome: Outcome = finished.value
        return outcome


def cluster(*extenders: Tree, nodes: str = "abc", pending: Tree | None = None) -> Setup:
    setup = Setup({"extenders": list(extenders)})
    for name in nodes:
        setup.see("Node", node(name))
    setup.see("Pod", pending or pod("p", cpu="1"))
    return setup


def only(*names: str) -> Handler:
    return lambda question: {"NodeNames": list(names)}


def broken(question: Tree) -> Answer:
    raise ExtenderError("connection refused")


CACHED = {"filterVerb": "filter", "nodeCacheCapable": True}


def test_an_extender_filters_nodes_by_name() -> None:
    helper = Helper(filter=only("b"))
    outcome = attempt(cluster(extender(**CACHED)), helper)
    assert (outcome.decision.node, outcome.decision.decided_by) == ("b", "onlyFeasibleNode")
    verb, question = helper.asked[0]
    assert (verb, sorted(question["NodeNames"]), question["Nodes"]) == ("filter", ["a", "b", "c"], None)
    assert question["Pod"]["metadata"]["name"] == "p"


def test_an_extender_without_a_cache_gets_whole_nodes_and_answers_with_them() -> None:
    def first(question: Tree) -> Tree:
        assert question["NodeNames"] is None
        kept = [item for item in question["Nodes"]["items"] if item["metadata"]["name"] == "c"]
        return {"nodes": {"items": kept}}

    assert attempt(cluster(extender(filterVerb="filter")), Helper(filter=first)).decision.node == "c"


def send_back(question: Tree) -> Tree:
    return {"nodes": {"items": question["Nodes"]["items"]}}


def scores_after(handler: Handler, pending: Tree, *placed: Tree, **fields: Any) -> dict[str, list[int]]:
    """The weighted scores of nodes a and b, by plugin, after an extender has let both pass."""
    setup = Setup({"extenders": [extender(filterVerb="filter", **fields)]})
    for name in "ab":
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{name}"}
        one = node(name, labels=labels)
        one["status"]["images"] = [{"names": ["big:1"], "sizeBytes": 900 << 20}] if name == "a" else []
        setup.see("Node", one)
    for one in placed:
        setup.see("Pod", one)
    setup.see("Pod", pending)
    decision = attempt(setup, Helper(filter=handler)).decision
    return {name: scores.tolist() for name, scores in decision.scores.items()}


def test_nodes_that_come_back_whole_are_scored_without_their_pods_and_images() -> None:
    pending = pod("p", cpu="1")
    pending["spec"]["containers"][0]["image"] = "big:1"
    placed = pod("q", cpu="1", on="b")
    names = ("NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality")

    by_name = scores_after(only("a", "b"), pending, placed, nodeCacheCapable=True)
    assert all(by_name[name][0] != by_name[name][1] for name in names), by_name
    whole = scores_after(send_back, pending, placed)
    assert all(whole[name][0] == whole[name][1] for name in names)
    assert whole["NodeResourcesFit"][1] == by_name["NodeResourcesFit"][0]
    assert whole["ImageLocality"] == [0, 0]


@pytest.mark.parametrize(
    ("topology_key", "differ"),
    [
        pytest.param("kubernetes.io/hostname", False, id="pods are counted on each node when it is scored"),
        pytest.param("topology.kubernetes.io/zone", True, id="pods were counted per zone before"),
    ],
)
def test_spreading_over_nodes_that_come_back_whole(topology_key: str, differ: bool) -> None:
    pending = pod("p", cpu="1", labels={"app": "x"})
    pending["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": topology_key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ]
    placed = pod("q", cpu="1", on="b", labels={"app": "x"})
    on_a, on_b = scores_after(only("a", "b"), pending, placed, nodeCacheCapable=True)["PodTopologySpread"]
    assert on_a > on_b
    on_a, on_b = scores_after(send_back, pending, placed)["PodTopologySpread"]
    assert (on_a > on_b) is differ


def test_a_whole_node_may_be_one_that_was_refused_before() -> None:
    def add(question: Tree) -> Tree:
        return {"nodes": {"items": [{"metadata": {"name": "full"}}]}}

    setup = cluster(extender(filterVerb="filter"))
    setup.see("Node", node("full", cpu="0"))
    assert attempt(setup, Helper(filter=add)).decision.node == "full"


def test_refusals_of_an_extender_are_reasons() -> None:
    def refuse(question: Tree) -> Tree:
        return {
            "NodeNames": [],
            "FailedNodes": {"a": "no licence", "b": "no licence"},
            "FailedAndUnresolvableNodes": {"b": "never here"},
        }

    setup = cluster(extender(**CACHED))
    decision = attempt(setup, Helper(filter=refuse)).decision
    assert decision.message.startswith("0/3 nodes are available: 1 never here, 1 no licence. no new claims")
    assert decision.unschedulable_plugins == ["Extender"]
    assert setup.core.queue.sizes()["unschedulable"] == 1
    setup.see("Service", {"kind": "Service", "metadata": {"name": "s", "namespace": "default"}})
    assert setup.core.queue.sizes()["unschedulable"] == 0


def test_extenders_are_asked_in_turn_about_what_is_left() -> None:
    helper = Helper(filter=only("a", "b"), second=only("b"))
    second = extender(filterVerb="second", nodeCacheCapable=True)
    assert attempt(cluster(extender(**CACHED), second), helper).decision.node == "b"
    assert sorted(helper.asked[1][1]["NodeNames"]) == ["a", "b"]


def test_a_node_that_was_not_asked_about_is_an_error() -> None:
    decision = attempt(cluster(extender(**CACHED)), Helper(filter=only("z"))).decision
    assert decision.reason == "SchedulerError"
    assert decision.message == (
        'extender "http://helper" claims a filtered node "z" which is not found in the input node list'
    )


def test_an_extender_that_fails_stops_the_attempt_unless_it_is_ignorable() -> None:
    setup = cluster(extender(**CACHED))
    decision = attempt(setup, Helper(filter=broken)).decision
    assert (decision.message, decision.reason) == ("connection refused", "SchedulerError")
    assert setup.core.queue.sizes()["backoff"] == 1
    assert attempt(cluster(extender(**CACHED, ignorable=True)), Helper(filter=broken)).decision.scheduled


def test_extenders_are_asked_about_as_many_nodes_as_are_to_be_scored() -> None:
    setup = Setup({"extenders": [extender(**CACHED)], "percentageOfNodesToScore": 50})
    for number in range(300):
        setup.see("Node", node(f"n{number:03}"))
    setup.see("Pod", pod("p", cpu="1"))
    helper = Helper(filter=lambda question: {"NodeNames": question["NodeNames"][:1]})
    assert attempt(setup, helper).decision.node
    assert len(helper.asked[0][1]["NodeNames"]) == 150


def test_a_nominated_node_of_which_an_extender_says_nothing_is_one_of_many() -> None:
    nominated = pod("p", cpu="1")
    nominated["status"] = {"nominatedNodeName": "b"}
    kept = Helper(filter=only("b"))
    outcome = attempt(cluster(extender(**CACHED), pending=nominated), kept)
    assert (outcome.decision.node, outcome.decision.decided_by) == ("b", "nominatedNodeName")
    assert kept.asked[0][1]["NodeNames"] == ["b"]

    def first_fails(question: Tree) -> Answer:
        return broken(question) if question["NodeNames"] == ["b"] else {"NodeNames": ["a", "c"]}

    failing = Helper(filter=first_fails)
    assert attempt(cluster(extender(**CACHED), pending=nominated), failing).decision.node in ("a", "c")
    assert [sorted(question["NodeNames"]) for _, question in failing.asked] == [["b"], ["a", "b", "c"]]


def test_scores_are_weighted_and_added() -> None:
    helper = Helper(prioritize=lambda question: [{"Host": "c", "Score": 10}, {"Host": "a", "Score": 3}])
    decision = attempt(cluster(extender(prioritizeVerb="prioritize", weight=2)), helper).decision
    assert decision.node == "c"
    nodes = decision.to_dict()["nodes"]
    assert nodes["c"]["scores"]["http://helper"] == 200
    assert nodes["c"]["total"] - nodes["b"]["total"] == 200
    assert nodes["a"]["total"] - nodes["b"]["total"] == 60


def test_a_failed_prioritize_is_left_out() -> None:
    helper = Helper(prioritize=broken)
    assert attempt(cluster(extender(prioritizeVerb="prioritize", weight=1)), helper).decision.scheduled


def test_only_pods_with_managed_resources_are_an_extenders_business() -> None:
    managed = extender(**CACHED, managedResources=[{"name": "example.com/chip", "ignoredByScheduler": True}])
    helper = Helper(filter=only("b"))
    assert attempt(cluster(managed), helper).decision.scheduled
    assert helper.asked == []
    wanting = pod("p")
    wanting["spec"]["containers"][0]["resources"] = {"limits": {"example.com/chip": "1"}}
    wanting["spec"]["containers"][0]["resources"]["requests"] = {"example.com/chip": "1"}
    assert attempt(cluster(managed, pending=wanting), helper).decision.node == "b"


def full_nodes(config: Tree | None = None, **verbs: Any) -> Setup:
    setup = Setup({"extenders": [extender(**verbs)], **(config or {})})
    for name in "ab":
        setup.see("Node", node(name, cpu="1"))
        setup.see("Pod", pod(f"low-{name}", cpu="800m", on=name))
    setup.see("Pod", pod("urgent", cpu="800m", priority=10))
    return setup


def test_an_extender_narrows_where_room_is_made() -> None:
    def choose(question: Tree) -> Tree:
        assert sorted(question["NodeNameToMetaVictims"]) == ["a", "b"]
        return {"NodeNameToMetaVictims": {"b": question["NodeNameToMetaVictims"]["b"]}}

    decision = attempt(full_nodes(preemptVerb="preempt", nodeCacheCapable=True), Helper(preempt=choose)).decision
    assert (decision.nominated_node, decision.victims) == ("b", ("default/low-b",))


def test_an_extender_can_forbid_preemption() -> None:
    helper = Helper(preempt=lambda question: {"NodeNameToMetaVictims": {}})
    setup = full_nodes(preemptVerb="preempt")
    decision = attempt(setup, helper).decision
    assert [item["metadata"]["name"] for item in helper.asked[0][1]["NodeNameToVictims"]["a"]["Pods"]] == ["low-a"]
    assert decision.nominated_node == ""
    assert decision.message.endswith("preemption: no candidate node for preemption")


class Promising(PostFilterPlugin):
    """Makes room on its own, without a word to extenders."""

    name: ClassVar[str] = "Promising"

    def post_filter(self, context: PostFilterContext) -> PostFilterOutcome:
        return PostFilterOutcome(None, (), Candidate(0, tuple(self.snapshot.pods_on[0].values()), 0))


def test_a_nomination_that_is_no_matter_of_extenders_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    config = install(monkeypatch, [Promising])
    config["profiles"][0]["plugins"]["postFilter"] = {"disabled": [{"name": "DefaultPreemption"}]}
    helper = Helper(preempt=lambda question: {"NodeNameToMetaVictims": {}})
    decision = attempt(full_nodes(config, preemptVerb="preempt"), helper).decision
    assert (decision.nominated_node, helper.asked) == ("a", [])


def test_victims_that_are_not_there_are_an_error() -> None:
    helper = Helper(preempt=lambda question: {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "ghost"}]}}})
    decision = attempt(full_nodes(preemptVerb="preempt"), helper).decision
    assert "claims to preempt pod (UID: ghost) on node: a" in decision.message


@pytest.mark.parametrize(
    ("extenders", "message"),
    [
        ([{"prioritizeVerb": "p"}], r"extenders\[0\].weight: Invalid value: 0: must have a positive weight"),
        ([{"bindVerb": "b"}, {"bindVerb": "b"}], r"extenders: Invalid value: \"found 2 extenders implementing bind\""),
        (
            [{"managedResources": [{"name": "cpu"}]}],
            r"extenders\[0\].managedResources\[0\].name: Invalid value: \"cpu\": is an invalid extended resource name",
        ),
        ([{"httpTimeout": "soon"}], r"extenders\[0\].httpTimeout: time: invalid duration"),
    ],
)
def test_a_wrong_extender_is_refused_with_its_field(extenders: list[Tree], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load({"extenders": extenders})


def test_ignorable_extenders_come_last() -> None:
    settings = load({"extenders": [{"urlPrefix": "http://a", "ignorable": True}, {"urlPrefix": "http://b"}]})
    assert [item.url_prefix for item in settings.extenders] == ["http://b", "http://a"]


def without(*names: str) -> Handler:
    return lambda question: {"NodeNames": [name for name in question["NodeNames"] if name not in names]}


def test_evaluate_and_place_ask_extenders() -> None:
    helper = Helper(filter=without("a"), prioritize=lambda question: [{"Host": "c", "Score": 10}])
    config = {
        "extenders": [extender(filterVerb="filter", prioritizeVerb="prioritize", weight=1, nodeCacheCapable=True)]
    }
    nodes = [node(name) for name in "abc"]
    decision = evaluate(nodes, pod("p"), config, ask=helper.answer)
    assert (decision.node, decision.to_dict()["nodes"]["a"]["filter"].get("ok")) == ("c", None)
    run = place(nodes, [pod("p"), pod("q")], config, ask=helper.answer)
    assert [attempt.decision.node for attempt in run.attempts] == ["c", "c"]
    assert Planner(nodes, config).schedule(pod("p")).node == "a"


def test_an_extender_that_cannot_be_asked_is_an_error_of_the_decision() -> None:
    config = {"extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "nodeCacheCapable": True}]}
    decision = evaluate([node("a"), node("b")], pod("p"), config)
    assert decision.node is None
    assert 'Post "http://127.0.0.1:1/filter"' in decision.message


class Server:
    """A real extender on this machine."""

    def __init__(self, handlers: dict[str, Any], tls: ssl.SSLContext | None = None) -> None:
        self.handlers = handlers
        self.tls = tls
        self.url = ""

    async def __aenter__(self) -> Server:
        app = web.Application()
        for verb, handler in self.handlers.items():
            app.router.add_post(f"/{verb}", handler)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http{'s' if self.tls is not None else ''}://127.0.0.1:{port}/"
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._runner.cleanup()


async def _unwell(request: web.Request) -> web.Response:
    return web.Response(status=500)


async def _slow(request: web.Request) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


class ThreadedDoor:
    """The blocking door, where it does not block the server of the test."""

    async def __call__(self, call: Call) -> Answer:
        return await asyncio.to_thread(BlockingDoor(), call)

    async def close(self) -> None:
        """Nothing is open."""


Doors = type[HttpDoor] | type[ThreadedDoor]
both_doors = pytest.mark.parametrize("make", [HttpDoor, ThreadedDoor])


@both_doors
def test_what_goes_wrong_on_the_way_is_said(make: Doors) -> None:
    async def main() -> None:
        door = make()
        async with Server({"unwell": _unwell, "slow": _slow}) as server:
            with pytest.raises(ExtenderError, match=f"failed unwell with extender at URL {server.url}unwell, code 500"):
                await door(Call(Extender(server.url), "unwell", b"{}"))
            with pytest.raises(ExtenderError, match="deadline exceeded"):
                await door(Call(Extender(server.url, timeout_seconds=0.05), "slow", b"{}"))
        with pytest.raises(ExtenderError, match="Post"):
            await door(Call(Extender(server.url), "gone", b"{}"))
        await door.close()

    asyncio.run(asyncio.wait_for(main(), 10))


async def _well(request: web.Request) -> web.Response:
    return web.json_response({"NodeNames": []})


@both_doors
def test_an_extender_behind_tls_is_verified_and_may_want_to_know_who_asks(tmp_path: Path, make: Doors) -> None:
    now = time.time()
    authority, stranger = make_authority(now), make_authority(now)
    served = sign(authority, now, "extender", hosts=("127.0.0.1",))
    client = sign(authority, now, "scheduler")
    pair = tmp_path / "server.pem"
    pair.write_bytes(served.certificate + served.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.certificate.decode())

    async def ask(url: str, tls: TlsSettings) -> Answer:
        door = make()
        try:
            return await door(Call(Extender(url, enable_https=True, tls=tls), "well", b"{}"))
        finally:
            await door.close()

    async def main() -> None:
        async with Server({"well": _well}, context) as server:
            ours = TlsSettings(ca_data=authority.certificate, cert_data=client.certificate, key_data=client.key)
            assert await ask(server.url, ours) == {"NodeNames": []}
            unverified = TlsSettings(insecure=True, cert_data=client.certificate, key_data=client.key)
            assert await ask(server.url, unverified) == {"NodeNames": []}
            for wrong in (dataclasses.replace(ours, ca_data=stranger.certificate), TlsSettings(insecure=True)):
                with pytest.raises(ExtenderError, match="Post"):
                    await ask(server.url, wrong)

    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_pod_is_filtered_scored_and_bound_by_a_real_extender(tmp_path: Path) -> None:
    seen: list[str] = []

    async def story(world: World, server: Server, handlers: dict[str, Any]) -> None:
        async def filter_nodes(request: web.Request) -> web.Response:
            question = await request.json()
            seen.append("filter")
            return web.json_response({"NodeNames": [name for name in question["NodeNames"] if name != "a"]})

        async def prioritize(request: web.Request) -> web.Response:
            await request.read()
            seen.append("prioritize")
            return web.json_response([{"Host": "c", "Score": 10}])

        async def bind(request: web.Request) -> web.Response:
            question = await request.json()
            seen.append("bind")
            await world.client.bind(question["PodNamespace"], question["PodName"], question["PodUID"], question["Node"])
            return web.json_response({})

        handlers |= {"filter": filter_nodes, "prioritize": prioritize, "bind": bind}
        await world.create(node("a"), node("b"), node("c"), pod("p", cpu="1"))
        assert await world.bound("p") == "c"
        assert seen == ["filter", "prioritize", "bind"]
        await world.until(lambda: world.events("Scheduled"))

    handlers: dict[str, Any] = {}

    async def dispatch(request: web.Request) -> web.Response:
        answer: web.Response = await handlers[request.path.strip("/")](request)
        return answer

    config = tmp_path / "config.yaml"

    async def with_server(world: World) -> None:
        await story(world, server, handlers)

    server = Server(dict.fromkeys(("filter", "prioritize", "bind"), dispatch))
    play(with_server, config=config, around=_serving(server, config))


def _serving(server: Server, config: Path) -> Any:
    """Start the extender first: its port goes into the configuration."""

    def write() -> None:
        verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1, "bindVerb": "bind"}
        one = {"urlPrefix": server.url, "nodeCacheCapable": True, **verbs}
        config.write_text(yaml.safe_dump({"extenders": [one]}))

    class Around:
        async def __aenter__(self) -> None:
            await server.__aenter__()
            write()

        async def __aexit__(self, *details: object) -> None:
            await server.__aexit__(*details)

    return Around()


def test_a_binding_is_asked_for_by_name_and_uid() -> None:
    setup = cluster()
    queued = setup.core.queue.get("default/p")
    assert queued is not None
    call = bind_call(Extender("http://helper/", bind_verb="bind"), queued.pod.pod, "a")
    assert call.url == "http://helper/bind"
    assert json.loads(call.body) == {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "a"}

"""The flow schemas and priority levels in force, and to which of them a request belongs.

Two schemas and two levels are always there, whether or not their objects are: those that let administrators in, and those that take what nothing else takes. A
schema whose level is missing takes nothing. A level whose object is gone goes when its last request is answered.

Source: Kubernetes' `apiserver/pkg/util/flowcontrol/apf_controller.go`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from bayplan.api.types import flowcontrol_v1 as fc
from bayplan.api.types import meta_v1
from bayplan.api.validation.flow_control import fixed_flow_schemas, fixed_priority_levels
from bayplan.apiserver.flow_control.levels import Level, adjust, config_error
from bayplan.apiserver.flow_control.matching import distinguisher_of, in_matching_order, matches
from bayplan.apiserver.flow_control.queues import Flow
from bayplan.apiserver.flow_control.shuffle_sharding import deal, flow_hash
from bayplan.apiserver.request_info import RequestInfo
from bayplan.apiserver.requests import FlowIdentity, User
from bayplan.support.memory.memo import Memo

if TYPE_CHECKING:
    from bayplan.apiserver.flow_control.measuring import FlowSeries

logger = logging.getLogger(__name__)

_EXEMPT, _CATCH_ALL = "exempt", "catch-all"
_KNOWN_BYTES: Final = 2 << 20
_SORT_BYTES: Final = 400
"""What it takes to know where requests of one sort belong; clients can make as many sorts as they like."""


class Classification(Flow):
    """Where requests of one sort belong."""

    __slots__ = ("distinguisher", "identity", "is_exempt", "level", "schema_name", "series")

    def __init__(self, schema: fc.FlowSchema, level: Level, distinguisher: str, identity: FlowIdentity) -> None:
        self.schema_name = schema.metadata.name
        self.level = level
        self.is_exempt = level.is_exempt
        """Whether its requests always execute."""
        self.distinguisher = distinguisher
        """Which flow of the schema; "" if the level has not several queues."""
        self.identity = identity
        self.series: FlowSeries | None = None
        """Where its requests are measured; None until there was one."""
        queuing = level.queuing
        hand: tuple[int, ...] = ()
        if queuing is not None:
            hand = deal(flow_hash(self.schema_name, distinguisher), queuing.queues, queuing.hand_size)
        super().__init__(level.flow_counts(self.schema_name), hand)


class Configuration:
    """What the objects say, taken together."""

    def __init__(self, server_limit: int, now: float) -> None:
        """server_limit: seats of all levels together; now: seconds of a monotonic clock, from which all times come."""
        self.server_limit = server_limit
        self.levels: dict[str, Level] = {}
        self.schemas: list[fc.FlowSchema] = []
        """In the order in which they are tried."""
        self.fair_fraction = 0.0
        """The proportion of their targets that levels got at the last adjustment."""
        self._known: Memo[object, Classification] = Memo("request_classifications", most_bytes=_KNOWN_BYTES)
        self._identities: dict[str, FlowIdentity] = {}
        """By schema."""
        self._objects: tuple[Sequence[fc.PriorityLevelConfiguration], Sequence[fc.FlowSchema]] = ((), ())
        self.load((), (), now)

    def load(
        self, configs: Sequence[fc.PriorityLevelConfiguration], schemas: Sequence[fc.FlowSchema], now: float
    ) -> None:
        """Take over objects as they are now, in place of those before."""
        self._objects = (configs, schemas)
        self._known.clear()
        self._identities.clear()
        wanted = {config.metadata.name: config for config in configs if _is_usable(config)}
        names = set(wanted)
        for name, config in _mandatory_levels().items():
            wanted.setdefault(name, config)
        levels: dict[str, Level] = {}
        for name, config in wanted.items():
            level = levels[name] = self.levels.get(name) or Level(config, now)
            level.configure(config, now)
            level.is_quiescing = False
        for name, level in self.levels.items():
            if name not in levels and not level.queue_set.is_idle:
                level.is_quiescing = True
                levels[name] = level
        self.levels = levels
        self.schemas = _usable_schemas(schemas, {*names, _EXEMPT, _CATCH_ALL})
        shares = sum(level.shares for level in levels.values())
        for level in levels.values():
            level.divide(self.server_limit, shares)
            if level.highest == 0 and not level.is_exempt:
                logger.warning(
                    "PriorityLevelConfiguration %s has no seats and may borrow none: its requests %s",
                    level.name,
                    "wait in vain" if level.queuing is not None else "execute one at a time",
                )
        self.adjust(now)

    def adjust(self, now: float) -> None:
        """Adjust the levels' limits to their demand."""
        self.fair_fraction = adjust(self.levels.values(), now)

    def forget_idle(self, now: float) -> None:
        """Let go of levels whose objects are gone, once their last request is answered."""
        if any(level.is_quiescing and level.queue_set.is_idle for level in self.levels.values()):
            self.load(*self._objects, now)

    def classify(self, info: RequestInfo, user: User) -> Classification:
        """Where a request belongs."""
        key = (
            (user.name, user.groups, info.verb, info.resource, info.namespace, info.group, info.subresource)
            if info.is_resource
            else (user.name, user.groups, info.verb, info.path)
        )
        found = self._known.get(key)
        if found is None:
            found = self._classify(info, user)
            self._known.put(key, found, _SORT_BYTES)
        return found

    def _classify(self, info: RequestInfo, user: User) -> Classification:
        schema = next((one for one in self.schemas if matches(one, info, user)), None)
        if schema is None:  # a user of neither of the groups that everybody is in
            schema = next(one for one in self.schemas if one.metadata.name == _CATCH_ALL)
        level = self.levels[schema.spec.priority_level_configuration.name]
        has_flows = level.queuing is not None and level.queuing.queues > 1
        identity = self._identities.get(schema.metadata.name)
        if identity is None:
            identity = FlowIdentity(schema.metadata.uid, level.config.metadata.uid, is_exempt=level.is_exempt)
            self._identities[schema.metadata.name] = identity
        return Classification(schema, level, distinguisher_of(schema, info, user) if has_flows else "", identity)


def _is_usable(config: fc.PriorityLevelConfiguration) -> bool:
    error = config_error(config)
    if error:
        logger.warning("PriorityLevelConfiguration %s is ignored, its spec is broken: %s", config.metadata.name, error)
    return not error


def _usable_schemas(schemas: Iterable[fc.FlowSchema], levels: set[str]) -> list[fc.FlowSchema]:
    usable = in_matching_order(one for one in schemas if one.spec.priority_level_configuration.name in levels)
    names = {schema.metadata.name for schema in usable}
    fixed = {
        name: fc.FlowSchema(metadata=meta_v1.ObjectMeta(name=name), spec=spec)
        for name, spec in fixed_flow_schemas().items()
    }
    if _EXEMPT not in names:
        usable.insert(0, fixed[_EXEMPT])
    if _CATCH_ALL not in names:
        usable.append(fixed[_CATCH_ALL])
    return usable


def _mandatory_levels() -> dict[str, fc.PriorityLevelConfiguration]:
    catch_all = fixed_priority_levels()[_CATCH_ALL]
    exempt = fc.PriorityLevelConfigurationSpec(type="Exempt", exempt=fc.ExemptPriorityLevelConfiguration())
    return {
        name: fc.PriorityLevelConfiguration(metadata=meta_v1.ObjectMeta(name=name), spec=spec)
        for name, spec in ((_EXEMPT, exempt), (_CATCH_ALL, catch_all))
    }

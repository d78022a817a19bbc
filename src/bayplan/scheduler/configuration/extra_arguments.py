"""Reading the arguments of the plugins in `plugins/extra`; see `arguments` for the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from bayplan.api.errors import duplicate, invalid, required, unsupported
from bayplan.scheduler.configuration.arguments import Errors, Tree, integer, mapping, only_known, sequence
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.extenders import settings as extender_settings
from bayplan.scheduler.framework import extra_arguments as arguments
from bayplan.scheduler.snapshot.resources import amount_of

FIELDS: Final[dict[str, frozenset[str]]] = {
    "Coscheduling": frozenset({"permitWaitingTimeSeconds", "podGroupBackoffSeconds"}),
    "TenantFairness": frozenset({"queueLabel", "resources", "queues"}),
    "EarliestDeadline": frozenset({"defaultRunTime", "margin", "hopeless"}),
    "DataLocality": frozenset({"topologyKey", "domainWeight"}),
    "Interference": frozenset({"classes", "loadWeight"}),
    "TimeSlots": frozenset({"slots"}),
}
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_OFFSET: Final = re.compile(r"([+-])(0\d|1[0-4]):([0-5]\d)")
_HOPELESS: Final = ("Refuse", "Last")


def _text(tree: Tree, key: str, path: str, default: str = "") -> str:
    value = tree.get(key)
    if value is None:
        return default
    if not isinstance(value, str):
        raise SettingsError(f"{path}.{key}", f"must be a text, not {value!r}")
    return value


def _name(tree: Tree, path: str, seen: set[str], errors: Errors) -> str:
    """The name of an item of a list, which no other item has."""
    name = _text(tree, "name", path)
    if not name:
        errors.append(required(f"{path}.name", "an item without a name cannot be referred to"))
    elif name in seen:
        errors.append(duplicate(f"{path}.name", name))
    seen.add(name)
    return name


def _amounts(value: Any, path: str, errors: Errors) -> Mapping[str, int]:
    found = {}
    for name, quantity in mapping(value, path).items():
        try:
            amount = amount_of(name, quantity)
        except (TypeError, ValueError):
            errors.append(invalid(f"{path}.{name}", quantity, "must be a quantity, such as 500m or 2Gi"))
            continue
        if amount < 0:
            errors.append(invalid(f"{path}.{name}", quantity, "must not be negative"))
        found[name] = amount
    return found


def _coscheduling(tree: Tree, path: str, errors: Errors) -> arguments.CoschedulingArgs:
    default = arguments.CoschedulingArgs()
    waiting = integer(tree, "permitWaitingTimeSeconds", path, default.permit_waiting_time_seconds)
    backoff = integer(tree, "podGroupBackoffSeconds", path, default.pod_group_backoff_seconds)
    if waiting < 0:
        errors.append(invalid(f"{path}.permitWaitingTimeSeconds", waiting, "must be greater than or equal to 0"))
    if backoff < 0:
        errors.append(invalid(f"{path}.podGroupBackoffSeconds", backoff, "must be greater than or equal to 0"))
    return arguments.CoschedulingArgs(waiting, backoff)


def _fairness(tree: Tree, path: str, errors: Errors) -> arguments.TenantFairnessArgs:
    seen: set[str] = set()
    queues = []
    for index, item in enumerate(sequence(tree.get("queues"), f"{path}.queues")):
        where = f"{path}.queues[{index}]"
        one = mapping(item, where)
        only_known(one, ("name", "weight", "quota", "borrowingLimit"), where)
        name, weight = _name(one, where, seen, errors), integer(one, "weight", where, 1)
        if not 1 <= weight <= 1000:
            errors.append(invalid(f"{where}.weight", weight, "not in valid range [1, 1000]"))
        quota = _amounts(one.get("quota") or {}, f"{where}.quota", errors)
        limit = one.get("borrowingLimit")
        borrowing = None if limit is None else _amounts(limit, f"{where}.borrowingLimit", errors)
        for resource in borrowing or ():
            if resource not in quota:
                detail = "has no quota beyond which it could be borrowed"
                errors.append(invalid(f"{where}.borrowingLimit.{resource}", resource, detail))
        queues.append(arguments.TenantQueue(name, weight, quota, borrowing))
    default = arguments.TenantFairnessArgs()
    label = _text(tree, "queueLabel", path, default.queue_label)
    resources = tuple(str(one) for one in sequence(tree.get("resources"), f"{path}.resources"))
    return arguments.TenantFairnessArgs(label, resources, tuple(queues))


def _deadline(tree: Tree, path: str, errors: Errors) -> arguments.EarliestDeadlineArgs:
    found = {}
    for key in ("defaultRunTime", "margin"):
        value = tree.get(key)
        found[key] = 0.0 if value is None else extender_settings.duration(value, f"{path}.{key}")
        if found[key] < 0:
            errors.append(invalid(f"{path}.{key}", value, "must not be negative"))
    hopeless = _text(tree, "hopeless", path, "Refuse")
    if hopeless not in _HOPELESS:
        errors.append(unsupported(f"{path}.hopeless", hopeless, _HOPELESS))
    return arguments.EarliestDeadlineArgs(found["defaultRunTime"], found["margin"], hopeless)


def _locality(tree: Tree, path: str, errors: Errors) -> arguments.DataLocalityArgs:
    default = arguments.DataLocalityArgs()
    key = _text(tree, "topologyKey", path, default.topology_key)
    weight = _percent(tree, "domainWeight", path, default.domain_weight, errors)
    return arguments.DataLocalityArgs(key, weight)


def _percent(tree: Tree, key: str, path: str, default: int, errors: Errors) -> int:
    value = integer(tree, key, path, default)
    if not 0 <= value <= 100:
        errors.append(invalid(f"{path}.{key}", value, "not in valid range [0, 100]"))
    return value


def _interference(tree: Tree, path: str, errors: Errors) -> arguments.InterferenceArgs:
    seen: set[str] = set()
    classes = []
    for index, item in enumerate(sequence(tree.get("classes"), f"{path}.classes")):
        where = f"{path}.classes[{index}]"
        one = mapping(item, where)
        only_known(one, ("name", "noise", "sensitivity"), where)
        noise = _percent(one, "noise", where, 0, errors)
        sensitivity = _percent(one, "sensitivity", where, 0, errors)
        classes.append(arguments.InterferenceClass(_name(one, where, seen, errors), noise, sensitivity))
    if not classes:
        errors.append(required(f"{path}.classes", "without classes no pod disturbs another"))
    return arguments.InterferenceArgs(tuple(classes), _percent(tree, "loadWeight", path, 50, errors))


def _slots(tree: Tree, path: str, errors: Errors) -> arguments.TimeSlotsArgs:
    seen: set[str] = set()
    slots = []
    for index, item in enumerate(sequence(tree.get("slots"), f"{path}.slots")):
        where = f"{path}.slots[{index}]"
        one = mapping(item, where)
        only_known(one, ("name", "days", "start", "end", "utcOffset"), where)
        days = sequence(one.get("days"), f"{where}.days") or list(_DAYS)
        for day in days:
            if day not in _DAYS:
                errors.append(unsupported(f"{where}.days", day, _DAYS))
        start, end = (_minutes(one, key, where, errors) for key in ("start", "end"))
        numbers = tuple(_DAYS.index(day) for day in days if day in _DAYS)
        offset = _offset(_text(one, "utcOffset", where, "+00:00"), f"{where}.utcOffset", errors)
        slots.append(arguments.TimeSlot(_name(one, where, seen, errors), numbers, start, end, offset))
    if not slots:
        errors.append(required(f"{path}.slots", "without slots no pod can name one"))
    return arguments.TimeSlotsArgs(tuple(slots))


def _minutes(tree: Tree, key: str, path: str, errors: Errors) -> int:
    """Minutes since midnight of a time such as `22:30`."""
    text = _text(tree, key, path, "00:00")
    match = _TIME.fullmatch(text)
    if match is None:
        errors.append(invalid(f"{path}.{key}", text, "must be a time of day, such as 22:30"))
        return 0
    return int(match[1]) * 60 + int(match[2])


def _offset(text: str, path: str, errors: Errors) -> int:
    """Minutes east of UTC of an offset such as `+02:00`."""
    match = _OFFSET.fullmatch(text)
    if match is None:
        errors.append(invalid(path, text, "must be an offset, such as +02:00"))
        return 0
    return (int(match[2]) * 60 + int(match[3])) * (-1 if match[1] == "-" else 1)


READERS: Final[dict[str, Callable[[Tree, str, Errors], object]]] = {
    "Coscheduling": _coscheduling,
    "TenantFairness": _fairness,
    "EarliestDeadline": _deadline,
    "DataLocality": _locality,
    "Interference": _interference,
    "TimeSlots": _slots,
}

"""How figures of usage look in tables, as metrics-server shows them."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import printers
from bayplan.api.quantity import Quantity, parse


def _node(obj: dict[str, Any], now: float) -> list[Any]:
    usage = obj["usage"]
    return [obj["metadata"]["name"], usage["cpu"], usage["memory"], obj["window"]]


def _pod(obj: dict[str, Any], now: float) -> list[Any]:
    total = {"cpu": Quantity(0), "memory": Quantity(0)}
    for container in obj["containers"]:
        for name in total:
            total[name] = total[name].add(parse(container["usage"][name]))
    return [obj["metadata"]["name"], str(total["cpu"]), str(total["memory"]), obj["window"]]


PRINTERS = printers("metrics", {"NodeMetrics": _node, "PodMetrics": _pod})

"""What is special about each kind: one package per API group, in it one file per kind (named after its plural) with one `Strategy`, found by name.

A strategy is pure: it looks at the object, the old object and nothing else. What needs the state of the cluster
(admission, allocation of addresses, existence of references) is the API server's. Rules that several kinds share stand
once, in `bayplan.api.validation` and `bayplan.api.defaults`. Kinds without a file get `Strategy` as it is.
"""

from __future__ import annotations

import functools
import importlib.util

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.kinds import Kind
from bayplan.api.strategies.base import Strategy


def strategy_for(kind: Kind) -> Strategy:
    """The strategy of a kind: `STRATEGY` of the module named after group and plural (`core/pods.py`); custom resources bring their own.

    The module of a version that is not the one in which objects are kept is `<plural>_<version>.py`. A kind that is kept in another group has the strategy of that.
    """
    return kind.strategy if isinstance(kind, CustomKind) else _built_in(kind)


@functools.cache
def _built_in(kind: Kind) -> Strategy:
    name = (
        kind.plural
        if not kind.storage_version or kind.storage_version == kind.version
        else f"{kind.plural}_{kind.version}"
    )
    group = kind.group if kind.storage_group is None else kind.storage_group
    package_name = f"{__name__}.{group.partition('.')[0] or 'core'}"
    module_name = f"{package_name}.{name}"
    if importlib.util.find_spec(package_name) is None or importlib.util.find_spec(module_name) is None:
        return Strategy()
    strategy = importlib.import_module(module_name).STRATEGY
    if not isinstance(strategy, Strategy):
        raise TypeError(f"{module_name}.STRATEGY is not a Strategy")
    return strategy

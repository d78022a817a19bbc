"""How a workload says that it is to be scaled vertically, and where its recommendation goes.

    bayplan.dev/vertical-autoscaling: Off | Initial | Recreate | InPlaceOrRecreate
    bayplan.dev/vertical-min: cpu=50m,memory=64Mi          at least; vertical-min.NAME for one container
    bayplan.dev/vertical-max: cpu=2,memory=4Gi             at most
    bayplan.dev/vertical-resources: cpu                    what is recommended; cpu,memory without it
    bayplan.dev/vertical-values: RequestsOnly              limits stay; they grow in proportion without it
    bayplan.dev/vertical-mode.NAME: Off                    the container is left alone
    bayplan.dev/vertical-recommendation: {...}             written by the controller

The words and meanings are those of the fields of upstream's VerticalPodAutoscaler (`updateMode`, `minAllowed`, `maxAllowed`, `controlledResources`,
`controlledValues`, `mode`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bayplan.controllers.autoscaling.vpa_rules import RESOURCES, Policy, Recommendation, amount

MODE = "bayplan.dev/vertical-autoscaling"
RECOMMENDATION = "bayplan.dev/vertical-recommendation"
_LEAST, _MOST = "bayplan.dev/vertical-min", "bayplan.dev/vertical-max"
_CONTROLLED, _VALUES = "bayplan.dev/vertical-resources", "bayplan.dev/vertical-values"
_CONTAINER_MODE = "bayplan.dev/vertical-mode"
OFF, INITIAL, RECREATE, IN_PLACE = "Off", "Initial", "Recreate", "InPlaceOrRecreate"
MODES = (OFF, INITIAL, RECREATE, IN_PLACE)


class AnnotationError(ValueError):
    """An annotation cannot be understood; the message names it and says what is expected."""


def mode_of(annotations: Mapping[str, str]) -> str:
    """How a workload wants to be scaled; "" if it does not. Raises AnnotationError."""
    mode = annotations.get(MODE, "")
    if mode and mode not in MODES:
        raise AnnotationError(f"annotation {MODE}: {mode!r} is not one of {', '.join(MODES)}")
    return mode


def policies_of(annotations: Mapping[str, str], containers: Iterable[str]) -> dict[str, Policy]:
    """What is allowed for each container. Raises AnnotationError."""
    return {name: _policy(annotations, name) for name in containers}


def _policy(annotations: Mapping[str, str], container: str) -> Policy:
    def own(annotation: str) -> tuple[str, str]:
        """The annotation for this container, or for all, and its value."""
        name = f"{annotation}.{container}"
        name = name if name in annotations else annotation
        return name, annotations.get(name, "")

    name, text = own(_CONTROLLED)
    resources = tuple(one.strip() for one in text.split(",")) if text else RESOURCES
    if unknown := [one for one in resources if one not in RESOURCES]:
        raise AnnotationError(f"annotation {name}: {unknown[0]!r} is not one of {', '.join(RESOURCES)}")
    name, values = own(_VALUES)
    if values not in ("", "RequestsOnly", "RequestsAndLimits"):
        raise AnnotationError(f"annotation {name}: {values!r} is neither RequestsOnly nor RequestsAndLimits")
    name, mode = own(_CONTAINER_MODE)
    if mode not in ("", "Auto", OFF):
        raise AnnotationError(f"annotation {name}: {mode!r} is neither Auto nor Off")
    return Policy(_amounts(*own(_LEAST)), _amounts(*own(_MOST)), resources, values == "RequestsOnly", mode == OFF)


def _amounts(annotation: str, text: str) -> dict[str, int]:
    found = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        resource, equals, quantity = part.partition("=")
        if not equals or resource not in RESOURCES:
            raise AnnotationError(f"annotation {annotation}: {part!r} is not of the form cpu=50m or memory=64Mi")
        try:
            found[resource] = amount(resource, quantity)
        except ValueError as error:
            raise AnnotationError(f"annotation {annotation}: {error}") from error
    return found


def render(recommendations: Iterable[Recommendation]) -> str:
    """The recommendation as JSON in the form of upstream's RecommendedPodResources."""
    return msgspec.json.encode({"containerRecommendations": [one.to_dict() for one in recommendations]}).decode()

"""What simulated pods use, as annotations say."""

from __future__ import annotations

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.simulated_usage import container_usage, total_usage
from bayplan.api.types import core_v1, meta_v1


def pod(annotations: dict[str, str], **requests: dict[str, str]) -> core_v1.Pod:
    made: core_v1.Pod = from_tree(
        core_v1.Pod,
        {
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"containers": [{"name": name, "resources": {"requests": one}} for name, one in requests.items()]},
            "status": {
                "containerStatuses": [
                    {
                        "name": name,
                        "image": "",
                        "imageID": "",
                        "ready": True,
                        "restartCount": 0,
                        "state": {"running": {}},
                    }
                    for name in requests
                ]
            },
        },
    )
    return made


SMALL, LARGE = {"cpu": "100m", "memory": "100Mi"}, {"cpu": "300m", "memory": "300Mi"}
CPU = "bayplan.dev/cpu-usage"


@pytest.mark.parametrize(
    ("annotations", "small", "large"),
    [
        pytest.param({}, "10m", "30m", id="a tenth of the request without an annotation"),
        pytest.param({CPU: "200m"}, "50m", "150m", id="an amount is shared as requested"),
        pytest.param({CPU: "50%"}, "50m", "150m", id="a part of each request"),
        pytest.param({CPU: "100m..300m"}, "50m", "150m", id="a range, in the middle of it"),
        pytest.param({CPU: "20%..60%"}, "40m", "120m", id="a range of parts"),
        pytest.param({CPU: "50%", f"{CPU}.small": "1"}, "1", "150m", id="one container has its own"),
        pytest.param({CPU: "much"}, "10m", "30m", id="what cannot be read counts as none"),
        pytest.param({CPU: "10%..1"}, "10m", "30m", id="parts and amounts do not mix"),
        pytest.param({CPU: "-1"}, "10m", "30m", id="nothing is negative"),
    ],
)
def test_cpu(annotations: dict[str, str], small: str, large: str) -> None:
    usage = container_usage(pod(annotations, small=SMALL, large=LARGE), lambda: 0.5)
    assert {name: str(one["cpu"]) for name, one in usage.items()} == {"small": small, "large": large}


def test_without_requests_nothing_is_used_and_an_amount_is_shared_evenly() -> None:
    usage = container_usage(pod({CPU: "100m"}, one={}, other={}), lambda: 0.5)
    assert {name: (str(one["cpu"]), str(one["memory"])) for name, one in usage.items()} == {
        "one": ("50m", "0"),
        "other": ("50m", "0"),
    }


def test_total() -> None:
    total = total_usage(container_usage(pod({}, small=SMALL, large=LARGE), lambda: 0.5))
    assert (str(total["cpu"]), str(total["memory"])) == ("40m", "40Mi")


def test_no_container_uses_more_cpu_than_its_limit() -> None:
    limits = core_v1.ResourceRequirements(limits={"cpu": "200m"})
    running = core_v1.ContainerState(running=core_v1.ContainerStateRunning())
    pod = core_v1.Pod(
        metadata=meta_v1.ObjectMeta(annotations={"bayplan.dev/cpu-usage": "900m"}),
        spec=core_v1.PodSpec(containers=(core_v1.Container(name="a", resources=limits), core_v1.Container(name="b"))),
        status=core_v1.PodStatus(
            container_statuses=tuple(core_v1.ContainerStatus(name=name, state=running) for name in "ab")
        ),
    )
    used = container_usage(pod, lambda: 0.5)
    assert {name: str(amounts["cpu"]) for name, amounts in used.items()} == {"a": "200m", "b": "450m"}

"""Services with their Endpoints and EndpointSlices."""

from __future__ import annotations

from typing import Final

from tests.differential.controllers.builders import CONTAINERS_WITH_PORTS, pod, service, set_spec
from tests.differential.controllers.steps import (
    Scenario,
    create,
    delete,
    end,
    patch,
    reap,
    run,
    selecting,
    template,
    unready,
)

_HAND_MADE: Final = [
    {
        "addresses": [{"ip": "10.9.0.1"}, {"ip": "10.9.0.2", "hostname": "two"}],
        "notReadyAddresses": [{"ip": "10.9.0.3"}],
        "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2, "protocol": "UDP"}],
    }
]
SCENARIOS: Final = (
    Scenario(
        "service",
        [
            [service()],
            [pod("one"), pod("two")],
            [run()],
            [unready("one")],
            [delete("Pod", "two")],
            [reap()],
            [patch("Service", "web", {"spec": {"selector": {"app": "other"}}})],
            [delete("Service", "web")],
        ],
    ),
    Scenario(
        "service-named-ports",
        [
            [
                service(
                    ports=[
                        {"name": "a", "port": 80, "targetPort": "named"},
                        {"name": "b", "port": 53, "protocol": "UDP", "targetPort": "udp"},
                        {"name": "c", "port": 9, "targetPort": "missing"},
                    ]
                ),
                pod("one", containers=CONTAINERS_WITH_PORTS),
                pod("two"),
            ],
            [run()],
            [service("same", ports=[{"port": 8080, "appProtocol": "kubernetes.io/h2c"}])],
        ],
    ),
    Scenario(
        "service-headless",
        [
            [
                service(clusterIP="None", publishNotReadyAddresses=True),
                service("portless", clusterIP="None", ports=None),
            ],
            [pod("one", hostname="one", subdomain="web"), pod("two", subdomain="portless")],
            [run("one")],
            [run()],
            [unready()],
        ],
    ),
    Scenario(
        "service-without-selector",
        [
            [service(selector=None)],
            [create("Endpoints", "web", subsets=_HAND_MADE)],
            [
                patch(
                    "Endpoints",
                    "web",
                    {"subsets": [*_HAND_MADE[:1], {"addresses": [{"ip": "2001:db8::1"}], "ports": [{"port": 3}]}]},
                )
            ],
            [delete("Endpoints", "web")],
        ],
    ),
    Scenario(
        "service-ended",
        [
            [service(), pod("one", restartPolicy="Never"), pod("two", restartPolicy="OnFailure")],
            [run()],
            [end("one")],
            [end("two", code=1)],
        ],
    ),
    Scenario(
        "service-external",
        [
            [
                service(type="ExternalName", externalName="example.com", ports=None, selector=None),
                service("node", type="NodePort", externalTrafficPolicy="Local", trafficDistribution="PreferClose"),
                service("balanced", type="LoadBalancer"),
            ],
            [pod("one")],
            [run()],
        ],
    ),
    Scenario(
        "service-many",
        [
            [
                service(),
                create(
                    "Deployment",
                    "web",
                    spec={"replicas": 120, "selector": selecting("web"), "template": template("web")},
                ),
            ],
            [run()],
            [set_spec("Deployment", "web", replicas=3)],
            [reap()],
        ],
    ),
)

"""Clusters and pods by chance, small enough that rules meet one another."""

from __future__ import annotations

import random

from tests.scheduler.reference.world import HOSTNAME, Tree, World

_ZONES, _APPS, _NAMESPACES = ("a", "b", "c"), ("web", "db", "job"), ("default", "shop")
_IMAGES = {"small:1": 30, "large:1": 800, "plain": 300}
"""Name and size in MiB."""
_TAINTS = [
    {"key": "pool", "value": value, "effect": effect} for value in "xy" for effect in ("NoSchedule", "PreferNoSchedule")
]


class Generator:
    """Draws from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    def some(self, items: list[Tree], share: float = 0.3) -> list[Tree]:
        return [item for item in items if self.often(share)]

    def world(self, most: int = 8) -> World:
        nodes = [self.node(f"n{index}") for index in range(self.chance.randint(1, most))]
        labels = {name: {"team": self.chance.choice("rs")} for name in _NAMESPACES}
        return World(nodes, [], labels)

    def node(self, name: str) -> Tree:
        chance = self.chance
        labels = {"disk": chance.choice(("ssd", "hdd")), "size": str(chance.randint(1, 3))}
        if self.often(0.9):
            labels[HOSTNAME] = name
        if self.often(0.85):
            labels["zone"] = chance.choice(_ZONES)
        full = {"small:1": "small:1", "large:1": "large:1", "plain": "plain:latest"}
        images = [{"names": [full[one]], "sizeBytes": _IMAGES[one] * 1024**2} for one in _IMAGES if self.often(0.4)]
        spec: Tree = {"taints": self.some(_TAINTS, 0.15)}
        if self.often(0.08):
            spec["unschedulable"] = True
        amounts = {
            "cpu": chance.choice(("1", "2", "4000m")),
            "memory": chance.choice(("1Gi", "2Gi", "4Gi")),
            "pods": chance.choice(("2", "4", "110")),
        }
        if self.often(0.2):
            amounts["example.com/gpu"] = str(chance.randint(0, 2))
        metadata = {"name": name, "labels": labels}
        return {
            "kind": "Node",
            "metadata": metadata,
            "spec": spec,
            "status": {"allocatable": amounts, "images": images},
        }

    def pod(self, name: str) -> Tree:
        chance = self.chance
        labels = {"app": chance.choice(_APPS), **({"v": chance.choice("12")} if self.often(0.5) else {})}
        spec: Tree = {"containers": [self.container() for _ in range(chance.choice((1, 1, 2)))]}
        if self.often(0.15):
            spec["initContainers"] = [self.container()]
        if self.often(0.1):
            spec["overhead"] = {"cpu": "50m"}
        if self.often(0.15):
            spec["nodeSelector"] = {"disk": chance.choice(("ssd", "hdd"))}
        if self.often(0.3):
            spec["tolerations"] = [self.toleration()]
        if self.often(0.35):
            spec["topologySpreadConstraints"] = [self.constraint() for _ in range(chance.choice((1, 1, 2)))]
        affinity = {
            **({"nodeAffinity": self.node_affinity()} if self.often(0.25) else {}),
            **({"podAffinity": self.pod_affinity()} if self.often(0.25) else {}),
            **({"podAntiAffinity": self.pod_affinity()} if self.often(0.25) else {}),
        }
        if affinity:
            spec["affinity"] = affinity
        metadata: Tree = {"name": name, "namespace": chance.choice(_NAMESPACES), "uid": name, "labels": labels}
        return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}

    def container(self) -> Tree:
        chance = self.chance
        requests = {}
        if self.often(0.7):
            requests["cpu"] = chance.choice(("50m", "100m", "333m", "1"))
        if self.often(0.6):
            requests["memory"] = chance.choice(("64Mi", "200Mi", "513Mi"))
        if self.often(0.05):
            requests["example.com/gpu"] = "1"
        container: Tree = {"name": f"c{chance.random()}", "image": chance.choice(list(_IMAGES))}
        container["resources"] = {"requests": requests}
        if self.often(0.12):
            port = {"containerPort": 80, "hostPort": chance.choice((80, 81)), "protocol": chance.choice(("TCP", "UDP"))}
            container["ports"] = [{**port, **({"hostIP": "127.0.0.1"} if self.often(0.4) else {})}]
        return container

    def toleration(self) -> Tree:
        chance = self.chance
        one: Tree = {"key": "pool", "operator": chance.choice(("Exists", "Equal"))}
        if one["operator"] == "Equal":
            one["value"] = chance.choice("xy")
        if self.often(0.5):
            one["effect"] = chance.choice(("NoSchedule", "PreferNoSchedule"))
        return one

    def selector(self) -> Tree:
        chance = self.chance
        if self.often(0.7):
            return {"matchLabels": {"app": chance.choice(_APPS)}}
        operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": chance.sample(("1", "2", "3"), 2)} if operator in ("In", "NotIn") else {}
        return {"matchExpressions": [{"key": "v", "operator": operator, **values}]}

    def constraint(self) -> Tree:
        chance = self.chance
        one: Tree = {
            "maxSkew": chance.choice((1, 1, 2)),
            "topologyKey": chance.choice(("zone", HOSTNAME, "disk")),
            "whenUnsatisfiable": chance.choice(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": self.selector(),
        }
        if one["whenUnsatisfiable"] == "DoNotSchedule" and self.often(0.2):
            one["minDomains"] = chance.randint(1, 4)
        if self.often(0.2):
            one["matchLabelKeys"] = ["v"]
        if self.often(0.2):
            one["nodeAffinityPolicy"] = chance.choice(("Honor", "Ignore"))
        if self.often(0.2):
            one["nodeTaintsPolicy"] = chance.choice(("Honor", "Ignore"))
        return one

    def term(self) -> Tree:
        chance = self.chance
        one: Tree = {"topologyKey": chance.choice(("zone", HOSTNAME, "disk")), "labelSelector": self.selector()}
        if self.often(0.15):
            one["namespaces"] = [chance.choice(_NAMESPACES)]
        if self.often(0.15):
            one["namespaceSelector"] = {"matchLabels": {"team": chance.choice("rs")}} if self.often(0.7) else {}
        return one

    def pod_affinity(self) -> Tree:
        found: Tree = {}
        if self.often(0.6):
            found["requiredDuringSchedulingIgnoredDuringExecution"] = [
                self.term() for _ in range(self.chance.choice((1, 1, 2)))
            ]
        if self.often(0.6):
            found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self.chance.randint(1, 100), "podAffinityTerm": self.term()}
            ]
        return found

    def node_term(self) -> Tree:
        chance = self.chance
        key = chance.choice(("zone", "disk", "size"))
        operator = chance.choice(
            ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt") if key == "size" else ("In", "NotIn", "Exists")
        )
        values = {"zone": ["a", "b"], "disk": ["ssd"], "size": ["2"]}[key]
        expression: Tree = {"key": key, "operator": operator}
        if operator not in ("Exists", "DoesNotExist"):
            expression["values"] = values
        return {"matchExpressions": [expression]}

    def node_affinity(self) -> Tree:
        found: Tree = {}
        if self.often(0.5):
            terms = [self.node_term() for _ in range(self.chance.choice((1, 2)))]
            found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if self.often(0.6):
            found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self.chance.randint(1, 100), "preference": self.node_term()}
                for _ in range(self.chance.choice((1, 2)))
            ]
        return found

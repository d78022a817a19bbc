"""`bayplan annotations`: what can be said to Bayplan by annotations and labels, and what it says by them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import click

from bayplan.cli.output import output_option, print_data


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotation or label. A name that ends with [.NAME] may also be given for one container."""

    name: str
    on: str
    """Objects that have it."""
    example: str
    meaning: str
    by: str = "you"
    """Who writes it: you, or Bayplan."""


_POD = "pods of simulated nodes"
_WORKLOAD = "workloads"
ANNOTATIONS: Final = (
    Annotation("bayplan.dev/start-seconds", _POD, "2", "time from binding until containers are made"),
    Annotation("bayplan.dev/pull-seconds", _POD, "1..5", "time added to that for each image"),
    Annotation("bayplan.dev/init-seconds[.NAME]", _POD, "3", "how long init containers take"),
    Annotation("bayplan.dev/run-seconds[.NAME]", _POD, "60", "time after which containers end"),
    Annotation("bayplan.dev/exit-code[.NAME]", _POD, "1@20%", "code with which they end, here in a fifth of all cases"),
    Annotation("bayplan.dev/oom-seconds[.NAME]", _POD, "10", "time after which they are killed for want of memory"),
    Annotation("bayplan.dev/ready[.NAME]", _POD, "false", "whether the readiness probe succeeds"),
    Annotation("bayplan.dev/ready-seconds[.NAME]", _POD, "5", "time after which it does"),
    Annotation("bayplan.dev/live[.NAME]", _POD, "false", "whether the liveness probe succeeds"),
    Annotation("bayplan.dev/probes[.NAME]", _POD, "follow", "initial delays of startup and readiness probes count"),
    Annotation(
        "bayplan.dev/missing-config", _POD, "ignore", "what if ConfigMaps or Secrets are missing: wait or ignore"
    ),
    Annotation("bayplan.dev/cpu-usage[.NAME]", _POD, "50m@0s 400m@2m", "processor time that is used"),
    Annotation("bayplan.dev/memory-usage[.NAME]", _POD, "100Mi..300Mi", "memory that is used"),
    Annotation(
        "bayplan.dev/preferred-topology",
        "PodGroups, Jobs",
        "example.com/rack,example.com/block",
        "topology keys within one domain of which a group is placed, the first that holds it",
    ),
    Annotation(
        "bayplan.dev/scheduling-v1beta1",
        "PodGroups, Workloads",
        '{"preemptionPolicy":"Never"}',
        "what objects in v1alpha2 cannot say of those in v1beta1",
        "Bayplan",
    ),
    Annotation("bayplan.dev/silent", "simulated nodes", "true", "the node has lost contact: no lease, no status"),
    Annotation("bayplan.dev/cloud", "simulated nodes", "gone", "the machine in the simulated cloud: gone or shut-down"),
    Annotation("bayplan.dev/simulated", "nodes", "true", "the node is simulated", "Bayplan"),
    Annotation(
        "bayplan.dev/ready-at", "nodes of groups", "2026-01-02T03:04:05Z", "when the node will be ready", "Bayplan"
    ),
    Annotation("bayplan.dev/node-group", "nodes of groups", "web", "label: the group of the node", "Bayplan"),
    Annotation(
        "bayplan.dev/network", "real nodes", "routed", "how pods of different nodes reach each other", "Bayplan"
    ),
    Annotation("bayplan.dev/service-proxy", "real nodes", "nftables", "what leads services to pods", "Bayplan"),
    Annotation("bayplan.dev/dns", "real nodes", "10.96.0.10", "address of the cluster's DNS", "Bayplan"),
    Annotation("bayplan.dev/storage", "real nodes", "local.csi.bayplan.dev", "the storage driver", "Bayplan"),
    Annotation(
        "bayplan.dev/simulated-webhooks",
        "webhook configurations",
        "fail",
        "what comes of calls for simulated pods: skip or fail",
    ),
    Annotation(
        "bayplan.dev/affinity-during-execution",
        "pods",
        '{"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": ...}}',
        "affinity rules that hold while the pod runs",
    ),
    Annotation(
        "bayplan.dev/affinity-eviction-grace",
        "pods",
        "60 or podAffinity=60",
        "seconds for which a broken rule is put up with",
    ),
    Annotation("bayplan.dev/queue", "pods", "team-a", "label: the queue whose share counts (TenantFairness)"),
    Annotation("bayplan.dev/deadline", "pods", "2026-01-02T18:00:00Z", "when it has to be done (EarliestDeadline)"),
    Annotation("bayplan.dev/deadline-after", "pods", "30m", "the same, counted from its creation"),
    Annotation("bayplan.dev/expected-run-time", "pods", "10m", "how long it runs (EarliestDeadline, TimeSlots)"),
    Annotation("bayplan.dev/time-slot", "pods", "night", "label: the slot in which it begins (TimeSlots)"),
    Annotation("bayplan.dev/interference-class", "pods", "batch", "label: its class (Interference)"),
    Annotation("data.bayplan.dev/SET", "pods, claims", "", "label: a data set that is read (DataLocality)"),
    Annotation("data.bayplan.dev/SET", "nodes", "120", "label: how many GiB of the data set it holds"),
    Annotation("bayplan.dev/measured-load", "nodes", "70", "label: percent of load as measured (Interference)"),
    Annotation(
        "bayplan.dev/vertical-autoscaling",
        _WORKLOAD,
        "Recreate",
        "scale vertically: Off, Initial, Recreate, InPlaceOrRecreate",
    ),
    Annotation("bayplan.dev/vertical-min[.NAME]", _WORKLOAD, "cpu=50m,memory=64Mi", "at least so much"),
    Annotation("bayplan.dev/vertical-max[.NAME]", _WORKLOAD, "cpu=2,memory=4Gi", "at most so much"),
    Annotation("bayplan.dev/vertical-resources[.NAME]", _WORKLOAD, "cpu", "what is recommended"),
    Annotation("bayplan.dev/vertical-values[.NAME]", _WORKLOAD, "RequestsOnly", "limits stay as they are"),
    Annotation("bayplan.dev/vertical-mode[.NAME]", _WORKLOAD, "Off", "leave a container alone"),
    Annotation("bayplan.dev/vertical-recommendation", _WORKLOAD, "{...}", "what is recommended", "Bayplan"),
)


@click.command()
@output_option
def command(output: str) -> None:
    """List the annotations and labels that Bayplan understands or writes, with an example each.

    Docs: simulated-pods.md, during-execution.md, autoscaling.md, webhooks.md and real-nodes.md say more.
    """
    if output:
        print_data({"annotations": [asdict(each) for each in ANNOTATIONS]}, output)
        return
    group = ""
    for each in ANNOTATIONS:
        heading = f"{each.on}, written by {each.by}"
        if heading != group:
            click.echo(f"{'' if not group else chr(10)}{heading}")
            group = heading
        click.echo(f"  {each.name + ': ' + each.example:58} {each.meaning}")

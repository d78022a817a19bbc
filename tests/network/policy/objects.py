"""Builders of the API objects that network policies are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.api.types import core_v1, meta_v1, networking_v1

Labels = Mapping[str, str]
Expression = tuple[str, str, Sequence[str]]


def pod(
    name: str,
    *addresses: str,
    namespace: str = "shop",
    labels: Labels | None = None,
    node: str = "here",
    ports: Sequence[tuple[str, str, int]] = (),
    phase: str = "Running",
    host_network: bool = False,
    created: str = "",
) -> core_v1.Pod:
    """A pod, by default of the node `here`; its label `app` is its name. ports: name, protocol, number."""
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"{namespace}-{name}",
            labels=dict(labels if labels is not None else {"app": name}),
            creation_timestamp=created or None,
        ),
        spec=core_v1.PodSpec(
            node_name=node,
            host_network=host_network,
            containers=(
                core_v1.Container(
                    name="main",
                    image="app:1",
                    ports=tuple(
                        core_v1.ContainerPort(name=one, protocol=protocol, container_port=number)
                        for one, protocol, number in ports
                    ),
                ),
            ),
        ),
        status=core_v1.PodStatus(
            phase=phase,
            pod_ip=addresses[0] if addresses else "",
            pod_ips=tuple(core_v1.PodIP(ip=one) for one in addresses),
        ),
    )


def namespace(name: str, **labels: str) -> core_v1.Namespace:
    """A namespace, with its name as label."""
    return core_v1.Namespace(
        metadata=meta_v1.ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name, **labels})
    )


def selector(labels: Labels | None = None, *expressions: Expression) -> meta_v1.LabelSelector:
    """A label selector; without arguments the one that selects everything."""
    return meta_v1.LabelSelector(
        match_labels=dict(labels or {}),
        match_expressions=tuple(
            meta_v1.LabelSelectorRequirement(key=key, operator=operator, values=tuple(values))
            for key, operator, values in expressions
        ),
    )


def apps(*names: str) -> meta_v1.LabelSelector:
    """The selector of pods by their label `app`."""
    return selector({"app": names[0]}) if len(names) == 1 else selector({}, ("app", "In", names))


def from_pods(*names: str) -> networking_v1.NetworkPolicyPeer:
    """Pods of the policy's namespace as peers."""
    return networking_v1.NetworkPolicyPeer(pod_selector=apps(*names) if names else selector())


def from_namespaces(
    namespaces: meta_v1.LabelSelector, pods: meta_v1.LabelSelector | None = None
) -> networking_v1.NetworkPolicyPeer:
    """Pods of other namespaces as peers."""
    return networking_v1.NetworkPolicyPeer(namespace_selector=namespaces, pod_selector=pods)


def block(cidr: str, *holes: str) -> networking_v1.NetworkPolicyPeer:
    """Addresses as peers."""
    return networking_v1.NetworkPolicyPeer(ip_block=networking_v1.IPBlock(cidr=cidr, except_=holes))


def port(
    number: int | str | None = None, protocol: str | None = None, *, end: int | None = None
) -> networking_v1.NetworkPolicyPort:
    """A port of a rule."""
    return networking_v1.NetworkPolicyPort(port=number, protocol=protocol, end_port=end)


Rule = tuple[Sequence[networking_v1.NetworkPolicyPeer], Sequence[networking_v1.NetworkPolicyPort]]
"""Peers and ports."""
EVERYTHING: Rule = ((), ())


def policy(
    name: str,
    pods: meta_v1.LabelSelector | None = None,
    *,
    namespace: str = "shop",
    ingress: Sequence[Rule] | None = None,
    egress: Sequence[Rule] | None = None,
    types: Sequence[str] | None = None,
) -> networking_v1.NetworkPolicy:
    """A policy of all pods of its namespace, unless told otherwise. Without `types` it isolates for what is given."""
    given = [one for one, rules in (("Ingress", ingress), ("Egress", egress)) if rules is not None]
    return networking_v1.NetworkPolicy(
        metadata=meta_v1.ObjectMeta(name=name, namespace=namespace),
        spec=networking_v1.NetworkPolicySpec(
            pod_selector=pods or selector(),
            policy_types=tuple(types if types is not None else given),
            ingress=tuple(
                networking_v1.NetworkPolicyIngressRule(from_=tuple(peers), ports=tuple(ports))
                for peers, ports in ingress or ()
            ),
            egress=tuple(
                networking_v1.NetworkPolicyEgressRule(to=tuple(peers), ports=tuple(ports))
                for peers, ports in egress or ()
            ),
        ),
    )

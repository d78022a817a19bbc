"""Nodes and pods as network namespaces of this process, with real packets between them.

A namespace is an open file: when the process ends, however it ends, the kernel removes it with all that is in it. Needs root.

    pods of `here` ── bridge cni0, or a link each (ptp) ── here (192.0.2.1) ══ there (192.0.2.2) ── a link each ── pods of `there`
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Final

from tests.namespaces import Namespace

PATIENCE: Final = 3.0
"""Seconds for what must work."""
DENIED: Final = 0.25
"""Seconds after which what has not worked is taken as denied; packets take microseconds here."""


class Network:
    """Two nodes and pods. Pods are Namespaces with addresses, by name."""

    def __init__(self, stack: contextlib.ExitStack, *, attachment: str = "ptp") -> None:
        self._stack = stack
        self._attachment = attachment
        self.here, self.there = self._namespace(), self._namespace()
        self.pods: dict[str, Namespace] = {}
        self.addresses: dict[str, tuple[str, str]] = {}
        self._listeners: list[socket.socket] = []
        self.here.ip(f"link add uplink type veth peer name uplink netns {self.there.path}")
        for number, node in ((1, self.here), (2, self.there)):
            other = 3 - number
            node.ip(
                f"address add 192.0.2.{number}/24 dev uplink",
                f"address add fd02::{number}/64 dev uplink nodad",
                "link set uplink up",
                f"route add 10.9.{other}.0/24 via 192.0.2.{other}",
                f"route add fd09:{other}::/64 via fd02::{other}",
            )
            node.write("ipv4/ip_forward", "1")
            node.write("ipv6/conf/all/forwarding", "1")
        if attachment == "bridge":
            self.here.ip("link add cni0 type bridge", "link set cni0 up")
            self.here.ip("address add 10.9.1.1/24 dev cni0", "address add fd09:1::1/64 dev cni0 nodad")

    def _namespace(self) -> Namespace:
        made = Namespace()
        self._stack.callback(made.close)
        return made

    def add_pod(self, name: str, node: str = "here") -> tuple[str, str]:
        """Attach a pod. Returns its addresses."""
        number = 1 if node == "here" else 2
        host = self.here if node == "here" else self.there
        last = 10 + len(self.pods)
        ipv4, ipv6 = self.addresses[name] = f"10.9.{number}.{last}", f"fd09:{number}::{last}"
        pod = self.pods[name] = self._namespace()
        link = f"pod{last}"
        host.ip(f"link add {link} type veth peer name eth0 netns {pod.path}")
        if self._attachment == "bridge" and node == "here":
            host.ip(f"link set {link} master cni0 up")
            host.command("bridge", "link", "set", "dev", link, "hairpin", "on")
            pod.ip(f"address add {ipv4}/24 dev eth0", f"address add {ipv6}/64 dev eth0 nodad", "link set eth0 up")
            pod.ip(f"route add default via 10.9.{number}.1", f"route add default via fd09:{number}::1")
        else:
            host.ip(
                f"address add 10.9.{number}.1/32 dev {link}",
                f"address add fd09:{number}::1/128 dev {link} nodad",
                f"link set {link} up",
                f"route add {ipv4}/32 dev {link}",
                f"route add {ipv6}/128 dev {link}",
            )
            pod.ip(f"address add {ipv4}/32 dev eth0", f"address add {ipv6}/128 dev eth0 nodad", "link set eth0 up")
            pod.ip(
                f"route add 10.9.{number}.1 dev eth0",
                f"route add default via 10.9.{number}.1",
                f"route add fd09:{number}::1 dev eth0",
                f"route add default via fd09:{number}::1",
            )
        return ipv4, ipv6

    def listen(self, namespace: Namespace, address: str, *ports: int) -> None:
        """Listen for TCP."""
        for port in ports:
            made = namespace.socket(address)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, port))
            made.listen(128)
            self._stack.callback(made.close)

    def close(self) -> None:
        """Nothing is left of it."""
        self._stack.close()


@contextlib.contextmanager
def network(attachment: str = "ptp") -> Iterator[Network]:
    """Nodes without pods."""
    with contextlib.ExitStack() as stack:
        yield Network(stack, attachment=attachment)


def connected(connections: Sequence[tuple[Namespace, str, int]], patience: float) -> list[socket.socket | None]:
    """Connect by TCP from namespaces to addresses and ports, all at once. None for each that is not accepted in time."""
    waiting: dict[socket.socket, int] = {}
    found: list[socket.socket | None] = [None] * len(connections)
    for index, (namespace, address, port) in enumerate(connections):
        client = namespace.socket(address)
        client.setblocking(False)
        client.connect_ex((address, port))
        waiting[client] = index
    until = time.monotonic() + patience
    while waiting and (left := until - time.monotonic()) > 0:
        for client in select.select([], list(waiting), [], left)[1]:
            index = waiting.pop(client)
            if client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                client.close()
            else:
                found[index] = client
    for client in waiting:
        client.close()
    return found


def connects(namespace: Namespace, address: str, port: int) -> bool:
    """Whether a TCP connection is accepted."""
    return reached([(namespace, address, port)], [True]) == [True]


def denied(namespace: Namespace, address: str, port: int) -> bool:
    """Whether a TCP connection is not accepted."""
    return reached([(namespace, address, port)], [False]) == [False]


def reached(connections: Sequence[tuple[Namespace, str, int]], expected: Sequence[bool]) -> list[bool]:
    """Which TCP connections are accepted: those that are expected have time, others do not."""
    found: dict[int, bool] = {}
    for hope, patience in ((True, PATIENCE), (False, DENIED)):
        indexes = [index for index, one in enumerate(expected) if one is hope]
        sockets = connected([connections[index] for index in indexes], patience) if indexes else []
        for index, one in zip(indexes, sockets, strict=True):
            found[index] = one is not None
            if one is not None:
                one.close()
    return [found[index] for index in range(len(connections))]


class Datagrams:
    """A UDP client and a server, each in its namespace, bound and known to each other."""

    def __init__(self, client: Namespace, server: Namespace, address: str, port: int) -> None:
        self.client = client.socket(address, socket.SOCK_DGRAM)
        self.server = server.socket(address, socket.SOCK_DGRAM)
        self.server.bind((address, port))
        self.client.connect((address, port))

    def __enter__(self) -> Datagrams:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.server.close()

    def asks(self, patience: float = PATIENCE) -> bool:
        """Whether the server gets what the client sends. What came late before is not counted."""
        text = os.urandom(8)
        self.client.send(text)
        self.server.settimeout(patience)
        with contextlib.suppress(TimeoutError):
            while True:
                data, self.peer = self.server.recvfrom(100)
                if data == text:
                    return True
        return False

    def answers(self, patience: float = PATIENCE) -> bool:
        """Whether the client gets what the server sends back."""
        text = os.urandom(8)
        self.server.sendto(text, self.peer)
        self.client.settimeout(patience)
        with contextlib.suppress(TimeoutError):
            while True:
                if self.client.recv(100) == text:
                    return True
        return False

"""A small cluster of network namespaces: a client outside, this node with pods on it, another node with one pod.

    client 192.0.2.2 ── 192.0.2.1 this-node 10.1.0.1 ─┬─ pod a 10.1.0.2, pod b 10.1.0.3
                                     192.0.3.1 ──────── 192.0.3.2 another-node, whose pod c 10.2.0.2 is the node itself
    likewise with 2001:db8:2::, 2001:db8:3::, fd00:1::, fd00:2::

Every pod has servers that answer with the pod's name and the address that they see as the client's.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from tests.namespaces import Namespace

PORT = 8080
PODS = ("10.0.0.0/8", "fd00::/16")
SERVICES = ("10.96.0.0/16", "fd96::/112")
NODE_ADDRESSES = ("192.0.2.1", "2001:db8:2::1")
CLIENT_ADDRESSES = ("192.0.2.2", "2001:db8:2::2")
A, B, C = ("10.1.0.2", "fd00:1::2"), ("10.1.0.3", "fd00:1::3"), ("10.2.0.2", "fd00:2::2")
"""Addresses of the pods a and b on this node, and c on the other one."""
_SECONDS = 0.5


def connect(here: Namespace, there: Namespace, name: str) -> tuple[str, str]:
    """Make a pair of interfaces between two namespaces; returns their names here and there."""
    other = f"to-{here.name}"
    here.command("ip", "link", "add", name, "type", "veth", "peer", "name", other, "netns", there.path)
    for namespace, interface in ((here, name), (there, other)):
        namespace.command("ip", "link", "set", interface, "up")
    return name, other


@contextlib.contextmanager
def namespaces(*names: str) -> Iterator[list[Namespace]]:
    """Namespaces, as long as the context lasts."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Namespace(name)) for name in names]


@dataclass
class Network:
    """The namespaces."""

    node: Namespace
    client: Namespace
    a: Namespace
    b: Namespace
    c: Namespace
    _stopping: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def ask(self, source: Namespace, address: str, port: int = 80, *, local: tuple[str, int] | None = None) -> str:
        """Connect and return `POD CLIENT-ADDRESS`; `refused`, `unreachable`, or `nothing` if no answer comes."""
        with source.run(lambda: socket.socket(_family(address), socket.SOCK_STREAM)) as client:
            client.settimeout(_SECONDS)
            if local is not None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                client.bind(local)
            return _connected(client, address, port)

    def datagram(self, source: Namespace, address: str, port: int = 80) -> str:
        """Likewise over UDP, with a socket of its own."""
        with self.datagrams(source, address, port) as client:
            return exchange(client)

    @contextlib.contextmanager
    def datagrams(self, source: Namespace, address: str, port: int = 80) -> Iterator[socket.socket]:
        """A UDP socket that goes on using one port."""
        with source.run(lambda: socket.socket(_family(address), socket.SOCK_DGRAM)) as client:
            client.settimeout(_SECONDS)
            client.connect((address, port))
            yield client

    def serve(self, name: str, pod: Namespace, address: str) -> None:
        """Start the servers of a pod at one of its addresses."""
        for kind, answer in ((socket.SOCK_STREAM, _answer_stream), (socket.SOCK_DGRAM, _answer_datagrams)):
            server = pod.run(partial(socket.socket, _family(address), kind))
            server.bind((address, PORT))
            if kind == socket.SOCK_STREAM:
                server.listen()
            thread = threading.Thread(target=answer, args=(name, server))
            thread.start()
            self._stopping.append(server)
            self._threads.append(thread)

    def stop(self) -> None:
        """Stop all servers."""
        for server in self._stopping:
            with contextlib.suppress(OSError):  # an unconnected UDP socket wakes its reader nevertheless
                server.shutdown(socket.SHUT_RDWR)
            server.close()
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """The network, with servers running. Nothing of it is left afterwards."""
    with namespaces("node", "client", "a", "b", "c") as (node, client, a, b, c):
        for one in (node, c):
            one.write("ipv4/ip_forward", "1")
            one.write("ipv6/conf/all/forwarding", "1")
            one.write("ipv4/icmp_ratelimit", "0")
            one.write("ipv6/icmp/ratelimit", "0")
        _wire(node, client, "client", NODE_ADDRESSES, CLIENT_ADDRESSES)
        _wire(node, c, "other", ("192.0.3.1", "2001:db8:3::1"), ("192.0.3.2", "2001:db8:3::2"))
        for pod, name, addresses in ((a, "veth-a", A), (b, "veth-b", B)):
            _wire(node, pod, name, ("10.1.0.1", "fd00:1::1"), addresses, hosts=True)
        for address, family in (("192.0.3.2", "-4"), ("2001:db8:3::2", "-6")):  # the way out of the cluster
            node.command("ip", family, "route", "add", "default", "via", address)
        for address in C:
            c.command("ip", "address", "add", address, "dev", "lo", *_options(address))
        node.command("ip", "route", "add", f"{C[0]}/32", "via", "192.0.3.2")
        node.command("ip", "route", "add", f"{C[1]}/128", "via", "2001:db8:3::2")
        made = Network(node, client, a, b, c)
        try:
            for name, pod, addresses in (("a", a, A), ("b", b, B), ("c", c, C)):
                for address in addresses:
                    made.serve(name, pod, address)
            yield made
        finally:
            made.stop()


def exchange(client: socket.socket) -> str:
    """Send one datagram, and return what comes back."""

    def ask() -> str:
        client.send(b"?")
        return client.recv(200).decode()

    return _outcome(ask)


def _wire(
    here: Namespace,
    there: Namespace,
    name: str,
    here_addresses: tuple[str, str],
    there_addresses: tuple[str, str],
    *,
    hosts: bool = False,
) -> None:
    """Connect two namespaces; the one there sends everything here. hosts: addresses without a network, as pods have them."""
    interface, other = connect(here, there, name)
    for own, peer, width in zip(here_addresses, there_addresses, (24, 64), strict=True):
        length = (128 if ":" in own else 32) if hosts else width
        family = "-6" if ":" in own else "-4"
        here.command("ip", "address", "add", f"{own}/{length}", "dev", interface, *_options(own))
        there.command("ip", "address", "add", f"{peer}/{length}", "dev", other, *_options(own))
        if hosts:
            here.command("ip", family, "route", "add", f"{peer}/{length}", "dev", interface)
            there.command("ip", family, "route", "add", f"{own}/{length}", "dev", other)
        there.command("ip", family, "route", "add", "default", "via", own, "dev", other)


def _options(address: str) -> tuple[str, ...]:
    """What makes an address of use at once: the kernel looks for duplicates behind the command, also where there can be none."""
    return ("nodad",) if ":" in address else ()


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _connected(client: socket.socket, address: str, port: int) -> str:
    """Connect, and return what comes."""

    def ask() -> str:
        client.connect((address, port))
        return client.recv(200).decode()

    return _outcome(ask)


def _outcome(ask: Callable[[], str]) -> str:
    """What is answered, or how it fails."""
    try:
        return ask()
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "nothing"
    except OSError as error:
        return f"unreachable: {error.strerror}"


def _answer_stream(name: str, server: socket.socket) -> None:
    while True:
        try:
            connection, peer = server.accept()
        except OSError:
            return  # closed
        with connection:
            connection.send(f"{name} {peer[0]}".encode())


def _answer_datagrams(name: str, server: socket.socket) -> None:
    while True:
        try:
            data, peer = server.recvfrom(100)
        except OSError:
            return  # closed
        if not data:
            return  # shut down
        server.sendto(f"{name} {peer[0]}".encode(), peer)

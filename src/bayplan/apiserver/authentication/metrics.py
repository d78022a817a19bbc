"""What authentication measures, under kube-apiserver's names. Source: `k8s.io/apiserver/pkg/endpoints/filters/metrics.go`."""

from __future__ import annotations

from typing import Final

from bayplan.apiserver.requests import User
from bayplan.support.metrics.instruments import Counter, Registry, exponential_buckets

_SHOWN: Final = frozenset(("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"))
"""Users that are counted by their names."""
_HOUR: Final = 3600.0
_LIFETIMES: Final = (
    0.0,
    *(_HOUR * hours for hours in (0.5, 1, 2, 6, 12)),
    *(_HOUR * 24 * days for days in (1, 2, 4, 7, 30, 90, 180, 360)),
)
_MOST_NAMES: Final = 10_000


class AuthenticationMetrics:
    """The series of one API server."""

    def __init__(self, registry: Registry) -> None:
        self._users = registry.counter(
            "authenticated_user_requests",
            "Counter of authenticated requests broken out by username.",
            ("username",),
        )
        attempts = registry.counter("authentication_attempts", "Counter of authenticated attempts.", ("result",))
        seconds = registry.histogram(
            "authentication_duration_seconds",
            "Authentication duration in seconds broken out by result.",
            ("result",),
            exponential_buckets(0.001, 2, 15),
        )
        text = "Distribution of the remaining lifetime on the certificate used to authenticate a request. Here: once for each connection."
        self._lifetimes = registry.histogram("apiserver_client_certificate_expiration_seconds", text, (), _LIFETIMES)
        self._attempts = {is_known: attempts.labels(_RESULTS[is_known]) for is_known in (True, False)}
        self._seconds = {is_known: seconds.labels(_RESULTS[is_known]) for is_known in (True, False)}
        self._success, self._quick = self._attempts[True], self._seconds[True].counts
        self._of_user: dict[str, Counter] = {}

    def certified(self, seconds: float) -> None:
        """A connection has a certificate that is valid for so long."""
        self._lifetimes.labels().observe(seconds)

    def record(self, user: User | None, seconds: float) -> None:
        """Count a request whose user, if any, was found within `seconds`."""
        is_known = user is not None
        self._attempts[is_known].value += 1
        self._seconds[is_known].observe(seconds)
        if user is not None:
            counter = self._of_user.get(user.name) or self._counter(user.name)
            counter.value += 1

    def record_at_once(self, user: User | None) -> None:
        """The same for what is known without waiting, which takes less than the smallest bucket holds: reading the clock twice would take as long."""
        if user is None:
            self._attempts[False].value += 1
            self._seconds[False].counts[0] += 1
            return
        self._success.value += 1
        self._quick[0] += 1
        counter = self._of_user.get(user.name) or self._counter(user.name)
        counter.value += 1

    def _counter(self, name: str) -> Counter:
        if len(self._of_user) >= _MOST_NAMES:
            self._of_user.clear()
        counter = self._of_user[name] = self._users.labels(_compressed(name))
        return counter


_RESULTS: Final = {True: "success", False: "failure"}


def _compressed(name: str) -> str:
    """The name by which a user is counted: there may be any number of them."""
    if name in _SHOWN:
        return name
    return "email_id" if "@" in name else "other"

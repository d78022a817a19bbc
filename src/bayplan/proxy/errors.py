"""Why the proxy cannot start, and why rules are not in the kernel."""

from __future__ import annotations


class ProxyError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(ProxyError):
    """A field or flag has a value that makes no sense; the message names it and what it takes."""


class RequirementError(ProxyError):
    """Something of the machine is missing; the message says what to install or to grant."""


class ListenError(ProxyError):
    """An address cannot be listened on; the message says what to change."""


class RulesError(ProxyError):
    """The kernel or `nft` has refused a transaction. Nothing of it was applied."""


class NetlinkError(ProxyError):
    """The kernel has refused a netlink request."""


class NodeError(ProxyError):
    """The node lacks something that the configuration needs."""

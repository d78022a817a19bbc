"""Why the DNS server cannot start, and why a question has no answer."""

from __future__ import annotations


class DnsError(Exception):
    """Base of all errors of this package."""


class SettingsError(DnsError):
    """An option has a value that makes no sense; the message names the option and what it takes."""


class ListenError(DnsError):
    """An address cannot be listened on; the message says what to change."""


class UnresolvedError(DnsError):
    """No upstream server gave an answer. The client gets SERVFAIL."""

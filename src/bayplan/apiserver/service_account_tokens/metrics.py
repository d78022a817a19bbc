"""Which sorts of service account tokens are shown, under kube-apiserver's names. Source: Kubernetes' `pkg/serviceaccount/metrics.go`."""

from __future__ import annotations

from bayplan.support.metrics.instruments import Counter, Registry

_PREFIX = "serviceaccount_"


class TokenUses:
    """The counters of one API server."""

    def __init__(self, registry: Registry) -> None:
        def counter(name: str, text: str) -> Counter:
            return registry.counter(f"{_PREFIX}{name}_total", text).labels()

        self.valid = counter("valid_tokens", "Cumulative valid projected service account tokens used")
        """Tokens that pods are to renew, before the time at which they should have."""
        self.stale = counter("stale_tokens", "Cumulative stale projected service account tokens used")
        """The same after that time: their pods do not read the file again."""
        self.legacy = counter("legacy_tokens", "Cumulative legacy service account tokens used")
        self.manual = counter("legacy_manual_token_uses", "Cumulative manually created legacy tokens used")
        self.automatic = counter("legacy_auto_token_uses", "Cumulative auto-generated legacy tokens used")
        self.invalidated = counter(
            "invalid_legacy_auto_token_uses", "Cumulative invalid auto-generated legacy tokens used"
        )

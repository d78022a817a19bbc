"""API Priority and Fairness: which requests may be worked on at once, and which waits for which.

    request -> matching: the first flow schema -> its priority level -> estimation: seats -> queue_set: executes, waits or is rejected

Deciding is pure: time is passed in (seconds of a monotonic clock), waiting belongs to `gate`, the only module here that knows asyncio. Rules for the objects that
configure it (defaults, validation) are in `api/strategies`, the objects that every cluster has in `bootstrap`.

Source: Kubernetes' `apiserver/pkg/util/flowcontrol` and KEP-1040.
"""

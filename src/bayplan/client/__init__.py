"""The only way to the API: one typed async client over one of two transports.

`Client` speaks in objects of `bayplan.api.types`; a transport carries bytes: `http.HttpTransport` to any Kubernetes API server, `in_process.InProcessTransport`
to an API server in the same process, without sockets. Caches and retries do not belong here (see `bayplan.informers`).
"""

from bayplan.client.client import Client, ListResult, WatchEvent, WatchStream

__all__ = ["Client", "ListResult", "WatchEvent", "WatchStream"]

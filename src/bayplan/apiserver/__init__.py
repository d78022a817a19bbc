"""The API server: HTTP and list-watch over a store.

`server.ApiServer` owns a store, one cache per stored kind and the verbs; `http` and the client's in-process transport both hand it `requests.Request` and get a
`requests.Response`, so nothing behind them knows how a request came in. Kinds are data (`bayplan.api.kinds`) and rules (`bayplan.api.strategies`); nothing
here is special to one kind except subresources, admission plugins and allocators. Controllers, scheduling and nodes must never come here.
"""

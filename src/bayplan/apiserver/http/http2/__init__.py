"""Connections of clients that speak HTTP/2: streams become the requests that HTTP/1.1 brings, and go the same way (`HttpServer`).

    connection   frames in and out (by the library h2), streams, the end
    sending      frames of responses, as windows and the client let them through
    state        what the library keeps of a connection, set up for this server; frames: what is looked at before the library has it
    request_runner  answers the requests of a connection, on the fast or the slow path
    stream       one request and its response: what the server sees of the connection
    output       the bytes of a response that wait for windows, with the methods of a transport; and the writer that aiohttp's responses use
    fields       pure: header fields as a request, or why they are none; simple responses as header fields
    encoding     pure: header fields as bytes
    flood_limit  pure: how many frames without effect a client may send
    negotiation  which protocol a new connection speaks

Nothing here decides about a request: there is one pipeline for both protocols. Source: RFC 9113, RFC 7541; behaviour of `golang.org/x/net/http2`.
"""

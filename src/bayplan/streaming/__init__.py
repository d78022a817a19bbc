"""Streams of commands and ports between kubectl and what runs in pods: SPDY and WebSockets, the server's side, and of commands the client's.

HTTP request ─▶ Upgraded (bytes both ways) ─▶ SpdyConnection ─┐
                                                               ├─▶ serve_command, serve_port_forward ─▶ what the caller runs
            └─▶ WebSocket, channels by number ─────────────────┘
"""

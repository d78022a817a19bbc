"""The HTTP(S) transport: listeners, connections, requests and answers as bytes, relays. Nothing here decides about objects."""

"""OpenAPI v2 and v3: the documents of all kinds, as JSON and protobuf, worked out of the table of kinds and of the definitions of custom resources."""

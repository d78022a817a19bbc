"""gRPC without generated code: messages made at run time, calls, streams, servers, and the errors of all of these."""

"""A store that another process of this machine owns, over a unix socket: `server` beside the store itself, `client` in each process that uses it.

    client                                  server
    write (number, key, value, guard)   ->  submits it; all clients' writes share the group commit of the store
                                        <-  events: every commit, encoded once for all clients; the number says whose write it was
                                        <-  failure of a write
    range, past, compact                ->
                                        <-  answer

One stream carries all of it in order, so that an answer is never ahead of the events before it. Each client has all events; what it shows is current when it has
come to the revision in `revision_file`, which the server sets before anybody learns of a commit: asking that costs no message.
"""

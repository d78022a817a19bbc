"""The web page of a cluster: a server on this machine for one page, which shows nodes, pods, workloads and events live.

`cluster_source` follows the cluster with informers (or takes a copy), `feed` turns changes into encoded differences that all open pages share, `server` serves
them beside the static files of the page, behind `access`. Nothing here decides about a cluster: explanations, fixes and what-if come from the command line program.
What must not come here: a write to a cluster without `allow_changes`, or anything that makes a page load from elsewhere.
"""

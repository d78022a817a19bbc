"""Groups of nodes that come and go with demand: what everybody who deals with them has to agree on."""

from __future__ import annotations

GROUP_LABEL = "bayplan.dev/node-group"
"""Label that names the group of a node."""

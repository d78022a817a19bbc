"""Informers: list once, then follow, and keep what is known in an indexed cache.

Every component reads from informers and writes through the client. Objects in the cache are shared by all of them: nobody changes them. Deciding what
to do about a change does not belong here (see `bayplan.workqueue` and the components).
"""

from bayplan.informers.cache import ObjectCache
from bayplan.informers.informer import Handler, Informer, InformerFactory

__all__ = ["Handler", "Informer", "InformerFactory", "ObjectCache"]

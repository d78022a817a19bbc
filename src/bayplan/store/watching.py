"""Who gets which event."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from bayplan.store.interface import Deliver, Event, Lost
from bayplan.support.memory.memo import Memo

_BYTES_PER_SUBSCRIPTION = 8


class Subscription:
    """One watch of a `WatchHub`."""

    __slots__ = ("_hub", "_lost", "active", "backlog", "deliver", "prefix", "start_revision")

    def __init__(
        self, hub: WatchHub, prefix: str, start_revision: int, deliver: Deliver, lost: Lost | None = None
    ) -> None:
        self._hub = hub
        self.prefix = prefix
        self.start_revision = start_revision
        self.deliver = deliver
        self._lost = lost
        self.active = True
        self.backlog: list[Event] | None = None
        """Events that wait until the past has been delivered; None once it has."""

    def cancel(self) -> None:
        """Stop: no event is delivered after this returns. Calling it again does nothing."""
        if self.active:
            self.active = False
            self._hub.remove(self)

    def lose(self, compacted_revision: int) -> None:
        """End it, since what comes next was compacted, and tell its owner."""
        if self.active:
            self.cancel()
            if self._lost is not None:
                self._lost(compacted_revision)

    def offer(self, events: Sequence[Event]) -> None:
        """Deliver new events that match the prefix, or keep them while the past is still being read."""
        if not self.active:
            return
        if self.backlog is not None:
            self.backlog.extend(events)
            return
        self.replay(events)

    def go_live(self) -> None:
        """The past has been delivered: deliver what came in meanwhile, and from now on everything at once."""
        backlog, self.backlog = self.backlog, None
        if backlog:
            self.offer(backlog)

    def replay(self, events: Sequence[Event]) -> None:
        """Deliver events that match the prefix and are in turn."""
        if not self.active or not events:
            return
        if events[0].revision < self.start_revision:
            events = [event for event in events if event.revision >= self.start_revision]
            if not events:
                return
        try:
            self.deliver(events)
        except Exception as error:
            # A broken watcher must not fail the writer or starve the other watchers; the loop's handler reports it.
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"watch of {self.prefix!r} raised in deliver", "exception": error}
            )


class WatchHub:
    """Routes events to subscriptions by key prefix.

    Keys are looked at by folder (up to the last "/"). For each folder the hub remembers the subscriptions whose prefix
    covers it whole, so that most events cost one dictionary lookup however many watches there are:

        prefixes "/pods/", "/pods/a/", "/pods/a/x"    folder "/pods/a/" -> whole: first two, within: the third
    """

    def __init__(self) -> None:
        self._subscriptions: dict[Subscription, None] = {}
        self._folders: Memo[str, tuple[tuple[Subscription, ...], tuple[Subscription, ...]]] = Memo(
            "watched_folders", most_bytes=16 << 20
        )

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._subscriptions)

    def add(self, subscription: Subscription) -> None:
        """From now on offer events to it."""
        self._subscriptions[subscription] = None
        self._folders.clear()

    def remove(self, subscription: Subscription) -> None:
        """Offer it nothing any more; does nothing for an unknown one."""
        if self._subscriptions.pop(subscription, 0) is None:
            self._folders.clear()

    def clear(self) -> None:
        """Cancel all."""
        for subscription in list(self._subscriptions):
            subscription.cancel()

    def _of_folder(self, folder: str) -> tuple[tuple[Subscription, ...], tuple[Subscription, ...]]:
        whole = tuple(one for one in self._subscriptions if folder.startswith(one.prefix))
        within = tuple(
            one for one in self._subscriptions if len(one.prefix) > len(folder) and one.prefix.startswith(folder)
        )
        self._folders.put(folder, (whole, within), len(folder) + _BYTES_PER_SUBSCRIPTION * (len(whole) + len(within)))
        return whole, within

    def publish_one(self, event: Event) -> None:
        """Offer one event."""
        if not self._subscriptions:
            return
        key = event.key
        folder = key[: key.rfind("/") + 1]
        found = self._folders.get(folder)
        whole, within = found if found is not None else self._of_folder(folder)
        for subscription in whole:
            subscription.offer((event,))
        for subscription in within:
            if key.startswith(subscription.prefix):
                subscription.offer((event,))

    def publish(self, events: Sequence[Event]) -> None:
        """Offer consecutive events: each subscription gets its share in one call."""
        if not self._subscriptions:
            return
        shares: dict[Subscription, list[Event]] = {}
        folders = self._folders
        for event in events:
            key = event.key
            folder = key[: key.rfind("/") + 1]
            found = folders.get(folder)
            whole, within = found if found is not None else self._of_folder(folder)
            for subscription in whole:
                share = shares.get(subscription)
                if share is None:
                    shares[subscription] = [event]
                else:
                    share.append(event)
            for subscription in within:
                if key.startswith(subscription.prefix):
                    shares.setdefault(subscription, []).append(event)
        for subscription, share in shares.items():
            subscription.offer(share)

"""Work ahead: an iterator runs in a thread of its own while its consumer does something else."""

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_LOOK_EVERY = 0.1  # seconds until a thread that waits looks whether it is still wanted


class _End:
    """Ends the queue; holds what the iterable raised, if anything."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class _Maker(threading.Thread, Generic[T]):
    """Takes items from an iterable and queues them, until it is stopped."""

    def __init__(self, items: Iterable[T], depth: int) -> None:
        super().__init__(name="gagar-ahead", daemon=True)
        self.made: queue.Queue[T | _End] = queue.Queue(depth)
        self._items = items
        self._stopped = threading.Event()

    def run(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    return
                del item  # not held while the next is made
        except BaseException as error:  # noqa: BLE001  raised in the consumer's thread
            self._put(_End(error))
        else:
            self._put(_End())

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def _put(self, item: T | _End) -> bool:
        while not self._stopped.is_set():
            try:
                self.made.put(item, timeout=_LOOK_EVERY)
            except queue.Full:
                continue
            return True
        return False


def ahead(items: Iterable[T], depth: int = 1) -> Iterator[T]:
    """Yield the items in order, with up to `depth` of them, and one in the making, ahead of use.

    What the iterable raises is raised here, after the items before it. A consumer that stops early
    stops the thread too; the iterable is then left where it is.
    """
    maker = _Maker(items, depth)
    maker.start()
    try:
        while not isinstance(item := maker.made.get(), _End):
            yield item
            del item
        if item.error is not None:
            raise item.error
    finally:
        maker.stop()

"""Tells people by Apprise what needs them (design section 10); off unless CCWEB_NOTIFY_URLS is set."""

import asyncio
import logging
import time
from collections import deque

from temporalio import activity

from domain import notices
from domain.events import Notice
from settings import Settings

MOST, WITHIN = 10, 600.0
"""So many notices of this process within so many seconds; what is more is only counted."""
_DEADLINE = 20.0
_REMEMBERED = 200
_LOG = logging.getLogger("ccweb.notify")


class NotifyActivities:
    """The limits hold for this worker process and begin anew with it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sent: deque[float] = deque(maxlen=MOST)
        self._known: deque[tuple[str, str]] = deque(maxlen=_REMEMBERED)
        self._left_out = 0

    @activity.defn
    async def notify(self, notice: Notice) -> None:
        """Sends one notice; never raises. Repeated for the same task and kind it does nothing."""
        urls = self._settings.notify_urls.get_secret_value().split()
        key = (notice.kind, notice.task_id)
        if not urls or (notice.task_id and key in self._known):
            return
        self._known.append(key)
        if not self._may_send():
            self._left_out += 1
            _LOG.warning("too many notices: one was left out", extra={"taskId": notice.task_id})
            return
        title, body = notices.words(notice, self._settings.language, self._settings.public_url, self._left_out)
        self._left_out = 0
        if not await _send(urls, title, body):
            _LOG.warning("a notice could not be sent", extra={"taskId": notice.task_id, "notice": notice.kind})

    def _may_send(self) -> bool:
        now = time.monotonic()
        if len(self._sent) == MOST and now - self._sent[0] < WITHIN:
            return False
        self._sent.append(now)
        return True


async def _send(urls: list[str], title: str, body: str) -> bool:
    """Whether every URL took it. Nothing of an error is passed on: it may quote the URL, which holds secrets."""
    import apprise  # noqa: PLC0415 - half a second that only those pay who use it

    logging.getLogger("apprise").disabled = True
    sender = apprise.Apprise()
    understood = [bool(sender.add(url)) for url in urls]
    try:
        async with asyncio.timeout(_DEADLINE):
            sent = await sender.async_notify(body=body, title=title)
    except Exception as error:  # noqa: BLE001 - a notifier's fault is not the task's
        _LOG.warning("a notifier broke: %s", type(error).__name__)
        return False
    return bool(sent) and all(understood)

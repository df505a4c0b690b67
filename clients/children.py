"""Child processes that must not outlive us. Standard library only."""

import ctypes
import signal
import sys
from collections.abc import Callable

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


DIE_WITH_PARENT: Callable[[], None] | None = _die_with_parent if sys.platform.startswith("linux") else None
"""For `preexec_fn`. It follows the thread that starts the child: one that lives as long as its process."""

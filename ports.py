"""Listening sockets: who binds a port is known before anything is started on it."""

import errno
import socket

from domain.errors import ErrorCode, SettingsError

LOOPBACK = "127.0.0.1"
_BACKLOG = 2048


def listen(host: str, port: int, *, port_hint: str = "", host_hint: str = "") -> socket.socket:
    """A listening TCP socket; port 0 means any free one. The hints name what a person can change.

    Raises:
        SettingsError: the port is taken, not allowed, or the host is no address of this machine.
    """
    try:
        return _bound(host, port)
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                detail = f"port {port} is taken{port_hint}"
            case errno.EACCES:
                detail = f"port {port} may only be opened by root{port_hint}"
            case _:
                detail = f"cannot listen on {host}:{port}: {error.strerror or error}{host_hint}"
        raise SettingsError(ErrorCode.SETTINGS_INVALID, detail) from None


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
    )[0]
    # With the protocol named, asyncio switches Nagle's algorithm off; without, an answer waits 40 ms.
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def is_free(port: int) -> bool:
    """Whether nobody listens on this port of the loopback at this moment."""
    try:
        _bound(LOOPBACK, port).close()
    except OSError:
        return False
    return True


def free_port(preferred: int = 0) -> int:
    """`preferred` when nobody listens there, else any free port of the loopback.

    Somebody else may take it before it is used: what is started on it has to say that it got it.
    """
    with _bound(LOOPBACK, preferred if preferred and is_free(preferred) else 0) as probe:
        return int(probe.getsockname()[1])

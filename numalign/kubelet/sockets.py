"""Unix sockets by a descriptor: so a path can have any length and any characters, which an address of 108 bytes cannot,
and what is looked at is what is connected to.
"""

from __future__ import annotations

import os
import stat

__all__ = ["NoSocket", "address_of", "knock", "open_socket"]


class NoSocket(Exception):
    """Something else than a socket has its name."""


def open_socket(path: str) -> int:
    """A descriptor of the socket, which does not connect to it. Raises OSError, ValueError or NoSocket."""
    file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if stat.S_ISSOCK(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise NoSocket


def address_of(file: int) -> str:
    """The address by which this process reaches the socket of a descriptor."""
    return f"/proc/self/fd/{file}"


def knock(address: str, timeout: float) -> None:
    """Connects once and hangs up. Raises OSError: ConnectionRefusedError where nobody listens."""
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
        visitor.settimeout(timeout)
        visitor.connect(address)

"""Waiting for a host to change: devices by udev's events, the kubelet's files and sockets by inotify.

Both only wake a sleeper early; where neither is to be had, or something else changes, it wakes when its time is up.
"""

from __future__ import annotations

import contextlib
import os
import select
from typing import Any

from numalign.probe.host import Host
from numalign.probe.kubelet import DEVICE_PLUGINS, PLUGINS

__all__ = ["Watch"]

_KUBELET = "var/lib/kubelet"
_FOLDERS = (
    _KUBELET,
    *(f"{_KUBELET}/{name}" for name in (DEVICE_PLUGINS, PLUGINS, "pod-resources")),
    "etc/kubernetes",
    "etc/kubernetes/kubelet.conf.d",
    "dev",
)
_SUBSYSTEMS = ("pci", "drivers", "module", "net", "infiniband")
# inotify(7): a file written, moved here, created or deleted
_EVENTS = 0x008 | 0x080 | 0x100 | 0x200
_INIT = os.O_NONBLOCK | os.O_CLOEXEC
_BUFFER = 1 << 16


class Watch:
    """Wakes a sleeper when something changes on a host; `close` it in the end."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._monitor = _monitor() if host.live and not host.root else None
        self._libc, self._inotify = _inotify()

    def wait(self, seconds: float) -> bool:
        """Sleeps until something changes, `seconds` at most; says whether something did. What changes between two
        calls counts for the second, but not what changed before the first."""
        self._add_folders()
        poll = select.poll()
        for fd in (self._inotify, self._monitor.fileno() if self._monitor else None):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        return bool(poll.poll(max(seconds, 0.0) * 1000))

    def settle(self) -> None:
        """Forgets what happened so far."""
        with contextlib.suppress(BlockingIOError):
            while self._inotify is not None and os.read(self._inotify, _BUFFER):
                pass
        while self._monitor is not None and self._monitor.poll(timeout=0) is not None:
            pass

    def close(self) -> None:
        """Ends the watch."""
        if self._inotify is not None:
            os.close(self._inotify)
            self._inotify = None
        self._monitor = None

    def _add_folders(self) -> None:
        """Watches every folder that is there now; the kernel knows those that it watches already."""
        if self._inotify is None:
            return
        for folder in _FOLDERS:
            real = Host(self.host.root).real(folder)
            if real is not None:
                self._libc.inotify_add_watch(self._inotify, os.fsencode(f"{self.host.root}/{real}"), _EVENTS)


def _monitor() -> Any:
    """udev's monitor of the devices that matter here; None where it cannot be had."""
    try:
        import pyudev  # type: ignore[import-untyped]

        monitor = pyudev.Monitor.from_netlink(pyudev.Context())
        for subsystem in _SUBSYSTEMS:
            monitor.filter_by(subsystem)
        monitor.start()
    except (ImportError, OSError):  # pyudev raises ImportError where libudev is missing
        return None
    return monitor


def _inotify() -> tuple[Any, int | None]:
    """The C library, and a descriptor of inotify; None where the kernel gives none."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(_INIT)
    return libc, fd if fd >= 0 else None

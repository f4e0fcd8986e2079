"""Asking a kubelet that runs: its pod-resources API, the sockets of its device plugins, the cgroups of its pods."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from numalign.cli.answers import CALLS, SOCKET, Answers
from numalign.words import printable

if TYPE_CHECKING:
    from numalign.checks.resources import Resources
    from numalign.cli.node import Kubelet
    from numalign.kubelet.podresources import Method
    from numalign.probe.host import Host
    from numalign.probe.kubelet import State

__all__ = ["read_resources"]

_KUBELETS_OWN = ("kubelet.sock", "kubelet_internal_checkpoint")
"""What lies among the sockets of device plugins and is none of them."""
_MAX_SOCKETS = 64
_KNOCK = 1.0
"""Seconds that connecting to one socket may take."""


def read_resources(kubelet: Kubelet, state: State, *, pods: bool = False) -> Resources:
    """What the node's kubelet says of its devices, and of its `pods`, if somebody asks about them.

    Nobody is asked where no kubelet runs, unless it is about pods, nor where there is no plugin.
    """
    from numalign.checks.resources import NOT_ASKED, Resources
    from numalign.probe.pods import read_pod_uids

    host, running = kubelet.host, kubelet.process is not None
    if not running and not pods:
        return NOT_ASKED
    plugins = [name for name in state.device_plugins if name not in _KUBELETS_OWN]
    calls = [method for method in CALLS if pods or (method != "List" and (plugins or state.plugins))]
    answers = _answers(kubelet, calls)
    return Resources(
        running=running,
        about_pods=pods,
        socket=answers.place,
        allocatable=answers.allocatable(),
        pods=answers.pods(),
        silence=answers.silence,
        pod_uids=read_pod_uids(host) if pods and host is not None else None,
        dead_sockets=_dead(host, plugins) if running and host is not None and host.live else None,
    )


def _answers(kubelet: Kubelet, calls: list[Method]) -> Answers:
    """What the API of the node's kubelet says, or said when a snapshot was made."""
    host = kubelet.host
    if host is None:
        answers = Answers("machine")
        answers.give_up(calls, "a Machine document has no kubelet")
        return answers
    if host.packed:
        return Answers.recorded(host, calls)
    place = f"/{_socket(host, kubelet.folder)}"
    if host.live:
        return Answers.asked(f"{host.root}{place}", calls, place=place, recorder=host)
    return Answers.recorded(host, calls, place=place)


def _socket(host: Host, folder: str) -> str:
    """The socket's place below the root, with links followed inside it."""
    path = f"{folder.strip('/')}/{SOCKET}"
    return host.real(path) or path


def _dead(host: Host, names: list[str]) -> tuple[str, ...]:
    """The sockets of device plugins on which nobody listens."""
    from numalign.kubelet.running import DEFAULT_FOLDER
    from numalign.probe.kubelet import DEVICE_PLUGINS

    place = host.real(f"{DEFAULT_FOLDER.strip('/')}/{DEVICE_PLUGINS}")
    return tuple(printable(name) for name in names[:_MAX_SOCKETS] if _is_dead(f"{host.root}/{place}/{name}"))


def _is_dead(path: str) -> bool:
    """Whether this is a socket, and nobody listens; False where that cannot be told."""
    from numalign.kubelet.sockets import NoSocket, address_of, knock, open_socket

    try:
        file = open_socket(path)
        try:
            knock(address_of(file), _KNOCK)
        finally:
            os.close(file)
    except ConnectionRefusedError:
        return True
    except (OSError, NoSocket):
        return False
    return False

"""Asking a kubelet that runs: its pod-resources API, the sockets of its device plugins, the cgroups of its pods."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from numalign.words import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numalign.checks.resources import Resources, Silence
    from numalign.cli.node import Kubelet
    from numalign.kubelet.podresources import Allocatable, Method, PodResources, Pods
    from numalign.probe.host import Host
    from numalign.probe.kubelet import State

__all__ = ["read_resources"]

_Answer = TypeVar("_Answer")

_RECORDS: dict[Method, str] = {
    # where a snapshot keeps the answer to a call
    "GetAllocatableResources": "numalign/pod-resources-allocatable",
    "List": "numalign/pod-resources-list",
}
_SOCKET = "pod-resources/kubelet.sock"
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
    calls = [method for method in _RECORDS if pods or (method != "List" and (plugins or state.plugins))]
    answers = _Answers(kubelet, calls)
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


class _Answers:
    """The answers to the calls, asked or recorded: `place` is where they are from, `silence` why one is missing."""

    def __init__(self, kubelet: Kubelet, calls: list[Method]) -> None:
        self.silence: dict[Method, Silence] = {}
        self._raw: dict[Method, bytes] = {}
        host = kubelet.host
        if host is None:
            self.place = "machine"
            self._give_up(calls, "a Machine document has no kubelet")
            return
        self.place = f"{host.root}:/{_RECORDS['List']}" if host.packed else f"/{_socket(host, kubelet.folder)}"
        if host.live:
            self._ask(host, f"{host.root}{self.place}", calls)
        else:
            self._recall(host, calls)

    def pods(self) -> Pods | None:
        """What the pods hold; None where that is not known."""
        from numalign.kubelet.podresources import read_pods

        return self._read("List", read_pods)

    def allocatable(self) -> Allocatable | None:
        """What there is to give; None where that is not known."""
        from numalign.kubelet.podresources import read_allocatable

        return self._read("GetAllocatableResources", read_allocatable)

    def _ask(self, host: Host, path: str, calls: list[Method]) -> None:
        from numalign.kubelet.podresources import PodResources, PodResourcesError

        if not calls:
            return
        try:
            with PodResources(path) as api:
                for method in calls:
                    self._ask_one(host, api, method)
        except PodResourcesError as error:
            self._give_up([method for method in calls if method not in self._raw], error.reason, error.remedy)

    def _ask_one(self, host: Host, api: PodResources, method: Method) -> None:
        """One call. Raises PodResourcesError where there is no sense in another."""
        from numalign.kubelet.podresources import PodResourcesError

        try:
            self._raw[method] = api.raw(method)
        except PodResourcesError as error:
            if error.kind not in ("off", "too-old"):
                raise
            self._give_up([method], error.reason, error.remedy)
        else:
            host.remember(_RECORDS[method], self._raw[method])

    def _recall(self, host: Host, calls: list[Method]) -> None:
        from numalign.kubelet.podresources import MAX_MESSAGE

        for method in calls:
            try:
                data = host.read(_RECORDS[method], MAX_MESSAGE)
            except OSError:
                data = None
            if data is None:
                what = "the snapshot holds" if host.packed else "this is not the running host, and it holds"
                self._give_up([method], f"{what} no answer of the pod-resources API")
            else:
                self._raw[method] = data

    def _give_up(self, methods: Iterable[Method], reason: str, remedy: str | None = None) -> None:
        from numalign.checks.resources import Silence

        for method in methods:
            self.silence.setdefault(method, Silence(reason, remedy))

    def _read(self, method: Method, read: Callable[[bytes], _Answer]) -> _Answer | None:
        from numalign.kubelet.wire import Malformed

        if method not in self._raw:
            return None
        try:
            return read(self._raw[method])
        except Malformed as error:
            self._give_up([method], f"{self.place}: the answer to {method} cannot be read: {error}")
            return None


def _socket(host: Host, folder: str) -> str:
    """The socket's place below the root, with links followed inside it."""
    path = f"{folder.strip('/')}/{_SOCKET}"
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

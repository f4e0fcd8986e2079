"""The answers of the kubelet's pod-resources API: asked over its socket, or as a snapshot has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numalign.checks.resources import Silence
    from numalign.kubelet.podresources import Allocatable, Method, PodResources, Pods
    from numalign.probe.host import Host

__all__ = ["CALLS", "SOCKET", "Answers"]

_Answer = TypeVar("_Answer")

_RECORDS: dict[Method, str] = {
    # where a snapshot keeps the answer to a call
    "GetAllocatableResources": "numalign/pod-resources-allocatable",
    "List": "numalign/pod-resources-list",
}
CALLS: tuple[Method, ...] = tuple(_RECORDS)
SOCKET = "pod-resources/kubelet.sock"
"""The socket's place in the kubelet's directory."""


class Answers:
    """The answers to calls: `place` is where they are from, `silence` why one is missing."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.silence: dict[Method, Silence] = {}
        self._raw: dict[Method, bytes] = {}

    @classmethod
    def asked(cls, path: str, calls: Sequence[Method], *, place: str = "", recorder: Host | None = None) -> Answers:
        """Those of who listens on a socket; a `recorder` keeps them."""
        from numalign.kubelet.podresources import PodResources, PodResourcesError

        found = cls(place or path)
        if not calls:
            return found
        try:
            with PodResources(path) as api:
                for method in calls:
                    found._ask(api, method, recorder)
        except PodResourcesError as error:
            found.give_up([method for method in calls if method not in found._raw], error.reason, error.remedy)
        return found

    @classmethod
    def recorded(cls, host: Host, calls: Sequence[Method], *, place: str = "") -> Answers:
        """Those that a snapshot has."""
        from numalign.kubelet.podresources import MAX_MESSAGE

        found = cls(place or f"{host.root}:/{_RECORDS['List']}")
        for method in calls:
            try:
                data = host.read(_RECORDS[method], MAX_MESSAGE)
            except OSError:
                data = None
            if data is None:
                what = "the snapshot holds" if host.packed else "this is not the running host, and it holds"
                found.give_up([method], f"{what} no answer of the pod-resources API")
            else:
                found._raw[method] = data
        return found

    def pods(self) -> Pods | None:
        """What the pods hold; None where that is not known."""
        from numalign.kubelet.podresources import read_pods

        return self._read("List", read_pods)

    def allocatable(self) -> Allocatable | None:
        """What there is to give; None where that is not known."""
        from numalign.kubelet.podresources import read_allocatable

        return self._read("GetAllocatableResources", read_allocatable)

    def give_up(self, methods: Iterable[Method], reason: str, remedy: str | None = None) -> None:
        """Says why calls have no answer; what was said first holds."""
        from numalign.checks.resources import Silence

        for method in methods:
            self.silence.setdefault(method, Silence(reason, remedy))

    def _ask(self, api: PodResources, method: Method, recorder: Host | None) -> None:
        """One call. Raises PodResourcesError where there is no sense in another."""
        from numalign.kubelet.podresources import PodResourcesError

        try:
            self._raw[method] = api.raw(method)
        except PodResourcesError as error:
            if error.kind not in ("off", "too-old"):
                raise
            self.give_up([method], error.reason, error.remedy)
        else:
            if recorder is not None:
                recorder.remember(_RECORDS[method], self._raw[method])

    def _read(self, method: Method, read: Callable[[bytes], _Answer]) -> _Answer | None:
        from numalign.kubelet.wire import Malformed

        if method not in self._raw:
            return None
        try:
            return read(self._raw[method])
        except Malformed as error:
            self.give_up([method], f"{self.place}: the answer to {method} cannot be read: {error}")
            return None

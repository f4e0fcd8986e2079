"""What runs on the node already: the kubelet's state files, and the pods' names from its pod-resources API."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numalign.errors import CannotRead

if TYPE_CHECKING:
    from numalign.admission.node import Node
    from numalign.admission.occupancy import Files
    from numalign.admission.prediction import Occupancy
    from numalign.kubelet.podresources import Allocatable, Pods
    from numalign.kubelet.settings import Settings
    from numalign.kubelet.view import KubeletView
    from numalign.probe.kubelet import State

__all__ = ["Running", "read_running"]

_SOCKET = "pod-resources/kubelet.sock"


class Running(NamedTuple):
    """The state in the files of a directory, and what the API says of pods and devices (None: it was not asked, or gave
    no answer)."""

    folder: str
    files: Files
    pods: Pods | None
    allocatable: Allocatable | None
    notes: tuple[str, ...]

    def occupy(self, node: Node, overruled: tuple[str, ...]) -> Occupancy:
        """Puts the pods on an empty node; registered devices have `overruled` what was given.

        Raises CannotRead where the files contradict each other."""
        from numalign.admission.occupancy import occupy
        from numalign.admission.prediction import Occupancy

        notes = [f"--device {name} does not count: its plugin has registered its devices" for name in overruled]
        notes += occupy(node, self.files, self.pods.pods if self.pods else None)
        return Occupancy(self.folder, tuple(node.state.pods), (*self.notes, *notes))


def read_running(settings: Settings, view: KubeletView, state: State, *, packed: bool) -> Running:
    """What runs; a snapshot (`packed`) has no API to ask. Raises CannotRead, and DoesNotHold where the kubelet does not
    start on its files."""
    from numalign.admission.occupancy import read_files
    from numalign.probe.kubelet import STATE_FILES

    if not state.folder:
        raise CannotRead("no directory of a kubelet, which has what runs", hint="--state-dir names one")
    for name in ("", *STATE_FILES):
        if name in state.problems:
            raise CannotRead(f"{state.place(name)}: {state.problems[name]}".replace("/:", ":"), hint="run it as root")
    if not state.files:
        raise CannotRead(
            f"{state.folder}: no state file of a kubelet: {', '.join(STATE_FILES)}",
            hint="without --running the node is taken for empty",
        )
    files = read_files(settings, view, state.files, state.folder)
    return Running(state.folder, files, *((None, None, ()) if packed else _ask(f"{state.folder}/{_SOCKET}")))


def _ask(socket: str) -> tuple[Pods | None, Allocatable | None, tuple[str, ...]]:
    """What the API answers, and why it does not."""
    from numalign.kubelet.podresources import PodResources, PodResourcesError

    pods = allocatable = None
    try:
        with PodResources(socket) as api:
            pods = api.list()
            allocatable = api.allocatable()
    except PodResourcesError as error:
        if pods is None:
            return None, None, (f"pods are named by their UIDs, since the pod-resources API does not answer: {error}",)
    return pods, allocatable, ()

"""numalign predict."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numalign.cli import progress
from numalign.cli.files import emit_document, read_file
from numalign.cli.node import Kubelet, effective_document, read_configuration, read_state, refuse_unstartable, version
from numalign.cli.source import load
from numalign.errors import WrongUsage
from numalign.words import count as count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numalign.admission.manifest import Submitted
    from numalign.admission.node import Node
    from numalign.admission.offers import Offer
    from numalign.admission.prediction import Occupancy, Prediction
    from numalign.cli.running import Running
    from numalign.kubelet.view import KubeletView
    from numalign.machine import Machine
    from numalign.report.picture.pages import Section

__all__ = ["MAX_PODS_FILE", "Ready", "device_specs", "offered", "predict", "prepare"]

MAX_PODS_FILE = 8 << 20
_MAX_DEVICES_FILE = 1 << 20


def predict(
    *,
    file: str,
    config: str | None = None,
    config_dir: str | None = None,
    kubelet_flags: str | None = None,
    state_dir: str | None = None,
    kubernetes_version: str | None = None,
    running: bool = False,
    device: tuple[str, ...] = (),
    devices: str | None = None,
    mig_strategy: str | None = None,
    count: bool = False,
    output: str = "text",
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
) -> int:
    """Say what the kubelet would do with pods: which CPUs, devices and memory they get, or why it refuses them.

    Pods are taken in the order of the file, each beside those before it. Of a Deployment and the like one pod is looked
    at. The node is empty, unless --running says otherwise. The exit status is 0 where all are admitted, 1 where not.
    """
    _refuse_two_readers(file, config, machine, devices)
    from numalign.admission.manifest import read_pods

    pods, skipped = read_pods(read_file(file, MAX_PODS_FILE), "standard input" if file == "-" else file)
    ready = prepare(
        config,
        config_dir,
        kubelet_flags,
        state_dir,
        kubernetes_version,
        running=running,
        specs=device_specs(device, devices),
        mig_strategy=mig_strategy,
        root=root,
        machine=machine,
        nvml=nvml,
    )
    progress.say(f"admitting {count_of(len(pods), 'pod')}{' again and again' if count else ''}")
    report = ready.predict(pods, skipped=skipped, counting=count)
    if output in ("svg", "html"):
        from numalign.cli.pictures import emit_picture
        from numalign.report.picture.overlays import of_prediction

        overlay = of_prediction(ready.machine, ready.node, report)
        emit_picture(output, ready.machine, overlay, lambda: _sections(ready.machine, report), out)
    else:
        emit_document(report, output, "prediction:draw", out)
    return int(not report.holds)


def _sections(machine: Machine, report: Prediction) -> Iterator[Section]:
    from numalign.report.picture.pages import in_words, map_sections
    from numalign.report.prediction import draw

    yield in_words("Pods", draw, report)
    yield from map_sections(machine)


class Ready(NamedTuple):
    """A node under its configuration, on which pods can be tried, and what is to be said of it."""

    machine: Machine
    node: Node
    offers: list[Offer]
    config: str
    version_from: str
    occupancy: Occupancy

    def predict(self, pods: Iterable[Submitted], *, skipped: Sequence[str] = (), counting: bool = False) -> Prediction:
        """What becomes of the pods, which are on the node then."""
        from numalign.admission.prediction import predict as predicted

        return predicted(
            self.machine,
            self.node,
            pods,
            offers=self.offers,
            config=self.config,
            version_from=self.version_from,
            occupancy=self.occupancy,
            skipped=skipped,
            counting=counting,
        )


def prepare(
    config: str | None,
    config_dir: str | None,
    kubelet_flags: str | None,
    state_dir: str | None,
    kubernetes_version: str | None,
    *,
    running: bool,
    specs: dict[str, str] | None = None,
    mig_strategy: str | None = None,
    root: str | None,
    machine: str | None,
    nvml: str,
) -> Ready:
    """The node of a command line. Raises CannotRead, DoesNotHold, WrongUsage."""
    from numalign.admission.fit import most_pods
    from numalign.admission.node import Node
    from numalign.admission.offers import preferences
    from numalign.admission.prediction import Occupancy
    from numalign.kubelet.settings import settings
    from numalign.kubelet.view import kubelet_view

    found, host = load(root, machine, nvml)
    kubelet = Kubelet(host)
    minor, told_by = version(kubernetes_version, kubelet)
    document = effective_document(read_configuration(config, config_dir, kubelet_flags, kubelet, root), minor)
    wanted, view = settings(document.values, minor), kubelet_view(found)
    refuse_unstartable(document, wanted, view)
    beside = None
    if running or state_dir:
        from numalign.cli.running import read_running

        snapshot = host if state_dir is None and host is not None and host.packed else None
        beside = read_running(wanted, view, read_state(state_dir, kubelet, root), snapshot=snapshot)
    specs = specs or {}
    offers = offered(found, view, beside, specs, mig_strategy)
    node = Node(
        wanted,
        view,
        [each for offer in offers for each in offer.devices],
        prefer=preferences(found, offers),
        max_pods=most_pods(document.values, view),
    )
    occupancy = beside.occupy(node, _overruled(offers, specs)) if beside else Occupancy("empty")
    return Ready(found, node, offers, document.source, told_by, occupancy)


def _refuse_two_readers(*files: str | None) -> None:
    """Raises WrongUsage where standard input is to be read for several things."""
    if files.count("-") > 1:
        raise WrongUsage("standard input can be read only once", hint="name a file for the others")


def _overruled(offers: list[Offer], specs: dict[str, str]) -> tuple[str, ...]:
    """The resources of which something was given, and whose registered devices hold."""
    return tuple(offer.resource for offer in offers if offer.said_by == "state" and offer.resource in specs)


def device_specs(words: tuple[str, ...], file: str | None) -> dict[str, str]:
    """What --devices and --device say of resources. Raises WrongUsage, CannotRead."""
    from numalign.admission.offers import given_offers, read_devices

    table = read_devices(read_file(file, _MAX_DEVICES_FILE), file) if file is not None else {}
    return given_offers(words, table)


def offered(
    machine: Machine,
    view: KubeletView,
    beside: Running | None,
    specs: dict[str, str],
    mig_strategy: str | None,
) -> list[Offer]:
    """What plugins offer: what they have registered, else what the map tells; and what was given for others.

    Raises WrongUsage.
    """
    from numalign.admission.offers import gpu_offers, with_given

    offers = {offer.resource: offer for offer in gpu_offers(machine, mig_strategy)}
    if beside is not None and beside.files.devices is not None:
        from numalign.admission.occupancy import registered

        offers = {offer.resource: offer for offer in registered(beside.files, machine, beside.allocatable)}
    found = with_given(list(offers.values()), specs)
    known = {node.id for node in view.nodes}
    for offer in found:
        for each in offer.devices:
            if offer.said_by == "option" and not set(each.numa or ()) <= known:
                wrong = min(set(each.numa or ()) - known)
                raise WrongUsage(f"--device {offer.resource}: the machine has no NUMA node {wrong}")
    return found

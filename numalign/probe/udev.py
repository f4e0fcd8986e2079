"""Names of PCI devices from udev's hardware database, read through pyudev; nothing where there is no libudev."""

from __future__ import annotations

__all__ = ["lookup"]

_MODEL = b"ID_MODEL_FROM_DATABASE"


def lookup(ids: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The database's model names of the PCI ids (vendor, device: four hex digits each) that it knows.

    Source: hwdb(7); the keys are those of 20-pci-vendor-model.hwdb, `pci:v0000VVVVd0000DDDD`.
    """
    try:
        import pyudev  # type: ignore[import-untyped]

        context = pyudev.Context()
    except (ImportError, OSError):  # pyudev raises ImportError where libudev is missing
        return {}
    udev = context._libudev  # pyudev declares the hwdb functions and wraps none of them
    database = udev.udev_hwdb_new(context)
    if not database:
        return {}
    try:
        found = {}
        for vendor, device in ids:
            key = f"pci:v0000{vendor.upper()}d0000{device.upper()}sv00000000sd00000000bc00sc00i00".encode()
            entry = udev.udev_hwdb_get_properties_list_entry(database, key, 0)
            while entry:
                if udev.udev_list_entry_get_name(entry) == _MODEL:
                    value = udev.udev_list_entry_get_value(entry)
                    if value:
                        found[vendor, device] = value.decode("utf-8", "replace")
                entry = udev.udev_list_entry_get_next(entry)
        return found
    finally:
        udev.udev_hwdb_unref(database)

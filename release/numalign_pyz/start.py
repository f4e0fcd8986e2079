"""Says in one line what is the matter where numalign.pyz cannot run.

Its syntax is that of any Python, for the old ones to read it.
"""

import os
import sys

__all__ = ["main"]

CANNOT = 3


def main(pythons, machine, version, build):
    """Starts numalign, which is packed for these Pythons (major, minor) and machine; `build` names this very file."""
    wrong = unfit(pythons, machine)
    if wrong:
        sys.stderr.write("numalign.pyz: %s\n" % wrong)
        sys.exit(CANNOT)
    from .run import run

    run(version, build)


def unfit(pythons, machine):
    """Why what is packed does not fit this Python; None where it does."""
    have = "%d.%d" % tuple(sys.version_info[:2])
    oldest, newest = ("%d.%d" % tuple(one) for one in (pythons[0], pythons[-1]))
    implementation = getattr(getattr(sys, "implementation", None), "name", "cpython")
    system, _, _, _, this = os.uname()
    if (system, this) != ("Linux", machine) or sys.maxsize < 2**32:
        bits = "" if sys.maxsize > 2**32 else ", with a Python of 32 bits"
        return "it is made for Linux on %s, and this is %s on %s%s" % (machine, system, this, bits)
    if implementation != "cpython" or "t" in getattr(sys, "abiflags", ""):
        kind = implementation if implementation != "cpython" else "free-threaded Python"
        return "it is made for CPython %s to %s, and this is %s: %s" % (oldest, newest, kind, another(pythons))
    if sys.version_info[:2] not in pythons:
        return "it needs Python %s to %s, and this is Python %s: %s" % (oldest, newest, have, another(pythons))
    if not glibc():
        return "it needs glibc, which this Python is not built for: install numalign with pip"
    return None


def glibc():
    """Whether this Python runs on glibc, which the compiled parts are linked to, and not on musl."""
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (ValueError, OSError):
        return False


def another(pythons):
    """What to do: run the newest Python on the PATH that fits."""
    for major, minor in reversed(pythons):
        name = "python%d.%d" % (major, minor)
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            if folder and os.access(os.path.join(folder, name), os.X_OK):
                return "run it as %s %s" % (name, sys.argv[0])
    return "install one of them, or numalign with pip"

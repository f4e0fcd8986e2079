"""Writes the JSON Schemas of the documents: `python -m numalign.schema DIRECTORY`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from numalign.admission.prediction import Prediction
from numalign.checks.policy import policy_schema
from numalign.fleet import Fleet
from numalign.machine import Machine, schema_of

__all__ = ["main"]


def main(directory: str) -> None:
    """Writes one file a kind of document."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    bodies = {
        "fleet": schema_of(Fleet),
        "machine": schema_of(Machine),
        "prediction": schema_of(Prediction),
        "verifypolicy": policy_schema(),
    }
    for name, body in bodies.items():
        (target / f"{name}.json").write_text(json.dumps(body, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

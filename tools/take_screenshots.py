"""Makes the pictures of docs/gallery.md: reports about the shop of the examples, shown by Chromium. `python -m tools.take_screenshots`.

Needs the program `chromium`. The reports are made anew, from a cluster in virtual time that is the same each time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[1]
_PICTURES = ROOT / "docs" / "images"
_BAYPLAN = Path(sys.executable).parent / "bayplan"
_WORKLOAD: Final = ("examples/workload/pods.csv", "--nodes", "examples/workload/nodes.csv")
_PACKED: Final = ("--scheduler-config", "examples/scheduler/most-allocated.yaml")
REPORTS: Final = {
    "simulate": ("simulate", "--drain", "node-1", "--fail-zone", "zone-b"),
    "capacity": ("capacity", "--cpu", "500m", "--memory", "1Gi", "--replicas", "50"),
    "consolidate": ("consolidate",),
    "replay": ("replay", *_WORKLOAD),
    "compare": ("compare", *_WORKLOAD, *_PACKED, "--seeds", "3"),
}
"""Name of the picture -> the question whose report it shows."""
_COPY_OF: Final = ("simulate", "capacity", "consolidate")
_QUIET: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Chromium without a screen, which asks nobody for anything."""


def main() -> None:
    """Raises CalledProcessError if a report or a picture cannot be made."""
    from tests.docs.shop import write_copy

    _PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_copy(directory / "shop.bayplan")
        for picture, question in REPORTS.items():
            page = directory / f"{picture}.html"
            about = ("--cluster", str(directory / "shop.bayplan")) if picture in _COPY_OF else ()
            done = subprocess.run([_BAYPLAN, *question, *about, "--html", page], cwd=ROOT, capture_output=True)
            if done.returncode > 1:
                done.check_returncode()
            target = f"--screenshot={_PICTURES / f'{picture}.png'}"
            options = (f"--user-data-dir={directory / 'browser'}", "--window-size=1100,760", target)
            subprocess.run(["chromium", *_QUIET, *options, page.as_uri()], check=True, capture_output=True, timeout=60)
            print(_PICTURES / f"{picture}.png")


if __name__ == "__main__":
    main()

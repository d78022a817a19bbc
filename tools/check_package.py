"""Builds the sdist, a wheel from it, and an environment with nothing but that wheel; looks at what is in it and runs it: `python -m tools.check_package`.

Nothing is compiled: dependencies are taken as wheels only. With `--keep DIRECTORY` the two files stay there.
"""

from __future__ import annotations

import argparse
import email
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
_LARGEST: Final = 4 << 20
"""Bytes of a wheel."""
_IN_WHEEL: Final = (
    "bayplan/py.typed",
    "bayplan/api/types/openapi.json.gz",
    "bayplan/api/types/texts.json.gz",
    "bayplan/api/printing/columns.json",
    "bayplan/examples/shop.yaml",
    "bayplan/simulation/lessons/scenarios/list-watch.yaml",
    "bayplan/ui/static/index.html",
    "bayplan/ui/static/vendor/preact.js",
    "bayplan/ui/static/vendor/LICENSE.preact.txt",
    "bayplan/ui/static/vendor/LICENSE.uplot.txt",
    "bayplan/ui/static/terminal/screen.js",
)
_NOT_IN_WHEEL: Final = re.compile(r"(^|/)(tests|benchmarks|tools|golden|__pycache__)/|\.pyc$")
_PROGRAMS: Final = ("bayplan", "kubectl-bayplan", "kubectl_complete-bayplan")
_COMMANDS: Final = (
    ("version",),
    ("doctor",),
    ("explain", "--help"),
    ("annotations",),
    ("demo", "--help"),
    ("ui", "--help"),
    ("learn", "taints"),
)


def main() -> int:
    """The program. Returns 1 if something is wrong, which it prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="where sdist and wheel are to stay")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory(prefix="bayplan-package-") as directory:
        problems = _check(Path(directory), keep)
    for one in problems:
        print(f"package: {one}", file=sys.stderr)
    return 1 if problems else 0


def _check(directory: Path, keep: Path | None) -> list[str]:
    clean = directory / "clean"
    venv.create(clean, with_pip=True)
    builder = directory / "builder"
    venv.create(builder, with_pip=True)
    _run(builder / "bin" / "python", "-m", "pip", "install", "--quiet", "build")
    files = directory / "dist"
    # The wheel is made from the sdist, so that what is missing there is missed here.
    _run(builder / "bin" / "python", "-m", "build", "--outdir", files, ROOT)
    (wheel,), (sdist,) = files.glob("*.whl"), files.glob("*.tar.gz")
    _run(clean / "bin" / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", wheel)
    found = [*_wheel_problems(wheel), *_sdist_problems(sdist), *_environment_problems(clean, wheel)]
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        for each in (wheel, sdist):
            shutil.copy(each, keep)
    print(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KiB; {sdist.name}: {sdist.stat().st_size / 1024:.0f} KiB")
    return found


def _run(*command: str | Path) -> str:
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def _wheel_problems(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        (record,) = [each for each in names if each.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(wheel.read(record))
    found = [f"the wheel lacks {each}" for each in _IN_WHEEL if each not in names]
    found += [f"the wheel has {each}" for each in names if _NOT_IN_WHEEL.search(each)]
    found += [
        f"the wheel lacks {each}"
        for each in ("LICENSE", "NOTICE")
        if not any(one.endswith(f"/{each}") for one in names)
    ]
    if path.stat().st_size > _LARGEST:
        found.append(f"the wheel has {path.stat().st_size} bytes, more than {_LARGEST}")
    if not metadata["Requires-Python"] or "py3-none-any" not in path.name:
        found.append("the wheel does not say that it is pure Python, or of which versions")
    return found


def _sdist_problems(path: Path) -> list[str]:
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    wanted = ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "NOTICE", "src/bayplan/__init__.py")
    return [f"the sdist lacks {each}" for each in wanted if each not in names]


def _environment_problems(environment: Path, wheel: Path) -> list[str]:
    python = environment / "bin" / "python"
    found = [f"the program {each} is not there" for each in _PROGRAMS if not (environment / "bin" / each).exists()]
    for words in _COMMANDS:
        done = subprocess.run([environment / "bin" / "bayplan", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            found.append(f"bayplan {' '.join(words)} ends with {done.returncode}: {done.stderr.strip()[-300:]}")
    version = _run(python, "-c", "import bayplan; print(bayplan.__version__)").strip()
    if f"-{version}-" not in wheel.name:
        found.append(f"{wheel.name} says of itself that it is {version}")
    installed = {
        each["name"].lower().replace("_", "-")
        for each in json.loads(_run(python, "-m", "pip", "list", "--format=json"))
    }
    foreign = installed & _developers()
    if foreign:
        found.append(f"packages for developers are installed with it: {', '.join(sorted(foreign))}")
    return found


def _developers() -> set[str]:
    """Packages of the extra `dev` that nothing else may bring."""
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    return {re.split(r"[<>=\[ ]", each)[0].lower() for each in extras}


if __name__ == "__main__":
    raise SystemExit(main())

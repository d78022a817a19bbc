"""The page's own files: small, nothing from elsewhere, and nothing that makes markup or code of texts."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "src" / "bayplan" / "ui" / "static"
OWN = sorted(file for file in STATIC.rglob("*") if file.is_file() and "vendor" not in file.parts)
SCRIPTS = [file for file in OWN if file.suffix == ".js"]


def test_the_libraries_are_small_and_their_licences_beside_them() -> None:
    vendored = list((STATIC / "vendor").iterdir())
    scripts = [file for file in vendored if file.suffix == ".js"]
    assert sum(len(gzip.compress(file.read_bytes())) for file in scripts) < 100_000
    notice = (STATIC.parents[3] / "NOTICE").read_text()
    for file in vendored:
        assert file.name in notice, file.name


@pytest.mark.parametrize("file", OWN, ids=lambda file: file.name)
def test_nothing_is_loaded_from_elsewhere(file: Path) -> None:
    text = file.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|url\(|@import", text)


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_no_text_becomes_markup_or_code(file: Path) -> None:
    text = file.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|dangerously", text)


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_files_are_not_long(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 400


def test_pages_have_no_script_or_style_of_their_own() -> None:
    for page in STATIC.glob("*.html"):
        text = page.read_text()
        assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|style=", text), page.name


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_scripts_are_modules_that_parse(file: Path, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node")
    module = tmp_path / "module.mjs"
    module.write_bytes(file.read_bytes())
    subprocess.run([node, "--check", module], check=True, capture_output=True)

"""Every command in the documentation does what the page says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import ROOT, blocks, pages
from tests.docs.running import problems_of
from tests.docs.shell import Shell
from tests.docs.shop import write_copy

_REASONS: Final = (
    "needs root",
    "needs a container engine",
    "needs Go",
    "needs the npm registry",
    "needs a person",
    "takes minutes",
)
"""What may be given as the reason that a block is not run."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("docs") / "shop.bayplan"
    write_copy(path)
    return path


@pytest.mark.xdist_group("port 6443")
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_does_what_the_page_says(page: Path, tmp_path: Path, copy: Path) -> None:
    problems = [str(one) for one in problems_of(page, copy, tmp_path)]
    assert not problems, "\n\n".join(problems)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_not_run_has_a_reason(page: Path) -> None:
    for block in blocks(page):
        if block.not_run:
            assert block.not_run.startswith(_REASONS), f"{page.name}:{block.line}: {block.not_run}"


def test_clusters_of_other_users_are_out_of_reach(tmp_path: Path, copy: Path) -> None:
    with Shell(tmp_path / "1", copy) as shell:
        code, printed = shell.run('echo "$HOME $KUBECONFIG"; ls')
    assert code == 0
    assert printed.split()[0] == str(tmp_path / "1" / "home")
    assert "shop.bayplan" in printed.split()
    assert os.environ.get("KUBECONFIG", "/unset") not in printed

"""Files with objects of kwok (`kwok.x-k8s.io/v1alpha1`): what happens to simulated pods, and what they answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from bayplan.kubelet.simulator.answers.objects import KINDS, AnswerObject, read_answer
from bayplan.kubelet.simulator.errors import KwokFileError, StageError
from bayplan.kubelet.simulator.stages.stages import Stage, read_stage

_GROUP: Final = "kwok.x-k8s.io/"


@dataclass(frozen=True, slots=True)
class KwokObjects:
    """What files say."""

    stages: tuple[Stage, ...] = ()
    answers: tuple[AnswerObject, ...] = ()
    left_out: tuple[str, ...] = ()
    """Kind and name of objects that nothing here carries out: stages of other objects than pods and nodes, other kinds."""


def read_files(paths: Iterable[Path]) -> KwokObjects:
    """The objects in files and directories; those of other groups are passed over. Raises KwokFileError."""
    stages: list[Stage] = []
    answers: list[AnswerObject] = []
    left_out: list[str] = []
    for file, document in _documents(paths):
        kind = str(document.get("kind", ""))
        if kind == "Stage":
            try:
                stage = read_stage(document)
            except StageError as error:
                raise KwokFileError(str(error)) from error
            if stage is not None:
                stages.append(stage)
                continue
        elif kind in KINDS:
            answers.append(read_answer(document, file))
            continue
        left_out.append(f"{kind} {(document.get('metadata') or {}).get('name', '')}".strip())
    return KwokObjects(tuple(stages), tuple(answers), tuple(left_out))


def _documents(paths: Iterable[Path]) -> Iterable[tuple[Path, dict[str, Any]]]:
    """(file, object) of the group. Raises KwokFileError."""
    for path in paths:
        for file in sorted(path.rglob("*.y*ml")) if path.is_dir() else [path]:
            try:
                documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
            except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
                raise KwokFileError(f"{file}: {error}") from error
            for document in documents:
                if isinstance(document, dict) and str(document.get("apiVersion", "")).startswith(_GROUP):
                    yield file, document

"""Answers of kube-apiserver 1.36 about kinds of alpha and beta versions, which servers have if they are asked for them."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from bayplan.api.feature_gates import GENERIC_WORKLOAD
from bayplan.api.optional_kinds import OPTIONAL, optional_kinds
from bayplan.testing import transcripts
from bayplan.testing.replay import Player, Report
from tests.apiserver.serving import AS_RECORDED, TOKENS, served

_ANSWERS = Path(__file__).with_name("optional_answers.json")
_SETTINGS = dataclasses.replace(
    AS_RECORDED, runtime_config=("api/all=true",), feature_gates=frozenset((GENERIC_WORKLOAD,))
)


def test_kinds_of_alpha_and_beta_versions_are_as_in_kubernetes() -> None:
    async def play() -> Report:
        (scenario,) = transcripts.load(_ANSWERS)
        async with served(_SETTINGS) as server:
            return await Player(server.url, {user: row[0] for user, row in TOKENS.items()}, server.session).play(
                scenario
            )

    report = asyncio.run(play())
    assert report.differing == {}
    assert report.compared > 200


def test_every_version_can_be_asked_for_alone() -> None:
    for version in {kind.api_version for kind in OPTIONAL}:
        found = optional_kinds([f"{version}=true"])
        assert {kind.api_version for kind in found} == {version}


def test_stages_choose_versions() -> None:
    alpha, beta = optional_kinds(["api/alpha=true"]), optional_kinds(["api/beta=true"])
    assert {kind.version for kind in alpha} == {"v1alpha1", "v1alpha2", "v1alpha3"}
    assert {kind.version for kind in beta} == {"v1beta1", "v1beta2"}
    assert set(optional_kinds(["api/all=true", "resource.k8s.io/v1beta1=false"])) == {
        kind for kind in OPTIONAL if kind.api_version != "resource.k8s.io/v1beta1"
    }
    with pytest.raises(ValueError, match="expected true or false"):
        optional_kinds(["api/all=perhaps"])


def test_versions_that_are_always_served_may_be_named() -> None:
    assert optional_kinds(["api/ga=true", "apps/v1=true", "v1", "batch/v1=true"]) == ()
    with pytest.raises(ValueError, match="apps/v1 is always served"):
        optional_kinds(["apps/v1=false"])
    with pytest.raises(ValueError, match="apps/v2 is not one of"):
        optional_kinds(["apps/v2=true"])

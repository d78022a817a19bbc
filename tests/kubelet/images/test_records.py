"""Records of who pulled what: policies, restarts, and their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.kubelet.images.keyring import AccountSource, PullCredentials, SecretSource
from bayplan.kubelet.images.records import Access, PullRecords, VerificationPolicyError, verification_policy
from bayplan.kubelet.runtime.types import Credentials

START = 1_767_323_045.0


class Setting:
    """Records with a clock that is set by hand."""

    def __init__(self, directory: Path, policy: str = "NeverVerifyPreloadedImages") -> None:
        self.now = START
        self.records = PullRecords(directory, lambda: self.now, verification_policy(policy))
        self.directory = directory / "image_manager"

    def pulled(self, image: str, image_ref: str, used: PullCredentials | None = None) -> None:
        """A pull from begin to end."""
        self.records.begin(image)
        self.records.succeeded(image, image_ref, used)

    def count(self, kind: str) -> int:
        """Files of a kind."""
        return len(list((self.directory / kind).iterdir()))


def credentials(user: str, name: str = "pull") -> PullCredentials:
    """Credentials of a secret."""
    return PullCredentials(Credentials(user, "pw"), SecretSource(f"uid-{name}", "default", name))


@pytest.mark.parametrize(
    ("policy", "allowed", "image", "pulled", "verified"),
    [
        ("NeverVerify", (), "a:1", True, False),
        ("AlwaysVerify", (), "a:1", False, True),
        ("NeverVerifyPreloadedImages", (), "a:1", False, False),
        ("NeverVerifyPreloadedImages", (), "a:1", True, True),
        ("NeverVerifyAllowlistedImages", ("registry.test/a",), "registry.test/a:1", True, False),
        ("NeverVerifyAllowlistedImages", ("registry.test/a",), "registry.test/a/b:1", False, True),
        ("NeverVerifyAllowlistedImages", ("registry.test/*",), "registry.test/a/b:1", True, False),
        ("NeverVerifyAllowlistedImages", ("registry.test/*",), "registry.testing/a", False, True),
        ("NeverVerifyAllowlistedImages", (), "a", False, True),
    ],
)
def test_policy_says_whether_credentials_must_be_shown(
    policy: str, allowed: tuple[str, ...], image: str, pulled: bool, verified: bool
) -> None:
    assert verification_policy(policy, allowed)(image, pulled) is verified


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ("Other", ()),
        ("NeverVerifyAllowlistedImages", ("/*",)),
        ("NeverVerifyAllowlistedImages", ("",)),
        ("NeverVerifyAllowlistedImages", ("a*",)),
        ("NeverVerifyAllowlistedImages", ("*/a/*",)),
        ("NeverVerifyAllowlistedImages", (" a",)),
    ],
)
def test_policy_that_makes_no_sense_is_refused(policy: str, allowed: tuple[str, ...]) -> None:
    with pytest.raises(VerificationPolicyError):
        verification_policy(policy, allowed)


def test_access_follows_from_how_it_was_pulled(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    assert it.records.access("a:1", "sha256:a") is Access.ALL  # nobody pulled it
    it.records.begin("a:1")
    assert it.records.access("a:1", "sha256:a") is Access.NONE
    it.records.succeeded("a:1", "sha256:a", credentials("me"))
    assert it.records.access("a:1", "sha256:a") is Access.BY_SECRET
    assert it.records.access("a:2", "sha256:a") is Access.BY_SECRET  # tags are of one name
    assert it.records.access("b:1", "sha256:a") is Access.NONE  # the same image by another name
    assert it.records.is_opened_by("a:1", "sha256:a", [credentials("me")])
    assert not it.records.is_opened_by("a:1", "sha256:a", [credentials("other", "other")])
    assert not it.records.is_opened_by("a:1", "sha256:a", [PullCredentials(Credentials("me", "pw"))])
    assert not it.records.is_opened_by("b:1", "sha256:a", [credentials("me")])
    it.pulled("a:1", "sha256:a")
    assert it.records.access("a:1", "sha256:a") is Access.ALL
    assert (it.count("pulling"), it.count("pulled")) == (0, 1)


def test_secret_of_the_same_content_or_place_is_remembered(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    it.pulled("a:1", "sha256:a", credentials("me"))
    assert it.records.is_opened_by("a:1", "sha256:a", [credentials("me", "copy")])
    assert it.records.is_opened_by(
        "a:1", "sha256:a", [credentials("changed", "copy")]
    )  # by now it is known by its place
    assert it.records.is_opened_by("a:1", "sha256:a", [credentials("changed", "third")])  # and by its content


def test_two_pulls_at_once_leave_one_intent_until_both_have_ended(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    it.records.begin("a:1")
    it.records.begin("a:1")
    it.records.failed("a:1")
    assert it.count("pulling") == 1
    it.records.failed("a:1")
    assert it.count("pulling") == 0


def test_pulls_that_a_restart_interrupted_want_credentials(tmp_path: Path) -> None:
    before = Setting(tmp_path)
    for image in ("here:1", "here", "gone:1"):
        before.records.begin(image)
    after = Setting(tmp_path)
    after.records.recover([("sha256:here", ("here:1", "here:latest")), ("sha256:other", ("other:1",))])
    assert after.records.access("here:1", "sha256:here") is Access.NONE
    assert after.records.access("other:1", "sha256:other") is Access.ALL
    assert (after.count("pulling"), after.count("pulled")) == (1, 1)
    assert after.records.access("gone:1", "sha256:new") is Access.NONE  # its pull may have gone on in the runtime


def test_records_of_images_that_are_gone_are_dropped(tmp_path: Path) -> None:
    it = Setting(tmp_path)
    it.pulled("stays:1", "sha256:stays")
    it.pulled("goes:1", "sha256:goes")
    it.now = START + 100
    it.pulled("new:1", "sha256:new")
    (it.directory / "pulled" / "sha256-broken").write_text("{")
    it.records.prune(["sha256:stays"], START + 100)
    assert it.count("pulled") == 2
    assert it.records.access("stays:1", "sha256:stays") is Access.ALL
    always = Setting(tmp_path, "AlwaysVerify")
    shown = [always.records.access(f"{name}:1", f"sha256:{name}") for name in ("stays", "goes", "new")]
    assert shown == [Access.ALL, Access.NONE, Access.ALL]
    it.records.prune(["sha256:stays"], START + 101)
    assert it.count("pulled") == 1


def test_what_an_account_fetched_is_for_that_account(tmp_path: Path) -> None:
    def of(name: str) -> PullCredentials:
        return PullCredentials(Credentials("token"), AccountSource(f"uid-{name}", "default", name))

    it = Setting(tmp_path)
    it.pulled("a:1", "sha256:a", of("one"))
    assert it.records.access("a:1", "sha256:a") is Access.BY_SECRET
    assert it.records.is_opened_by("a:1", "sha256:a", [of("one")])
    assert not it.records.is_opened_by("a:1", "sha256:a", [of("two")])
    it.pulled("a:1", "sha256:a", credentials("me"))
    assert it.records.is_opened_by("a:1", "sha256:a", [of("one")])
    assert it.records.is_opened_by("a:1", "sha256:a", [credentials("me")])
    assert not it.records.is_opened_by("a:1", "sha256:a", [PullCredentials(Credentials("token"))])

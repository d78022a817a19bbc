"""Clusters in archives: read as the directories and files in them are, within limits, whatever the names in them."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.codec import to_tree
from bayplan.simulation.readers.archive import Limits
from bayplan.simulation.readers.reading import read
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot, SnapshotError
from bayplan.testing.builders import node, pod

NODE = json.dumps({"apiVersion": "v1", "kind": "Node", **to_tree(node("a"))}).encode()
POD = json.dumps({"apiVersion": "v1", "kind": "Pod", **to_tree(pod("p"))}).encode()
Files = Mapping[str, bytes]
Pack = Callable[[Files], bytes]


def tar(files: Files, mode: str = "w") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def tgz(files: Files) -> bytes:
    return gzip.compress(tar(files))


def zipped(files: Files) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


every_form = pytest.mark.parametrize("pack", [tar, tgz, zipped])


def written(tmp_path: Path, data: bytes) -> Path:
    file = tmp_path / "packed"
    file.write_bytes(data)
    return file


def names(copy: ClusterSnapshot) -> dict[str, list[str]]:
    return {kind: [one.metadata.name for one in found] for kind, found in copy.objects.items()}


@every_form
def test_manifests(pack: Pack, tmp_path: Path) -> None:
    file = written(tmp_path, pack({"m/a.json": NODE, "m/deep/p.yaml": POD, "m/notes.txt": b"\xff"}))
    assert names(read(file)) == {"Node": ["a"], "Pod": ["p"]}


@every_form
def test_a_must_gather(pack: Pack, tmp_path: Path) -> None:
    root = "must-gather.local.1/quay-io-image"
    files = {
        f"{root}/broken-before.yaml": b"kind: Pod\na: [",
        f"{root}/cluster-scoped-resources/core/nodes/a.yaml": NODE,
        f"{root}/namespaces/x/core/broken.yaml": b"kind: Pod\na: [",
        f"{root}/namespaces/x/core/other.yaml": b"kind: Widget\napiVersion: acme.example/v1",
        f"{root}/namespaces/x/core/pods.yaml.gz": gzip.compress(POD),
        f"{root}/namespaces/x/pods/p/current.log": b"no yaml: [",
    }
    copy = read(written(tmp_path, pack(files)))
    assert names(copy) == {"Node": ["a"], "Pod": ["p"]}
    assert [one.what.rpartition("/")[2] for one in copy.left_out] == ["broken-before.yaml", "broken.yaml"]
    assert len(copy.unserved) == 0


@every_form
def test_a_broken_manifest_is_an_error_that_names_archive_and_file(pack: Pack, tmp_path: Path) -> None:
    file = written(tmp_path, pack({"m/b.yaml": b"a: [", "m/a.json": NODE}))
    with pytest.raises(SnapshotError, match=r"packed/m/b\.yaml: not valid YAML"):
        read(file)


@every_form
def test_names_lead_nowhere(pack: Pack, tmp_path: Path) -> None:
    place = tmp_path / "one" / "two"
    place.mkdir(parents=True)
    file = written(place, pack({"../../escaped.json": NODE, "/tmp/x\x1b[31m.yaml": b"a: ["}))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SnapshotError) as caught:
        read(file)
    assert "\x1b" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_links_in_an_archive_are_passed_over(tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_bytes(POD)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        entry = tarfile.TarInfo("a.json")
        entry.size = len(NODE)
        archive.addfile(entry, io.BytesIO(NODE))
        for kind, name in ((tarfile.SYMTYPE, "s.yaml"), (tarfile.LNKTYPE, "h.yaml")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, str(secret)
            archive.addfile(link)
    assert names(read(written(tmp_path, data.getvalue()))) == {"Node": ["a"]}


@every_form
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(file=100), "a.json: larger than 100 bytes"),
        (Limits(files=len(NODE) + 1), "bytes of YAML and JSON"),
        (Limits(count=2), "more than 2 files"),
    ],
)
def test_too_much_is_an_error(pack: Pack, limits: Limits, said: str, tmp_path: Path) -> None:
    file = written(tmp_path, pack({"a.json": NODE, "b.txt": b"", "p.json": POD}))
    with pytest.raises(SnapshotError, match=said):
        read(file, limits=limits)


@pytest.mark.parametrize("pack", [tar, tgz])
def test_what_is_only_passed_by_is_bounded_too(pack: Pack, tmp_path: Path) -> None:
    file = written(tmp_path, pack({"huge.log": bytes(1 << 20), "a.json": NODE}))
    with pytest.raises(SnapshotError, match="holds more than 100,000 bytes; unpack it"):
        read(file, limits=Limits(archive=100_000))


@pytest.mark.parametrize("pack", [tar, tgz])
def test_headers_without_end_are_an_error_and_not_kept_in_memory(pack: Pack, tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 40
    data = header.tobuf(tarfile.GNU_FORMAT) + bytes(3 << 20)
    file = written(tmp_path, data if pack is tar else gzip.compress(data))
    with pytest.raises(SnapshotError, match="bytes of headers"):
        read(file)


@every_form
def test_an_archive_that_is_cut_off_is_an_error(pack: Pack, tmp_path: Path) -> None:
    noise = json.dumps([str(number * 7919 % 10007) for number in range(20_000)]).encode()
    data = pack({"a.json": NODE, "p.json": POD, "n.json": noise})
    with pytest.raises(SnapshotError, match="damaged or cut off"):
        read(written(tmp_path, data[: len(data) // 2]))


@every_form
def test_a_damaged_archive_is_an_error_of_ours_or_still_readable(pack: Pack, tmp_path: Path) -> None:
    chance = random.Random(1)
    sound = pack({f"m/{'d' * 150}/ü/a.json": NODE, "m/p.yaml.gz": gzip.compress(POD), "x.log": b"x" * 5000})
    outcomes: Counter[str] = Counter()
    for _ in range(200):
        data = bytearray(sound)
        for _ in range(chance.randint(1, 12)):
            data[chance.randrange(min(len(data), chance.choice((1600, 1 << 20))))] = chance.randrange(256)
        try:
            read(written(tmp_path, bytes(data)))
        except SnapshotError:
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
    assert outcomes["refused"] > 0
    assert outcomes.total() == 200


def test_an_encrypted_file_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.json": NODE}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(SnapshotError, match="without a password"):
        read(written(tmp_path, bytes(data)))


@every_form
def test_an_archive_without_anything_to_read(pack: Pack, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"no \.yaml, \.yml, \.json files in this archive"):
        read(written(tmp_path, pack({"a.txt": NODE})))
    with pytest.raises(SnapshotError, match="none of 1 files holds"):
        read(written(tmp_path, pack({"a.json": b'{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}'})))


class Pipe(io.RawIOBase):
    """A stream that cannot go back."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(buffer)


@every_form
def test_standard_input(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BufferedReader(Pipe(pack({"a.json": NODE})))

    monkeypatch.setattr("sys.stdin", Input)
    assert names(read("-")) == {"Node": ["a"]}


def test_a_zip_archive_on_standard_input_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BufferedReader(Pipe(zipped({f"{number}.json": NODE for number in range(200)})))

    monkeypatch.setattr("sys.stdin", Input)
    with pytest.raises(SnapshotError, match="name it as a file"):
        read("-", limits=Limits(file=1000))


def test_gzipped_files_alone_and_in_a_directory(tmp_path: Path) -> None:
    single = tmp_path / "single.yaml.gz"
    single.write_bytes(gzip.compress(NODE))
    assert names(read(single)) == {"Node": ["a"]}
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.json.gz").write_bytes(gzip.compress(NODE))
    (tmp_path / "d" / "p.yaml").write_bytes(POD)
    assert names(read(tmp_path / "d")) == {"Node": ["a"], "Pod": ["p"]}
    with pytest.raises(SnapshotError, match="larger than 100 bytes"):
        read(single, limits=Limits(file=100))


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    read(written(tmp_path, tgz({"a.json": NODE, "x.txt": b"", "p.json": POD})), told=lambda *one: told.append(one))
    assert told == [("reading files", 1, None), ("reading files", 2, None)]
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.json").write_bytes(NODE)
    read(tmp_path / "d", told=lambda *one: told.append(one))
    assert told[2:] == [("reading files", 1, 1)]

"""A task's folder travels whole, and nothing in a parcel can leave its folder."""

import io
import tarfile

import pytest

from kernelskill.suites.parcel import packed, unpack


def test_there_and_back(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    (source / "runs" / "r").mkdir(parents=True)
    (source / "runs" / "r" / "events.jsonl").write_text("{}\n")
    (source / "job.json").write_text("new")
    (source / "link").symlink_to("/etc/passwd")
    target.mkdir()
    (target / "job.json").write_text("old")
    unpack(packed(source), target)
    assert (target / "job.json").read_text() == "new"
    assert (target / "runs" / "r" / "events.jsonl").read_text() == "{}\n"
    assert not (target / "link").exists()


def test_a_parcel_cannot_write_elsewhere(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo("../escaped")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    with pytest.raises(tarfile.OutsideDestinationError):
        unpack(buffer.getvalue(), tmp_path / "inside")
    assert not (tmp_path / "escaped").exists()

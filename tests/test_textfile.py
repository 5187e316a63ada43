"""Writing files: whole or not at all, and never over what is no file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from balloonist.problem import ProblemError
from balloonist.textfile import read_text, write_text


def test_an_equal_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    assert write_text(path, "text\n")
    before = path.stat()
    assert not write_text(path, "text\n")
    assert path.stat().st_ino == before.st_ino


def test_mode_and_link_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert write_text(link, "new")
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    assert write_text(pipe, "text")
    reader.join(timeout=10)
    assert received == ["text"]
    assert pipe.is_fifo()


def test_links_in_a_circle_and_directories_are_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (loop, tmp_path):
        with pytest.raises(ProblemError, match="cannot be written"):
            write_text(path, "text")


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"caf\xe9")
    with pytest.raises(ProblemError, match="is not UTF-8 text"):
        read_text(tmp_path / "file")

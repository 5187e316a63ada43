"""Text files read and written so that nobody sees half a file and a failure comes with its plain reason."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from balloonist.problem import ProblemError, problem


def read_text(path: Path) -> str:
    """The text of a UTF-8 file (a byte order mark is dropped); raises :class:`ProblemError` with the reason."""
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise problem(str(path), "", f"is not UTF-8 text (byte {error.start})", "save it as UTF-8") from None
    except OSError as error:
        raise _reason(path, "cannot be read", error) from None


def write_text(path: Path, text: str) -> bool:
    """Replace the file's content in one step; returns whether anything changed (an equal file is left untouched).

    The new text goes to a temporary file beside it first, so an interruption leaves the old file whole. A symbolic
    link is followed and keeps pointing where it did; a device or a pipe is written into. Raises :class:`ProblemError`
    where that cannot be done.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_text(text, encoding="utf-8")  # a device or a pipe: replacing it would destroy it
            return True
        if target.is_file() and target.read_bytes() == text.encode():
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    except RuntimeError:
        raise problem(str(path), "", "cannot be written: symbolic links lead in a circle") from None
    except OSError as error:
        raise _reason(path, "cannot be written", error) from None
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        temporary.replace(target)
    except OSError as error:
        raise _reason(path, "cannot be written", error) from None
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _reason(path: Path, what: str, error: OSError) -> ProblemError:
    return problem(str(path), "", f"{what}: {error.strerror or error}")

"""One process at a time may write what a sweep or a search keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from archmodel.errors import ArchmodelError


@contextmanager
def locked(path: Path, busy: ArchmodelError) -> Iterator[None]:
    """Holds the lock file `path`; raises `busy` while another process holds it. The lock goes with the process, however
    it ends."""
    with path.open("w") as file:
        try:
            import fcntl
        except ImportError:  # not on Windows
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        yield

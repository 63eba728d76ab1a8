"""An object store on the disk, `bucket://`: whole files only, no append, no rename, no locks.

Its files lie in the folder that MINRISK_TEST_BUCKET names. Users, passwords and queries in its URLs
are taken, and not looked at.
"""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.spec import AbstractFileSystem


class Bucket(AbstractFileSystem):
    """Every file comes and goes as one."""

    protocol = "bucket"
    cachable = False
    failing: ClassVar[dict[str, Exception]] = {}  # by name: what the next upload meets
    uploads: ClassVar[Counter[str]] = Counter()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("bucket://").rstrip("/")

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        names = [f"{path}/{child.name}" for child in sorted(place(path).iterdir())
                 if not child.name.startswith(".")]
        return [self.info(name) for name in names] if detail else names

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        name = self._strip_protocol(path)
        kind = "directory" if place(name).is_dir() else "file"
        return {"name": name, "size": place(name).stat().st_size, "type": kind}

    def glob(self, path: str, **options: Any) -> Any:
        """Queries are no patterns, as on the web."""
        return [path] if "?" in path else super().glob(path, **options)

    def rm_file(self, path: str) -> None:
        """There are no folders that could be empty."""
        target = place(self._strip_protocol(path))
        target.unlink()
        with suppress(OSError):
            target.parent.rmdir()

    def _open(self, path: str, mode: str = "rb", autocommit: bool = True, **_: Any) -> Any:
        if mode == "rb":
            return place(path).open("rb")
        if mode == "wb":
            return Upload(path, autocommit)
        raise NotImplementedError(mode)


class Hosted(Bucket):
    """Is at a host, and names places there only: `hosted://me:password@host/in/0.jsonl`."""

    protocol = "hosted"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return re.sub(r"^hosted://[^/]*/", "", path).rstrip("/")


class Upload(io.BytesIO):
    """Seen when it is committed."""

    def __init__(self, path: str, autocommit: bool) -> None:
        super().__init__()
        self._path = path
        self._autocommit = autocommit
        self._content = b""

    def write(self, data: Any) -> int:
        if error := Bucket.failing.pop(Path(self._path).name, None):
            super().write(data[: len(data) // 2])
            raise error
        return super().write(data)

    def close(self) -> None:
        if not self.closed:
            self._content = self.getvalue()
            if self._autocommit:
                self.commit()
        super().close()

    def commit(self) -> None:
        target = place(self._path)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}")
        fresh.write_bytes(self._content)
        os.replace(fresh, target)
        Bucket.uploads[target.name] += 1

    def discard(self) -> None:
        """Nobody has seen it."""


def place(path: str) -> Path:
    return Path(os.environ["MINRISK_TEST_BUCKET"]) / re.sub(r"^[^/]*@|\?.*", "", path)


fsspec.register_implementation("bucket", Bucket, clobber=True)
fsspec.register_implementation("hosted", Hosted, clobber=True)

"""Files, URLs and standard streams; all failures are raised as InputError.

Compression (gz, xz, zst) is detected by the first bytes when reading, by name when writing.
"""

from __future__ import annotations

import lzma
import os
import stat
import sys
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from io import BufferedReader, RawIOBase
from typing import Any, BinaryIO, Literal, NamedTuple, Self, cast

from minrisk._core.errors import InputError, MinriskError, Wording, needs_extra
from minrisk.io import remote

_CHUNK = 1 << 15  # bytes per read; small, so that progress can be estimated well
_BUFFER = 1 << 16  # bytes split into lines at once
MAX_LINE = 1 << 27  # bytes; a compressed file of 2 MB may contain a line of gigabytes
# bytes decompressed at once: not all libraries can limit the output, and a kilobyte of zstandard
# may expand to 32 megabytes
_STEP = 1 << 10


class Codec(NamedTuple):
    """A compression format; its objects have the interface of zlib's."""

    name: str
    magic: bytes
    decompressor: Callable[[], Any]
    compressor: Callable[[], Any]


def _zstd(kind: Literal["Compress", "Decompress"]) -> Any:
    try:
        return getattr(import_module("compression.zstd"), f"Zstd{kind}or")()
    except ImportError:  # before Python 3.14
        with needs_extra("a .zst file", "zst"):
            made = getattr(import_module("zstandard"), f"Zstd{kind}or")()
        return getattr(made, f"{kind.lower()}obj")()


_CODECS = {  # by file extension
    ".gz": Codec("gz", b"\x1f\x8b", partial(zlib.decompressobj, wbits=31),
                 partial(zlib.compressobj, wbits=31)),
    ".xz": Codec("xz", b"\xfd7zXZ\0", lzma.LZMADecompressor, lzma.LZMACompressor),
    ".zst": Codec("zst", b"\x28\xb5\x2f\xfd", partial(_zstd, "Decompress"),
                  partial(_zstd, "Compress")),
}
EXTENSIONS = (*_CODECS,)


def codec_of(head: bytes) -> Codec | None:
    return next((c for c in _CODECS.values() if head.startswith(c.magic)), None)


def decompressed(chunks: Iterable[bytes], codec: Codec, name: str) -> Iterator[bytes]:
    """The content of any number of concatenated compressed streams.

    The libraries' file objects would lose content without an error: lzma's what follows padding or
    a damaged header, zstandard's the end of a truncated file.
    """
    decompressor, inside = codec.decompressor(), False
    for chunk in (c[i:i + _STEP] for c in chunks for i in range(0, len(c), _STEP)):
        rest = chunk if inside else chunk.lstrip(b"\0")  # padding between streams is allowed
        while rest:
            yield _decompress(decompressor, rest, codec, name)
            inside, rest = not decompressor.eof, decompressor.unused_data.lstrip(b"\0")
            if decompressor.eof:
                decompressor = codec.decompressor()
    if inside:
        raise InputError(f"{name}: truncated {codec.name}: the file ends in the middle of its "
                         "compressed data; copy or make it again")


def _decompress(decompressor: Any, data: bytes, codec: Codec, name: str) -> bytes:
    try:
        content: bytes = decompressor.decompress(data)
    except Exception as error:  # every library has its own exceptions
        raise InputError(f"{name}: unreadable {codec.name}: {error}; "
                         "copy or make the file again") from None
    return content


class _ChunkStream(RawIOBase):
    """Chunks of bytes as a stream, which returns available bytes without waiting for more."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest and (chunk := next(self._chunks, None)) is not None:
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


class Input:
    """The lines of a text file, or of standard input if the path is `-`; decompressed if needed.

    Lines end at "\\n" only; other line separators of Unicode are part of the text.
    """

    has_fields = False  # whether the format has named fields; its lines are then JSON

    def __init__(self, path: str, name: str | None = None, size: int | None = None) -> None:
        """Raise an InputError if the file does not exist; it is opened when lines are read.

        `name` is its name in messages, `size` its expected size in bytes (at the start of the run).
        """
        self.path = path
        self.name = name or _name("read", path)
        self.number = 0  # number of the last line that was read, from 1
        self.consumed = 0  # bytes, before decompression
        found = None if path == "-" else _size(path, self.name)
        self.size = found if size is None else size  # None if unknown

    def __iter__(self) -> Iterator[bytes]:
        with as_input_error("read", self.path, self.name), self._open() as stream:
            for line in self._lines(stream):
                self.number += 1
                if len(line) > MAX_LINE:
                    raise InputError(f"{self.where}: found a line of more than {MAX_LINE:,} bytes, "
                                     "expected one segment per line; check the format of the file")
                yield line.removesuffix(b"\n")
            self._check_size(stream)

    def _check_size(self, stream: BufferedReader) -> None:
        """Raise InputError if the file was truncated or extended since the run began."""
        if self.size is None or remote.is_url(self.path):
            return
        now = os.fstat(stream.fileno()).st_size
        if now != self.size:
            raise InputError(f"{self.name}: had {self.size} bytes when the run began, and has "
                             f"{now} now, so that segments may be missing; wait until the file is "
                             "complete, and run again")

    def texts(self) -> Iterator[str]:
        """The lines as text."""
        return map(self.text, self)

    @property
    def where(self) -> str:
        """The position of the last line, for messages."""
        return f"{self.name}:{self.number}"

    def text(self, line: bytes, number: int | None = None) -> str:
        """A line as text, without a carriage return; `number` defaults to the last line's."""
        number = self.number if number is None else number
        try:
            return text_of(line, number)
        except InputError as error:
            raise InputError(Wording("{name}:{number}: {error}", name=self.name, number=number,
                                     error=error)) from None

    def beginning(self, size: int) -> bytes:
        """The first bytes, not decompressed."""
        with as_input_error("read", self.path, self.name), self._open() as stream:
            return stream.read(size)

    def _open(self) -> AbstractContextManager[BufferedReader]:
        if self.path == "-":
            if sys.stdin is None:
                raise InputError("standard input is closed; name a file, or pipe input into the "
                                 "command")
            return nullcontext(cast(BufferedReader, sys.stdin.buffer))
        if remote.is_url(self.path):
            return BufferedReader(cast(RawIOBase, remote.open_url(self.path, "rb")))
        return cast(BufferedReader, open(self.path, "rb", _BUFFER))

    def _lines(self, stream: BufferedReader) -> Iterator[bytes]:
        """The lines with their ends; one that is too long is cut."""
        head = b""
        # no byte more than it takes to decide: reading further could block at a pipe
        while any(len(head) < len(codec.magic) and codec.magic.startswith(head)
                  for codec in _CODECS.values()) and (byte := stream.read(1)):
            head += byte
        if codec := codec_of(head):
            chunks = decompressed(self._chunks(head, stream), codec, self.name)
            with BufferedReader(_ChunkStream(chunks), _BUFFER) as content:
                yield from iter(partial(content.readline, MAX_LINE + 1), b"")
            return
        line = head if head.endswith(b"\n") else head + stream.readline(MAX_LINE + 1)
        while line:
            self.consumed += len(line)
            yield line
            line = stream.readline(MAX_LINE + 1)

    def _chunks(self, chunk: bytes, stream: BufferedReader) -> Iterator[bytes]:
        while chunk:
            self.consumed += len(chunk)
            yield chunk
            chunk = stream.read1(_CHUNK)  # available bytes, without waiting for more


class Output:
    """A text file to write, or standard output if the path is `-`; compressed by its extension."""

    def __init__(self, path: str, append: bool = False, name: str | None = None) -> None:
        """`name` is the final name of the file, if the path is a temporary one."""
        self._path = path
        codec = _CODECS.get(os.path.splitext(name or path)[1])
        self._compressor = codec.compressor() if codec else None
        self._own = path != "-"
        if not self._own and sys.stdout is None:
            raise InputError("standard output is closed; name a file")
        mode = "ab" if append else "wb"
        with as_input_error("write", path):
            self._stream = (sys.stdout.buffer if not self._own else
                            remote.open_url(path, mode) if remote.is_url(path) else
                            cast(BinaryIO, open(path, mode)))  # noqa: SIM115 - closed by `close`

    def write(self, text: str) -> None:
        """Write and flush a text; a compressor may hold back a block."""
        # lone surrogates, which UTF-8 cannot encode, become JSON escapes
        data = text.encode("utf-8", "backslashreplace")
        self._put(self._compressor.compress(data) if self._compressor else data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the file, so that what was written is readable even after an error."""
        with suppress(MinriskError) if kind else nullcontext():
            if self._compressor:
                self._put(self._compressor.flush())
            if self._own:
                with as_input_error("write", self._path):
                    self._stream.close()

    def _put(self, data: bytes) -> None:
        try:
            with as_input_error("write", self._path):
                self._stream.write(data)
                self._stream.flush()
        except (MinriskError, OSError):
            self._compressor = None  # do not retry when the file is closed
            raise


def check_writable(path: str) -> None:
    """Raise an InputError if a file cannot be written, as far as can be checked in advance."""
    with as_input_error("write", path):
        if remote.is_url(path):
            remote.system(path)
        elif not os.path.exists(path) and path != "-":
            open(path, "xb").close()
            os.remove(path)
        elif os.path.isfile(path) or os.path.isdir(path):  # opening a pipe would end it
            open(path, "ab").close()


def text_of(line: bytes, number: int) -> str:
    """A line as text, without a carriage return; the first line may have a byte order mark."""
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"found byte 0x{line[error.start]:02x}, which is invalid UTF-8; expected "
                         "UTF-8 text: convert the file") from None
    return text.removesuffix("\r")


def replace_file(temporary: str, path: str) -> None:
    """Rename a finished file atomically and durably: it survives a crash of the machine."""
    with as_input_error("write", path):
        _sync(temporary)
        os.replace(temporary, path)
        if sys.platform != "win32":  # Windows cannot open a folder
            _sync(os.path.dirname(path) or ".")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_key(path: str, standard: Literal["stdin", "stdout"]) -> Hashable | None:
    """A key that is equal for all names of one file.

    None for a device or a pipe, which may be both input and output.
    """
    if remote.is_url(path):
        return path
    try:
        status = os.fstat(getattr(sys, standard).fileno()) if path == "-" else os.stat(path)
    except (OSError, ValueError, AttributeError):  # it does not exist yet, or is no open file
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


@contextmanager
def as_input_error(verb: str, path: str, name: str | None = None) -> Iterator[None]:
    """Turn errors of reading or writing a path into an InputError without secrets.

    `name` is shown instead of the path.
    """
    try:
        is_possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:  # Python would raise a ValueError
        raise InputError(f"cannot {verb} {path!r}: this is not a valid file name")
    try:
        yield
    except BrokenPipeError:  # not an error: the reader has closed the pipe
        raise
    except OSError as error:
        reason = remote.redact(error.strerror or remote.reason_of(error), path)
        raise InputError(f"cannot {verb} {name or _name(verb, path)}: {reason}") from None
    except Exception as error:
        if not remote.is_url(path):
            raise
        raise remote.as_minrisk_error(verb, path, error) from None


def _name(verb: str, path: str) -> str:
    if path == "-":
        return "standard input" if verb == "read" else "standard output"
    return remote.redact_url(path)


def _size(path: str, name: str) -> int | None:
    with as_input_error("read", path, name):
        if remote.is_url(path):
            return remote.size(path)
        status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"cannot read {name}: it is a directory; expected a file")
    if not os.access(path, os.R_OK):
        raise InputError(f"cannot read {name}: permission denied")
    return status.st_size if stat.S_ISREG(status.st_mode) else None

"""gz, xz and zst files: detected by their first bytes when read, by their names when written."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import NamedTuple, Protocol

from minrisk._core.errors import InputError, needs_extra


class Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


class Codec(NamedTuple):
    name: str  # also the extension
    magic: bytes
    decompressor: Callable[[], Decompressor]
    compressor: Callable[[], Compressor]


def _zstd_decompressor() -> Decompressor:
    try:
        made: Decompressor = import_module("compression.zstd").ZstdDecompressor()
    except ImportError:  # before Python 3.14
        made = _zstandard().ZstdDecompressor().decompressobj()
    return made


def _zstd_compressor() -> Compressor:
    try:
        made: Compressor = import_module("compression.zstd").ZstdCompressor()
    except ImportError:
        made = _zstandard().ZstdCompressor().compressobj()
    return made


def _zstandard() -> ModuleType:
    with needs_extra("a .zst file", "zst"):
        return import_module("zstandard")


_CODECS = (
    Codec("gz", b"\x1f\x8b", lambda: zlib.decompressobj(wbits=31),
          lambda: zlib.compressobj(wbits=31)),
    Codec("xz", b"\xfd7zXZ\0", lzma.LZMADecompressor, lzma.LZMACompressor),
    Codec("zst", b"\x28\xb5\x2f\xfd", _zstd_decompressor, _zstd_compressor),
)
# bytes that are decompressed at once: not all libraries can limit the output, which is up to 32
# megabytes for a kilobyte of zstandard
_STEP = 1 << 10
EXTENSIONS = tuple(f".{codec.name}" for codec in _CODECS)


def could_be_compressed(head: bytes) -> bool:
    """Whether more bytes are needed to decide; a pipe must not wait for bytes in vain."""
    return any(len(head) < len(c.magic) and c.magic.startswith(head) for c in _CODECS)


def codec_of(head: bytes) -> Codec | None:
    return next((c for c in _CODECS if head.startswith(c.magic)), None)


def codec_for(path: str) -> Codec | None:
    return next((c for c in _CODECS if path.endswith("." + c.name)), None)


def decompressed(chunks: Iterable[bytes], codec: Codec, name: str) -> Iterator[bytes]:
    """The content of any number of concatenated compressed streams."""
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


def _decompress(decompressor: Decompressor, data: bytes, codec: Codec, name: str) -> bytes:
    try:
        return decompressor.decompress(data)
    except Exception as error:  # each library has its own exceptions
        raise InputError(f"{name}: unreadable {codec.name}: {error}; "
                         "copy or make the file again") from None

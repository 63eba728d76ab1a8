"""Score matrices: one array per segment, in an .npz file that appears whole."""

from __future__ import annotations

import os
import shutil
import zipfile

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk.io.files import as_input_error, replace_file


class MatrixWriter:
    """Writes arrays into a folder beside the .npz file, and packs them when the run is finished.

    So a run can be resumed; an .npz file that was not closed could not be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        folder, name = os.path.split(path)
        self._parts = os.path.join(folder, f".{name}.minrisk")

    def begin(self, resume: bool = False) -> None:
        if os.path.islink(self._parts):
            raise InputError(f"{self._parts} is a link; remove it, or name another file")
        with as_input_error("write", self.path):
            if not resume:
                shutil.rmtree(self._parts, ignore_errors=True)
            if not os.path.isdir(self._parts):
                os.mkdir(self._parts)

    def add(self, index: int, matrix: Floats) -> None:
        with as_input_error("write", self.path), open(self._part(index), "wb") as stream:
            np.lib.format.write_array(stream, matrix, allow_pickle=False)

    def pack(self) -> None:
        """Write the .npz file; segments that failed have no matrix."""
        temporary = os.path.join(self._parts, "npz")
        with as_input_error("write", self.path):
            names = sorted((n for n in os.listdir(self._parts) if n.endswith(".npy")),
                           key=lambda name: int(name.removesuffix(".npy")))
            with zipfile.ZipFile(temporary, "w") as archive:
                for name in names:
                    archive.write(os.path.join(self._parts, name), name)
        replace_file(temporary, self.path)

    def clean(self) -> None:
        """Remove the folder, when the run will not be resumed."""
        shutil.rmtree(self._parts, ignore_errors=True)

    def _part(self, index: int) -> str:
        return os.path.join(self._parts, f"{index}.npy")

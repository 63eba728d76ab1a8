"""Score matrices: an array for each segment, in an .npz that appears whole."""

from __future__ import annotations

import os
import shutil
import zipfile

import numpy as np

from minrisk._core.arrays import Floats
from minrisk.io.files import as_input_error, replace_file


class MatrixWriter:
    """Keeps arrays in a folder beside the file, so that a run can be resumed, and then packs them.

    An .npz that is not closed, as after a kill, could not be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        folder, name = os.path.split(path)
        self._parts = os.path.join(folder, f".{name}.minrisk")

    def begin(self, resume: bool = False) -> None:
        with as_input_error("write", self.path):
            if not resume:
                shutil.rmtree(self._parts, ignore_errors=True)
            if not os.path.isdir(self._parts):
                os.mkdir(self._parts)

    def add(self, index: int, matrix: Floats) -> None:
        with as_input_error("write", self.path), open(self._part(index), "wb") as stream:
            np.lib.format.write_array(stream, matrix, allow_pickle=False)

    def pack(self) -> None:
        """Make the file of what there is: segments that failed have no matrix."""
        temporary = os.path.join(self._parts, "npz")
        with as_input_error("write", self.path):
            names = sorted((n for n in os.listdir(self._parts) if n.endswith(".npy")),
                           key=lambda name: int(name.removesuffix(".npy")))
            with zipfile.ZipFile(temporary, "w") as archive:
                for name in names:
                    archive.write(os.path.join(self._parts, name), name)
        replace_file(temporary, self.path)

    def clean(self) -> None:
        """Nobody will resume the run."""
        shutil.rmtree(self._parts, ignore_errors=True)

    def _part(self, index: int) -> str:
        return os.path.join(self._parts, f"{index}.npy")

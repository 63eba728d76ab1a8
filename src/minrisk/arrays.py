"""The array types that everything exchanges. Sizes in comments: H, R, G, D."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

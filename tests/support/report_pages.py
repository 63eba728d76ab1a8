"""What is inside a page of `minrisk inspect`."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any, NamedTuple

_ELEMENT = re.compile(r'<script type="text/plain" id="([a-z0-9-]+)">([A-Za-z0-9+/=]*)</script>')


class PageData(NamedTuple):
    index: dict[str, Any]
    details: list[dict[str, Any]]

    def column(self, name: str) -> list[Any]:
        return self.index["columns"][name]


def page_data(html: str) -> PageData:
    found = {name: json.loads(zlib.decompress(base64.b64decode(data)))
             for name, data in _ELEMENT.findall(html)}
    index = found.pop("index")
    parts = [found[f"part-{number}"] for number in range(len(index["parts"]))]
    return PageData(index, [details for part in parts for details in part])

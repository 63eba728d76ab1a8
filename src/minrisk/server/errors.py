"""Errors in the form that clients of OpenAI's protocol expect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from minrisk._core.errors import MinriskError
from minrisk.openai.errors import ErrorResponse, error_response

NO_RETRY = {"x-should-retry": "false"}  # minrisk has retried already
ABSTAINED = "abstained"  # the code of an error that is no failure: the samples disagree
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error",
          429: "rate_limit_error"}
_PASSED_HEADERS = ("retry-after", "retry-after-ms")


class ApiError(Exception):
    """An error that the client gets, with its HTTP status."""

    def __init__(self, status: int, message: str, *, param: str | None = None,
                 code: str | None = None, headers: Mapping[str, str] | None = None,
                 content: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers = dict(headers or {})
        self._content = content  # from the upstream, passed on unchanged

    def __reduce__(self) -> tuple[Any, ...]:
        return _api_error, (self.status, str(self), self.param, self.code, self.headers,
                            self._content)

    @property
    def body(self) -> dict[str, Any]:
        """OpenAI's error object."""
        kind = _KINDS.get(self.status, "invalid_request_error" if self.status < 500
                          else "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param,
                          "code": self.code}}

    @property
    def content(self) -> str:
        return json.dumps(self.body) if self._content is None else self._content


def _api_error(status: int, message: str, param: str | None, code: str | None,
               headers: Mapping[str, str], content: str | None) -> ApiError:
    return ApiError(status, message, param=param, code=code, headers=headers, content=content)


def upstream_error(error: MinriskError) -> ApiError:
    """The upstream's own error where there is one; the upstream's address is not disclosed."""
    response = error_response(error)
    if response is None:
        return ApiError(502, "the upstream did not answer; try again later",
                        code="upstream_unavailable", headers=NO_RETRY)
    if not 400 <= response.status < 500:
        return ApiError(502, f"the upstream answered with status {response.status}; "
                        "try again later", code="upstream_error", headers=NO_RETRY)
    if response.status in (401, 403, 407):  # about the server's key, not the client's
        return ApiError(502, f"the upstream refuses the server's key (status {response.status}); "
                        "the operator must fix the key", code="upstream_key", headers=NO_RETRY)
    return ApiError(response.status, str(error), headers=_retry_headers(response) | NO_RETRY,
                    content=_object(response))


def _retry_headers(response: ErrorResponse) -> dict[str, str]:
    return {name: value for name, value in response.headers.items()
            if name.lower() in _PASSED_HEADERS or name.lower().startswith("x-ratelimit-")}


def _object(response: ErrorResponse) -> str:
    """The unchanged body if it is JSON with an error, else its text in such an object."""
    try:
        found = json.loads(response.content)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and isinstance(found.get("error"), dict):
        return response.content
    message = (found.get("message") or found.get("detail") or found.get("error")
               if isinstance(found, dict) else None)
    words = message if isinstance(message, str) else response.content[:500]
    return json.dumps(ApiError(response.status, words or "the upstream refused").body)

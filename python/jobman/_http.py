"""Requests to a jobman server with the standard library: errors, retries, bytes and streams."""

from __future__ import annotations

import json as json_module
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar

_max_tries = 3
_pause_seconds = 0.3
#: After an answer that the server, or its database, cannot serve the request now: 16 s.
_max_tries_if_busy = 9
_busy_seconds = 2
_block_size = 64 * 1024
_loopback = ("localhost", "127.0.0.1", "::1")


class JobmanError(Exception):
    """An answer with an error, or no answer. The text is the server's sentence; `lines` say what to do."""

    def __init__(self, message: str, problem: Optional[Mapping[str, Any]] = None) -> None:
        self.message = message
        problem = problem or {}
        #: The status of HTTP; None without an answer.
        self.status: Optional[int] = problem.get("status")
        #: The code of the problem, such as `not_found`, `conflict`, `forbidden`, `usage`.
        self.code: str = problem.get("code", "unreachable")
        #: The exit code of the jobman command for this error.
        self.exit_code: int = problem.get("exitCode", 5)
        self.lines: List[str] = list(problem.get("lines", ()))
        #: The mistakes of a manifest, with line and column.
        self.problems: List[Dict[str, Any]] = list(problem.get("problems", ()))
        super().__init__("\n".join([message, *self.lines]))


class UsageError(JobmanError):
    """The request is wrong."""

    def __init__(self, message: str, problem: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message, problem or {"code": "usage", "exitCode": 2})


class NotFoundError(JobmanError):
    """There is no such job, log or path."""


class ConflictError(JobmanError):
    """The state of the job forbids it."""


class ForbiddenError(JobmanError):
    """The token does not count, or its user may not do it."""


class UnreachableError(JobmanError):
    """The server does not answer, or a database, a cloud or a worker behind it."""


_errors = {400: UsageError, 413: UsageError, 401: ForbiddenError, 403: ForbiddenError, 404: NotFoundError}
_errors.update({409: ConflictError, 412: ConflictError, 429: UnreachableError, 503: UnreachableError})


class LogPart(NamedTuple):
    """Bytes of a log from an offset on."""

    bytes: bytes
    #: Their first byte.
    start: int
    #: The end of the log now.
    end: int
    #: No more bytes follow.
    is_complete: bool


class Blob(NamedTuple):
    """A content with its digest, `sha256:` and 64 digits."""

    digest: str
    content: bytes


_Row = TypeVar("_Row")


class Rows(List[_Row]):
    """All rows of a list, or as many as the limit says."""

    #: The cursor of the next page; None after the last one.
    next: Optional[str] = None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Connection:
    """A server and a token. Safe to use from several threads."""

    #: Of this package.
    _version: str

    def __init__(self, server: str, token: str, *, ca: Optional[str] = None, timeout: float = 180) -> None:
        parts = urllib.parse.urlsplit(server)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise UsageError(f"{server} is not the address of a server, such as https://jobman.example.org.")
        if parts.scheme == "http" and parts.hostname not in _loopback:
            raise UsageError(f"{server} would send the token in clear text. Use https.")
        self.server = server.rstrip("/")
        self._token = token
        self._timeout = timeout
        try:
            context = ssl.create_default_context(cafile=ca)
        except OSError as error:
            raise UsageError(f"The certificates {ca} cannot be used: {error}.") from error
        self._opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))

    def __repr__(self) -> str:
        return f"<jobman server {self.server}>"

    # ------------------------------------------------------------------ answers, one method for each kind

    def _json(self, method: str, path: str, **parts: Any) -> Any:
        with self._open(method, path, **parts) as answer:
            text = self._read(answer)
        return json_module.loads(text) if text else None

    def _rows(self, method: str, path: str, *, query: Mapping[str, Any]) -> Any:
        rows: Rows[Any] = Rows()
        limit = query["limit"]
        parameters = dict(query)
        while True:
            page = self._json(method, path, query=parameters)
            rows.extend(page["rows"])
            rows.next = page.get("next")
            if rows.next is None or (limit is not None and len(rows) >= limit):
                return rows
            parameters["cursor"] = rows.next
            if limit is not None:
                parameters["limit"] = limit - len(rows)

    def _bytes(self, method: str, path: str, **parts: Any) -> bytes:
        with self._open(method, path, **parts) as answer:
            return self._read(answer)

    def _log(self, method: str, path: str, **parts: Any) -> LogPart:
        with self._open(method, path, **parts) as answer:
            headers = answer.headers
            return LogPart(
                self._read(answer),
                int(headers["jobman-log-from"]),
                int(headers["jobman-log-end"]),
                headers["jobman-log-complete"] == "true",
            )

    def _chunks(self, method: str, path: str, **parts: Any) -> Iterator[bytes]:
        with self._open(method, path, **parts) as answer:
            while True:
                block = self._reading(answer.read1, _block_size)
                if not block:
                    return
                yield block

    def _events(self, method: str, path: str, **parts: Any) -> Iterator[Any]:
        with self._open(method, path, **parts) as answer:
            for kind, data in self._parse_events(answer):
                if kind == "end":
                    return
                value: Any = json_module.loads(data) if data else None
                if kind == "problem":
                    raise _error_of(value)
                yield value
        raise UnreachableError(f"The connection to the server {self.server} ended early.")

    def _parse_events(self, answer: Any) -> Iterator[Tuple[str, str]]:
        kind, data = "message", []  # type: Tuple[str, List[str]]
        while True:
            line = self._reading(answer.readline)
            if not line:
                return
            text = line.decode().rstrip("\n")
            if text == "":
                if data:
                    yield kind, "\n".join(data)
                kind, data = "message", []
                continue
            field, _, value = text.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "data":
                data.append(value)
            elif field == "event":
                kind = value

    # ------------------------------------------------------------------ requests

    def _open(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        json: Any = None,
        bytes: Optional[bytes] = None,
        blobs: Optional[Sequence[Blob]] = None,
    ) -> Any:
        parameters = [(name, text) for name, value in (query or {}).items() for text in _texts(value)]
        url = self.server + path + (f"?{urllib.parse.urlencode(parameters)}" if parameters else "")
        headers = {"authorization": f"Bearer {self._token}", "accept": "*/*", "jobman-version": self._version}
        body = bytes
        if blobs is not None:
            body = b"".join(f"{digest} {len(content)}\n".encode() + content for digest, content in blobs)
        if body is None and method in ("POST", "PUT", "PATCH"):
            body = json_module.dumps(_without_none(json or {})).encode()
            headers["content-type"] = "application/json"
        elif body is not None:
            headers["content-type"] = "application/octet-stream"
        # A request that changes something is repeated only if its key lets the server do it once.
        may_repeat = method == "GET" or (isinstance(json, Mapping) and "idempotencyKey" in json)
        tries = 0
        while True:
            tries += 1
            request = urllib.request.Request(url, data=body, headers=headers, method=method)
            try:
                return self._opener.open(request, timeout=self._timeout)
            except urllib.error.HTTPError as error:
                if may_repeat and error.headers.get("retry-after") and tries < _max_tries_if_busy:
                    error.close()
                    time.sleep(_busy_seconds)
                    continue
                with error:
                    raise self._error(error.code, error.headers, error.read()) from None
            except (OSError, HTTPException) as error:
                if not may_repeat or tries == _max_tries:
                    reason = getattr(error, "reason", None) or error or type(error).__name__
                    raise UnreachableError(f"The server {self.server} does not answer: {reason}.") from error
                time.sleep(_pause_seconds * tries)

    def _read(self, answer: Any) -> bytes:
        return self._reading(answer.read)

    def _reading(self, read: Callable[..., bytes], *arguments: Any) -> bytes:
        try:
            return read(*arguments)
        except (OSError, HTTPException) as error:
            raise UnreachableError(f"The connection to the server {self.server} ended early.") from error

    def _error(self, status: int, headers: Any, body: bytes) -> JobmanError:
        if (headers.get("content-type") or "").startswith("application/problem+json"):
            return _error_of(json_module.loads(body))
        return UnreachableError(f"{self.server} does not answer like a jobman server: status {status}.")

    @staticmethod
    def _segment(value: Any) -> str:
        """A segment of a path. Programs on the way remove an empty one, `.` and `..`."""
        text = str(value)
        if text in ("", ".", "..") or text.startswith("~"):
            text = f"~{text}"
        return urllib.parse.quote(text, safe="")


def _error_of(problem: Mapping[str, Any]) -> JobmanError:
    return _errors.get(problem.get("status", 0), JobmanError)(problem.get("detail", ""), problem)


def _texts(value: Any) -> List[str]:
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [_text(one) for one in value] or [""]
    return [_text(value)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_module.dumps(value)


def _without_none(value: Any) -> Any:
    """Absent members. None inside of a value stays: it is null there."""
    return {name: one for name, one in value.items() if one is not None} if isinstance(value, dict) else value

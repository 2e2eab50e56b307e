"""A client of a jobman server: `jobman.connect("https://jobman.example.org", token)`.

`Client` has every operation of the HTTP API (docs/api.md) as a method, and a few that combine several."""

from __future__ import annotations

import base64
import hashlib
import os
import time
import uuid
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

from jobman._api import CreatedJob, GivenFile, JobRow, JobView, ManifestProblem, ManifestRequest, Operations
from jobman._http import (
    Blob,
    ConflictError,
    Connection,
    ForbiddenError,
    JobmanError,
    LogPart,
    NotFoundError,
    UnreachableError,
    UsageError,
)

__all__ = [
    "Blob",
    "Client",
    "ConfirmationRequired",
    "ConflictError",
    "Connection",
    "ForbiddenError",
    "JobmanError",
    "LogChunk",
    "LogPart",
    "NotFoundError",
    "UnreachableError",
    "UsageError",
    "connect",
]

_finished = ("succeeded", "failed", "stopped", "cancelled")
_log_block = 256 * 1024


class ConfirmationRequired(ConflictError):
    """The server asks a person first. Repeat the call with `confirmed=error.tokens`."""

    def __init__(self, confirmation: Mapping[str, Any]) -> None:
        reasons = confirmation["reasons"]
        message = "; ".join(reason["message"] for reason in reasons)
        super().__init__(
            f"This needs a confirmation: {message}.",
            {"code": "confirmation_required", "exitCode": 4, "status": 409},
        )
        self.reasons: List[Dict[str, Any]] = reasons
        self.tokens: List[str] = [reason["token"] for reason in reasons]


def _refusal(reasons: Sequence[Mapping[str, Any]]) -> Optional[ConflictError]:
    """The error if no confirmation helps: a limit of the user is reached, or a budget is used up."""
    final = [reason for reason in reasons if reason["token"] is None]
    if not final:
        return None
    return ConflictError(
        f"Nothing was created: {'; '.join(reason['message'] for reason in final)}.",
        {"code": "conflict", "exitCode": 4, "status": 409, "lines": list({reason["remedy"]: None for reason in final})},
    )


class LogChunk(NamedTuple):
    """New bytes of the output of a worker."""

    worker: Union[float, str, None]
    attempt: Optional[float]
    bytes: bytes


def connect(
    server: Optional[str] = None, token: Optional[str] = None, *, ca: Optional[str] = None, timeout: float = 180
) -> Client:
    """By default the server and token of JOBMAN_SERVER and JOBMAN_TOKEN. `ca`: a file with the authority of the server.
    Connects with the first call; `timeout` is the longest silence in seconds."""
    server = server or os.environ.get("JOBMAN_SERVER")
    token = token or os.environ.get("JOBMAN_TOKEN")
    if not server or not token:
        raise UsageError("connect needs a server and a token, or JOBMAN_SERVER and JOBMAN_TOKEN.")
    return Client(server, token, ca=ca, timeout=timeout)


class Client(Operations):
    """Every method raises JobmanError."""

    def jobs(self, *, page_size: int = 100, **filters: Any) -> Iterator[JobRow]:
        """All jobs that pass the filters of `list`, newest first, page by page."""
        cursor: Optional[str] = None
        while True:
            page = self.list(limit=page_size, cursor=cursor, **filters)
            yield from page["rows"]
            cursor = page.get("next")
            if cursor is None:
                return

    def create_from(
        self,
        manifest: Union[str, os.PathLike[str]],
        *,
        sets: Sequence[str] = (),
        confirmed: Sequence[str] = (),
        start: bool = True,
    ) -> CreatedJob:
        """Creates the job of a manifest file, with the files and variables that the manifest names. Files that it does not
        name are not sent. `sets`: as `--set`. Raises ConfirmationRequired if a person should be asked first."""
        path = Path(manifest).absolute()
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"The manifest {path} cannot be read: {error}.") from error
        request: ManifestRequest = {
            "text": text,
            "folder": str(path.parent),
            "home": str(Path.home()),
            "file": path.name,
            "sets": list(sets),
            "files": {},
            "variables": {},
        }
        named = _Named("\n".join([text, *sets]), path.parent)
        while True:
            answer = self.read_manifest(request)
            if answer["kind"] == "spec":
                break
            for wanted in answer["paths"]:
                request["files"][wanted] = named.describe(wanted)
            for wanted in answer["contents"]:
                request["files"][wanted] = named.describe(wanted, with_content=True)
            for variable in answer["variables"]:
                request["variables"][variable] = named.variable(variable)
        secrets = {one["secret"]: base64.b64encode(named.secret(one)).decode() for one in answer["secrets"]}
        created = self.create(
            {
                "spec": answer["spec"],
                "manifest": answer["manifest"],
                "secrets": secrets,
                "confirmed": list(confirmed),
                "idempotencyKey": str(uuid.uuid4()),
            }
        )
        if created["kind"] == "confirmation_required":
            raise _refusal(created["confirmation"]["reasons"]) or ConfirmationRequired(created["confirmation"])
        if start:
            self.wake()
        created["warnings"] = [_line(warning) for warning in answer["warnings"]] + created["warnings"]
        return created

    def upload(self, contents: Sequence[bytes]) -> List[str]:
        """Stores contents that the server lacks. Returns their digests, which a spec may name."""
        blobs = [Blob(f"sha256:{hashlib.sha256(content).hexdigest()}", content) for content in contents]
        digests = [digest for digest, _ in blobs]
        stored = set(self.has_blobs(digests, sizes=[len(blob.content) for blob in blobs])) if digests else set()
        for blob in blobs:
            if blob.digest not in stored:
                self.put_blobs([blob])
        return digests

    def follow_logs(self, ref: str, *, interval: float = 1) -> Iterator[LogChunk]:
        """The output of all workers and attempts from the newest attempt on, until the job has finished."""
        offsets: Dict[str, int] = {}
        while True:
            # First, so that the output of a job that finishes meanwhile is read once more.
            is_finished = self.show(ref)["phase"] in _finished
            has_news = False
            for log in self.logs(ref):
                while True:
                    part = self.read_log(ref, log["id"], offsets.get(log["id"], 0), _log_block)
                    offsets[log["id"]] = part.start + len(part.bytes)
                    if not part.bytes:
                        break
                    has_news = True
                    yield LogChunk(log["worker"], log["attempt"], part.bytes)
            if is_finished and not has_news:
                return
            if not has_news:
                time.sleep(interval)

    def wait(self, ref: str, *, interval: float = 2, timeout: Optional[float] = None) -> JobView:
        """The job once it has finished. Raises TimeoutError after that many seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            view = self.show(ref)
            if view["phase"] in _finished:
                return view
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"job {view['id']} is {view['phase']} after {timeout} seconds")
            time.sleep(interval)


def _line(problem: ManifestProblem) -> str:
    """`train.yaml:3:5: job.name: must not be empty`"""
    line, column, key = problem["line"], problem["column"], problem["key"]
    position = "" if line is None else f":{line}:{column}"
    return f"{problem['file']}{position}: {key and f'{key}: '}{problem['message']}"


class _Named:
    """What the server may ask for: only what the manifest names, so that no server can read other files."""

    def __init__(self, text: str, folder: Path) -> None:
        self._text = text
        self._folder = folder

    def describe(self, wanted: str, with_content: bool = False) -> GivenFile:
        path = Path(wanted)
        if path == self._folder and not with_content:
            return {"kind": "folder", "entries": []}
        self._require(wanted)
        try:
            if path.is_dir():
                return {"kind": "folder", "entries": sorted(os.listdir(path))}
            if not path.is_file():
                return {"kind": "absent"}
            found: Dict[str, Any] = {
                "kind": "file",
                "bytes": path.stat().st_size,
                "isExecutable": os.access(path, os.X_OK),
            }
            if with_content:
                found["base64"] = base64.b64encode(path.read_bytes()).decode()
            return found  # type: ignore[return-value]
        except OSError as error:
            raise UsageError(f"{wanted} cannot be read: {error.strerror}.") from error

    def variable(self, name: str) -> Optional[str]:
        if name not in self._text:
            raise UsageError(f"The server asks for the variable {name}, which the manifest does not name.")
        return os.environ.get(name)

    def secret(self, source: Mapping[str, Any]) -> bytes:
        if "variable" in source:
            return (self.variable(source["variable"]) or "").encode()
        self._require(source["path"])
        return Path(source["path"]).read_bytes()

    def _require(self, wanted: str) -> None:
        path = Path(wanted)
        above = [path, *path.parents]
        for base, prefix in ((self._folder, ""), (Path.home(), "~/")):
            inside = [one for one in above if base in one.parents]
            if any(f"{prefix}{one.relative_to(base).as_posix()}" in self._text for one in inside):
                return
        # `../data` or an absolute path, but not the root.
        others = [str(one) for one in above[:-1]] + [os.path.relpath(one, self._folder) for one in above[:-1]]
        if any(len(one) > 2 and one in self._text for one in others if one not in (".", "..")):
            return
        raise UsageError(f"The server asks for the file {wanted}, which the manifest does not name.")

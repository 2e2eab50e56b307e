"""Finds jobman's program and becomes it, so that signals, streams and the exit code are its own."""

import os
import shutil
import sys
from pathlib import Path
from typing import List, NoReturn, Optional

_unreachable = 5
_usage = 2


def main() -> NoReturn:
    """`jobman ...` with the arguments of this process."""
    become(sys.argv[1:])


def setup(module: str) -> NoReturn:
    """`python -m jobman.<module> <job> [--force]` is `jobman setup <job> <module> [--force]`."""
    if len(sys.argv) < 2:
        sys.stderr.write(f"jobman: Say which job, for example: {_spoken(module)} 42\n")
        sys.exit(_usage)
    if sys.argv[1] in ("-h", "--help"):
        become(["setup", "--help"])
    become(["setup", sys.argv[1], module, *sys.argv[2:]])


def become(arguments: List[str]) -> NoReturn:
    """Replaces this process by `jobman <arguments>`. Leaves with a sentence and exit code 5 where it cannot be found."""
    program = _find()
    if program is None:
        sys.stderr.write(
            "jobman: This is only its Python door, and its program is not there. In a checkout of jobman:"
            " npm install && pip install -e .\n"
        )
        sys.exit(_unreachable)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [program, *arguments])


def _find() -> Optional[str]:
    """The checkout that this file belongs to, else a `jobman` on the PATH that is not this door again."""
    beside = Path(__file__).resolve().parents[2] / "bin" / "jobman"
    if beside.is_file():
        return str(beside)
    for folder in os.get_exec_path():
        found = shutil.which("jobman", path=folder)
        if found is not None and not _is_this_door(Path(found)):
            return found
    return None


def _is_this_door(script: Path) -> bool:
    with script.open("rb") as file:
        return b"jobman.program" in file.read(4096)


def _spoken(module: str) -> str:
    package = {"docker": "envs.docker", "conda": "envs.conda", "venv": "envs.venv"}.get(module, module)
    return f"python -m jobman.{package}"

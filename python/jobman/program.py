"""Finds the program jobman and replaces this process by it, so that signals, streams and the exit code are its own."""

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
        sys.stderr.write(f"jobman: Say which job, for example: {_command_line(module)} 42\n")
        sys.exit(_usage)
    if sys.argv[1] in ("-h", "--help"):
        become(["setup", "--help"])
    become(["setup", sys.argv[1], module, *sys.argv[2:]])


def become(arguments: List[str]) -> NoReturn:
    """Replaces this process by `jobman <arguments>`. Exits with a message and code 5 when it is missing."""
    program = _find()
    if program is None:
        sys.stderr.write(
            "jobman: The Python package found no jobman program. In a checkout of jobman, run:"
            " npm install && pip install -e .\n"
        )
        sys.exit(_unreachable)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [program, *arguments])


def _find() -> Optional[str]:
    """The program in this checkout, else a `jobman` on PATH that is not this package's own script."""
    in_checkout = Path(__file__).resolve().parents[2] / "bin" / "jobman"
    if in_checkout.is_file():
        return str(in_checkout)
    for folder in os.get_exec_path():
        found = shutil.which("jobman", path=folder)
        if found is not None and not _is_own_script(Path(found)):
            return found
    return None


def _is_own_script(script: Path) -> bool:
    with script.open("rb") as file:
        return b"jobman.program" in file.read(4096)


def _command_line(module: str) -> str:
    package = {"docker": "envs.docker", "conda": "envs.conda", "venv": "envs.venv"}.get(module, module)
    return f"python -m jobman.{package}"

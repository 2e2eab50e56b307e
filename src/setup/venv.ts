// Venv: a Python virtual environment with the packages of a requirements file, on a worker or inside a container.

import type { SetupStep } from '../core/spec.ts';
import { minute } from '../core/time.ts';
import { aptFunctions } from './apt.ts';
import type { VenvModule } from './modules.ts';
import { quote, quotePath, writeFile } from './quote.ts';
import { keyOf, step } from './step.ts';

export function venvStep(module: VenvModule): SetupStep {
  return step({ name: 'venv', check: venvCheck(module), apply: venvEnsure(module), timeout: 60 * minute });
}

/** Exits 0 when the environment is there and was made by this Python with these requirements. */
export function venvCheck(module: VenvModule): string {
  return `folder=${quotePath(module.folder)}
[ -x "$folder/bin/python" ] && [ "$(cat "$folder/.jobman" 2>/dev/null)" = ${keyOf(module)} ]
`;
}

/** Makes the environment and installs what is missing. A script of its own; applying it again changes nothing. */
export function venvEnsure(module: VenvModule): string {
  const { folder, python, requirements } = module;
  const packages =
    requirements === null
      ? ''
      : `${writeFile('"$folder/requirements.jobman.txt"', requirements)}"$folder/bin/python" -m pip install --upgrade pip || exit 1
"$folder/bin/python" -m pip install -r "$folder/requirements.jobman.txt" || exit 1
`;
  return `folder=${quotePath(folder)}
python=${quote(python)}
if [ -x "$folder/bin/python" ] && [ "$(cat "$folder/.jobman" 2>/dev/null)" = ${keyOf(module)} ]; then
  exit 0
fi
mkdir -p "$(dirname "$folder")" || exit 1
# Debian keeps the module venv in a package of its own, so the first try may fail for want of it.
if ! "$python" -m venv "$folder"; then
  case $python in
    */*)
      if [ -x "$python" ]; then echo "$python cannot make a virtual environment." >&2; else echo "There is no $python on this host." >&2; fi
      exit 1
      ;;
  esac
  echo "$python cannot make a virtual environment yet; installing what it lacks."
  lacks="$python makes no virtual environment on this host"
  command -v "$python" >/dev/null || lacks="$python is not installed on this host"
${aptFunctions}
  apt_update
  isInstalled=yes
  apt_install "$python" "$python-venv" || isInstalled=
  if ! command -v "$python" >/dev/null; then
    echo "$python is not installed on this host, and its package sources do not have it." >&2
    exit 1
  fi
  [ -n "$isInstalled" ] || exit 1
  if ! "$python" -m venv "$folder"; then
    echo "$python makes no virtual environment on this host, even with the package $python-venv." >&2
    exit 1
  fi
fi
${packages}echo ${keyOf(module)} >"$folder/.jobman"
`;
}

/** The end of a script: becomes the command, in the environment. */
export function venvExec(module: VenvModule, command: string): string {
  return `folder=${quotePath(module.folder)}
. "$folder/bin/activate" || { echo "There is no virtual environment at $folder." >&2; exit 127; }
exec ${command}
`;
}

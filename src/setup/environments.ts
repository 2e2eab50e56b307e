import type { SetupStep } from '../core/model/spec.ts';
import { minute } from '../core/model/time.ts';
import type { CondaModule, VenvModule } from './modules.ts';
import { quote } from '../catalogue/shell.ts';
import { writeFile, contentKey, createStep, aptFunctions, quotePath } from './script.ts';

export function condaStep(module: CondaModule): SetupStep {
  return createStep({ name: 'conda', check: condaCheck(module), apply: condaEnsure(module), timeoutMs: 60 * minute });
}

/** Exits 0 when the environment exists and was made from this file. */
export function condaCheck(module: CondaModule): string {
  const { environment, config } = module;
  const stampCheck = config === null ? '' : `[ "$(cat "$stamp" 2>/dev/null)" = ${contentKey(config)} ] || exit 1\n`;
  return `${findConda}find_conda || exit 1\nenvironment=${quote(environment)}\n${condaFunctions}has_environment || exit 1\n${stampCheck}`;
}

/** A complete script that makes or updates the environment. Safe to repeat. */
export function condaEnsure(module: CondaModule): string {
  const { environment, config } = module;
  const make =
    config === null
      ? `has_environment || {
  echo "The conda environment $environment does not exist, and conda.config_file is not set." >&2
  exit 1
}
`
      : `if has_environment && [ "$(cat "$stamp" 2>/dev/null)" = ${contentKey(config)} ]; then
  exit 0
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
# Anaconda requires acceptance of its terms before the first use; older versions of conda lack this command.
if "$conda" tos --help >/dev/null 2>&1; then
  for channel in main r; do
    "$conda" tos accept --override-channels --channel "https://repo.anaconda.com/pkgs/$channel" || exit 1
  done
fi
${writeFile('"$folder/environment.yaml"', config)}if has_environment; then
  "$conda" env update -n "$environment" -f "$folder/environment.yaml" --prune || exit 1
else
  "$conda" env create -n "$environment" -f "$folder/environment.yaml" --yes || exit 1
fi
mkdir -p "\${stamp%/*}" && echo ${contentKey(config)} >"$stamp"
`;
  return `${findConda}environment=${quote(environment)}\n${condaFunctions}${installConda}${make}`;
}

/** The end of a script. The process becomes the command. */
export function condaExec(module: CondaModule, command: string): string {
  return `${findConda}find_conda || { echo 'conda is not installed on this host.' >&2; exit 127; }
exec "$conda" run --no-capture-output -n ${quote(module.environment)} ${command}
`;
}

const findConda = `find_conda() {
  for conda in "$(command -v conda 2>/dev/null)" "$HOME/miniconda/bin/conda" "$HOME/miniconda3/bin/conda" /opt/conda/bin/conda; do
    if [ -n "$conda" ] && [ -x "$conda" ]; then return 0; fi
  done
  return 1
}
`;

const condaFunctions = `stamp=$HOME/.jobman/conda/$environment
has_environment() { "$conda" env list 2>/dev/null | awk -v name="$environment" '$1 == name { found = 1 } END { exit !found }'; }
`;

const installConda = `if ! find_conda; then
  installer=$(mktemp) || exit 1
  curl -fsSL --retry 5 -o "$installer" "https://repo.anaconda.com/miniconda/Miniconda3-latest-Linux-$(uname -m).sh" || exit 1
  bash "$installer" -b -u -p "$HOME/miniconda" || exit 1
  rm -f "$installer"
  find_conda || { echo 'Miniconda was installed, but conda was not found.' >&2; exit 1; }
fi
`;

export function venvStep(module: VenvModule): SetupStep {
  return createStep({ name: 'venv', check: venvCheck(module), apply: venvEnsure(module), timeoutMs: 60 * minute });
}

/** Exits 0 when the environment exists and was made by this Python with these requirements. */
export function venvCheck(module: VenvModule): string {
  return `folder=${quotePath(module.folder)}
[ -x "$folder/bin/python" ] && [ "$(cat "$folder/.jobman" 2>/dev/null)" = ${contentKey(module)} ]
`;
}

/** A complete script that makes the environment and installs missing packages. Safe to repeat. */
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
if [ -x "$folder/bin/python" ] && [ "$(cat "$folder/.jobman" 2>/dev/null)" = ${contentKey(module)} ]; then
  exit 0
fi
mkdir -p "$(dirname "$folder")" || exit 1
# On Debian the module venv is a separate package, so the first try may fail.
if ! "$python" -m venv "$folder"; then
  case $python in
    */*)
      if [ -x "$python" ]; then echo "$python cannot create a virtual environment." >&2; else echo "$python does not exist on this host." >&2; fi
      exit 1
      ;;
  esac
  echo "$python cannot create a virtual environment yet; installing its packages."
  lacks="$python cannot create a virtual environment on this host"
  command -v "$python" >/dev/null || lacks="$python is not installed on this host"
${aptFunctions}
  apt_update
  isInstalled=yes
  apt_install "$python" "$python-venv" || isInstalled=
  if ! command -v "$python" >/dev/null; then
    echo "$python is not installed on this host and not in its package sources." >&2
    exit 1
  fi
  [ -n "$isInstalled" ] || exit 1
  if ! "$python" -m venv "$folder"; then
    echo "$python cannot create a virtual environment on this host, even with the package $python-venv." >&2
    exit 1
  fi
fi
${packages}echo ${contentKey(module)} >"$folder/.jobman"
`;
}

/** The end of a script. The process becomes the command. */
export function venvExec(module: VenvModule, command: string): string {
  return `folder=${quotePath(module.folder)}
. "$folder/bin/activate" || { echo "The virtual environment $folder does not exist." >&2; exit 127; }
exec ${command}
`;
}

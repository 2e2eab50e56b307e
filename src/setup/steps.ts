import type { SetupStep } from '../core/model/spec.ts';
import { condaExec, condaStep, venvExec, venvStep } from './environments.ts';
import { dockerStep, runInContainer } from './docker.ts';
import { filesStep, sshStep } from './files.ts';
import { gcsfuseStep } from './gcsfuse.ts';
import type { EnvironmentModule, SetupModule, VariableNames } from './modules.ts';
import { writeFile, createStep } from './script.ts';

/** In order. With docker, a conda or virtual environment is made inside the container when the command starts. */
export function setupSteps(modules: readonly SetupModule[]): readonly SetupStep[] {
  const hasContainer = modules.some(({ name }) => name === 'docker');
  return modules
    .filter(({ name }) => !hasContainer || (name !== 'conda' && name !== 'venv'))
    .map((module) => {
      switch (module.name) {
        case 'files':
          return filesStep(module);
        case 'ssh':
          return sshStep(module);
        case 'gcsfuse':
          return gcsfuseStep(module);
        case 'docker':
          return dockerStep(module);
        case 'conda':
          return condaStep(module);
        case 'venv':
          return venvStep(module);
      }
    });
}

/** On a user's own machine a step that needs an administrator fails; its message begins with the script's `lacks`. */
export function withoutSudo(original: SetupStep): SetupStep {
  return createStep({ ...original, apply: `${failingSudo}${original.apply}` });
}

const failingSudo = `exec 8>&2
sudo() {
  while case $1 in -* | env | [A-Z]*=*) true ;; *) false ;; esac; do shift; done
  echo "\${lacks:+$lacks. }This step requires an administrator, and jobman does not use sudo on your own machine: $*" >&8
  exit 1
}
`;

/** The script becomes the user's script in its environment, so that signals and the exit code are the program's own. */
export function wrapCommand(
  script: string,
  environments: readonly EnvironmentModule[],
  variables: VariableNames,
): string {
  const docker = environments.find((module) => module.name === 'docker');
  const inner = environments.find((module) => module.name !== 'docker') ?? null;
  if (docker !== undefined)
    return runInContainer(docker, inner, script, runFileCommand('/jobman/command', script), variables);
  if (inner === null) return script;
  const command = runFileCommand('"$here/command"', script);
  return `here=$(cd "$(dirname "$0")" && pwd) || exit 1
${writeFile('"$here/command"', script)}chmod 755 "$here/command"
${inner.name === 'conda' ? condaExec(inner, command) : venvExec(inner, command)}`;
}

/** A script that names its interpreter gets it; any other runs in bash, or in sh where there is no bash. */
function runFileCommand(file: string, script: string): string {
  if (script.startsWith('#!')) return file;
  return `"$(command -v bash || echo sh)" ${file}`;
}

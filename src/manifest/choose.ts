// Choose: which of the sections that stand in a manifest are used, and in which order. Sections that are not chosen may
// stand there: people keep docker, conda and venv side by side and switch.

import type { EnvironmentName, ModuleName } from './keys.ts';

type StepModule = Exclude<ModuleName, 'command'>;

export interface Choice {
  /** In the order of the steps; `files` comes first unless `setup.modules` puts it elsewhere. */
  readonly modules: readonly StepModule[];
  readonly environments: readonly EnvironmentName[];
}

const environmentNames: readonly EnvironmentName[] = ['docker', 'conda', 'venv'];

/**
 * `isThere` tells whether a section stands in the manifest (for `files`: whether job.files has any). What is wrong is said
 * at a key: a section that is chosen and missing, two environments, or several and none chosen.
 */
export function chooseModules(given: Given): Choice {
  const { listed, isThere, refuse } = given;
  const steps = (listed ?? []).filter((name) => name !== 'command');
  for (const [index, name] of (listed ?? []).entries()) {
    if (listed?.indexOf(name) !== index) refuse(['setup', 'modules', index], `lists ${name} twice`);
  }

  const environments = chooseEnvironments(given, steps);
  for (const name of new Set([...steps, ...environments])) {
    if (isThere(name)) continue;
    const message =
      name === 'files' ? 'lists files, and job.files names none' : `chooses ${name}, and there is no section ${name}`;
    refuse(whoChose(name, steps), message);
  }
  const [first, second] = environments;
  if (first !== undefined && second !== undefined && (environments.length > 2 || !environments.includes('docker'))) {
    const rule = 'a command runs in one of them, or in a container and one of conda and venv inside it';
    refuse(whoChose(second, steps), `two environments are chosen, ${environments.join(' and ')}; ${rule}`);
  }

  const unasked: readonly StepModule[] = isThere('files') && !steps.includes('files') ? ['files'] : [];
  const ordered = listed === undefined ? (['ssh', 'gcsfuse'] as const).filter(isThere) : steps;
  return { modules: [...new Set([...unasked, ...ordered, ...environments])], environments };
}

interface Given {
  readonly listed: readonly ModuleName[] | undefined;
  readonly envType: EnvironmentName | undefined;
  /** Something stands at setup.modules or job.env_type, be it wrong: then it has been said, and nothing is missing. */
  readonly isTold: boolean;
  readonly isThere: (name: StepModule) => boolean;
  readonly refuse: (path: readonly (string | number)[], message: string) => void;
}

/** Those that are named; when nothing says anything, the one whose section stands alone. */
function chooseEnvironments(
  { listed, envType, isTold, isThere, refuse }: Given,
  steps: readonly StepModule[],
): readonly EnvironmentName[] {
  const named = environmentNames.filter((name) => steps.includes(name) || envType === name);
  if (named.length > 0 || listed !== undefined) return named;
  const there = environmentNames.filter(isThere);
  const [first, second] = there;
  if (first === undefined || second === undefined) return there;
  if (isTold) return [];
  refuse(
    [second],
    `${there.join(' and ')} stand here and none is chosen; say which with job.env_type, for example ${first}`,
  );
  return [];
}

function whoChose(name: StepModule, steps: readonly StepModule[]): readonly string[] {
  return steps.includes(name) ? ['setup', 'modules'] : ['job', 'env_type'];
}

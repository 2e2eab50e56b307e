// Choose: which of the sections that stand in a manifest are used, and in which order. Sections that are not chosen may
// stand there: people keep docker, conda and venv side by side and switch.

import type { EnvironmentName, ModuleName, Section } from './keys.ts';
import type { Sections } from './sections.ts';

type StepModule = Exclude<ModuleName, 'command'>;

export interface Choice {
  /** In the order of the steps; `files` comes first unless `setup.modules` puts it elsewhere. */
  readonly modules: readonly StepModule[];
  readonly environments: readonly EnvironmentName[];
}

const environmentNames: readonly EnvironmentName[] = ['docker', 'conda', 'venv'];

/**
 * Chooses the setup modules. Reports a section that is chosen and missing, two environments, or several and none chosen. Sections
 * that are left over are read for their slips only.
 */
export function readChoice(
  sections: Sections,
  job: Partial<Section<'job'>>,
  { modules: listed }: Partial<Section<'setup'>>,
): Choice {
  const isThere = (name: StepModule): boolean => {
    if (name === 'files') return job.files !== undefined && job.files.length > 0;
    return sections.has([name]) && !/^(false|no|off)$/i.test(sections.written([name, 'enabled']) ?? '');
  };
  const steps = (listed ?? []).filter((name) => name !== 'command');
  for (const [index, name] of (listed ?? []).entries()) {
    if (listed?.indexOf(name) !== index) sections.problem(['setup', 'modules', index], `lists ${name} twice`);
  }

  const environments = chooseEnvironments(sections, steps, job.env_type, listed !== undefined, isThere);
  for (const name of new Set([...steps, ...environments])) {
    if (isThere(name)) continue;
    const message =
      name === 'files' ? 'lists files, and job.files names none' : `chooses ${name}, and there is no section ${name}`;
    sections.problem(whoChose(name, steps), message);
  }
  const [first, second] = environments;
  if (first !== undefined && second !== undefined && (environments.length > 2 || !environments.includes('docker'))) {
    const rule = 'a command runs in one of them, or in a container and one of conda and venv inside it';
    sections.problem(whoChose(second, steps), `two environments are chosen, ${environments.join(' and ')}; ${rule}`);
  }

  const unasked: readonly StepModule[] = isThere('files') && !steps.includes('files') ? ['files'] : [];
  const ordered = listed === undefined ? (['ssh', 'gcsfuse'] as const).filter(isThere) : steps;
  const chosen = [...new Set([...unasked, ...ordered, ...environments])];
  // This machine is set up by its owner: jobman copies nothing to it, mounts nothing and writes no keys.
  const isLocal = isLocalJob(sections);
  const modules = isLocal ? chosen.filter((name) => environments.some((one) => one === name)) : chosen;
  for (const name of chosen) {
    if (modules.includes(name)) continue;
    sections.warning(
      name === 'files' ? ['job', 'files'] : [name],
      'is not used: the job runs on this machine, which is set up already',
    );
  }
  for (const name of ['ssh', 'gcsfuse', 'docker', 'conda', 'venv'] as const) {
    // The login key of the section ssh counts, whether or not the workers are given keys.
    if (!modules.includes(name) && (name !== 'ssh' || isLocal)) sections.readUnused(name);
  }
  sections.readUnused('vars');
  return { modules, environments };
}

/** Whether the manifest means this machine; what is wrong with a section makes it no other. */
export function isLocalJob(sections: Sections): boolean {
  return sections.stands('local');
}

/** Those that are named; when nothing says anything, the one whose section stands alone. */
function chooseEnvironments(
  sections: Sections,
  steps: readonly StepModule[],
  envType: EnvironmentName | undefined,
  isListed: boolean,
  isThere: (name: StepModule) => boolean,
): readonly EnvironmentName[] {
  const named = environmentNames.filter((name) => steps.includes(name) || envType === name);
  if (named.length > 0 || isListed) return named;
  const there = environmentNames.filter(isThere);
  const [first, second] = there;
  if (first === undefined || second === undefined) return there;
  // The value there is wrong, and has been reported.
  if (sections.has(['setup', 'modules']) || sections.has(['job', 'env_type'])) return [];
  sections.problem(
    [second],
    `${there.join(' and ')} stand here and none is chosen; say which with job.env_type, for example ${first}`,
  );
  return [];
}

function whoChose(name: StepModule, steps: readonly StepModule[]): readonly string[] {
  return steps.includes(name) ? ['setup', 'modules'] : ['job', 'env_type'];
}

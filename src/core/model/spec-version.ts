// Spec version: the specs that earlier versions have stored, in the format of this one. A stored spec is never rewritten,
// because it is the record of what its owner created.

import {
  ownHost,
  type CommandSpec,
  type HostsSpec,
  type JobSpec,
  type SecretRef,
  type SetupStep,
  type StepFile,
  type TpuSpec,
} from './spec.ts';

/** A spec or an outline as some version has stored it. */
export type StoredSpec = JobSpec | SpecOfVersion1;

/** Version 1 names files and folders of the machine that created the job. */
type SpecOfVersion1 = Omit<JobSpec, 'version' | 'capacity' | 'steps' | 'command' | 'workdir'> & {
  readonly version: 1;
  readonly capacity: (Omit<TpuSpec, 'privateKey'> & { readonly privateKey: string | null }) | LocalSpecOfVersion1;
  readonly steps: readonly (Omit<SetupStep, 'files'> & { readonly files: readonly StepFileOfVersion1[] })[];
  readonly workdir?: { readonly from: string };
  readonly command: Omit<CommandSpec, 'secrets'> & { readonly secrets?: Readonly<Record<string, SecretOfVersion1>> };
};

/** A job on this machine. Its folder is also in `command.workdir`. */
type LocalSpecOfVersion1 = Omit<HostsSpec, 'kind' | 'hosts'> & { readonly kind: 'local'; readonly workdir: string };

/** A file of the owner, or a variable of the user who created the job. */
type SecretOfVersion1 =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'environment'; readonly variable: string };

/**
 * The line of a script of `tpu run` with the command line of jobman. JOBMAN_HOME is a variable of every program on jobman's
 * own machine.
 */
export const launcherLine = 'jobman_launcher=(/bin/sh "$JOBMAN_HOME/program")';

/** `local`: a key of the owner. */
type StepFileOfVersion1 =
  | Exclude<StepFile, { readonly kind: 'secret' }>
  | { readonly kind: 'local'; readonly from: string; readonly to: string; readonly mode: number };

/** The same job in the format of this version. */
export function upgradeSpec(stored: StoredSpec): JobSpec {
  if (stored.version !== 1) return stored;
  const { capacity, steps, command, workdir, ...rest } = stored;
  return {
    ...rest,
    // The copies are in the job's folder, which also says where they are from.
    ...(workdir !== undefined && { workdir: { tree: null } }),
    version: 2,
    capacity: upgradeCapacity(capacity),
    steps: steps.map((step) => ({ ...step, files: step.files.map(upgradeStepFile) })),
    command: upgradeCommand(command),
  };
}

/** In version 1 the script has the path of the program that created the job. An upgrade may have moved it. */
const frozenLauncher = /^(# Created by tpu run\b[^\n]*\n)jobman_launcher=\([^\n]*\)$/m;

function upgradeCapacity(capacity: SpecOfVersion1['capacity']): JobSpec['capacity'] {
  if (capacity.kind === 'tpu') {
    const { privateKey } = capacity;
    return { ...capacity, privateKey: privateKey === null ? null : { kind: 'localFile', path: privateKey } };
  }
  const { kind: _kind, workdir: _workdir, ...rest } = capacity;
  return { kind: 'hosts', hosts: [ownHost], ...rest };
}

function upgradeStepFile(file: StepFileOfVersion1): StepFile {
  if (file.kind !== 'local') return file;
  const { from, to, mode } = file;
  return { kind: 'secret', secret: { kind: 'localFile', path: from }, to, mode };
}

function upgradeCommand({ secrets, ...stored }: SpecOfVersion1['command']): CommandSpec {
  const script = stored.script.replace(frozenLauncher, (_line, head: string) => `${head}${launcherLine}`);
  const command = { ...stored, script };
  if (secrets === undefined) return command;
  const refs = Object.entries(secrets).map(([name, source]): readonly [string, SecretRef] => [
    name,
    // The value of a variable is in the job's folder, under the name that the program sees.
    source.kind === 'file'
      ? { kind: 'localFile', path: source.path }
      : { kind: 'job', secret: name, variable: source.variable },
  ]);
  return { ...command, secrets: Object.fromEntries(refs) };
}

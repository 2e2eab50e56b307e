import { join, normalize, relative } from 'node:path/posix';
import { findAccelerator } from '../catalogue/accelerators.ts';
import {
  alternativesOf,
  jobIdPlaceholder,
  nodeNamePlaceholder,
  ownCheckpointSubfolder,
  workdirPlaceholder,
  type CapacitySpec,
  type CommandSpec,
  type JobSpec,
  type ResumeFrom,
  formatHosts,
  isOwnHost,
} from '../core/model/spec.ts';
import { second } from '../core/model/time.ts';
import { containerWorkdir } from '../setup/docker.ts';
import type { DockerModule, SetupModule } from '../setup/modules.ts';
import { setupSteps, withoutSudo, wrapCommand } from '../setup/steps.ts';
import { workdirStep } from '../setup/files.ts';
import type { Path } from '../schema/kinds.ts';
import { checkBuckets } from './buckets.ts';
import { readCapacity, readLocalFolder } from './capacity.ts';
import { chooseModules, type ModuleChoice, readModules, workerPath } from './setup-modules.ts';
import type { Section } from './keys.ts';
import { fileProblem, withTilde, isWithin, localPath, type ManifestContext } from './files.ts';
import { readNotify } from './notify.ts';
import { buildRecoverySpec } from './recovery.ts';
import type { Sections } from './sections.ts';
import { readSecrets } from './job-files.ts';
import { addWarnings } from './warnings.ts';

/** The contents and the folder that the spec names by digest. They are stored before the job is created. */
export interface Uploads {
  readonly contents: readonly Uint8Array[];
  /** The folder of `job.workdir`, absolute; null without one. */
  readonly workdir: string | null;
}

/** Undefined when a part is missing without which no spec is possible. Problems may be reported in either case. */
export function buildSpec(
  sections: Sections,
  defaultName: string,
  context: ManifestContext,
): { readonly spec: JobSpec; readonly uploads: Uploads } | undefined {
  const job: Partial<Section<'job'>> = sections.read('job') ?? {};
  const setup: Partial<Section<'setup'>> = sections.read('setup') ?? {};
  const isSetupOnly = isSetupOnlyJob(sections, setup);
  if (isSetupOnly) sections.readUnused('command');
  const command: Partial<Section<'command'>> = isSetupOnly ? {} : (sections.read('command') ?? {});
  const name = job.name ?? defaultName;
  const capacity = readCapacity(sections, name, job.remote_user ?? null, context);
  const choice = chooseModules(sections, job, setup, capacity);
  const workdirSource = readWorkdirSource(sections, job.workdir, context);
  const isCopied = workdirSource !== undefined;
  const modules = readModules(sections, choice, context).map((one) =>
    one.name === 'docker' ? withContainerWorkdir(sections, one, isCopied) : one,
  );
  const runsOn = command.runs_on === 'here' ? 'controller' : 'workers';
  checkRunsOn(sections, runsOn, choice);
  if (choice.modules.includes('gcsfuse')) checkBuckets(sections, capacity);
  const workers = readWorkers(sections, command.workers ?? 'all', capacity);
  // No early return from here on: a mistake in one section must not hide the mistakes in another.
  const isLocal = sections.isPresent('local') || (capacity?.kind === 'hosts' && isOwnHost(capacity.hosts));
  const runsOnController = isLocal || runsOn === 'controller';
  const placement: Placement = { runsOn, isLocal, runsOnController, capacity, isCopied, modules };
  const workdir = readWorkdir(sections, command.workdir, placement, context);
  const checkpoints = readCheckpoints(sections, job, placement, context);
  const resumeFrom = readResumeFrom(sections, job.resume_from, runsOnController, context);
  const notify = readNotify(sections, context);
  const recovery = buildRecoverySpec(sections, job.loop, capacity);
  const { checkpointDir } = checkpoints;
  addWarnings({ sections, job, capacity, modules, runsOn, checkpointDir, recovery, isSetupOnly, command, context });
  const env = { ...job.env, ...command.env };
  const secrets = readSecrets(sections, job.secrets ?? {}, env, context);
  if (capacity === undefined || (command.run === undefined && !isSetupOnly)) return undefined;

  const { run = '' } = command;
  const environments = modules.filter((one) => one.name === 'docker' || one.name === 'conda' || one.name === 'venv');
  const variables = { plain: Object.keys(env), secret: Object.keys(secrets) };
  const script = isSetupOnly ? '' : wrapCommand(run, environments, variables);
  const tags = [...(job.tags ?? []), ...(capacity.kind === 'tpu' ? capacity.networkTags : [])];
  // Users filter by name and tags, which are stored before the node's full name exists.
  const withNodeName = (text: string): string =>
    text.replaceAll(nodeNamePlaceholder, capacity.kind === 'tpu' ? capacity.name : '');
  const contents = modules.flatMap((one) => (one.name === 'files' ? one.files.map(({ content }) => content) : []));
  const spec: JobSpec = {
    version: 2,
    name: withNodeName(name),
    tags: [...new Set(tags.map(withNodeName))],
    capacity,
    steps: [
      ...(isCopied ? [workdirStep()] : []),
      ...(capacity.kind === 'hosts' ? setupSteps(modules).map(withoutSudo) : setupSteps(modules)),
    ],
    command: {
      script,
      ...(isSetupOnly && { isSetupOnly }),
      ...(script === run ? {} : { userScript: run }),
      runsOn,
      workers: runsOnController ? 'all' : workers,
      env,
      ...(Object.keys(secrets).length === 0 ? {} : { secrets }),
      workdir: choice.environments.includes('docker') ? null : workdir,
      ...checkpoints,
      ...(resumeFrom !== undefined && { resumeFrom }),
    },
    ...(isCopied && { workdir: { tree: null } }),
    ...(notify !== undefined && { notify }),
    recovery,
    limits: {
      maxRuntimeMs: job.max_runtime ?? null,
      silenceTimeoutMs: job.silence_timeout ?? null,
      capacityWaitMs: job.capacity_wait ?? null,
      ...(job.budget !== undefined && { budgetUsd: job.budget }),
      setupTries: setup.tries ?? 3,
    },
    stop: { signal: job.stop_signal ?? 'TERM', graceMs: job.stop_grace ?? 30 * second },
    finish: {
      capacity: job.on_finish ?? (isSetupOnly ? 'keep' : 'release'),
      keepForMs: job.keep_for ?? null,
      ...(job.hold_on_failure === undefined ? {} : { holdOnFailureMs: job.hold_on_failure }),
    },
  };
  return { spec, uploads: { contents, workdir: workdirSource ?? null } };
}

/** The folder of the container in which the command starts, in the copy of `job.workdir` if there is one. */
function withContainerWorkdir(sections: Sections, docker: DockerModule, isCopied: boolean): DockerModule {
  const section = sections.read('command')?.workdir === undefined ? 'docker' : 'command';
  const refuse = (message: string) => sections.problem([section, 'workdir'], message);
  const { workdir: wanted } = docker;
  if (!isCopied) {
    // Docker would refuse every start, after the attempt has waited for its TPU.
    if (wanted !== null && !isRooted(wanted))
      refuse(
        `${wanted} is a relative path, which needs job.workdir; write a path that begins with / (or with ~ for the login folder), or set job.workdir`,
      );
    return docker;
  }
  const inside = join(containerWorkdir, wanted ?? '.');
  if (wanted !== null && isRooted(wanted)) return { ...docker, hasWorkdirCopy: true };
  // Docker creates a missing folder, so the program would silently start in an empty one.
  if (!`${inside}/`.startsWith(`${containerWorkdir}/`))
    refuse(
      `${wanted} is outside the copy of job.workdir; for another folder of the container write a path that begins with /`,
    );
  return { ...docker, hasWorkdirCopy: true, workdir: inside };
}

/** True for a path from the root or from the worker's login folder, which is mounted at the same path. */
function isRooted(path: string): boolean {
  return /^[/~]/.test(path);
}

function checkRunsOn(sections: Sections, runsOn: CommandSpec['runsOn'], choice: ModuleChoice): void {
  const [environment] = choice.environments;
  if (runsOn === 'controller' && environment !== undefined) {
    const message = `here runs the command on this machine, but ${environment} is set up on the workers; remove one of the two`;
    sections.problem(['command', 'runs_on'], message);
  }
}

/** Reports those that the capacity does not have. */
export function readWorkers(
  sections: Sections,
  workers: 'all' | readonly number[],
  capacity: CapacitySpec | undefined,
): CommandSpec['workers'] {
  if (workers === 'all') return workers;
  if (workers.length === 0 && sections.isValid('command'))
    sections.problem(['command', 'workers'], 'is empty, so no worker would run the command');
  const twice = workers.find((worker, index) => workers.indexOf(worker) < index);
  if (twice !== undefined) sections.problem(['command', 'workers'], `names worker ${twice} twice`);
  if (capacity === undefined) return workers;
  const { count, name } = fewestWorkers(capacity);
  for (const [index, worker] of workers.entries()) {
    if (worker < count) continue;
    const verb = capacity.kind !== 'hosts' ? 'has' : count === 1 ? 'is' : 'are';
    const range = count === 1 ? 'one worker, number 0' : `${count} workers, numbered 0 to ${count - 1}`;
    sections.problem(['command', 'workers', index], `there is no worker ${worker}: ${name} ${verb} ${range}`);
  }
  return workers;
}

/** Of all alternatives, because the command must run on any of them. */
function fewestWorkers(capacity: CapacitySpec): { readonly count: number; readonly name: string } {
  if (capacity.kind === 'hosts') return { count: capacity.hosts.length, name: formatHosts(capacity.hosts) };
  const slices = capacity.nodeCount ?? 1;
  const options = alternativesOf(capacity).map(({ accelerator }) => ({
    count: (findAccelerator(accelerator)?.workers ?? Number.POSITIVE_INFINITY) * slices,
    name: slices === 1 ? accelerator : `${slices} x ${accelerator}`,
  }));
  return options.reduce((fewest, one) => (one.count < fewest.count ? one : fewest));
}

function readWorkdirSource(
  sections: Sections,
  workdir: string | undefined,
  { folder, home, files }: ManifestContext,
): string | undefined {
  if (workdir === undefined) return undefined;
  if (sections.has(['local', 'workdir'])) {
    sections.warning(['local', 'workdir'], 'has no effect: the command starts in the copy of job.workdir');
  }
  const path = localPath(workdir, folder, home);
  const info = files.inspect(path);
  const problem = info.kind === 'folder' ? undefined : (fileProblem(info) ?? 'is not a folder');
  if (problem !== undefined) sections.missingHere(['job', 'workdir'], `${path} ${problem}`);
  return path;
}

/** The machines and folders of the command. */
interface Placement {
  readonly runsOn: CommandSpec['runsOn'];
  readonly isLocal: boolean;
  readonly runsOnController: boolean;
  readonly capacity: CapacitySpec | undefined;
  readonly isCopied: boolean;
  readonly modules: readonly SetupModule[];
}

/** The folder in which the command starts. Never null on this machine; null on a worker means the login folder. */
function readWorkdir(
  sections: Sections,
  workdir: string | undefined,
  { runsOn, isLocal, isCopied }: Placement,
  context: ManifestContext,
): string | null {
  const { folder, home } = context;
  const start = isLocal ? readLocalFolder(sections, context) : folder;
  if (isLocal && !isCopied) return workdir === undefined ? start : localPath(workdir, start, home);
  if (runsOn === 'controller') return localPath(workdir ?? '.', folder, home);
  const at = ['command', 'workdir'];
  if (!isCopied) return workdir === undefined ? null : workerPath(sections, at, workdir);
  const inside = workdir === undefined ? '' : normalize(workdir);
  if (isRooted(inside)) return commandPath(sections, at, inside, isLocal, context);
  if (inside.startsWith('..')) sections.problem(at, `${inside} is outside job.workdir; write a path inside it`);
  return inside === '' || inside === '.' ? workdirPlaceholder : `${workdirPlaceholder}/${inside}`;
}

function readCheckpoints(
  sections: Sections,
  { checkpoint_dir: written, checkpoint_shared: isShared = false }: Partial<Section<'job'>>,
  placement: Placement,
  context: ManifestContext,
): Pick<CommandSpec, 'checkpointDir' | 'checkpoints' | 'checkpointStorage'> {
  if (written === undefined) {
    if (isShared) sections.warning(['job', 'checkpoint_shared'], 'has no effect without job.checkpoint_dir');
    return { checkpointDir: null };
  }
  const path = commandPath(sections, ['job', 'checkpoint_dir'], written, placement.runsOnController, context);
  const folder = isUrl(path) ? path.replace(/\/+$/, '') : path;
  const source = sections.sourceText(['job', 'checkpoint_dir']) ?? '';
  const isNamed = isShared || folder.includes(jobIdPlaceholder) || /\$\{\s*job\.name\s*\}/.test(source);
  // The folder has the ids of job and installation, because two users' jobs with the same id may use one bucket.
  const checkpointDir = isNamed ? folder : `${folder}/${ownCheckpointSubfolder}`;
  const storage = storageOf(checkpointDir, placement);
  return {
    checkpointDir,
    checkpoints: isShared ? 'shared' : isNamed ? 'named' : 'own',
    ...(storage !== undefined && { checkpointStorage: storage }),
  };
}

/** Identity of this folder among the folders of all jobs; undefined for one on the disk of an ephemeral TPU. */
function storageOf(folder: string, { runsOnController, capacity, modules }: Placement): string | undefined {
  if (isUrl(folder)) return folder;
  if (runsOnController) return `file://${folder}`;
  const mounts = modules.flatMap((module) => (module.name === 'gcsfuse' ? module.mounts : []));
  const mount = mounts.find(({ path }) => isWithin(folder, path));
  if (mount !== undefined) return `gs://${mount.bucket}/${relative(withTilde(mount.path), withTilde(folder))}`;
  if (capacity?.kind === 'hosts') return `${capacity.hosts.join(',')}:${folder}`;
  if (capacity?.kind !== 'tpu' || capacity.ownership === 'ephemeral') return undefined;
  return `${capacity.project}/${capacity.zone}/${capacity.name}:${folder}`;
}

function readResumeFrom(
  sections: Sections,
  written: string | undefined,
  runsOnController: boolean,
  context: ManifestContext,
): ResumeFrom | undefined {
  if (written === undefined) return undefined;
  if (!/[/~]|^\.\.?$/.test(written)) return { kind: 'job', job: written };
  const path = commandPath(sections, ['job', 'resume_from'], written, runsOnController, context);
  return { kind: written.endsWith('/') ? 'folder' : 'entry', path };
}

function commandPath(
  sections: Sections,
  at: Path,
  path: string,
  runsOnController: boolean,
  { folder, home }: ManifestContext,
): string {
  if (isUrl(path)) return path;
  return runsOnController ? localPath(path, folder, home) : workerPath(sections, at, path);
}

/** Some programs read and write a bucket without a mount, so jobman does not interpret such an address. */
export function isUrl(path: string): boolean {
  return /^[a-z][a-z0-9]+:\/\//.test(path);
}

/** True without a section `command`, or when `setup.modules` does not list `command`. */
function isSetupOnlyJob(sections: Sections, setup: Partial<Section<'setup'>>): boolean {
  const isListed = setup.modules?.includes('command') === true;
  if (!sections.isPresent('command')) {
    if (isListed) sections.problem(['setup', 'modules'], 'lists command, but the manifest has no section command');
    return true;
  }
  if (!sections.has(['command']))
    sections.problem(['command'], 'is empty; remove the section for a job that only runs setup');
  if (setup.modules === undefined || isListed) return false;
  sections.warning(
    ['setup', 'modules'],
    'does not list command, so the job only runs setup; add command to the list to run the command',
  );
  return true;
}

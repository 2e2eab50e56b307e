// Build: from the sections of a manifest to the spec of a job, and what is wrong when they are put together.

import { join, normalize, relative } from 'node:path/posix';
import { accelerator } from '../catalogue/accelerators.ts';
import { capacityTraits } from '../core/allocate.ts';
import {
  capacityAt,
  placeCount,
  placesOf,
  jobIdMark,
  nodeNameMark,
  ownCheckpointLevel,
  workdirMark,
  type CapacitySpec,
  type CommandSpec,
  type JobSpec,
  type ResumeFrom,
} from '../core/spec.ts';
import { second } from '../core/time.ts';
import { copiedFolder } from '../setup/docker.ts';
import type { DockerModule, EnvironmentModule, SetupModule } from '../setup/modules.ts';
import { stepsFor, withoutAdministrator, wrapCommand } from '../setup/steps.ts';
import { workdirStep } from '../setup/files.ts';
import type { Path } from '../schema/kinds.ts';
import { checkBuckets } from './buckets.ts';
import { readCapacity } from './capacity.ts';
import { isLocalJob, readChoice, type Choice, readModules, workerPath } from './setup-modules.ts';
import type { Section } from './keys.ts';
import { belowHome, isWithin, pathHere, type Surroundings } from './files.ts';
import { recoverySpec } from './recovery.ts';
import type { Sections } from './sections.ts';
import { readSecrets } from './job-files.ts';
import { warnOf } from './warnings.ts';

/** The spec; undefined when something is missing that no spec can be made without. Problems may have been reported in either case. */
export function buildSpec(sections: Sections, defaultName: string, around: Surroundings): JobSpec | undefined {
  const job: Partial<Section<'job'>> = sections.read('job') ?? {};
  const setup: Partial<Section<'setup'>> = sections.read('setup') ?? {};
  const recovery = sections.read('recovery');
  const isSetupOnly = isWithoutCommand(sections, setup);
  if (isSetupOnly) sections.readUnused('command');
  const command: Partial<Section<'command'>> = isSetupOnly ? {} : (sections.read('command') ?? {});
  const name = job.name ?? defaultName;
  const capacity = readCapacity(sections, name, job.remote_user ?? null, around);
  const choice = readChoice(sections, job, setup);
  const copied = readCopied(sections, job.workdir, around);
  const isCopied = copied !== undefined;
  const modules = readModules(sections, choice, around).map((one) =>
    one.name === 'docker' && isCopied ? withCopy(sections, one) : one,
  );
  const docker = modules.find((one) => one.name === 'docker');
  if (docker !== undefined && !isCopied && choice.environments.includes('docker')) checkRooted(sections, docker);
  const place = command.runs_on ?? 'workers';
  checkTogether(sections, place, choice);
  if (choice.modules.includes('gcsfuse')) checkBuckets(sections, capacity);
  const workers = readWorkers(sections, command.workers ?? 'all', capacity);
  // From here on nothing returns before the end: what is wrong with one section must not hide what is wrong with another.
  const isLocal = isLocalJob(sections);
  const isHere = isLocal || place === 'here';
  const workdir = readWorkdir(sections, command.workdir, { place, isLocal, capacity, isCopied }, around);
  const checkpoints = readCheckpoints(sections, job, { isHere, capacity, modules }, around);
  const resumeFrom = readResumeFrom(sections, job.resume_from, isHere, around);
  const rules = recoverySpec({
    recovery,
    loop: job.loop,
    isRevocable: capacity !== undefined && isRevocable(capacity),
    // Of a capacity that could not be read something else has been said.
    hasOtherZone:
      capacity === undefined ||
      (capacity.kind === 'tpu' && placesOf(capacity).some(({ zone }) => zone !== capacity.zone)),
    refuse: sections.problem,
  });
  warnOf(sections, {
    job,
    capacity,
    modules,
    place,
    checkpointDir: checkpoints.checkpointDir,
    recovery: rules,
    isSetupOnly,
  });
  const env = { ...job.env, ...command.env };
  const secrets = readSecrets(sections, job.secrets ?? {}, env, around);
  if (capacity === undefined || (command.run === undefined && !isSetupOnly)) return undefined;

  const run = isSetupOnly ? '' : (command.run ?? '');
  const script = isSetupOnly
    ? ''
    : wrapCommand(run, modules.filter(isEnvironment), {
        plain: Object.keys(env),
        secret: Object.keys(secrets),
      });
  const tags = [...(job.tags ?? []), ...(capacity.kind === 'tpu' ? capacity.networkTags : [])];
  // People filter by these, and the node's full name is not yet born when they are stored.
  const named = (text: string): string => text.replaceAll(nodeNameMark, capacity.kind === 'tpu' ? capacity.name : '');
  return {
    version: 1,
    name: named(name),
    tags: [...new Set(tags.map(named))],
    capacity,
    steps: [
      ...(isCopied ? [workdirStep()] : []),
      ...(capacity.kind === 'local' ? stepsFor(modules).map(withoutAdministrator) : stepsFor(modules)),
    ],
    command: {
      script,
      ...(isSetupOnly && { isSetupOnly }),
      ...(script === run ? {} : { written: run }),
      place,
      workers: isHere ? 'all' : workers,
      env,
      ...(Object.keys(secrets).length === 0 ? {} : { secrets }),
      workdir: choice.environments.includes('docker') ? null : workdir,
      ...checkpoints,
      ...(resumeFrom !== undefined && { resumeFrom }),
    },
    ...(isCopied && { workdir: { from: copied } }),
    recovery: rules,
    limits: {
      maxRuntime: job.max_runtime ?? null,
      silenceTimeout: job.silence_timeout ?? null,
      capacityWait: job.capacity_wait ?? null,
      // The manifest counts tries, the spec the further ones.
      setupTries: setup.tries ?? 3,
    },
    stop: { signal: job.stop_signal ?? 'TERM', grace: job.stop_grace ?? 30 * second },
    finish: {
      capacity: job.on_finish ?? (isSetupOnly ? 'keep' : 'release'),
      keepFor: job.keep_for ?? null,
      ...(job.hold_on_failure === undefined ? {} : { holdOnFailure: job.hold_on_failure }),
    },
  };
}

function withCopy(sections: Sections, docker: DockerModule): DockerModule {
  const wanted = docker.workdir ?? '.';
  const workdir = isRooted(wanted) ? wanted : join(copiedFolder, wanted);
  // Docker makes a folder that is not there, so the program would begin in an empty one that nobody meant.
  if (!isRooted(wanted) && !`${workdir}/`.startsWith(`${copiedFolder}/`))
    sections.problem(
      [sectionOfWorkdir(sections), 'workdir'],
      `${wanted} leads out of the copy of job.workdir; begin it with / for another folder of the container`,
    );
  return { ...docker, hasCopy: true, workdir };
}

/** Docker takes no other: it would refuse each start, of an attempt that has waited for its TPU. */
function checkRooted(sections: Sections, { workdir }: DockerModule): void {
  if (workdir === null || isRooted(workdir)) return;
  sections.problem(
    [sectionOfWorkdir(sections), 'workdir'],
    `${workdir} is relative to nothing inside the container; begin it with / (or with ~ for the login folder), or give job.workdir`,
  );
}

function sectionOfWorkdir(sections: Sections): 'command' | 'docker' {
  return sections.read('command')?.workdir === undefined ? 'docker' : 'command';
}

/** It says by itself where it is: from the root, or from the worker's login folder, which is mounted under its own name. */
function isRooted(path: string): boolean {
  return /^[/~]/.test(path);
}

function isEnvironment(module: SetupModule): module is EnvironmentModule {
  return module.name === 'docker' || module.name === 'conda' || module.name === 'venv';
}

function checkTogether(sections: Sections, place: CommandSpec['place'], choice: Choice): void {
  const [environment] = choice.environments;
  if (place === 'here' && environment !== undefined) {
    const message = `here is the machine of jobman, and ${environment} is set up on the workers; remove one of the two`;
    sections.problem(['command', 'runs_on'], message);
  }
}

function readWorkers(
  sections: Sections,
  workers: 'all' | readonly number[],
  capacity: CapacitySpec | undefined,
): CommandSpec['workers'] {
  if (workers === 'all' || capacity === undefined) return workers;
  const isLocal = capacity.kind === 'local';
  const { count, name } = leastWorkers(capacity);
  for (const [index, worker] of workers.entries()) {
    if (worker < count) continue;
    const has = isLocal ? 'this machine is' : `${name} has`;
    const range = count === 1 ? 'one worker, number 0' : `${count} workers, numbered 0 to ${count - 1}`;
    sections.problem(['command', 'workers', index], `there is no worker ${worker}: ${has} ${range}`);
  }
  return workers;
}

/** Of the places that may come, the one with the fewest workers: what is to run must run in any of them. */
function leastWorkers(capacity: CapacitySpec): { readonly count: number; readonly name: string } {
  let least = { count: Number.POSITIVE_INFINITY, name: '' };
  for (let place = 0; place < placeCount(capacity); place += 1) {
    const at = capacityAt(capacity, place);
    if (at.kind === 'local') return { count: 1, name: '' };
    const slices = at.nodeCount ?? 1;
    const count = (accelerator(at.accelerator)?.workers ?? Number.POSITIVE_INFINITY) * slices;
    const name = slices === 1 ? at.accelerator : `${slices} x ${at.accelerator}`;
    if (count < least.count) least = { count, name };
  }
  return least;
}

function isRevocable(capacity: CapacitySpec): boolean {
  const places = Array.from({ length: placeCount(capacity) }, (_, place) => capacityAt(capacity, place));
  return places.some((at) => capacityTraits(at).revocable);
}

function readCopied(
  sections: Sections,
  workdir: string | undefined,
  { folder, home, door, purpose }: Surroundings,
): string | undefined {
  if (workdir === undefined) return undefined;
  const at = ['job', 'workdir'];
  if (sections.has(['local', 'workdir'])) {
    sections.warning(['local', 'workdir'], 'is not used: the command starts in the copy of job.workdir');
  }
  const path = pathHere(workdir, folder, home);
  const look = door.look(path);
  if (look.kind === 'folder') return path;
  const is =
    look.kind === 'absent'
      ? 'does not exist'
      : look.kind === 'unreadable'
        ? `cannot be read: ${look.detail}`
        : 'is no folder';
  // The machine that checks a manifest may have other files than the one that creates the job.
  if (purpose === 'check') sections.warning(at, `${path} ${is} on this machine`);
  else sections.problem(at, `${path} ${is}`);
  return path;
}

/** The folder in which the command starts. On this machine always a folder of it; null on a worker means the login folder. */
function readWorkdir(
  sections: Sections,
  workdir: string | undefined,
  read: {
    readonly place: CommandSpec['place'];
    readonly isLocal: boolean;
    readonly capacity: CapacitySpec | undefined;
    readonly isCopied: boolean;
  },
  around: Surroundings,
): string | null {
  const { place, isLocal, capacity, isCopied } = read;
  const { folder, home } = around;
  if (isLocal && !isCopied) {
    const start = capacity?.kind === 'local' ? capacity.workdir : folder;
    return workdir === undefined ? start : pathHere(workdir, start, home);
  }
  if (place === 'here') return pathHere(workdir ?? '.', folder, home);
  const at = ['command', 'workdir'];
  if (!isCopied) return workdir === undefined ? null : workerPath(sections, at, workdir);
  const inside = workdir === undefined ? '' : normalize(workdir);
  if (isRooted(inside)) return commandPath(sections, at, inside, isLocal, around);
  if (inside.startsWith('..')) sections.problem(at, `${inside} lies outside of job.workdir; write a path below it`);
  return inside === '' || inside === '.' ? workdirMark : `${workdirMark}/${inside}`;
}

function readCheckpoints(
  sections: Sections,
  { checkpoint_dir: written, checkpoint_shared: isShared = false }: Partial<Section<'job'>>,
  read: {
    readonly isHere: boolean;
    readonly capacity: CapacitySpec | undefined;
    readonly modules: readonly SetupModule[];
  },
  around: Surroundings,
): Pick<CommandSpec, 'checkpointDir' | 'checkpoints' | 'checkpointStorage'> {
  if (written === undefined) {
    if (isShared) sections.warning(['job', 'checkpoint_shared'], 'has no effect without job.checkpoint_dir');
    return { checkpointDir: null };
  }
  const path = commandPath(sections, ['job', 'checkpoint_dir'], written, read.isHere, around);
  const top = isAddress(path) ? path.replace(/\/+$/, '') : path;
  const source = sections.written(['job', 'checkpoint_dir']) ?? '';
  const isChosen = isShared || top.includes(jobIdMark) || /\$\{\s*job\.name\s*\}/.test(source);
  const storage = isChosen ? storageOf(top, read) : undefined;
  return {
    // The ids of both the job and the installation: two people whose jobs have the same number may use one bucket.
    checkpointDir: isChosen ? top : `${top}/${ownCheckpointLevel}`,
    checkpoints: isShared ? 'shared' : isChosen ? 'named' : 'own',
    ...(storage !== undefined && { checkpointStorage: storage }),
  };
}

/** The identity of this folder among those of all jobs; undefined for one on the disk of the job's own TPU. */
function storageOf(
  folder: string,
  { isHere, capacity, modules }: Parameters<typeof readCheckpoints>[2],
): string | undefined {
  if (isAddress(folder)) return folder;
  if (isHere) return `file://${folder}`;
  const mounts = modules.flatMap((module) => (module.name === 'gcsfuse' ? module.mounts : []));
  const mount = mounts.find(({ path }) => isWithin(folder, path));
  if (mount !== undefined) return `gs://${mount.bucket}/${relative(belowHome(mount.path), belowHome(folder))}`;
  if (capacity?.kind !== 'tpu' || capacity.ownership === 'owned') return undefined;
  return `${capacity.project}/${capacity.zone}/${capacity.name}:${folder}`;
}

function readResumeFrom(
  sections: Sections,
  written: string | undefined,
  isHere: boolean,
  around: Surroundings,
): ResumeFrom | undefined {
  if (written === undefined) return undefined;
  if (!/[/~]|^\.\.?$/.test(written)) return { kind: 'job', job: written };
  const path = commandPath(sections, ['job', 'resume_from'], written, isHere, around);
  return { kind: written.endsWith('/') ? 'folder' : 'entry', path };
}

function commandPath(
  sections: Sections,
  at: Path,
  path: string,
  isHere: boolean,
  { folder, home }: Surroundings,
): string {
  if (isAddress(path)) return path;
  return isHere ? pathHere(path, folder, home) : workerPath(sections, at, path);
}

/** Some programs read and write a bucket without mounting it; such an address is theirs to understand. */
function isAddress(path: string): boolean {
  return /^[a-z][a-z0-9]+:\/\//.test(path);
}

/** True without a section `command`, or with a list `setup.modules` that leaves `command` out. */
function isWithoutCommand(sections: Sections, setup: Partial<Section<'setup'>>): boolean {
  const isListed = setup.modules?.includes('command') === true;
  if (!sections.stands('command')) {
    if (isListed) sections.problem(['setup', 'modules'], 'lists command, and there is no section command');
    return true;
  }
  if (!sections.has(['command']))
    sections.problem(['command'], 'is empty; a job that only sets up has no section command');
  if (setup.modules === undefined || isListed) return false;
  sections.warning(
    ['setup', 'modules'],
    'does not list command: the job sets its workers up and runs nothing; add command to the list to run it',
  );
  return true;
}

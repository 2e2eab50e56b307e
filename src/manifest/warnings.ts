// Warnings: what is allowed, and is most likely not what the owner means. Only what is sure to be so is said: people learn
// to read over warnings that are wrong. Nothing is refused here.

import { capacityTraits } from '../core/allocate.ts';
import { builtInProject, nodeNameMark, type CapacitySpec, type CommandSpec, type RecoverySpec } from '../core/spec.ts';
import { second } from '../core/time.ts';
import type { SetupModule } from '../setup/modules.ts';
import { durationText } from './durations.ts';
import type { Section } from './keys.ts';
import { isWithin, pathOnWorker } from './files.ts';
import type { Sections } from './sections.ts';

/** Google takes a spot machine away within this time of telling it, whatever runs there. Source: its documents on spot VMs. */
const noticeMost = 30 * second;

interface Read {
  readonly job: Partial<Section<'job'>>;
  readonly capacity: CapacitySpec | undefined;
  readonly modules: readonly SetupModule[];
  readonly place: CommandSpec['place'];
  readonly checkpointDir: string | null;
  readonly recovery: RecoverySpec;
  readonly isSetupOnly: boolean;
}

export function warnOf(sections: Sections, read: Read): void {
  warnOfCheckpoints(sections, read);
  warnOfLimits(sections, read);
  warnOfTheEnd(sections, read);
  warnOfRules(sections, read);
  warnOfSecrets(sections, read);
}

const secretName = /(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD)$/i;

/** A value of job.env is copied into the job's folder and into every worker's files, where it can be read. */
function warnOfSecrets(sections: Sections, { job }: Read): void {
  for (const [name, value] of Object.entries(job.env ?? {})) {
    // A path says where the secret is; it is not the secret itself.
    if (!secretName.test(name) || value === '' || /^[/~.]/.test(value)) continue;
    sections.warning(
      ['job', 'env', name],
      `looks like a secret, and job.env is stored as plain text; put ${name} into job.secrets, which is not`,
    );
  }
}

// ------------------------------------------------------------------------------------------ checkpoints

function warnOfCheckpoints(
  sections: Sections,
  { job, capacity, modules, place, checkpointDir, recovery, isSetupOnly }: Read,
): void {
  if (isSetupOnly) return;
  const at = ['job', 'checkpoint_dir'];
  if (job.checkpoint_dir?.includes(nodeNameMark) === true) {
    sections.warning(
      at,
      'holds ${tpu.name}, which differs with every new TPU: after a preemption the checkpoints would not be found',
    );
    return;
  }
  if (capacity === undefined || !capacityTraits(capacity).revocable || !resumesElsewhere(recovery)) return;
  const taken = `a ${capacity.kind === 'tpu' ? capacity.pricing : ''} TPU can be taken away at any time`;
  if (job.checkpoint_dir === undefined && !isWrong(sections, job, 'checkpoint_dir')) {
    const after = `rule ${recovery.preset} then starts the program again without a checkpoint to go on from`;
    sections.warning(at, `is not given, and ${taken}: ${after}`);
    return;
  }
  // An address such as gs://bucket/folder is in a bucket; what a command here writes, no cloud takes away.
  if (checkpointDir === null || /^[a-z][a-z0-9]+:\/\//.test(checkpointDir) || place === 'here') return;
  // A startup script may have mounted anything anywhere.
  if (capacity.kind === 'tpu' && capacity.startupScript !== null) return;
  // Buckets that could not be read may well be where the checkpoints go.
  if (!sections.isSound('gcsfuse') || !sections.isSound('setup')) return;
  const mounts = modules.flatMap((module) => (module.name === 'gcsfuse' ? module.mounts : []));
  if (!mounts.some(({ path }) => isWithin(checkpointDir, path))) {
    const unused =
      mounts.length === 0 && sections.has(['gcsfuse'])
        ? 'gcsfuse is not listed in setup.modules'
        : mounts.length === 0
          ? 'the manifest mounts none'
          : `mounted is ${mounts.map(({ path }) => path).join(', ')}`;
    sections.warning(at, `lies in no bucket (${unused}), and ${taken}: its checkpoints go with it`);
    return;
  }
  if (!sections.isSound('docker')) return;
  const container = modules.find((module) => module.name === 'docker');
  if (container === undefined || container.flags.some((flag) => /^(-v|--volume|--mount)/.test(flag))) return;
  const outside = container.mounts.map((mount) => pathOnWorker(mount.split(':')[0] ?? ''));
  if (!outside.some((path) => isWithin(checkpointDir, path))) {
    sections.warning(
      at,
      'is not seen inside the container: no entry of docker.mount_dirs holds it, so checkpoints written there are lost',
    );
  }
}

/** A rule goes on from a checkpoint on a new allocation, which has nothing of the old one's disks. */
function resumesElsewhere({ rules, budget }: RecoverySpec): boolean {
  const [first] = rules.filter(({ reason, evidence }) => reason === 'preempted' && evidence === undefined);
  return first?.answer.then === 'resume' && budget.preemptions > 0;
}

// ------------------------------------------------------------------------------------------ limits

function warnOfLimits(sections: Sections, { job, capacity }: Read): void {
  const { max_runtime: runtime, silence_timeout: silence, stop_grace: grace } = job;
  if (runtime !== undefined && grace !== undefined && runtime < grace) {
    sections.warning(
      ['job', 'max_runtime'],
      `is shorter than job.stop_grace (${durationText(grace)}), which a program has on top of it before it is killed`,
    );
  }
  if (runtime !== undefined && silence !== undefined && silence >= runtime) {
    sections.warning(
      ['job', 'silence_timeout'],
      `has no effect: job.max_runtime (${durationText(runtime)}) ends the attempt before`,
    );
  }
  const isTaken = capacity !== undefined && capacityTraits(capacity).revocable;
  if (grace !== undefined && grace > noticeMost && isTaken) {
    sections.warning(
      ['job', 'stop_grace'],
      `holds for a stop only: a TPU that is taken away is gone ${durationText(noticeMost)} after the notice at most`,
    );
  }
  if (grace !== undefined && grace > 0 && job.stop_signal === 'KILL') {
    sections.warning(['job', 'stop_grace'], 'has no effect with job.stop_signal: KILL, which no program survives');
  }
  if (capacity?.kind === 'local') {
    for (const key of ['capacity_wait', 'remote_user'] as const) {
      if (job[key] !== undefined) sections.warning(['job', key], 'has no effect: the job runs on this machine');
    }
  }
}

// ------------------------------------------------------------------------------------------ the end

function warnOfTheEnd(sections: Sections, { job, capacity, isSetupOnly }: Read): void {
  if (isSetupOnly && job.loop !== undefined)
    sections.warning(['job', 'loop'], 'has no effect: the job runs no command');
  const isKept = job.on_finish === 'keep' || (isSetupOnly && job.on_finish === undefined);
  if (job.keep_for !== undefined && !isKept && !isWrong(sections, job, 'on_finish')) {
    sections.warning(['job', 'keep_for'], 'has no effect without job.on_finish: keep');
  }
  if (job.hold_on_failure !== undefined && capacity !== undefined) {
    const at = ['job', 'hold_on_failure'];
    if (capacity.kind === 'local') sections.warning(at, 'has no effect: this machine stays whatever happens');
    else if (capacity.ownership === 'standing') sections.warning(at, 'has no effect: a standing TPU is never released');
    else if (isKept && job.keep_for === undefined)
      sections.warning(at, 'has no effect: job.on_finish: keep keeps the TPU anyway');
  }
  if (
    isSetupOnly &&
    isKept &&
    capacity?.kind === 'tpu' &&
    capacity.ownership === 'owned' &&
    capacity.project !== builtInProject &&
    job.keep_for === undefined &&
    !isWrong(sections, job, 'keep_for')
  ) {
    sections.warning(
      [],
      'runs no command: the job sets its TPU up and keeps it, with its costs, until you release it (jobman stop ID --release); job.keep_for limits that, job.on_finish: release ends it',
    );
  }
  if (job.on_finish !== 'keep' || capacity === undefined) return;
  const at = ['job', 'on_finish'];
  if (capacity.kind === 'local') sections.warning(at, 'has no effect: this machine stays whatever happens');
  else if (capacity.ownership === 'standing') sections.warning(at, 'has no effect: a standing TPU is never released');
  else if (job.keep_for === undefined && !isWrong(sections, job, 'keep_for') && capacity.project !== builtInProject) {
    const remedy = 'job.keep_for: 1h would limit that';
    sections.warning(at, `keeps the TPU, and its costs, until somebody releases it; ${remedy}`);
  }
}

/** Something stands there and could not be read, which has been said. */
function isWrong(sections: Sections, job: Partial<Section<'job'>>, key: keyof Section<'job'>): boolean {
  return job[key] === undefined && sections.has(['job', key]);
}

// ------------------------------------------------------------------------------------------ rules

function warnOfRules(sections: Sections, { job, capacity }: Read): void {
  const recovery = sections.read('recovery');
  // A rule that could not be read is not in the list, and what it would have answered is not known.
  const rules = typeof recovery === 'string' || !sections.isSound('recovery') ? [] : (recovery?.rules ?? []);
  for (const [index, rule] of rules.entries()) {
    const at = ['recovery', 'rules', index];
    const before = rules.findIndex((other, place) => place < index && coversRule(other, rule));
    if (before >= 0) sections.warning(at, `is never asked: rules[${before}] answers all that it would`);
    if (rule.reason === 'hung' && job.silence_timeout === undefined && !isWrong(sections, job, 'silence_timeout')) {
      sections.warning(at, 'never applies: without job.silence_timeout no attempt counts as hung');
    }
    if (rule.reason === 'preempted' && capacity?.kind === 'local') {
      sections.warning(at, 'never applies: this machine is not taken away');
    }
  }
}

type WrittenRule = NonNullable<Exclude<Section<'recovery'>, string>['rules']>[number];

/** True when every end that `later` answers is answered by `earlier`: each condition of `earlier` is also one of `later`. */
function coversRule(earlier: WrittenRule, later: WrittenRule): boolean {
  if (earlier.reason === undefined || earlier.reason !== later.reason) return false;
  const codes = codesOf(earlier);
  const laterCodes = codesOf(later);
  return (
    (earlier.evidence === undefined || earlier.evidence === later.evidence) &&
    (earlier.log === undefined || earlier.log === later.log) &&
    (earlier.worker === undefined || earlier.worker === later.worker) &&
    (codes === undefined || laterCodes?.every((code) => codes.includes(code)) === true)
  );
}

function codesOf({ exit_code: codes }: WrittenRule): readonly number[] | undefined {
  return typeof codes === 'number' ? [codes] : codes;
}

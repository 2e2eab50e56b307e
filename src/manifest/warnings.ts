// Warnings: values that are allowed but most likely not intended. Users learn to ignore wrong warnings, so each is
// given only when the case is certain.

import { capacityTraits } from '../core/decide/allocate.ts';
import {
  emulatorProject,
  nodeNamePlaceholder,
  type CapacitySpec,
  type CommandSpec,
  type RecoverySpec,
} from '../core/model/spec.ts';
import { second } from '../core/model/time.ts';
import type { SetupModule } from '../setup/modules.ts';
import { formatExactDuration } from './durations.ts';
import { manifest, type Section } from './keys.ts';
import { appliesTo, type JobKind } from '../schema/kinds.ts';
import { isWithin, localPath, remotePath, type ManifestContext } from './files.ts';
import type { Sections } from './sections.ts';

/** Time between Google's preemption notice and the end of a spot VM. Source: Google's documentation of spot VMs. */
const preemptionNotice = 30 * second;

interface ManifestParts {
  readonly sections: Sections;
  readonly job: Partial<Section<'job'>>;
  readonly capacity: CapacitySpec | undefined;
  readonly modules: readonly SetupModule[];
  readonly runsOn: CommandSpec['runsOn'];
  readonly checkpointDir: string | null;
  readonly recovery: RecoverySpec;
  readonly isSetupOnly: boolean;
  readonly command: Partial<Section<'command'>>;
  readonly context: ManifestContext;
}

/** Warns about a key of `job`. */
type Warn = (key: keyof Section<'job'>, message: string) => void;

export function addWarnings(parts: ManifestParts): void {
  const { sections, capacity } = parts;
  const warn: Warn = (key, message) => sections.warning(['job', key], message);
  if (capacity !== undefined) warnAboutUnused(sections, capacity.kind);
  warnAboutCheckpoints(parts, warn);
  warnAboutLimits(parts, warn);
  warnAboutFinish(parts, warn);
  warnAboutRules(parts);
  warnAboutSecrets(parts);
  warnAboutMissingFiles(parts);
}

/** Warns about the sections and keys of the manifest that do not apply to a job of this kind. */
export function warnAboutUnused(sections: Sections, kind: JobKind): void {
  const message = `has no effect: the job runs ${kind === 'kubernetes' ? 'in a cluster' : kind === 'hosts' ? 'on your own machines' : 'on a TPU'}`;
  for (const [name, section] of Object.entries(manifest.keys ?? {})) {
    const rows = Object.entries(section.kind.keys ?? {}).filter(([, row]) => !appliesTo(row, kind));
    const keys = sections.isValid(name) ? rows.map(([key]) => [name, key]) : [];
    for (const path of appliesTo(section, kind) ? keys : [[name]])
      if (sections.has(path)) sections.warning(path, message);
  }
}

const secretName = /(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD)$/i;

/** `job.env` is copied into the job's folder and to every worker, where other users may read it. */
function warnAboutSecrets({ sections, job }: ManifestParts): void {
  for (const [name, value] of Object.entries(job.env ?? {})) {
    // A path names the location of a secret and is not the secret itself.
    if (!secretName.test(name) || value === '' || /^[/~.]/.test(value)) continue;
    sections.warning(
      ['job', 'env', name],
      `looks like a secret, but job.env is stored as plain text; use job.secrets for ${name}`,
    );
  }
}

/** A file next to the manifest that the first command names, and that a new TPU does not have. */
function warnAboutMissingFiles({ sections, capacity, modules, runsOn, command, context }: ManifestParts): void {
  if (capacity?.kind !== 'tpu' || capacity.ownership === 'persistent' || capacity.startupScript !== null) return;
  if (runsOn === 'controller' || sections.has(['job', 'workdir']) || command.workdir !== undefined) return;
  // The file may be in the image, or among files that could not be read.
  if (modules.some(({ name }) => name === 'docker') || !sections.isValid('job') || !sections.isValid('setup')) return;
  const copied = modules.flatMap((module) => (module.name === 'files' ? module.files : [])).map(({ to }) => to);
  const missing = filesOfFirstCommand(command.run ?? '').find(
    (path) =>
      context.files.inspect(localPath(path, context.folder, context.home)).kind === 'file' &&
      !copied.includes(remotePath(path)),
  );
  if (missing === undefined) return;
  const message = `names ${missing}, which is not on the workers; copy its folder with job.workdir: . or the file with job.files`;
  sections.warning(['command', 'run'], message);
}

/** Arguments that may be relative paths. Later commands may need files that the first one has created. */
function filesOfFirstCommand(run: string): readonly string[] {
  const [first = ''] = run
    .replaceAll(/^\s*(#|set |export ).*$/gm, '')
    .trim()
    .split(/[\n;&|]/);
  const [program = '', ...args] = first.trim().split(/\s+/);
  return [...(program.includes('/') ? [program] : []), ...args].filter((path) => /^(\.\/)?\w[\w./-]*$/.test(path));
}

function warnAboutCheckpoints(
  { sections, job, capacity, modules, runsOn, checkpointDir, recovery, isSetupOnly }: ManifestParts,
  warn: Warn,
): void {
  if (isSetupOnly) return;
  if (job.checkpoint_dir?.includes(nodeNamePlaceholder) === true) {
    warn(
      'checkpoint_dir',
      'contains ${tpu.name}, which is different for every new TPU, so a job cannot find its checkpoints after a preemption',
    );
    return;
  }
  if (capacity === undefined || !isRevocable(sections, capacity) || !resumesElsewhere(recovery)) return;
  const preemptionNote = `a ${capacity.kind === 'tpu' ? capacity.pricing : ''} TPU can be preempted at any time`;
  if (job.checkpoint_dir === undefined && !isInvalid(sections, job, 'checkpoint_dir')) {
    const after = `with preset ${recovery.preset} the program then starts again from the beginning`;
    warn('checkpoint_dir', `is not set, and ${preemptionNote}; ${after}`);
    return;
  }
  // A URL such as gs://bucket/folder is in a bucket already. Files on the controller survive a preemption.
  if (checkpointDir === null || /^[a-z][a-z0-9]+:\/\//.test(checkpointDir) || runsOn === 'controller') return;
  // A startup script may have mounted anything anywhere.
  if (capacity.kind === 'tpu' && capacity.startupScript !== null) return;
  // The checkpoints may be in a bucket that could not be read.
  if (!sections.isValid('gcsfuse') || !sections.isValid('setup')) return;
  const mounts = modules.flatMap((module) => (module.name === 'gcsfuse' ? module.mounts : []));
  if (!mounts.some(({ path }) => isWithin(checkpointDir, path))) {
    const unused =
      mounts.length === 0 && sections.has(['gcsfuse'])
        ? 'gcsfuse is not listed in setup.modules'
        : mounts.length === 0
          ? 'the manifest mounts no bucket'
          : `mounted: ${mounts.map(({ path }) => path).join(', ')}`;
    warn(
      'checkpoint_dir',
      `is not in a mounted bucket (${unused}), and ${preemptionNote}; the checkpoints are lost with it`,
    );
    return;
  }
  if (!sections.isValid('docker')) return;
  const container = modules.find((module) => module.name === 'docker');
  if (container === undefined || container.flags.some((flag) => /^(-v|--volume|--mount)/.test(flag))) return;
  const outside = container.mounts.map((mount) => remotePath(mount.split(':')[0] ?? ''));
  if (!outside.some((path) => isWithin(checkpointDir, path))) {
    warn(
      'checkpoint_dir',
      'is not visible in the container, because docker.mount_dirs does not include it; checkpoints written there are lost',
    );
  }
}

/** False if the section has a problem: an invalid pricing is read as if it were absent. */
function isRevocable(sections: Sections, capacity: CapacitySpec | undefined): boolean {
  return capacity !== undefined && sections.isValid('tpu') && capacityTraits(capacity).revocable;
}

/** True when a preempted attempt resumes on a new allocation, which has an empty disk. */
function resumesElsewhere({ rules, budget }: RecoverySpec): boolean {
  const [first] = rules.filter(({ reason, evidence }) => reason === 'preempted' && evidence === undefined);
  return first?.answer.then === 'resume' && budget.preemptions > 0;
}

function warnAboutLimits({ sections, job, capacity }: ManifestParts, warn: Warn): void {
  const { max_runtime: runtime, silence_timeout: silence, stop_grace: grace } = job;
  if (runtime !== undefined && grace !== undefined && runtime < grace)
    warn(
      'max_runtime',
      `is shorter than job.stop_grace (${formatExactDuration(grace)}), which the program gets in addition before jobman kills it`,
    );
  if (runtime !== undefined && silence !== undefined && silence >= runtime)
    warn('silence_timeout', `has no effect: job.max_runtime (${formatExactDuration(runtime)}) ends the attempt first`);
  if (grace !== undefined && grace > preemptionNotice && isRevocable(sections, capacity))
    warn(
      'stop_grace',
      `applies only to a stop: a preempted TPU is deleted at most ${formatExactDuration(preemptionNotice)} after the notice`,
    );
  if (grace !== undefined && grace > 0 && job.stop_signal === 'KILL')
    warn('stop_grace', 'has no effect with job.stop_signal: KILL, which ends the program at once');
  if (capacity?.kind === 'tpu' && capacity.ownership === 'persistent' && job.budget !== undefined)
    warn('budget', 'has no effect: a persistent TPU costs the job nothing');
}

function warnAboutFinish({ sections, job, capacity, isSetupOnly }: ManifestParts, warn: Warn): void {
  if (isSetupOnly && job.loop !== undefined) warn('loop', 'has no effect: the job runs no command');
  const isKept = job.on_finish === 'keep' || (isSetupOnly && job.on_finish === undefined);
  if (capacity?.kind !== 'hosts' && job.keep_for !== undefined && !isKept && !isInvalid(sections, job, 'on_finish'))
    warn('keep_for', 'has no effect without job.on_finish: keep');
  if (capacity?.kind !== 'tpu') return;
  if (capacity.ownership === 'persistent') {
    const message = 'has no effect: a persistent TPU is never released';
    if (job.hold_on_failure !== undefined) warn('hold_on_failure', message);
    if (job.on_finish === 'keep') warn('on_finish', message);
    return;
  }
  if (!isKept || job.keep_for !== undefined) return;
  if (job.hold_on_failure !== undefined)
    warn('hold_on_failure', 'has no effect: job.on_finish: keep keeps the TPU anyway');
  if (capacity.project === emulatorProject || isInvalid(sections, job, 'keep_for')) return;
  if (isSetupOnly) {
    sections.warning(
      [],
      'the job runs no command: it sets up its TPU and keeps it, at its full cost, until you release it (jobman stop ID --release); limit this with job.keep_for, or release it at the end with job.on_finish: release',
    );
  }
  if (job.on_finish === 'keep')
    warn('on_finish', 'keeps the TPU, at its full cost, until you release it; limit this with job.keep_for: 1h');
}

/** The key has a value that could not be read and was reported. */
function isInvalid(sections: Sections, job: Partial<Section<'job'>>, key: keyof Section<'job'>): boolean {
  return job[key] === undefined && sections.has(['job', key]);
}

function warnAboutRules({ sections, job, capacity }: ManifestParts): void {
  // When a rule could not be read, the list is incomplete and the checks below would be wrong.
  const rules = sections.isValid('recovery') ? (sections.read('recovery')?.rules ?? []) : [];
  for (const [index, rule] of rules.entries()) {
    const at = ['recovery', 'rules', index];
    const coveringIndex = rules.findIndex((other, otherIndex) => otherIndex < index && coversRule(other, rule));
    if (coveringIndex >= 0) sections.warning(at, `never applies: rules[${coveringIndex}] matches every case first`);
    if (rule.reason === 'hung' && job.silence_timeout === undefined && !isInvalid(sections, job, 'silence_timeout')) {
      sections.warning(at, 'never applies: without job.silence_timeout no attempt counts as hung');
    }
    if (rule.reason === 'preempted' && capacity?.kind === 'hosts') {
      sections.warning(at, 'never applies: your own machines cannot be preempted');
    }
  }
}

type ManifestRule = NonNullable<Section<'recovery'>['rules']>[number];

/** Each condition of `earlier` must also be a condition of `later`. */
function coversRule(earlier: ManifestRule, later: ManifestRule): boolean {
  if (earlier.reason === undefined || earlier.reason !== later.reason) return false;
  const codes = earlier.exit_code;
  return (
    (earlier.evidence === undefined || earlier.evidence === later.evidence) &&
    (earlier.log === undefined || earlier.log === later.log) &&
    (earlier.worker === undefined || earlier.worker === later.worker) &&
    (codes === undefined || later.exit_code?.every((code) => codes.includes(code)) === true)
  );
}

// One side of `jobman diff`: a job of the store, with one of its attempts.

import { phaseOf } from '../core/decide/phase.ts';
import { allocationOf, capacityOf, type Attempt, type Job } from '../core/model/job.ts';
import {
  nodeNamePlaceholder,
  workdirPlaceholder,
  type RecoveryRule,
  type SecretRef,
  type StepFile,
  formatHosts,
  isOnThisMachine,
} from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import { jobCost } from '../reports/cost.ts';
import { usageOf } from '../reports/usage.ts';
import { parseYaml } from '../schema/yaml.ts';
import type { DiffSide } from './diff.ts';
import { messageOf } from './errors.ts';
import { formatDuration } from './format.ts';
import { withoutSecrets } from './json.ts';
import { requireAttempt } from './logs.ts';
import type { JobFiles } from './ports.ts';
import { filesByPath, workdirViews } from './workdir.ts';

export interface SideSources {
  readonly jobFiles: JobFiles;
  readonly manifest: string | null;
  readonly now: Instant;
}

/** Without a number, the newest attempt and the cost of the whole job. Throws JobmanError (3) for an absent attempt. */
export async function diffSide(job: Job, number: number | null, sources: SideSources): Promise<DiffSide> {
  const { jobFiles, manifest, now } = sources;
  const attempt = number === null ? job.attempts.at(-1) : requireAttempt(job, number);
  const workdir = await workdirOf(jobFiles, job, attempt);
  const { environment, rules, spec, stepFiles } = specParts(job);
  return {
    job: job.id,
    name: job.spec.name,
    attempt: attempt?.ordinal ?? null,
    values: {
      manifest: manifest === null ? null : keysOf(manifest),
      spec,
      environment,
      rules,
      hosts: attempt === undefined ? null : hostsOf(job, attempt),
      workdir: workdir?.about ?? null,
      job: { phase: phaseOf(job), ...(number === null && { cost: costOf(job, null, now) }) },
      result:
        attempt === undefined
          ? null
          : { ...resultOf(attempt), ...(number !== null && { cost: costOf(job, number, now) }) },
    },
    files: workdir?.files ?? null,
    stepFiles,
    ...(workdir === null && isOnThisMachine(job.spec) && { isCodeUnknown: true as const }),
  };
}

/** The keys of a manifest, so that formatting and comments do not differ. The text of one that is not readable. */
function keysOf(manifest: string): unknown {
  try {
    return parseYaml(manifest)?.toJS() ?? manifest;
  } catch {
    return manifest;
  }
}

const ownId = '${job.id}';

/** The spec without secrets, in the form in which two specs are easy to compare: steps by name, the job's own id hidden. */
function specParts(
  job: Job,
): Record<'environment' | 'rules' | 'spec', unknown> & { readonly stepFiles: readonly StepFile[] } {
  const text = JSON.stringify(withoutSecrets(job.spec))
    .replaceAll(nodeNamePlaceholder, '${tpu.name}')
    .replaceAll(workdirPlaceholder, '${workdir}')
    .replaceAll(job.id, ownId);
  // The section `workdir` has the copy.
  const { steps, command, recovery, workdir: _workdir, ...spec } = JSON.parse(text) as Job['spec'];
  const { env, secrets = {}, script, userScript = script, ...rest } = command;
  const secretTexts = Object.entries(secrets).map(([name, ref]) => [name, `(secret, ${formatSecret(ref)})`]);
  return {
    environment: { ...env, ...(Object.fromEntries(secretTexts) as object) },
    rules: { ...recovery, rules: recovery.rules.map((rule) => `${formatRule(rule)}\n`).join('') },
    spec: {
      ...spec,
      command: { ...rest, script: userScript },
      steps: Object.fromEntries(steps.map(({ name, check, apply, timeoutMs }) => [name, { check, apply, timeoutMs }])),
    },
    stepFiles: steps.flatMap(({ files: all }) => all),
  };
}

function formatSecret(ref: SecretRef): string {
  if (ref.kind === 'localFile') return `from ${ref.path}`;
  if (ref.kind === 'setting') return `of the setting ${ref.setting}`;
  if (ref.kind === 'named') return `${ref.secret} of the store`;
  return ref.variable === undefined ? 'of the job' : `from the variable ${ref.variable}`;
}

/** A line of the table: `command_failed, exit code 1 or 2: resume on same`. */
function formatRule(rule: RecoveryRule): string {
  const { reason, evidence, exitCodes, worker, answer, avoidZone, limit, delayMs, delayMaxMs } = rule;
  const when = [
    reason,
    ...(evidence === undefined ? [] : [`"${evidence}" in the log`]),
    ...(exitCodes === undefined ? [] : [`exit code ${exitCodes.join(' or ')}`]),
    ...(worker === undefined ? [] : [`worker ${worker}`]),
  ];
  const then = [
    `${answer.then} on ${answer.on}`,
    ...(avoidZone === undefined ? [] : ['in another zone']),
    ...(limit === undefined ? [] : [`limit ${limit}`]),
    ...(delayMs === undefined ? [] : [`delay ${formatDuration(delayMs)}`]),
    ...(delayMaxMs === undefined ? [] : [`delay at most ${formatDuration(delayMaxMs)}`]),
  ];
  return `${when.join(', ')}: ${then.join(', ')}`;
}

function hostsOf(job: Job, attempt: Attempt): object {
  const allocation = allocationOf(job, attempt.allocation);
  const capacity = capacityOf(job, allocation);
  if ('hosts' in capacity) return { machine: formatHosts(capacity.hosts) };
  const { project, zone, accelerator, nodeCount = 1, pricing, runtimeVersion, pricePerHourUsd } = capacity;
  const addresses = (allocation.hosts ?? []).map(({ internalIp, externalIp }) => externalIp ?? internalIp);
  return {
    project,
    zone,
    accelerator,
    nodeCount,
    pricing,
    runtimeVersion,
    pricePerHourUsd,
    name: allocation.name.replaceAll(job.id, ownId),
    addresses,
  };
}

async function workdirOf(
  jobFiles: JobFiles,
  job: Job,
  attempt: Attempt | undefined,
): Promise<{ readonly about: object; readonly files: DiffSide['files'] } | null> {
  const views = workdirViews(jobFiles, job);
  const view = attempt === undefined ? views.at(-1) : views.find(({ copy }) => copy === attempt.workdirCopy);
  if (view === undefined) return null;
  const { from, files: count, bytes, git, copy } = view;
  const tree = await jobFiles.workdirs.open(job, copy);
  const changes = git?.changed === true ? changesOf(jobFiles, job, copy) : null;
  return {
    about: { from, ...git, changes, files: count, bytes },
    files: tree === null ? null : { copy, byPath: await filesByPath(tree) },
  };
}

function changesOf({ workdirs }: JobFiles, job: Job, copy: number): string {
  try {
    return workdirs.changes(job, copy);
  } catch (error) {
    return `not readable: ${messageOf(error)}`;
  }
}

function resultOf(attempt: Attempt): object {
  const { stage, startMode, startedByOwner, startedAt, ending, endedAt, exits = [] } = attempt;
  const end = ending?.startedAt ?? endedAt;
  return {
    startMode,
    stage,
    startedBy: startedByOwner ? 'owner' : 'rule',
    reason: ending?.reason ?? null,
    evidence: ending?.evidence.message ?? null,
    exits: exits.map(({ exitCode: code, signal, workers }) => ({ code, signal: signal ?? null, workers })),
    ranMs: startedAt === null || end === null ? null : end - startedAt,
  };
}

/** Of one attempt, or of the whole job. */
function costOf(job: Job, attempt: number | null, now: Instant): object {
  const rows = usageOf(job).filter((row) => attempt === null || row.attempt === attempt);
  const { held, useful, lost, setup, idle, kept, waiting } = jobCost(rows, now);
  return {
    estimateUsd: held.estimateUsd,
    chipMs: held.chipMs,
    usefulMs: useful.durationMs,
    lostMs: lost.durationMs,
    setupMs: setup.durationMs,
    idleMs: idle.durationMs,
    keptMs: kept.durationMs,
    waitingMs: waiting.durationMs,
  };
}

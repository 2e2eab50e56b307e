// The JSON of `--json` and of a job's copies for scripts: the program's own values, with times as RFC 3339 in UTC,
// which every language reads.

import type { AllocationView, JobRow, JobView, Why, WorkdirCopyView } from './client.ts';
import type { Event } from '../core/model/event.ts';
import { hexDigits, toRfc3339 } from './format.ts';
import type { Desired, Evidence } from '../core/model/job.ts';
import type { Phase } from '../core/decide/phase.ts';
import type { JobSpec, Override, Reason, WorkerId } from '../core/model/spec.ts';
import type { Duration, Instant } from '../core/model/time.ts';

/** RFC 3339 in UTC: `2026-11-21T08:20:14.000Z`. */
export type Timestamp = string;

/** A job in a list. */
export interface JobOutput {
  /** Six digits; for a job of a cluster its name there. */
  readonly id: string;
  readonly name: string;
  /** Null for a job of a cluster that another tool made. */
  readonly owner: string | null;
  readonly backend: 'local' | 'tpu' | 'kubernetes';
  /** The accelerator type; for a job of a cluster its flavor or requests. Null on this machine. */
  readonly accelerator: string | null;
  readonly pricing: 'spot' | 'ondemand' | 'preemptible' | null;
  /** The zone; for a job of a cluster `context/namespace`. Null on this machine. */
  readonly zone: string | null;
  readonly worker0Address: string | null;
  readonly phase: Phase;
  /** The reason for the phase, for people. */
  readonly message: string;
  /** The capacity that a finished job still holds; null if it holds none. */
  readonly heldCapacity: string | null;
  /** The owner's last request. */
  readonly desired: Desired;
  /** Number of resumes. */
  readonly stage: number;
  /** Number of the newest attempt; 0 before the first. */
  readonly attempt: number;
  readonly tags: readonly string[];
  /** The values of `--set`, in order. */
  readonly overrides: readonly Override[];
  readonly createdAt: Timestamp;
  readonly phaseStartedAt: Timestamp;
  /** Estimated price of the capacity held now; null without capacity or without a known price. */
  readonly pricePerHourUsd: number | null;
  /** True on the TPU emulator: the prices are Google's, and it is free. */
  readonly simulated: boolean;
}

export function rowJson(row: JobRow): JobOutput {
  const isCluster = row.backend === 'kubernetes';
  return {
    id: row.id,
    name: row.name,
    owner: isCluster && row.owner === '-' ? null : row.owner,
    backend: row.backend,
    accelerator: row.backend === 'local' || row.accelerator === '-' ? null : row.accelerator,
    pricing: row.pricing as JobOutput['pricing'],
    zone: row.zone,
    worker0Address: row.worker0Address,
    phase: row.phase,
    message: row.reasonText,
    heldCapacity: row.heldCapacity,
    desired: row.desired,
    stage: row.stage,
    attempt: row.attempt,
    tags: row.tags,
    overrides: row.overrides ?? [],
    createdAt: timestamp(row.createdAt),
    phaseStartedAt: timestamp(row.phaseStartedAt),
    pricePerHourUsd: row.pricePerHourUsd,
    simulated: row.simulated,
  };
}

/** The explanation of a job's phase. All texts are for people. */
export interface WhyOutput {
  readonly id: string;
  readonly message: string;
  /** The fact behind the message, with its time. */
  readonly evidence: string | null;
  /** The last lines of the failed program's log; empty if no program failed. */
  readonly logTail: readonly string[];
  /** The recovery rule in force. */
  readonly rule: string | null;
  /** The typical wait for such capacity; null with fewer than five waits. */
  readonly typicalWait: string | null;
  readonly next: string | null;
  readonly nextAt: Timestamp | null;
  /** Time of the controller's next check, if the job waits for a check. */
  readonly nextCheckAt: Timestamp | null;
  /** The row of the situation table that decided the newest pass; null before the first pass and in a cluster. */
  readonly situation: { readonly name: string; readonly description: string | null } | null;
}

export function whyJson(why: Why): WhyOutput {
  return { ...why, nextAt: toRfc3339(why.nextAt), nextCheckAt: toRfc3339(why.nextCheckAt) };
}

/** Evidence for the end of an attempt. */
interface EvidenceOutput {
  readonly message: string;
  readonly worker: WorkerId | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** True if the program exited with 0 and its run folder holds a failure. */
  readonly unconfirmed: boolean;
  /** Name of the log pattern that matched, and the line. */
  readonly pattern: string | null;
  readonly line: string | null;
  /** The cloud's own message. */
  readonly raw: string | null;
}

function evidenceJson(evidence: Evidence): EvidenceOutput {
  const { message, worker = null, exitCode = null, signal = null, unconfirmed = false } = evidence;
  const { pattern = null, line = null, raw = null } = evidence;
  return { message, worker, exitCode, signal, unconfirmed, pattern, line, raw };
}

/** One try at the command. */
interface AttemptOutput {
  /** From 1. */
  readonly attempt: number;
  readonly stage: number;
  readonly startMode: 'fresh' | 'resume' | 'rerun';
  readonly startedBy: 'owner' | 'rule';
  /** True if the attempt runs only the command, without setup steps. */
  readonly commandOnly: boolean;
  readonly allocation: number;
  readonly workers: readonly WorkerId[];
  readonly createdAt: Timestamp;
  /** End of the pause after a failure. */
  readonly notBeforeAt: Timestamp;
  readonly startedAt: Timestamp | null;
  /** Time at which jobman decided to end the attempt or observed its end. */
  readonly endingAt: Timestamp | null;
  readonly endedAt: Timestamp | null;
  /** Null until it ends. */
  readonly reason: Reason | null;
  readonly evidence: EvidenceOutput | null;
  /** The exits of its program, grouped by exit code and signal. */
  readonly exits: readonly ExitOutput[];
  /** The copy of the working directory that it runs. */
  readonly workdirCopy: number | null;
}

interface ExitOutput {
  readonly exitCode: number;
  readonly signal: string | null;
  readonly workers: readonly WorkerId[];
}

/** Capacity requested or held for a job. */
interface AllocationOutput {
  /** From 1. */
  readonly allocation: number;
  /** Its name in the cloud. */
  readonly name: string;
  readonly ownership: 'ephemeral' | 'persistent';
  readonly state: AllocationView['state'];
  /** The cloud's last status or error; null if the allocation is ready, gone or not requested yet. */
  readonly message: string | null;
  readonly requestedAt: Timestamp | null;
  readonly readyAt: Timestamp | null;
  readonly releasedAt: Timestamp | null;
  readonly goneAt: Timestamp | null;
  readonly workers: AllocationView['workers'];
}

/** A worker of the newest attempt. */
interface WorkerOutput {
  readonly worker: WorkerId;
  readonly address: string | null;
  /** Its state, for people. */
  readonly message: string;
  /** Age of the newest output; null without any. */
  readonly logAgeMs: Duration | null;
  readonly lastLine: string | null;
}

/** An immutable copy of a working directory. */
interface WorkdirCopyOutput {
  /** From 1. */
  readonly copy: number;
  readonly folder: string;
  readonly from: string;
  readonly copiedAt: Timestamp;
  readonly files: number;
  readonly bytes: number;
  readonly git: WorkdirCopyView['git'];
}

/** A job with everything that has happened to it. */
export interface ShownJobOutput extends JobOutput {
  readonly why: WhyOutput;
  /** The progress in the program's own output: `step 40,210 of 90,000 (44%)`. */
  readonly progress: string | null;
  /** The newest checkpoint visible from this machine. */
  readonly checkpoint: { readonly name: string; readonly folder: string; readonly savedAt: Timestamp } | null;
  readonly checkpointDir: string | null;
  /** The consequence of a preemption now, for people; null if no cloud can preempt the job or nothing runs. */
  readonly ifPreempted: string | null;
  /** Estimated cost of all capacity so far; null if no price is known. */
  readonly costUsd: number | null;
  readonly attempts: readonly AttemptOutput[];
  readonly workdirCopies: readonly WorkdirCopyOutput[];
  readonly allocations: readonly AllocationOutput[];
  readonly workers: readonly WorkerOutput[];
  readonly spec: JobSpec;
  readonly folder: string;
  readonly hasFiles: boolean;
}

export function viewJson(view: JobView): ShownJobOutput {
  const { checkpoint, ifPreempted, costUsd, checkpointDir, folder, hasFiles } = view;
  return {
    ...rowJson(view),
    why: whyJson(view.why),
    progress: view.progressText,
    checkpoint: checkpoint === null ? null : { ...checkpoint, savedAt: timestamp(checkpoint.savedAt) },
    checkpointDir,
    ifPreempted,
    costUsd,
    attempts: view.attempts.map(attemptJson),
    workdirCopies: view.workdirCopies.map((copy) => ({ ...copy, copiedAt: timestamp(copy.copiedAt) })),
    allocations: view.allocations.map(allocationJson),
    workers: view.workers.map(({ stateText: message, ...worker }) => ({ ...worker, message })),
    spec: withoutSecrets(view.spec),
    folder,
    hasFiles,
  };
}

function attemptJson(attempt: JobView['attempts'][number]): AttemptOutput {
  const { createdAt, notBeforeAt, startedAt, endingAt, endedAt, evidence, exits } = attempt;
  return {
    ...attempt,
    createdAt: timestamp(createdAt),
    notBeforeAt: timestamp(notBeforeAt),
    startedAt: toRfc3339(startedAt),
    endingAt: toRfc3339(endingAt),
    endedAt: toRfc3339(endedAt),
    evidence: evidence === null ? null : evidenceJson(evidence),
    exits: exits.map(({ exitCode, signal = null, workers }) => ({ exitCode, signal, workers })),
  };
}

function allocationJson(allocation: AllocationView): AllocationOutput {
  const { requestedAt, readyAt, releasedAt, goneAt } = allocation;
  return {
    ...allocation,
    requestedAt: toRfc3339(requestedAt),
    readyAt: toRfc3339(readyAt),
    releasedAt: toRfc3339(releasedAt),
    goneAt: toRfc3339(goneAt),
  };
}

export function timestamp(at: Instant): Timestamp {
  return new Date(at).toISOString();
}

/** The spec without values of `--set` for the environment, which the database hides (src/manifest/overrides.ts). */
function withoutSecrets(spec: JobView['spec']): JobView['spec'] {
  const hiddenNames = (spec.overrides ?? []).flatMap(({ key, value }) =>
    value === '***' && /^(?:job|command)\.env(?:\.|$)/.test(key) ? [key.replace(/^\w+\.env\.?/, '')] : [],
  );
  if (hiddenNames.length === 0) return spec;
  const env = Object.entries(spec.command.env).map(([name, value]) => [
    name,
    hiddenNames.includes('') || hiddenNames.includes(name) ? '***' : value,
  ]);
  return { ...spec, command: { ...spec.command, env: Object.fromEntries(env) as Record<string, string> } };
}

/** An event of a job's history. */
export type EventOutput = {
  /** Grows with each event of the job. */
  readonly seq: number;
} & Event;

/** The times are printed as text. */
export function eventJson(seq: number, event: Event): EventOutput {
  return { seq, ...recordJson(event) };
}

/** A copy with its times as text. */
export function recordJson<T extends object>(part: T): T {
  return JSON.parse(JSON.stringify(part, timeAsText)) as T;
}

/** DEL, C1 and bidirectional controls: JSON does not escape them, and a terminal that shows the file obeys them. */
const invisibleCharacters = /[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

export function jsonText(value: object, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    invisibleCharacters,
    (found) => `\\u${hexDigits(found.codePointAt(0) ?? 0, 4)}`,
  );
}

/** A time in a stored job is called `at`, or its name ends in `At`. */
const timeKey = /^(?:at|\w+At)$/;

function timeAsText(key: string, value: unknown): unknown {
  return typeof value === 'number' && timeKey.test(key) ? toRfc3339(value) : value;
}

/** A spec without scripts, frozen files and environments: enough for a job's phase and for lists of thousands. */
export function specOutline(spec: JobSpec): JobSpec {
  return {
    ...spec,
    capacity: spec.capacity.kind === 'tpu' ? { ...spec.capacity, startupScript: null, metadata: {} } : spec.capacity,
    steps: spec.steps.map((step) => ({ ...step, check: null, apply: '', files: [] })),
    command: { ...spec.command, script: '', env: {} },
  };
}

/** A JSON type, a list, or an object by its fields; `*` is any other field. Unlisted fields may have any value. */
export type Shape = 'string' | 'number' | 'boolean' | readonly [Shape] | { readonly [field: string]: Shape };

/** Fields that identify an object and therefore must exist. */
const requiredFields = ['name', 'digest'] as const;
type RequiredField = (typeof requiredFields)[number];

/** The type of the values that match a shape. */
export type ShapeValue<S> = S extends 'string'
  ? string
  : S extends 'number'
    ? number
    : S extends 'boolean'
      ? boolean
      : S extends readonly [infer Item]
        ? readonly ShapeValue<Item>[]
        : S extends { readonly '*': infer Value }
          ? Readonly<Record<string, ShapeValue<Value>>>
          : { readonly [Field in keyof S as Field & RequiredField]: ShapeValue<S[Field]> } & {
              readonly [Field in Exclude<keyof S, RequiredField>]?: ShapeValue<S[Field]>;
            };

/** Fields may be missing, except `name` and `digest`; with `allowNull` they may also be null. */
export function matchesShape(value: unknown, shape: Shape, allowNull = false): boolean {
  if (typeof shape === 'string') return typeof value === shape;
  if (isList(shape)) return Array.isArray(value) && value.every((one) => matchesShape(one, shape[0], allowNull));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  if (requiredFields.some((field) => shape[field] !== undefined && !Object.hasOwn(value, field))) return false;
  return Object.entries(value).every(([field, part]) => {
    const wanted = Object.hasOwn(shape, field) ? shape[field] : shape['*'];
    const isRequired = requiredFields.some((name) => name === field);
    const isMissing = wanted === undefined || (allowNull && part === null && !isRequired);
    return isMissing || matchesShape(part, wanted, allowNull);
  });
}

function isList(shape: Exclude<Shape, string>): shape is readonly [Shape] {
  return Array.isArray(shape);
}

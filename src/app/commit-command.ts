// Commit command: from a user's command to the commit and the answer. core/decide/commands.ts decides the effect of
// each command.

import { applyCommand, type Verb } from '../core/decide/commands.ts';
import { nameInHistory, owns, type Actor } from '../core/model/user.ts';
import type { Guard } from '../core/policy/guards.ts';
import { checkAction, type ActionAnswer } from '../core/policy/permissions.ts';
import {
  budgetUsdOf,
  formatVerdict,
  heldAllocations,
  isForceRemoved,
  isLost,
  lastAllocation,
  openAttempt,
  mayOutliveRemoval,
  type Allocation,
  type Finish,
  type Job,
} from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import { auditEntry, type AuditEntry } from './audit.ts';
import type { CommandResult, CommandOptions, ConfirmationNeeded, OnBehalf } from './client.ts';
import { checkRequest, type GuardParts } from './confirmation.ts';
import { formatCapacityCost, hostArgument } from './phrases.ts';
import { capacityTraits } from '../core/decide/allocate.ts';
import { exitCode, JobmanError, StoreError } from './errors.ts';
import type { LabRestart } from './lab-job.ts';
import type { Commit, LogFiles, Store, StoredJob } from './ports.ts';
import { requireAdoption, requirePermission } from './require-permission.ts';
import { capitalize, formatReasons, formatUsd } from './format.ts';
import { orphansOf } from './orphans.ts';
import { acceleratorOf, keptAllocations, pricePerHour } from './views.ts';
import type { Digest } from '../catalogue/digest.ts';
import type { Event } from '../core/model/event.ts';
import { describeEvent } from './history.ts';
import { omitUndefined } from '../core/model/omit-undefined.ts';

/** A refusal is an answer. Throws what the store throws. */
export async function commitCommand(
  parts: GuardParts & { readonly store: Store; readonly logFiles: Pick<LogFiles, 'note' | 'mirror'> },
  stored: StoredJob,
  verb: Verb,
  actor: Actor,
  options: CommandOptions & { readonly workdirCopy?: number; readonly workdirTree?: Digest },
  checkStart?: Commit['check'],
): Promise<CommandResult & { readonly changed: boolean }> {
  const { store, now } = parts;
  const { id } = stored.job;
  // The number of the copy is an effect of the request.
  const { confirmed: _confirmed, workdirCopy: _copy, ...request } = options;
  const text = JSON.stringify([actor.user, verb, request]);
  const outcome = await commitChange(parts, stored, async (job, revision) => {
    const check = checkAction(job, verb, actor, options);
    if (check.answer === 'allow' || check.cause === 'state') requireRevision({ job, revision }, options);
    if (check.answer !== 'allow') return { answer: refusedResult(job, check, options), change: null };
    if (isStart(verb)) await requireAdoption(store, actor, job.spec.capacity);
    const guarded = isStart(verb)
      ? await checkRequest(parts, { owner: job.owner, spec: job.spec, job }, { ...options, text })
      : undefined;
    if (guarded !== undefined && guarded.confirmation !== null)
      return { answer: unconfirmedResult(job, guarded.confirmation), change: null };
    const waitsForTpu = guarded !== undefined && guarded.onTpu.length > 0;
    const given = { ...options, waitsForTpu, by: nameInHistory(actor), onBehalf: !owns(actor, job.owner) };
    const { job: commanded, events } = applyCommand(job, verb, given, now());
    const mayEnd = guarded !== undefined || verb === 'cancel';
    const ends = mayEnd ? await endRequests(parts, actor, options.replaces ?? []) : [];
    if (events.length === 0) {
      const answer = { id, ok: true, message: repeatedMessage(job, verb), exitCode: exitCode.ok };
      return { answer, change: ends.length === 0 ? null : { job, events, wakeAt: now(), ends } };
    }
    // A forced delete records its orphans before it takes the job off the list. A crash in between leaves one orphan
    // too many, which the next collection removes, and never one too few.
    for (const orphan of commanded.removed ? orphansOf(job) : []) await store.recordOrphan(orphan);
    const isFinal = commanded.removed && !mayOutliveRemoval(commanded);
    // A removed job keeps its next check only for the copy of its outputs, which continues.
    const wakeAt = !isFinal ? now() : isForceRemoved(commanded) ? null : await store.wakeAt(id);
    const answer = { id, ok: true, message: acceptedMessage(commanded, verb), exitCode: exitCode.ok };
    const { lab } = options;
    const started = guarded !== undefined && {
      guard: guarded.guard,
      ...(checkStart !== undefined && { check: checkStart }),
      ...(lab !== undefined && { lab }),
    };
    const audit = auditEntry(actor, now(), verb, { kind: 'job', id }, { detail: auditDetail(options) });
    return { answer, change: { job: commanded, events, wakeAt, ends, audit, ...started } };
  });
  if (outcome === 'busy') {
    const message = `Job ${id} changed too often in the meantime; try again.`;
    return { id, ok: false, message, exitCode: exitCode.failed, changed: false };
  }
  await reportEnds(parts, outcome.change?.ends ?? []);
  return { ...outcome.answer, changed: outcome.change !== null };
}

/** The options that change the effect. */
function auditDetail({ onBehalfOf, release, force, commandOnly, budgetUsd }: CommandOptions): AuditEntry['detail'] {
  return omitUndefined({ onBehalfOf, release, force, commandOnly, budgetUsd });
}

/** Throws JobmanError (4, `changed`). */
function requireRevision({ job, revision }: Pick<StoredJob, 'job' | 'revision'>, { ifRevision }: CommandOptions): void {
  if (ifRevision === undefined || ifRevision === revision) return;
  const message = `Job ${job.id} has changed since it was read, so the command was not given.`;
  throw new JobmanError(message, exitCode.conflict, [`jobman show ${Number(job.id)}`], { errorCode: 'changed' });
}

type CommandParts = Parameters<typeof commitCommand>[0];

/** The commits that cancel these jobs; none for a finished one. Throws JobmanError (4) without the permission. */
export async function endRequests(
  { store, now }: Pick<CommandParts, 'store' | 'now'>,
  actor: Actor,
  ids: readonly string[],
): Promise<readonly Commit[]> {
  return (await store.loadMany(ids)).flatMap(({ job, revision }) => {
    if (job.finish !== null || job.removed) return [];
    requirePermission(job, 'cancel', actor, job.owner);
    const given = { by: nameInHistory(actor), onBehalf: !owns(actor, job.owner) };
    const { job: ended, events } = applyCommand(job, 'cancel', given, now());
    return events.length === 0
      ? []
      : [
          {
            job: ended,
            revision,
            events,
            foldedOutcomes: [],
            wakeAt: now(),
            epoch: null,
            audit: auditEntry(actor, now(), 'cancel', { kind: 'job', id: job.id }),
          },
        ];
  });
}

/** After the transaction that contains them. */
export async function reportEnds(
  { store, logFiles }: Pick<CommandParts, 'store' | 'logFiles'>,
  ends: readonly Commit[],
): Promise<void> {
  for (const end of ends) {
    await writeNotes(logFiles, end);
    await store.notify({ topic: 'job', id: end.job.id });
  }
}

function isStart(verb: Verb): boolean {
  return verb === 'start' || verb === 'resume' || verb === 'rerun';
}

function unconfirmedResult({ id }: Job, confirmation: ConfirmationNeeded): CommandResult {
  return { id, ok: false, message: formatReasons(confirmation), exitCode: exitCode.conflict, confirmation };
}

export function refusedResult(
  { id, owner }: Job,
  { answer, message, cause }: Exclude<ActionAnswer, { readonly answer: 'allow' }>,
  { onBehalfOf }: OnBehalf = {},
): CommandResult {
  const refused = { id, ok: false, message: `${capitalize(message)}.`, exitCode: exitCode.conflict };
  if (cause !== 'permission') return refused;
  return {
    ...refused,
    refusedFor: owner,
    ...(answer === 'confirm' && onBehalfOf === undefined && { mayActForOwner: true }),
  };
}

// ------------------------------------------------------------------------------------------ answers

function acceptedMessage(job: Job, verb: Verb): string {
  const it = `job ${job.id} (${job.spec.name})`;
  const held = heldAllocations(job);
  const holdsTpu = held.length > 0;
  const release = holdsTpu ? formatRelease(job, held) : '';
  switch (verb) {
    case 'start':
      return `Starting ${it}.${formatNewBudget(job)}`;
    case 'resume':
      // Without the folder jobman knows no checkpoint: the program finds its own or starts from the beginning.
      return job.spec.command.checkpointDir === null
        ? `Resuming ${it}. Its manifest has no job.checkpoint_dir, so the program must find its own checkpoint.${formatNewBudget(job)}`
        : `Resuming ${it} from its last checkpoint.${formatNewBudget(job)}`;
    case 'rerun':
      return `Rerunning ${it} from the beginning.${formatNewBudget(job)}`;
    case 'stop':
      if (job.desired === 'stopped') return `Stopping ${it}.${formatKeptCapacity(job)}`;
      return job.finish === null ? `Stopping ${it}.${release}` : releasingMessage(it, job.finish);
    case 'cancel':
      return hasEndedByItself(job.finish) ? releasingMessage(it, job.finish) : `Cancelling ${it}.${release}`;
    case 'disable-recovery':
      return `Automatic recovery is off for ${it}. Its current attempt is the last one.`;
    case 'accept-exit':
      return `Accepted the exit of ${it}.`;
    case 'delete':
      if (!job.removed) return `Deleting ${it}.${leavesList(job, holdsTpu)}`;
      return `Deleted ${it}.${mayOutliveRemoval(job) ? formatLeftProgram(job) : ''}${formatOrphans(job)}`;
  }
}

/** Nothing for a job that has no program: it leaves the list at once. */
function leavesList(job: Job, holdsTpu: boolean): string {
  if (holdsTpu) return ' It leaves the list once its TPU is released.';
  return openAttempt(job) === undefined ? '' : ' It leaves the list once its program has ended.';
}

function formatLeftProgram(job: Job): string {
  const allocation = lastAllocation(job);
  const { unreachableWho: who } = allocation ?? {};
  const home = openAttempt(job)?.home;
  if (home !== undefined && (who === 'home' || who === 'machine'))
    return ` Its program may still run in ${home.path} on ${home.machine}. jobman does not end it.`;
  if (allocation?.unreachableWho !== 'worker') return ' Its program is being ended.';
  const { name } = allocation;
  const mayRun = ` Its program may still run on ${name}, which does not answer.`;
  return capacityTraits(job.spec.capacity).givenUpWhenSilent
    ? `${mayRun} When it answers again, find the program there before the next job: grep -ls JOBMAN_RUN=${job.installation}/${job.id}/ /proc/[0-9]*/environ`
    : `${mayRun} It keeps its slots: when the machine answers again, jobman ends it before another job starts. If the machine is gone for good: jobman hosts remove ${hostArgument(job)}`;
}

function formatNewBudget(job: Job): string {
  const budgetUsd = budgetUsdOf(job);
  if (budgetUsd === undefined) return '';
  const budget = ` Its budget of ${formatUsd(budgetUsd)} (job.budget)`;
  return (job.spec.capacity.pricePerHourUsd ?? null) === null
    ? `${budget} is not enforced: jobman has no price for it.`
    : `${budget} counts from now.`;
}

function hasEndedByItself(finish: Finish | null): finish is Finish {
  return finish?.verdict === 'succeeded' || finish?.verdict === 'failed';
}

function releasingMessage(it: string, { verdict }: Finish): string {
  return `${capitalize(it)} has already ${formatVerdict(verdict)}. Its TPU is being released.`;
}

function formatRelease(job: Job, held: readonly Allocation[]): string {
  const isRequested = held.every(({ readyAt }) => readyAt === null);
  return isRequested
    ? ` Its ${acceleratorOf(job)} was not ready yet and is being released.`
    : ' Its TPU is being released.';
}

function formatOrphans(job: Job): string {
  const names = orphansOf(job).map(({ resource }) => resource);
  return names.length === 0
    ? ''
    : ` Its TPU may still exist and cost money (${names.join(', ')}). Release it: jobman gc`;
}

function formatKeptCapacity(job: Job): string {
  const held = keptAllocations(job);
  const usable = held.filter((allocation) => !isLost(allocation));
  if (held.length > 0 && usable.length === 0) return ` It keeps nothing: its ${acceleratorOf(job)} is lost.`;
  if (job.spec.capacity.ownership === 'persistent' || usable.length === 0) return '';
  // A stop keeps usable capacity. It gives back a pending request, and with it the position in the cloud's queue.
  if (usable.every(({ readyAt }) => readyAt === null)) return formatRelease(job, usable);
  const price = pricePerHour(job);
  const cost = price === null ? '' : `, which costs ${formatCapacityCost(job.spec.capacity, price)}`;
  const limit = price === null || budgetUsdOf(job) === undefined ? '' : ', until job.budget is used up';
  return ` It keeps its ${acceleratorOf(job)}${cost}${limit}. Release it: jobman stop ${Number(job.id)} --release`;
}

function repeatedMessage(job: Job, verb: Verb): string {
  const it = `Job ${job.id} (${job.spec.name})`;
  const isFinished = job.finish !== null;
  switch (verb) {
    case 'stop':
      return `${it} is already ${isFinished ? 'stopped' : 'stopping'}.${job.desired === 'stopped' ? formatKeptCapacity(job) : ''}`;
    case 'cancel':
      if (hasEndedByItself(job.finish)) return releasingMessage(it, job.finish);
      return `${it} is already ${isFinished ? '' : 'being '}cancelled.`;
    case 'delete':
      return `${it} is already being deleted.`;
    case 'disable-recovery':
      return `Automatic recovery is already off for job ${job.id}.`;
    case 'accept-exit':
      return `The exit of job ${job.id} is already accepted.`;
    case 'start':
    case 'resume':
    case 'rerun':
      return `${it} is already starting.`;
  }
}

// ------------------------------------------------------------------------------------------ the commit

const maxTries = 20;

export interface ClientChange {
  readonly job: Job;
  readonly events: readonly Event[];
  readonly wakeAt: Instant | null;
  readonly guard?: Guard;
  readonly ends?: readonly Commit[];
  readonly check?: Commit['check'];
  readonly lab?: LabRestart;
  readonly audit?: AuditEntry;
}

/** Commits the result of `createChange` and adds it to job.log; retries after another commit, at last with `busy`. */
export async function commitChange<Answer extends object>(
  { store, logFiles }: { readonly store: Store; readonly logFiles: Pick<LogFiles, 'note'> },
  stored: StoredJob,
  createChange: (job: Job, revision: number) => Promise<Answer & { readonly change: ClientChange | null }>,
): Promise<(Answer & { readonly change: ClientChange | null }) | 'busy'> {
  let { job, revision } = stored;
  for (let tries = 0; tries < maxTries; tries += 1) {
    const answer = await createChange(job, revision);
    if (answer.change === null) return answer;
    const result = await store.commit({ ...answer.change, revision, foldedOutcomes: [], epoch: null });
    if (result === 'committed') {
      await writeNotes(logFiles, answer.change);
      return answer;
    }
    const reloaded = await store.load(job.id);
    if (reloaded === undefined) throw new Error(`job ${job.id} has vanished from the database`);
    ({ job, revision } = reloaded);
  }
  return 'busy';
}

/** The commit has happened: an unwritable log does not undo it. */
async function writeNotes(
  logFiles: Pick<LogFiles, 'note'>,
  { job, events }: Pick<ClientChange, 'job' | 'events'>,
): Promise<void> {
  try {
    for (const event of events) await logFiles.note(job, 'job', event.at, describeEvent(event, job));
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
  }
}

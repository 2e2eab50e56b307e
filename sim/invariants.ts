// Invariants: conditions that hold in every world, whatever its faults. They are checked against the world and the
// owners' commands. Where an invariant is about the database itself (commit before act, events reproduce the state),
// the database is compared with the world. The folder invariants/ has the checks; this file decides when each runs.

import type { AllocationRef, CommitResult, Commit, Orphan } from '../src/app/ports.ts';
import type { Event } from '../src/core/model/event.ts';
import type { Job } from '../src/core/model/job.ts';
import type { OutcomeResult } from '../src/core/model/observation.ts';
import type { LogCopies } from './outputs.ts';
import {
  checkAlternatives,
  alternativeKey,
  checkEmpty,
  checkGone,
  checkLiveJobs,
  checkDeletion,
  checkReleases,
  checkReplacement,
  checkSlots,
  checkSingleMachine,
  hasReason,
} from './invariants/capacity.ts';
import {
  checkAttempts,
  checkBudget,
  checkGrowth,
  checkRequestRate,
  checkStepFailures,
  checkTries,
  checkCheckpoint,
  checkNoOtherAlive,
  checkEnded,
  checkSetupBeforeStart,
  checkSetupOnlyJob,
} from './invariants/attempts.ts';
import {
  checkHistory,
  checkLogCopies,
  checkLogsBeforeRelease,
  checkAccepted,
  checkRecorded,
  checkOrphan,
} from './invariants/record.ts';
import { checkUsage } from './invariants/usage.ts';
import { createCheckContext, machineOf, newLedger } from './invariants/context.ts';
import type { InvariantNumber, Ledger, CheckContext, Violation } from './invariants/context.ts';
import type { Machine, Run, World } from './world.ts';

export { epoch, invariants, simulatedHosts } from './invariants/context.ts';
export type { InvariantNumber, Violation } from './invariants/context.ts';

export interface InvariantChecker {
  /** The first broken invariant; later ones do not count. */
  readonly violation: Violation | null;
  /** The owner has created a job or given a command. */
  commandGiven(job: Job, events: readonly Event[]): void;
  committed(commit: Commit, result: CommitResult): void;
  called(kind: 'request' | 'release' | 'step' | 'start' | 'stop' | 'observe', ref: AllocationRef, detail: string): void;
  deletes(machine: Machine, ref: AllocationRef): void;
  /** `step` is `3/docker`, for the outcome of a setup step. */
  replied(kind: string, ref: AllocationRef, result: OutcomeResult, step?: string): void;
  replyRecorded(result: OutcomeResult): void;
  orphanReleased(orphan: Orphan): void;
  runBegins(run: Run): void;
  /** The controllers' clock jumped by that time. After a jump forward, waits that it measures may end early. */
  clockJumped(length: number): void;
  /** The storm is over: from here on no fault happens. */
  faultsStopped(): void;
  /** Numbers of calls with effects, and of commits. */
  readonly counts: { readonly actions: number; readonly observations: number; readonly commits: number };
  job(id: string): Job;
  /** The world's time of the owner's last command about that job. */
  lastCommandAt(id: string): number;
  jobs(): readonly Job[];
  fail(invariant: InvariantNumber, message: string): void;
  checkAtRest(): void;
}

export function createInvariantChecker(world: () => World, logCopies: () => LogCopies): InvariantChecker {
  const context = createCheckContext(world, logCopies);
  const { ledgers, ledgerOf } = context;
  /** Bookkeeping about an outcome once it is stored. */
  const unrecorded = new WeakMap<OutcomeResult, () => void>();
  const counts = { actions: 0, observations: 0, commits: 0 };
  return {
    get violation() {
      return context.violation;
    },
    counts,
    jobs() {
      return [...ledgers.values()].map((ledger) => ledger.job);
    },
    job: (id) => ledgerOf(id).job,
    lastCommandAt: (id) => ledgerOf(id).lastCommandAt,
    fail: context.fail,
    faultsStopped() {
      context.faultsStoppedAt = world().timeline.now;
    },
    clockJumped(length) {
      context.clockOffset += length;
      if (length > 0) context.clockJumps.push(world().timeline.now);
      else context.wasClockSetBack = true;
    },
    commandGiven(job, events) {
      const { now } = world().timeline;
      const known = ledgers.get(job.id);
      if (known === undefined) ledgers.set(job.id, newLedger(job, events, now));
      else recordCommand(known, job, events, now);
    },
    committed(commit, result) {
      if (result !== 'committed') return;
      const ledger = ledgerOf(commit.job.id);
      const before = ledger.job;
      ledger.job = commit.job;
      ledger.events.push(...commit.events);
      ledger.commits += 1;
      counts.commits += 1;
      for (const { at: _at, ...event } of commit.events)
        world().log(`record: ${commit.job.id} ${JSON.stringify(event)}`);
      checkCommit(context, before, commit.job, ledger);
    },
    called(kind, ref, detail) {
      if (kind === 'observe') {
        counts.observations += 1;
        return;
      }
      counts.actions += 1;
      world().log(`call: ${kind} ${ref.job.id}/${ref.allocation.ordinal} ${detail}`);
      checkCall(context, kind, ref, detail);
    },
    deletes(machine, ref) {
      checkDeletion(context, machine, ref);
    },
    replied(kind, ref, result, step) {
      recordReply(context, { kind, ref, result, step }, unrecorded);
    },
    replyRecorded(result) {
      unrecorded.get(result)?.();
    },
    orphanReleased(orphan) {
      counts.actions += 1;
      checkOrphan(context, orphan);
    },
    runBegins(run) {
      const ledger = ledgerOf(run.job);
      ledger.attemptsBegun.add(run.attempt);
      checkNoOtherAlive(context, run, ledger);
      checkSetupBeforeStart(context, run, ledger);
      checkBudget(context, run, ledger);
      checkSlots(context, run, ledger);
      checkCheckpoint(context, run, ledger);
    },
    checkAtRest() {
      for (const ledger of ledgers.values()) {
        checkEmpty(context, ledger);
        checkHistory(context, ledger);
        checkUsage(context, ledger);
      }
      checkLogCopies(context);
    },
  };
}

function recordCommand(ledger: Ledger, job: Job, events: readonly Event[], now: number): void {
  ledger.job = job;
  const disablesRecovery = events.some(
    (event) => event.kind === 'command_received' && event.verb === 'disable-recovery',
  );
  ledger.recoveryDisabledAfter = disablesRecovery
    ? job.attempts.length
    : job.desired === 'running'
      ? null
      : ledger.recoveryDisabledAfter;
  // A finished job without capacity is removed at once without force, and its logs are still copied.
  ledger.wasForceRemoved ||= job.removed && (job.finish === null || holdsCapacity(job));
  ledger.commandCount += 1;
  ledger.failedAt = null;
  ledger.lastCommandAt = now;
  ledger.attemptsBegun = new Set();
  ledger.events.push(...events);
}

function holdsCapacity({ allocations }: Job): boolean {
  return allocations.some(
    ({ ownership, requestedAt, goneAt }) => ownership === 'ephemeral' && requestedAt !== null && goneAt === null,
  );
}

function checkCall(context: CheckContext, kind: string, ref: AllocationRef, detail: string): void {
  const ledger = context.ledgerOf(ref.job.id);
  checkRecorded(context, kind, ref, detail, ledger);
  if (kind === 'request') {
    checkRequestRate(context, ref, ledger);
    checkAlternatives(context, ref, ledger);
    checkSingleMachine(context, ref, ledger);
  }
  if (kind === 'step' || kind === 'start') checkTries(context, ref, kind, detail, ledger);
  const machine = machineOf(context, ref);
  if (kind === 'release' && machine !== undefined) checkLogsBeforeRelease(context, ref, machine, ledger);
  if ((kind === 'release' || kind === 'stop') && machine !== undefined && !hasReason(context, ledger, machine)) {
    context.fail(1, `job ${ref.job.id}: ${kind} ${detail} on ${machine.name}, which was healthy`);
  }
}

/**
 * Keeps the answers of the cloud and the hosts. An answer that a full disk or the end of a controller loses is not
 * stored.
 */
function recordReply(
  context: CheckContext,
  {
    kind,
    ref,
    result,
    step,
  }: {
    readonly kind: string;
    readonly ref: AllocationRef;
    readonly result: OutcomeResult;
    readonly step: string | undefined;
  },
  unrecorded: WeakMap<OutcomeResult, () => void>,
): void {
  const reply = result.kind;
  const error = result.kind === 'failed' || result.kind === 'refused' ? result.error?.kind : undefined;
  const ledger = context.ledgerOf(ref.job.id);
  if (step !== undefined && (reply === 'failed' || reply === 'refused')) {
    const failure = `${ref.job.attempts.length} ${step}`;
    ledger.stepFailures.set(failure, (ledger.stepFailures.get(failure) ?? 0) + 1);
  }
  // The program left no trace, which jobman counts as a failed start.
  if (kind === 'start' && reply === 'done' && !context.world().runs.some((run) => run.job === ref.job.id))
    ledger.workerFailures += 1;
  const key = `${kind}/${ref.allocation.ordinal}`;
  if (reply === 'done') ledger.accepted.add(key);
  else if (kind === 'request' || kind === 'release') {
    if (reply === 'refused') ledger.refused.add(key);
    if (kind === 'request' && (error === 'stockout' || error === 'quota' || error === 'permission')) {
      const at = context.world().timeline.now;
      const refusal = { at, allocation: ref.allocation.ordinal, isForbidden: error === 'permission' };
      const alternative = alternativeKey(ref, ledger);
      unrecorded.set(result, () => {
        // A suspended controller may store an answer that a newer one has replaced.
        if ((ledger.refusals.get(alternative)?.at ?? 0) <= at) ledger.refusals.set(alternative, refusal);
      });
    }
  } else ledger.workerFailures += 1;
}

function checkCommit(context: CheckContext, before: Job, job: Job, ledger: Ledger): void {
  for (const allocation of job.allocations) {
    const old = before.allocations[allocation.ordinal - 1];
    if (allocation.goneAt !== null && (old === undefined || old.goneAt === null)) checkGone(context, job, allocation);
    if (allocation.ownership === 'ephemeral') checkAccepted(context, job, allocation, old, ledger);
    if (allocation.superseded !== undefined && old?.superseded === undefined)
      ledger.supersededAt.set(allocation.ordinal, context.world().timeline.now);
  }
  checkReleases(context, before, job, ledger);
  checkReplacement(context, before, job, ledger);
  checkLiveJobs(context, job);
  checkSetupOnlyJob(context, before, job);
  checkAttempts(context, job);
  checkStepFailures(context, job, ledger);
  checkGrowth(context, job);
  const attempt = job.attempts.at(-1);
  for (const { alternative, failedRequests } of attempt?.alternativesTried ?? [])
    ledger.rounds.set(`${attempt?.ordinal}/${alternative}`, failedRequests);
  checkEnded(context, before, job);
}

// Checks of the database: jobs, their history and the copies of logs.

import type { AllocationRef, Orphan, OutputFile } from '../../src/app/ports.ts';
import type { Allocation, Job } from '../../src/core/model/job.ts';
import { maxDrainTime } from './context.ts';
import type { CheckContext, Ledger } from './context.ts';
import { historyMismatches } from '../history-replay.ts';
import { minute } from '../../src/core/model/time.ts';
import { contentOf, copyKey } from '../outputs.ts';
import { outputOf, printedBytes, runName, writtenBytes } from '../world.ts';
import type { Machine, Run } from '../world.ts';

// ------------------------------------------------------------------------------------------ 2, 3 and 4: calls as they
// arrive. The database contains them first, with the right subject

export function checkRecorded(
  context: CheckContext,
  kind: string,
  ref: AllocationRef,
  detail: string,
  ledger: Ledger,
): void {
  const { ordinal } = ref.allocation;
  const allocation = ledger.job.allocations[ordinal - 1];
  const name = `job ${ref.job.id}: ${kind} ${ordinal} ${detail}`;
  if (allocation === undefined) {
    context.fail(2, `${name} was called, but the database has no such allocation`);
    return;
  }
  const [first = '', worker = ''] = detail.split('/');
  switch (kind) {
    case 'request':
      if (allocation.requestedAt === null) context.fail(2, `${name} was called before its commit`);
      return;
    case 'release':
      if (allocation.releasedAt === null) context.fail(2, `${name} was called before its commit`);
      return;
    case 'step':
      if (allocation.releasedAt !== null) context.fail(3, `${name} was called on a released allocation`);
      return;
    case 'start':
    case 'stop': {
      const attempt = ledger.job.attempts[Number(first) - 1];
      if (attempt === undefined) {
        context.fail(2, `${name} was called, but the database has no such attempt`);
        return;
      }
      if (attempt.allocation !== ordinal)
        context.fail(3, `${name} is about attempt ${first}, which is not on that allocation`);
      if (kind === 'start' && attempt.startedAt === null) context.fail(2, `${name} was called before its commit`);
      const isOver = attempt.endedAt !== null || attempt.ending !== null;
      if (kind === 'start' && isOver) context.fail(4, `${name} starts an attempt that has ended on ${worker}`);
      if (kind === 'stop' && attempt.ending === null) context.fail(2, `${name} was called before its commit`);
    }
  }
}

export function checkAccepted(
  context: CheckContext,
  job: Job,
  allocation: Allocation,
  old: Allocation | undefined,
  ledger: Ledger,
): void {
  if (allocation.confirmedAt === null || allocation.confirmedAt === old?.confirmedAt) return;
  const kind = allocation.releasedAt === null ? 'request' : 'release';
  if (ledger.accepted.has(`${kind}/${allocation.ordinal}`)) return;
  const hasExisted = context.world().machines.some((one) => one.name === allocation.name);
  if (kind === 'request' && hasExisted) return;
  context.fail(
    3,
    `job ${job.id}: the ${kind} of allocation ${allocation.ordinal} counts as accepted without an answer`,
  );
}

/** Orphan collection deletes only a resource of an allocation of ours that the allocation does not claim any more. */
export function checkOrphan(context: CheckContext, orphan: Orphan): void {
  const ledger = context.ledgers.get(orphan.job);
  if (ledger === undefined) {
    context.fail(3, `${orphan.resource} was deleted, but no job here has ever claimed it`);
    return;
  }
  const allocation = ledger.job.allocations[orphan.allocation - 1];
  if (allocation === undefined)
    context.fail(3, `${orphan.resource} was deleted, but no allocation here has that number`);
  else if (allocation.goneAt === null)
    context.fail(3, `${orphan.resource} was collected as an orphan while its job claims it`);
}

// ------------------------------------------------------------------------------------------ 9: the events reproduce
// the job

export function checkHistory(scene: CheckContext, { job, events }: Ledger): void {
  for (const sentence of historyMismatches(events, job)) scene.fail(9, `job ${job.id}: ${sentence}`);
}

// ------------------------------------------------------------------------------------------ 11: no byte of a log is
// lost, copied twice or changed

const outputFiles: readonly OutputFile[] = ['log', 'metrics'];

function copyOf(context: CheckContext, run: Run, file: OutputFile): Uint8Array {
  const copy = context.logCopies().files.get(copyKey(run.job, { ...run, file }));
  return copy === undefined ? new Uint8Array(0) : contentOf(copy);
}

/**
 * A released machine loses its logs, so the logs of ended programs must be complete by then, unless they could not be
 * read.
 */
export function checkLogsBeforeRelease(
  scene: CheckContext,
  ref: AllocationRef,
  machine: Machine,
  { job, wasForceRemoved }: Ledger,
): void {
  const seen = job.allocations[ref.allocation.ordinal - 1]?.lastObserved?.state;
  if (machine.state !== 'ready' || seen !== 'ready' || machine.deletionRequestedAt !== null || wasForceRemoved) return;
  for (const run of scene.world().runs) {
    if (run.host.machine !== machine || run.job !== job.id || run.endedAt === null) continue;
    if ((job.attempts[run.attempt - 1]?.endedAt ?? null) === null) continue;
    const since = run.endedAt - maxDrainTime;
    const { networkCutUntil, diskFullUntil } = scene.world();
    if (Math.max(machine.disruptedAt, networkCutUntil, diskFullUntil, ...scene.clockJumps) >= since) continue;
    for (const file of outputFiles) {
      const held = copyOf(scene, run, file).length;
      const all = writtenBytes(run, file, scene.world().timeline.now);
      if (held < all)
        scene.fail(
          11,
          `${machine.name} is released with ${held} of ${all} bytes copied of the ${file} of ${runName(run)}`,
        );
    }
  }
}

function checkCopy(context: CheckContext, run: Run, file: OutputFile): void {
  const { now } = context.world().timeline;
  const name = `the ${file} of ${runName(run)}`;
  const held = copyOf(context, run, file);
  const all = writtenBytes(run, file, now);
  if (held.length > all) {
    context.fail(11, `the copy of ${name} has ${held.length} bytes, but it has ${all}`);
    return;
  }
  const truth = outputOf(run, 0, held.length);
  const wrong = held.findIndex((byte, index) => byte !== truth[index]);
  if (wrong >= 0) {
    context.fail(11, `the copy of ${name} differs at byte ${wrong}`);
    return;
  }
  // Output that was unreachable since the program's end may be lost with its machine. Readable output must be copied.
  const isReachable = run.host.isUp && run.host.outage === null && run.host.machine.state === 'ready';
  const { job, wasForceRemoved } = context.ledgerOf(run.job);
  // The controller reads the output of a finished job for five minutes, and leaves.
  const { lastOutage } = run.host;
  const wasAwayAtEnd = run.endedAt !== null && lastOutage !== null && lastOutage.until - run.endedAt >= 4 * minute;
  if (!isReachable || wasForceRemoved || (job.finish !== null && wasAwayAtEnd)) return;
  const due = run.endedAt === null ? writtenBytes(run, file, now - minute) : all;
  if (held.length < due)
    context.fail(11, `the copy of ${name} has ${held.length} of ${due} bytes, although its host answers`);
}

/** Every copy, once the world is at rest. */
export function checkLogCopies(context: CheckContext): void {
  // A recreated machine may have run an attempt again: the copy continues with the last run where that has more output.
  const last = new Map<string, Run>();
  const { now } = context.world().timeline;
  for (const run of context.world().runs) {
    const before = last.get(runName(run));
    if (before === undefined || printedBytes(run, now) >= printedBytes(before, now)) last.set(runName(run), run);
  }
  for (const run of last.values()) for (const file of outputFiles) checkCopy(context, run, file);
  for (const [key, copy] of context.logCopies().files) {
    const [job, attempt, worker] = key.split('/');
    const run = context
      .world()
      .runs.find((one) => one.job === job && `${one.attempt}` === attempt && one.worker === worker);
    if (run === undefined && copy.bytes > 0)
      context.fail(11, `the copy of ${key} has ${copy.bytes} bytes, but it never ran`);
  }
}

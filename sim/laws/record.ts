// What is written: the record, its history and the copies of logs.

import type { AllocationRef, Stray } from '../../src/app/ports.ts';
import type { Allocation, Job } from '../../src/core/job.ts';
import { drainMost } from './scene.ts';
import type { Scene, Ledger } from './scene.ts';
import { historyTellsTheState } from '../pass-history.ts';
import { minute } from '../../src/core/time.ts';
import { contentOf } from '../outputs.ts';
import { outputOf, printed, runName } from '../world.ts';
import type { Machine, Run } from '../world.ts';

// ------------------------------------------------------------------------------------------ 2, 3 and 4, for calls as they arrive: the record says so first, and of the thing that is meant

export function checkRecorded(scene: Scene, kind: string, ref: AllocationRef, detail: string, ledger: Ledger): void {
  const { ordinal } = ref.allocation;
  const allocation = ledger.job.allocations[ordinal - 1];
  const name = `job ${ref.job.id}: ${kind} ${ordinal} ${detail}`;
  if (allocation === undefined) {
    scene.breakLaw(2, `${name} was done, and the record has no such allocation`);
    return;
  }
  const [first = '', worker = ''] = detail.split('/');
  switch (kind) {
    case 'request':
      if (allocation.requestedAt === null) scene.breakLaw(2, `${name} was done before the record said so`);
      return;
    case 'release':
      if (allocation.releasedAt === null) scene.breakLaw(2, `${name} was done before the record said so`);
      return;
    case 'step':
      if (allocation.releasedAt !== null) scene.breakLaw(3, `${name} was done on an allocation that was let go`);
      return;
    case 'start':
    case 'stop': {
      const attempt = ledger.job.attempts[Number(first) - 1];
      if (attempt === undefined) {
        scene.breakLaw(2, `${name} was done, and the record has no such attempt`);
        return;
      }
      if (attempt.allocation !== ordinal)
        scene.breakLaw(3, `${name} is about attempt ${first}, which is not on that allocation`);
      if (kind === 'start' && attempt.startedAt === null)
        scene.breakLaw(2, `${name} was done before the record said so`);
      const isOver = attempt.endedAt !== null || attempt.ending !== null;
      if (kind === 'start' && isOver) scene.breakLaw(4, `${name} starts what the record has ended on ${worker}`);
      if (kind === 'stop' && attempt.ending === null) scene.breakLaw(2, `${name} was done before the record said so`);
    }
  }
}

export function checkAccepted(
  scene: Scene,
  job: Job,
  allocation: Allocation,
  old: Allocation | undefined,
  ledger: Ledger,
): void {
  if (allocation.acceptedAt === null || allocation.acceptedAt === old?.acceptedAt) return;
  const kind = allocation.releasedAt === null ? 'request' : 'release';
  if (ledger.accepted.has(`${kind}/${allocation.ordinal}`)) return;
  const hasExisted = scene.world().machines.some((one) => one.name === allocation.name);
  if (kind === 'request' && hasExisted) return;
  scene.breakLaw(
    3,
    `job ${job.id}: the ${kind} of allocation ${allocation.ordinal} counts as accepted, and nobody said so`,
  );
}

/** Orphan collection deletes only what an allocation of ours was, and what that allocation does not claim any more. */
export function checkStray(scene: Scene, stray: Stray): void {
  const ledger = scene.ledgers.get(stray.job);
  if (ledger === undefined) {
    scene.breakLaw(3, `${stray.resource} was deleted, and no job here has ever claimed it`);
    return;
  }
  const allocation = ledger.job.allocations[stray.allocation - 1];
  if (allocation === undefined)
    scene.breakLaw(3, `${stray.resource} was deleted, and no allocation here has that number`);
  else if (allocation.goneAt === null) scene.breakLaw(3, `${stray.resource} was swept away while its job claims it`);
}

// ------------------------------------------------------------------------------------------ 9: the record can be told from its events

export function checkHistory(scene: Scene, { job, events }: Ledger): void {
  for (const sentence of historyTellsTheState(events, job)) scene.breakLaw(9, `job ${job.id}: ${sentence}`);
}

// ------------------------------------------------------------------------------------------ 11: no byte of a log is lost, copied twice or changed

function heldOf(scene: Scene, run: Run): Uint8Array {
  const copy = scene.copies().files.get(`${run.job}/${run.attempt}/${run.worker}`);
  return copy === undefined ? new Uint8Array(0) : contentOf(copy);
}

/**
 * A machine that is let go takes its logs with it. So whatever the record knows to have ended there is held by then,
 * unless something has stood in the way of reading it since.
 */
export function checkLastWords(scene: Scene, ref: AllocationRef, machine: Machine, { job, isForced }: Ledger): void {
  const seen = job.allocations[ref.allocation.ordinal - 1]?.seen?.state;
  if (machine.state !== 'ready' || seen !== 'ready' || machine.releaseAskedAt !== null || isForced) return;
  for (const run of scene.world().runs) {
    if (run.host.machine !== machine || run.job !== job.id || run.endedAt === null) continue;
    if ((job.attempts[run.attempt - 1]?.endedAt ?? null) === null) continue;
    const since = run.endedAt - drainMost;
    const { lineCutUntil, diskFullUntil } = scene.world();
    if (Math.max(machine.troubledAt, lineCutUntil, diskFullUntil, ...scene.jumps) >= since) continue;
    const held = heldOf(scene, run).length;
    const all = printed(run, scene.world().timeline.now);
    if (held < all)
      scene.breakLaw(11, `${machine.name} is let go, and we hold ${held} of ${all} bytes of ${runName(run)}`);
  }
}

function checkLog(scene: Scene, run: Run): void {
  const { now } = scene.world().timeline;
  const held = heldOf(scene, run);
  const all = printed(run, now);
  if (held.length > all) {
    scene.breakLaw(11, `we hold ${held.length} bytes of ${runName(run)}, which printed ${all}`);
    return;
  }
  const truth = outputOf(run, 0, held.length);
  const wrong = held.findIndex((byte, index) => byte !== truth[index]);
  if (wrong >= 0) {
    scene.breakLaw(11, `our copy of ${runName(run)} differs from what it printed at byte ${wrong}`);
    return;
  }
  // An output out of reach from the program's end on may be lost with its machine. One that can be read must be there.
  const isReachable = run.host.isUp && run.host.silence === null && run.host.machine.state === 'ready';
  const { isForced } = scene.ledgerOf(run.job);
  if (!isReachable || isForced) return;
  const due = run.endedAt === null ? printed(run, now - minute) : all;
  if (held.length < due)
    scene.breakLaw(11, `we hold ${held.length} of ${due} bytes of ${runName(run)}, whose host answers`);
}

/** Every copy, once all is at rest. */
export function checkCopies(scene: Scene): void {
  // A machine that was made anew under its name may have run an attempt again: the copy goes on with the last, where that
  // has more to say than the first had.
  const last = new Map<string, Run>();
  const { now } = scene.world().timeline;
  for (const run of scene.world().runs) {
    const before = last.get(runName(run));
    if (before === undefined || printed(run, now) >= printed(before, now)) last.set(runName(run), run);
  }
  for (const run of last.values()) checkLog(scene, run);
  for (const [key, copy] of scene.copies().files) {
    const [job, attempt, worker] = key.split('/');
    const run = scene
      .world()
      .runs.find((one) => one.job === job && `${one.attempt}` === attempt && one.worker === worker);
    if (run === undefined && copy.bytes > 0)
      scene.breakLaw(11, `we hold ${copy.bytes} bytes of ${key}, which never ran`);
  }
}

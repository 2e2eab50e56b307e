// Invariant 11: no byte of a log is lost, copied twice or changed.

import type { AllocationRef } from '../../src/app/ports.ts';
import { minute } from '../../src/core/time.ts';
import { contentOf } from '../copies.ts';
import { outputOf, printed, runName } from '../world.ts';
import type { Machine, Run } from '../world.ts';
import { drainMost } from './scene.ts';
import type { Scene, Ledger } from './scene.ts';

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

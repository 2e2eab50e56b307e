// Invariant 1: unknown is not absent. A controller ends a program or releases a machine only for a reason that the world knows.

import type { AllocationRef } from '../../src/app/ports.ts';
import { second } from '../../src/core/time.ts';
import { printedAt } from '../world.ts';
import type { Machine } from '../world.ts';
import type { Scene, Ledger } from './scene.ts';

/**
 * Every reason for a controller to end a program or to release a machine, as far as the world and the owner know of it:
 * the owner's word, the cloud's act, a program that ended or overstayed, a host that was silent for too long.
 */
export function hasGround(scene: Scene, ledger: Ledger, machine: Machine | undefined): boolean {
  const { now } = scene.world().timeline;
  const { job } = ledger;
  if (job.desired !== 'run' || ledger.words > 0) return true;
  // A job that only sets up is done when it has; checkSetUp holds its end against the world.
  if (job.spec.command.isSetupOnly === true && job.settled?.verdict === 'succeeded') return true;
  const { limits, recovery } = job.spec;
  if (ledger.troubles >= limits.setupTries) return true;
  if (ledger.refused.size > 0) return true;
  const runs = scene.world().runs.filter((run) => run.job === job.id);
  if (runs.some((run) => run.endedAt !== null)) return true;
  const { troubleTimeout = Infinity } = limits;
  if (runs.some(({ hungAt }) => hungAt !== null && now - hungAt >= troubleTimeout * 0.9)) return true;
  for (const run of runs) {
    if (run.startedAt === null) continue;
    if (limits.maxRuntime !== null && now - run.startedAt >= limits.maxRuntime * 0.9) return true;
    const gang = runs.filter(({ attempt }) => attempt === run.attempt);
    const { silenceTimeout } = limits;
    if (silenceTimeout !== null && gang.every((one) => now - printedAt(one, now) >= silenceTimeout * 0.9)) return true;
  }
  if (limits.capacityWait !== null && now - ledger.madeAt >= limits.capacityWait * 0.9) return true;
  if (machine === undefined) return true;
  if (isWaitedOut(ledger, machine) || isLate(ledger, machine)) return true;
  // One that was lost or let go may have come back by a late message.
  const ofThatName = scene.world().machines.filter((one) => one.name === machine.name);
  if (ofThatName.some((one) => one.lostAt !== null || one.releaseAskedAt !== null)) return true;
  if (machine.wasInterrupted || machine.hosts.some((host) => host.restarts > 0)) return true;
  // Two silences with no look between them are one to whoever looks.
  const silentLongest = Math.max(...machine.hosts.map((host) => host.silentLongest(now)));
  if (silentLongest + scene.world().lineCutLongest >= recovery.unreachableGrace * 0.8) return true;
  return scene.jumps.some((at) => at >= ledger.madeAt);
}

/** A queue that was waited in for as long as the owner allows, and that had given nothing when it was last looked at. */
function isWaitedOut({ job, firstAsked, passedOver }: Ledger, machine: Machine): boolean {
  const { capacity } = job.spec;
  const patience = capacity.kind === 'tpu' ? capacity.alternativesWait : undefined;
  const ordinal = job.allocations.find((one) => one.name === machine.name)?.ordinal ?? 0;
  const askedAt = firstAsked.get(ordinal);
  const passedAt = passedOver.get(ordinal);
  if (patience === undefined || askedAt === undefined || passedAt === undefined) return false;
  // A list may be some seconds old, and a pass takes some after it.
  const wasEmpty = machine.readyAt === null || machine.readyAt > passedAt - 15 * second;
  return wasEmpty && passedAt - askedAt >= patience * 0.9;
}

/** A machine of a request that got no answer, made after its place had nothing and was passed over for that. */
function isLate({ job, nothing, passedOver }: Ledger, machine: Machine): boolean {
  const ordinal = job.allocations.find((one) => one.name === machine.name)?.ordinal ?? 0;
  const passedAt = passedOver.get(ordinal);
  const wasTold = [...nothing.values()].some((one) => one.allocation === ordinal);
  return wasTold && passedAt !== undefined && machine.madeAt >= passedAt;
}

/** A second machine is asked for while the first is well and nobody has let it go. */
export function checkSecond(scene: Scene, ref: AllocationRef, ledger: Ledger): void {
  if (ref.allocation.ordinal < 2) return;
  for (const machine of scene.world().machines) {
    const { labels } = machine;
    if (labels === null || labels.job !== ref.job.id || labels.allocation >= ref.allocation.ordinal) continue;
    if (machine.state !== 'ready' || machine.releaseAskedAt !== null) continue;
    const wasLetGo = ledger.accepted.has(`release/${labels.allocation}`);
    if (!wasLetGo)
      scene.breakLaw(1, `job ${ref.job.id}: ${ref.allocation.name} is asked for while ${machine.name} is well`);
  }
}

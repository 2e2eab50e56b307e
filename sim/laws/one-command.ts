// Invariant 4: two attempts' programs are never alive together, and an attempt counts as ended when nothing of it is alive.

import type { Job } from '../../src/core/job.ts';
import { isAlive, runName } from '../world.ts';
import type { Run } from '../world.ts';
import type { Ledger, Scene } from './scene.ts';

/** The newest attempt has ended in the record, and not before. */
export function checkEnded(scene: Scene, before: Job, job: Job): void {
  const attempt = job.attempts.at(-1);
  const old = before.attempts[(attempt?.ordinal ?? 0) - 1];
  if (attempt === undefined || attempt.endedAt === null || old === undefined || old.endedAt !== null) return;
  const alive = scene.world().runs.find((run) => run.job === job.id && run.attempt === attempt.ordinal && isAlive(run));
  if (alive !== undefined && alive.host.machine.state === 'ready' && !isGivenUp(scene, alive, job))
    scene.breakLaw(4, `job ${job.id}: attempt ${attempt.ordinal} counts as ended while ${runName(alive)} is alive`);
}

/** A program begins: no other of its job is alive, there is a command at all, and its owner has not had enough. */
export function checkAlone(scene: Scene, run: Run, { job, lastOf }: Ledger): void {
  if (job.spec.command.isSetupOnly === true)
    scene.breakLaw(5, `${runName(run)} begins, and its manifest has no command`);
  for (const other of scene.world().runs) {
    if (other === run || other.job !== run.job || !isAlive(other)) continue;
    if (other.attempt === run.attempt && other.worker !== run.worker) continue;
    scene.breakLaw(4, `${runName(run)} begins while ${runName(other)} is alive`);
  }
  const isByRule = job.attempts[run.attempt - 1]?.asked === false;
  if (lastOf !== null && run.attempt > lastOf && isByRule)
    scene.breakLaw(7, `${runName(run)} begins, and its owner wanted none after attempt ${lastOf}`);
}

/** On a machine that is nobody's to let go, and on a host that has been silent for ten graces. */
function isGivenUp(scene: Scene, { host }: Run, job: Job): boolean {
  const { now } = scene.world().timeline;
  const silent = host.silence === null ? 0 : now - host.silence.since;
  return host.machine.isStanding && silent >= 10 * job.spec.recovery.unreachableGrace * 0.9;
}

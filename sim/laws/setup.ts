// Invariant 5: no command begins before every step is proven on every worker.

import type { Job } from '../../src/core/job.ts';
import { second } from '../../src/core/time.ts';
import { folderOf, runName } from '../world.ts';
import type { Run } from '../world.ts';
import type { Scene, Ledger } from './scene.ts';

export function checkSetup(scene: Scene, run: Run, ledger: Ledger): void {
  const { machine } = run.host;
  if (isJustTheCommand(scene, ledger, run)) return;
  // The command on this machine drives workers that must be set up all the same.
  const hosts =
    run.worker === 'here'
      ? (scene.world().machines.findLast((one) => one.name === ledger.job.allocations[run.allocation - 1]?.name)
          ?.hosts ?? [])
      : machine.hosts;
  for (const host of hosts) {
    const { proofs } = folderOf(host, run.job, `${host.worker}`);
    for (const step of ledger.job.spec.steps) {
      const proven = [...proofs].filter((proof) => proof.startsWith(`${run.allocation}/${step.key}/`));
      // A restart only just now cannot have been seen by the look that the start rests on. Where it begins itself, the
      // launcher must have noticed.
      const isFresh = host !== run.host && scene.world().timeline.now - host.bootedAt < 40 * second;
      if (proven.some((proof) => isFresh || proof.endsWith(`/${host.bootId}`))) continue;
      scene.breakLaw(5, `${runName(run)} begins and worker ${host.worker} has not gone through ${step.name}`);
      return;
    }
  }
}

/** The owner wanted no steps, on a machine that was his before he said so. */
function isJustTheCommand(scene: Scene, { job, wordAt }: Ledger, run: Run): boolean {
  if (job.attempts[run.attempt - 1]?.commandOnly !== true) return false;
  const name = job.allocations[run.allocation - 1]?.name;
  const machine = scene.world().machines.findLast((one) => one.name === name) ?? run.host.machine;
  // A shared one may be made anew by whoever it belongs to, while nobody could look.
  if (machine.isStanding) return true;
  // By the world's own time: the record's may have been set back in between.
  return machine.readyAt !== null && machine.readyAt <= wordAt;
}

/** A job that only sets up succeeds when every worker has gone through every step, and not before. */
export function checkSetUp(scene: Scene, before: Job, job: Job): void {
  if (job.spec.command.isSetupOnly !== true) return;
  if (job.settled?.verdict !== 'succeeded' || before.settled !== null) return;
  const last = job.attempts.at(-1);
  const name = job.allocations[(last?.allocation ?? 0) - 1]?.name;
  const machine = scene.world().machines.findLast((one) => one.name === name);
  if (last?.commandOnly === true || machine === undefined) return;
  for (const host of machine.hosts) {
    const { proofs } = folderOf(host, job.id, `${host.worker}`);
    const lacks = job.spec.steps.find(
      ({ key }) => ![...proofs].some((one) => one.startsWith(`${last?.allocation}/${key}/`)),
    );
    if (lacks !== undefined)
      scene.breakLaw(5, `job ${job.id} counts as set up, and worker ${host.worker} lacks ${lacks.name}`);
  }
}

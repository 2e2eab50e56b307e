// Invariant 7: attempts, tries, requests and the record itself are bounded.

import type { AllocationRef } from '../../src/app/ports.ts';
import { taskKey } from '../../src/core/job.ts';
import type { Attempt, Job } from '../../src/core/job.ts';
import { minute } from '../../src/core/time.ts';
import type { Run } from '../world.ts';
import { visitKey } from './alternatives.ts';
import type { Scene, Ledger } from './scene.ts';

export function checkPace(scene: Scene, ref: AllocationRef, ledger: Ledger): void {
  const { now } = scene.world().timeline;
  const { ordinal } = ref.allocation;
  const key = visitKey(ref, ledger);
  const recent = [...(ledger.requests.get(key) ?? []), now].filter((at) => at > now - minute);
  ledger.requests.set(key, recent);
  if (!ledger.firstAsked.has(ordinal)) ledger.firstAsked.set(ordinal, now);
  if (recent.length > 15) {
    scene.breakLaw(7, `job ${ref.job.id}: allocation ${ordinal} was asked for ${recent.length} times within a minute`);
  }
}

export function checkSteps(scene: Scene, ref: AllocationRef, detail: string, ledger: Ledger): void {
  const attempt = ledger.job.attempts.at(-1)?.ordinal ?? 0;
  const key = `${attempt}/${ref.allocation.ordinal}/${detail}`;
  const tries = (ledger.steps.get(key) ?? 0) + 1;
  ledger.steps.set(key, tries);
  // A lost reply costs no try, so storms and killed controllers add some; without a limit there would be hundreds.
  if (tries > ledger.job.spec.limits.setupTries + 60) {
    scene.breakLaw(7, `job ${ref.job.id}: step ${detail} was tried ${tries} times in attempt ${attempt}`);
  }
}

/** Attempts that followed one another by rule since the owner's newest word. What got no capacity uses up no budget. */
export function checkAttempts(scene: Scene, { id, attempts, spec }: Job): void {
  const since = attempts.slice(
    Math.max(
      0,
      attempts.findLastIndex((one) => one.asked),
    ),
  );
  const { preemptions, failures, setupFailures = 0 } = spec.recovery.budget;
  const row = mostInARow(since, ({ ending }) => ending?.reason === 'setup_failed');
  if (row > 1 + setupFailures)
    scene.breakLaw(
      7,
      `job ${id}: its setup has failed ${row} times in a row, and ${setupFailures} failures are allowed`,
    );
  const counted = since.filter(
    ({ ending }) => ending !== null && ending.reason !== 'allocation_failed' && ending.reason !== 'setup_failed',
  );
  const most = 1 + preemptions + failures + ownLimits(spec);
  if (counted.length > most)
    scene.breakLaw(7, `job ${id}: ${counted.length} attempts have ended, and the budgets allow ${most}`);
}

/** The longest row of such attempts without a command that ran in between. An attempt that lost its TPU does not end the row. */
function mostInARow(attempts: readonly Attempt[], isCounted: (attempt: Attempt) => boolean): number {
  let most = 0;
  let row = 0;
  for (const attempt of attempts) {
    if (isCounted(attempt)) row += 1;
    else if (attempt.runningAt !== null || attempt.ending?.reason === 'command_failed') row = 0;
    most = Math.max(most, row);
  }
  return most;
}

/** An attempt counts no failure of a setup step that was not its own: its tries would be fewer than its owner allowed. */
export function checkStepFailures(scene: Scene, { id, attempts }: Job, ledger: Ledger): void {
  for (const { ordinal, failures } of attempts) {
    for (const { task, tries } of failures) {
      if (task.kind !== 'step') continue;
      const key = taskKey(task);
      const failed = ledger.stepFailures.get(`${ordinal} ${key}`) ?? 0;
      if (tries > failed)
        scene.breakLaw(
          7,
          `job ${id}: attempt ${ordinal} counts ${tries} failures of step ${key}, and it had ${failed}`,
        );
    }
  }
}

/** Allocations that never were in the cloud, and were never in doubt, add one entry an attempt to the record at most. */
export function checkGrowth(scene: Scene, { id, allocations, attempts }: Job): void {
  const vain = allocations.filter(
    ({ name, requestedAt, releasedAt, goneAt, isDoubtful }) =>
      requestedAt !== null &&
      releasedAt === null &&
      goneAt !== null &&
      isDoubtful !== true &&
      !scene.world().machines.some((one) => one.name === name),
  );
  if (vain.length > attempts.length)
    scene.breakLaw(
      7,
      `job ${id}: the record of ${attempts.length} attempts holds ${vain.length} allocations that never were`,
    );
}

/** Attempts since the owner's last word, and those of them that failed by the program's own doing. */
export function checkBudget(scene: Scene, run: Run, ledger: Ledger): void {
  const { budget } = ledger.job.spec.recovery;
  const { preemptions } = budget;
  const failures = budget.failures + ownLimits(ledger.job.spec);
  const failed = new Set<number>();
  const isOfSetup = (ordinal: number): boolean => ledger.job.attempts[ordinal - 1]?.ending?.reason === 'setup_failed';
  for (const other of scene.world().runs) {
    // Of the same attempt another worker may begin late, when one has failed already.
    const isEarlier = other.job === run.job && other.attempt < run.attempt;
    if (isEarlier && isOwnFailure(scene, other) && ledger.begun.has(other.attempt) && !isOfSetup(other.attempt))
      failed.add(other.attempt);
  }
  if (failed.size > failures) {
    scene.breakLaw(
      7,
      `job ${run.job}: attempt ${run.attempt} begins after ${failed.size} failures, and ${failures} are allowed`,
    );
  }
  // In calm nothing is taken away any more, so only failures can make new attempts, after a few that were under way.
  if (scene.calmSince !== null) ledger.begunInCalm.add(run.attempt);
  const names = ledger.job.allocations.map((one) => one.name);
  const isAnyHostDead = scene
    .world()
    .machines.some(({ name, hosts }) => names.includes(name) && hosts.some(({ silence }) => silence !== null));
  if (!isAnyHostDead && ledger.begunInCalm.size > failures + 4) {
    scene.breakLaw(
      7,
      `job ${run.job}: ${ledger.begunInCalm.size} attempts in calm, and ${failures} failures are allowed`,
    );
  }
  const begun = [...ledger.begun].filter((ordinal) => !isOfSetup(ordinal));
  if (begun.length > 1 + preemptions + failures) {
    scene.breakLaw(
      7,
      `job ${run.job}: attempt ${run.attempt} begins, and the budgets allow ${1 + preemptions + failures}`,
    );
  }
}

/** It failed by itself, and nothing else had gone wrong with its machine that could be the reason instead. */
function isOwnFailure(scene: Scene, run: Run): boolean {
  if (run.exitCode === null || run.exitCode === 0 || run.askedAt !== null || run.killed || run.endedAt === null)
    return false;
  const others = scene.world().runs.filter((one) => one.job === run.job && one.attempt === run.attempt);
  if (others.some((one) => one.endedAt !== null && one.askedAt === null && (one.killed || one.exitCode === null)))
    return false;
  // The command on this machine fails with the workers that it drives.
  const name = scene.ledgerOf(run.job).job.allocations[run.allocation - 1]?.name;
  const machine =
    scene.world().machines.findLast((one) => one.name === name && one.madeAt <= run.madeAt) ?? run.host.machine;
  if (machine.lostAt !== null && machine.lostAt < run.endedAt + 2 * minute) return false;
  if (machine.troubledAt >= run.madeAt || scene.world().lineCutUntil >= run.madeAt) return false;
  return machine.hosts.every((host) => host.silence === null);
}

/** How many more attempts the owner's own rules allow beside the budgets. */
function ownLimits({ recovery }: Job['spec']): number {
  return recovery.rules.reduce((sum, { limit = 0 }) => sum + limit, 0);
}

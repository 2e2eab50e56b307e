// What is tried and run: invariants 4, 5, 7 and 14.

import type { AllocationRef } from '../../src/app/ports.ts';
import { taskKey } from '../../src/core/job.ts';
import type { Attempt, Job } from '../../src/core/job.ts';
import { minute, second } from '../../src/core/time.ts';
import { folderOf, runName, isAlive } from '../world.ts';
import type { Run } from '../world.ts';
import { visitKey } from './capacity.ts';
import type { Scene, Ledger } from './scene.ts';
import { checkpointsIn } from '../outputs.ts';
import type { Checkpoint } from '../outputs.ts';

// ------------------------------------------------------------------------------------------ 7: attempts, tries, requests and the record itself are bounded

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

// ------------------------------------------------------------------------------------------ 5: no command begins before every step is proven on every worker

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

// ------------------------------------------------------------------------------------------ 4: programs of two attempts are never alive together, and an attempt counts as ended when nothing of it is alive

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

// ------------------------------------------------------------------------------------------ 14: a job resumes only from a checkpoint that it wrote, or that its owner named

/**
 * A program resumes from a checkpoint that its own job has written since its newest start from the beginning, or from one that
 * its owner has named, and from no other. If its job has one, a resumed program gets it.
 */
export function checkCheckpoint(scene: Scene, run: Run, { job }: Ledger): void {
  const { checkpoints, resumedFrom: from } = run;
  const { command } = job.spec;
  if (checkpoints === undefined || checkpoints.checkpointDir === null || command.checkpoints === 'shared') return;
  const beginning = job.attempts.findLast(
    ({ ordinal, stage, startedAt }) => ordinal <= run.attempt && stage === 0 && startedAt !== null,
  );
  // The start from the beginning may never have reached its worker: then the first later run began the work.
  const first = beginning?.ordinal ?? Infinity;
  const starts = scene
    .world()
    .runs.filter((one) => one.job === run.job && one.attempt >= first && one !== run)
    .map(({ startedAt }) => startedAt ?? Infinity);
  const begunAt = Math.min(...starts);
  const isOwn = ({ writer, at }: Checkpoint): boolean => writer.job === run.job && at >= begunAt;
  const named = command.resumeFrom?.kind === 'folder' ? command.resumeFrom.job : undefined;
  if (from !== null && !isOwn(from) && from.writer.job !== named)
    scene.breakLaw(14, `${runName(run)} resumes from ${from.name}, which ${runName(from.writer)} wrote`);
  const isResume = (job.attempts[run.attempt - 1]?.stage ?? 0) > 0;
  const own = checkpointsIn(scene.world(), checkpoints.checkpointDir).filter((one) => isOwn(one) && one.writer !== run);
  if (isResume && own.length > 0 && (from === null || !isOwn(from)))
    scene.breakLaw(14, `${runName(run)} does not resume from ${own.at(-1)?.name}, which its job wrote`);
}

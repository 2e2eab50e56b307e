// Checks of attempts and commands: invariants 4, 5, 7 and 14.

import type { AllocationRef } from '../../src/app/ports.ts';
import { taskKey } from '../../src/core/model/job.ts';
import type { Attempt, Job } from '../../src/core/model/job.ts';
import { operationOf } from '../../src/core/model/spec.ts';
import { minute, second } from '../../src/core/model/time.ts';
import { creationTimeOf } from '../cloud.ts';
import { folderOf, runName, isAlive } from '../world.ts';
import type { Run } from '../world.ts';
import { requestKey } from './capacity.ts';
import { isGivenUp } from './context.ts';
import type { CheckContext, Ledger } from './context.ts';
import { checkpointsIn } from '../outputs.ts';
import type { Checkpoint } from '../outputs.ts';

// ------------------------------------------------------------------------------------------ 7: attempts, tries,
// requests and the job itself are bounded

export function checkRequestRate(context: CheckContext, ref: AllocationRef, ledger: Ledger): void {
  const { now } = context.world().timeline;
  const { ordinal } = ref.allocation;
  const key = requestKey(ref, ledger);
  const recent = [...(ledger.requests.get(key) ?? []), now].filter((at) => at > now - minute);
  ledger.requests.set(key, recent);
  if (!ledger.firstRequestedAt.has(ordinal)) ledger.firstRequestedAt.set(ordinal, now);
  if (recent.length > 15) {
    context.fail(7, `job ${ref.job.id}: allocation ${ordinal} was requested ${recent.length} times within a minute`);
  }
}

/** The tries of a setup step, or of the start of the command. `detail` names the worker. */
export function checkTries(
  context: CheckContext,
  { job, allocation }: AllocationRef,
  task: 'step' | 'start',
  detail: string,
  ledger: Ledger,
): void {
  const attempt = ledger.job.attempts.at(-1)?.ordinal ?? 0;
  const key = `${task} ${attempt}/${allocation.ordinal}/${detail}`;
  const tries = (ledger.tries.get(key) ?? 0) + 1;
  ledger.tries.set(key, tries);
  // A lost reply counts as no try, so storms and killed controllers add some; without a limit there would be hundreds.
  if (tries > ledger.job.spec.limits.setupTries + 60) {
    context.fail(7, `job ${job.id}: ${task} ${detail} was tried ${tries} times in attempt ${attempt}`);
  }
}

/** Attempts that rules made since the owner's last command. An attempt without capacity uses no budget. */
export function checkAttempts(scene: CheckContext, { id, attempts, spec }: Job): void {
  const since = attempts.slice(
    Math.max(
      0,
      attempts.findLastIndex((one) => one.startedByOwner),
    ),
  );
  const { preemptions, failures, setupFailures } = spec.recovery.budget;
  const inARow = mostInARow(since, ({ ending }) => ending?.reason === 'setup_failed');
  if (inARow > 1 + setupFailures)
    scene.fail(
      7,
      `job ${id}: its setup has failed ${inARow} times in a row, but only ${setupFailures} failures are allowed`,
    );
  const counted = since.filter(
    ({ ending }) => ending !== null && ending.reason !== 'allocation_failed' && ending.reason !== 'setup_failed',
  );
  const most = 1 + preemptions + failures + ruleLimits(spec);
  if (counted.length > most)
    scene.fail(7, `job ${id}: ${counted.length} attempts have ended, but the budgets allow ${most}`);
}

/**
 * The longest sequence of such attempts without a command that ran. An attempt that lost its TPU does not end the
 * sequence.
 */
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

/**
 * An attempt counts only the failures of its own setup steps; otherwise it would have fewer tries than its owner
 * allowed.
 */
export function checkStepFailures(scene: CheckContext, { id, attempts }: Job, ledger: Ledger): void {
  for (const { ordinal, failures } of attempts) {
    for (const { task, tries } of failures) {
      if (task.kind !== 'step') continue;
      const key = taskKey(task);
      const failed = ledger.stepFailures.get(`${ordinal} ${key}`) ?? 0;
      if (tries > failed)
        scene.fail(7, `job ${id}: attempt ${ordinal} counts ${tries} failures of step ${key}, but it had ${failed}`);
    }
  }
}

/** Allocations that were certainly never created add at most one entry per attempt. */
export function checkGrowth(scene: CheckContext, { id, allocations, attempts }: Job): void {
  const neverCreated = allocations.filter(
    ({ name, requestedAt, releasedAt, goneAt, hasUnansweredRequest }) =>
      requestedAt !== null &&
      releasedAt === null &&
      goneAt !== null &&
      hasUnansweredRequest !== true &&
      !scene.world().machines.some((one) => one.name === name),
  );
  if (neverCreated.length > attempts.length)
    scene.fail(
      7,
      `job ${id}: ${attempts.length} attempts have ${neverCreated.length} allocations that were never created`,
    );
}

/** Attempts since the owner's last command, and those that failed by the program's own fault. */
export function checkBudget(context: CheckContext, run: Run, ledger: Ledger): void {
  const { budget } = ledger.job.spec.recovery;
  const { preemptions } = budget;
  const failures = budget.failures + ruleLimits(ledger.job.spec);
  const failed = new Set<number>();
  const isOfSetup = (ordinal: number): boolean => ledger.job.attempts[ordinal - 1]?.ending?.reason === 'setup_failed';
  for (const other of context.world().runs) {
    // Another worker of the same attempt may start late, after one has failed.
    const isEarlier = other.job === run.job && other.attempt < run.attempt;
    if (
      isEarlier &&
      isOwnFailure(context, other) &&
      ledger.attemptsBegun.has(other.attempt) &&
      !isOfSetup(other.attempt)
    )
      failed.add(other.attempt);
  }
  if (failed.size > failures) {
    context.fail(
      7,
      `job ${run.job}: attempt ${run.attempt} starts after ${failed.size} failures, but ${failures} are allowed`,
    );
  }
  // In calm nothing is preempted, so only failures make new attempts, after a few that had begun before.
  if (context.faultsStoppedAt !== null) ledger.attemptsBegunAfterFaults.add(run.attempt);
  const names = ledger.job.allocations.map((one) => one.name);
  const isAnyHostDead = context
    .world()
    .machines.some(({ name, hosts }) => names.includes(name) && hosts.some(({ outage }) => outage !== null));
  if (!isAnyHostDead && ledger.attemptsBegunAfterFaults.size > failures + 4) {
    context.fail(
      7,
      `job ${run.job}: ${ledger.attemptsBegunAfterFaults.size} attempts in calm, but ${failures} failures are allowed`,
    );
  }
  const begun = [...ledger.attemptsBegun].filter((ordinal) => !isOfSetup(ordinal));
  if (begun.length > 1 + preemptions + failures) {
    context.fail(
      7,
      `job ${run.job}: attempt ${run.attempt} starts, but the budgets allow ${1 + preemptions + failures}`,
    );
  }
}

/** True if it failed by itself, and nothing had happened to its machine that could be the cause. */
function isOwnFailure(context: CheckContext, run: Run): boolean {
  if (run.exitCode === null || run.exitCode === 0 || run.stopRequestedAt !== null || run.killed || run.endedAt === null)
    return false;
  const others = context.world().runs.filter((one) => one.job === run.job && one.attempt === run.attempt);
  if (
    others.some((one) => one.endedAt !== null && one.stopRequestedAt === null && (one.killed || one.exitCode === null))
  )
    return false;
  // The command on this machine fails with the workers that it drives.
  const name = context.ledgerOf(run.job).job.allocations[run.allocation - 1]?.name;
  const machine =
    context.world().machines.findLast((one) => one.name === name && one.createdAt <= run.createdAt) ?? run.host.machine;
  // A full disk keeps the controller from recording the end until the machine is gone.
  const recordable = Math.max(run.endedAt, context.world().diskFullUntil);
  if (machine.lostAt !== null && machine.lostAt < recordable + 2 * minute) return false;
  if (machine.disruptedAt >= run.createdAt || context.world().networkCutUntil >= run.createdAt) return false;
  // On own machines, another worker may have been silent at that time.
  const { endedAt } = run;
  const wasSilent = ({ outage, lastOutage }: Run['host']): boolean =>
    outage !== null || (lastOutage !== null && lastOutage.since < endedAt + 2 * minute && lastOutage.until > endedAt);
  return ![...machine.hosts, ...others.map(({ host }) => host)].some(wasSilent);
}

/** Additional attempts that the owner's own rules allow beyond the budgets. */
function ruleLimits({ recovery }: Job['spec']): number {
  return recovery.rules.reduce((sum, { limit = 0 }) => sum + limit, 0);
}

// ------------------------------------------------------------------------------------------ 5: no command starts
// before every step is proven on every worker

export function checkSetupBeforeStart(context: CheckContext, run: Run, ledger: Ledger): void {
  const { machine } = run.host;
  if (isCommandOnly(context, ledger, run)) return;
  // The command on this machine drives workers that must be set up too.
  const hosts =
    run.worker === 'controller'
      ? (context.world().machines.findLast((one) => one.name === ledger.job.allocations[run.allocation - 1]?.name)
          ?.hosts ?? [])
      : machine.hosts;
  // An own machine is one host of several, whose number in its machine is not that of the worker.
  const isOwn = ledger.job.spec.capacity.kind === 'hosts';
  for (const host of isOwn ? [run.host] : hosts) {
    const { proofs } = folderOf(host, run.job, isOwn ? run.worker : `${host.worker}`);
    for (const step of ledger.job.spec.steps) {
      const proven = [...proofs].filter((proof) => proof.startsWith(`${run.allocation}/${step.key}/`));
      // The observation before the start cannot contain a restart of just now. If the command starts on that host, the
      // launcher must have noticed the restart.
      const isFresh = host !== run.host && context.world().timeline.now - host.bootedAt < 40 * second;
      if (proven.some((proof) => isFresh || proof.endsWith(`/${host.bootId}`))) continue;
      context.fail(5, `${runName(run)} starts, but worker ${host.worker} has not completed ${step.name}`);
      return;
    }
  }
}

/** True if the owner wanted no steps, on a machine that the job held before the command. */
function isCommandOnly(scene: CheckContext, { job, lastCommandAt }: Ledger, run: Run): boolean {
  if (job.attempts[run.attempt - 1]?.commandOnly !== true) return false;
  const name = job.allocations[run.allocation - 1]?.name;
  const machine = scene.world().machines.findLast((one) => one.name === name) ?? run.host.machine;
  // The owner of a shared machine may recreate it between two observations.
  if (machine.isPersistent) return true;
  // In the world's time, because the controllers' clock may have been set back in between.
  return machine.readyAt !== null && machine.readyAt <= lastCommandAt;
}

/** A job that only sets up succeeds when every worker has completed every step, and not before. */
export function checkSetupOnlyJob(context: CheckContext, before: Job, job: Job): void {
  if (job.spec.command.isSetupOnly !== true) return;
  if (job.finish?.verdict !== 'succeeded' || before.finish !== null) return;
  const last = job.attempts.at(-1);
  const name = job.allocations[(last?.allocation ?? 0) - 1]?.name;
  const machine = context.world().machines.findLast((one) => one.name === name);
  if (last?.commandOnly === true || machine === undefined) return;
  const operation = operationOf(job.spec);
  if (operation?.kind === 'delete') {
    const isLeft = machine.state !== 'gone' && creationTimeOf(machine) === operation.creationTime;
    if (isLeft) context.fail(5, `job ${job.id} counts as done, but ${machine.name} is ${machine.state}`);
    return;
  }
  for (const host of machine.hosts) {
    const { proofs } = folderOf(host, job.id, `${host.worker}`);
    const missing = job.spec.steps.find(
      ({ key }) => ![...proofs].some((one) => one.startsWith(`${last?.allocation}/${key}/`)),
    );
    if (missing !== undefined)
      context.fail(5, `job ${job.id} counts as set up, but worker ${host.worker} lacks ${missing.name}`);
  }
}

// ------------------------------------------------------------------------------------------ 4: programs of two
// attempts are never alive together, and an attempt ends only when none of its processes is alive

/** The newest attempt has ended in the database. */
export function checkEnded(context: CheckContext, before: Job, job: Job): void {
  const attempt = job.attempts.at(-1);
  const old = before.attempts[(attempt?.ordinal ?? 0) - 1];
  if (attempt === undefined || attempt.endedAt === null || old === undefined || old.endedAt !== null) return;
  const alive = context
    .world()
    .runs.find((run) => run.job === job.id && run.attempt === attempt.ordinal && isAlive(run));
  if (alive !== undefined && alive.host.machine.state === 'ready' && !isGivenUp(context, alive, job))
    context.fail(4, `job ${job.id}: attempt ${attempt.ordinal} counts as ended, but ${runName(alive)} is alive`);
}

/** A program starts: no other of its job is alive, the job has a command, and the owner still allows attempts. */
export function checkNoOtherAlive(scene: CheckContext, run: Run, { job, recoveryDisabledAfter }: Ledger): void {
  if (job.spec.command.isSetupOnly === true) scene.fail(5, `${runName(run)} starts, but its manifest has no command`);
  for (const other of scene.world().runs) {
    if (other === run || other.job !== run.job || !isAlive(other)) continue;
    if (other.attempt === run.attempt && other.worker !== run.worker) continue;
    scene.fail(4, `${runName(run)} starts while ${runName(other)} is alive`);
  }
  const isByRule = job.attempts[run.attempt - 1]?.startedByOwner === false;
  if (recoveryDisabledAfter !== null && run.attempt > recoveryDisabledAfter && isByRule)
    scene.fail(7, `${runName(run)} starts, but its owner wanted none after attempt ${recoveryDisabledAfter}`);
}

// ------------------------------------------------------------------------------------------ 14: a job resumes only
// from a checkpoint that it wrote, or that its owner named

/**
 * A program resumes only from a checkpoint that its job has written since its newest start from the beginning, or that
 * its owner has named. If its job has such a checkpoint, a resumed program gets it.
 */
export function checkCheckpoint(scene: CheckContext, run: Run, { job }: Ledger): void {
  const { checkpoints, resumedFrom: from } = run;
  const { command } = job.spec;
  if (checkpoints === undefined || checkpoints.checkpointDir === null || command.checkpoints === 'shared') return;
  const beginning = job.attempts.findLast(
    ({ ordinal, stage, startedAt }) => ordinal <= run.attempt && stage === 0 && startedAt !== null,
  );
  // If the start from the beginning never reached its worker, the first later run began the work.
  const first = beginning?.ordinal ?? Infinity;
  const starts = scene
    .world()
    .runs.filter((one) => one.job === run.job && one.attempt >= first && one !== run)
    .map(({ startedAt }) => startedAt ?? Infinity);
  const begunAt = Math.min(...starts);
  const isOwn = ({ writer, at }: Checkpoint): boolean => writer.job === run.job && at >= begunAt;
  const named = command.resumeFrom?.kind === 'folder' ? command.resumeFrom.job : undefined;
  if (from !== null && !isOwn(from) && from.writer.job !== named)
    scene.fail(14, `${runName(run)} resumes from ${from.name}, which ${runName(from.writer)} wrote`);
  const isResume = (job.attempts[run.attempt - 1]?.stage ?? 0) > 0;
  const own = checkpointsIn(scene.world(), checkpoints.checkpointDir).filter((one) => isOwn(one) && one.writer !== run);
  if (isResume && own.length > 0 && (from === null || !isOwn(from)))
    scene.fail(14, `${runName(run)} does not resume from ${own.at(-1)?.name}, which its job wrote`);
}

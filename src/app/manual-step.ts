// Manual step: repeats one setup step of a job at a user's request. Only the core changes the job's attempts.

import type { Event } from '../core/model/event.ts';
import { openAttempt, stepsOf, type Allocation, type Job, usableAllocation } from '../core/model/job.ts';
import type { OutcomeResult } from '../core/model/observation.ts';
import { nameInHistory, type Actor } from '../core/model/user.ts';
import { checkAction } from '../core/policy/permissions.ts';
import { resolvedStep } from '../core/decide/launch.ts';
import type { SetupStep } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { OnBehalf } from './client.ts';
import { exitCode, JobmanError } from './errors.ts';
import { capitalize } from './format.ts';
import { commitChange } from './commit-command.ts';
import type { LogFiles, ManualStepOptions, Store, StoredJob } from './ports.ts';
import { forbiddenError, requirePermission } from './require-permission.ts';

/** Runs setup steps on the workers of a job. */
export interface StepRunner {
  run(worker: number, plan: StepPlan, options: ManualStepOptions): Promise<OutcomeResult>;
  close(): void;
}

export interface StepRunOptions extends OnBehalf {
  /** Applies the step even if its check succeeds. */
  readonly force?: boolean;
}

/** `begun` comes first. `message`: the failure; null if the step is applied. */
export type StepProgress =
  | { readonly kind: 'begun'; readonly job: string; readonly workers: readonly number[] }
  | { readonly kind: 'output'; readonly worker: number; readonly bytes: Uint8Array }
  | {
      readonly kind: 'ended';
      readonly worker: number;
      readonly message: string | null;
      /** Null if the step did not end or its exit code is unknown. */
      readonly exitCode: number | null;
    };

interface StepPlan {
  readonly job: Job;
  readonly allocation: Allocation;
  readonly step: SetupStep;
  readonly workers: readonly number[];
}

/** Steps whose result the command uses while it runs, so that they must not be repeated under it. */
const stepsUsedByCommand: ReadonlySet<string> = new Set(['files', 'docker', 'conda', 'venv']);

/** Throws JobmanError with the obstacle and the next step if the actor may not repeat the step now. */
export function planStep(job: Job, name: string, actor: Actor, options?: OnBehalf): StepPlan {
  const it = `Job ${job.id} (${job.spec.name})`;
  const number = Number(job.id);
  const check = checkAction(job, 'setup', actor, options);
  if (check.answer !== 'allow' && check.cause === 'permission') throw forbiddenError(check.message, job.owner);
  const step = stepsOf(job).find((one) => one.name === name);
  if (step === undefined) throw new JobmanError(stepNotFoundMessage(job, it, name), exitCode.usage);
  if (check.answer !== 'allow') {
    throw new JobmanError(`${capitalize(check.message)}.`, exitCode.conflict, [`Explain: jobman why ${number}`]);
  }
  if (openAttempt(job) !== undefined && stepsUsedByCommand.has(name)) {
    throw new JobmanError(
      `${it} uses the result of ${name}. Stop it first, which keeps its workers, and resume it afterwards: ` +
        `jobman stop ${number} && jobman wait ${number}; jobman setup ${number} ${name}; jobman resume ${number}`,
      exitCode.conflict,
    );
  }
  const allocation = usableAllocation(job);
  if (allocation === undefined || allocation.workers === null)
    throw new Error(`job ${job.id} has ready workers, but their number is unknown`);
  const workers = Array.from({ length: allocation.workers }, (_, worker) => worker);
  return { job, allocation, step: resolvedStep(step, allocation, job), workers };
}

function stepNotFoundMessage(job: Job, it: string, name: string): string {
  const names = job.spec.steps.map((step) => step.name);
  const has = names.length === 0 ? 'it has no setup' : `it has ${names.join(', ')}`;
  const isInside = names.includes('docker') && (name === 'conda' || name === 'venv');
  const inside = isInside ? `; the ${name} environment of a container is created when the command starts` : '';
  return `${it} has no setup step ${name}: ${has}${inside}.`;
}

interface StepParts {
  /** Adds the row of the audit log. */
  readonly record: (detail: { readonly step: string; readonly force: boolean }) => Promise<void>;
  readonly store: Store;
  readonly logFiles: Pick<LogFiles, 'note'>;
  readonly now: () => Instant;
  readonly openStepRunner: (job: Job) => Promise<StepRunner>;
}

interface StepRequest extends StepRunOptions {
  readonly step: string;
  readonly actor: Actor;
}

/** On all workers at once; a failure on one stops no other. After the signal the step continues without a reader. */
export async function* runStep(
  parts: StepParts,
  stored: StoredJob,
  request: StepRequest,
  signal: AbortSignal,
): AsyncGenerator<StepProgress, void> {
  const { actor, force = false } = request;
  const plan = planStep(stored.job, request.step, actor, request);
  const { allocation, step, workers } = plan;
  // Before the step: a kill of this process leaves no event.
  await parts.record({ step: step.name, force });
  const runner = await parts.openStepRunner(stored.job);
  const ended = new Map<number, string | null>();
  const unread: { readonly progress: StepProgress; readonly taken: () => void }[] = [];
  let arrived = Promise.withResolvers<void>();
  const report = (progress: StepProgress): Promise<void> =>
    new Promise((taken) => {
      unread.push({ progress, taken });
      arrived.resolve();
    });

  async function runOn(worker: number): Promise<void> {
    const onOutput = (bytes: Uint8Array) => report({ kind: 'output', worker, bytes });
    const outcome = await runner.run(worker, plan, { force, onOutput });
    const isDone = outcome.kind === 'done';
    const message = isDone ? null : outcome.evidence.message;
    ended.set(worker, message);
    await report({ kind: 'ended', worker, message, exitCode: isDone ? 0 : (outcome.evidence.exitCode ?? null) });
  }

  const left = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
  try {
    yield { kind: 'begun', job: stored.job.id, workers };
    let isOver = false;
    const all = Promise.all(workers.map(runOn)).then(() => {
      isOver = true;
    });
    while (!isOver && !signal.aborted) {
      await Promise.race([arrived.promise, all, left]);
      arrived = Promise.withResolvers();
      for (const { progress, taken } of unread.splice(0)) {
        yield progress;
        taken();
      }
    }
  } finally {
    runner.close();
    const failed = workers.flatMap((worker) => {
      const message = ended.get(worker);
      return message === null ? [] : [{ worker, message: message ?? `${actor.user} detached before it ended` }];
    });
    const result = { allocation: allocation.ordinal, step: step.name, force, workers: workers.length, failed };
    await recordStep(parts, stored, request, result);
  }
}

/** In any state of the job, because the step was run. */
async function recordStep(
  parts: Pick<StepParts, 'store' | 'logFiles' | 'now'>,
  stored: StoredJob,
  { actor, onBehalfOf }: StepRequest,
  result: Pick<Extract<Event, { kind: 'step_run_manually' }>, 'allocation' | 'step' | 'force' | 'workers' | 'failed'>,
): Promise<void> {
  const event: Event = { kind: 'step_run_manually', at: parts.now(), ...result, by: nameInHistory(actor) };
  const recorded = await commitChange(parts, stored, async (job) => {
    requirePermission(job, 'setup', actor, onBehalfOf);
    // Keep the next check: nothing has changed for the controller.
    const wakeAt = await parts.store.wakeAt(job.id);
    return { change: { job, events: [event], wakeAt } };
  });
  if (recorded === 'busy') {
    const { id } = stored.job;
    throw new JobmanError(
      `The step was run, but it is not in the history of job ${id}: the job changed too often in the meantime.`,
      exitCode.failed,
    );
  }
}

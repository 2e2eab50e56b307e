// Manual step: repeats one setup step of a job at a user's request. Only the core changes the job's attempts.

import type { Event } from '../core/model/event.ts';
import { openAttempt, stepsOf, type Allocation, type Job, usableAllocation } from '../core/model/job.ts';
import type { Actor } from '../core/model/user.ts';
import { checkAction } from '../core/policy/permissions.ts';
import { resolvedStep } from '../core/decide/launch.ts';
import type { SetupStep } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { OnBehalf } from './client.ts';
import { exitCode, JobmanError } from './errors.ts';
import { capitalize } from './format.ts';
import { commitChange } from './commit-command.ts';
import type { LogFiles, Store, StoredJob } from './ports.ts';
import { forbiddenError, requirePermission } from './require-permission.ts';

export interface StepPlan {
  readonly job: Job;
  readonly allocation: Allocation;
  readonly step: SetupStep;
  readonly workers: readonly number[];
}

export interface StepResult {
  readonly allocation: number;
  readonly step: string;
  readonly force: boolean;
  readonly workers: number;
  readonly failed: readonly { readonly worker: number; readonly message: string }[];
}

/** Steps whose result the command uses while it runs, so that they must not be repeated under it. */
const stepsUsedByCommand: ReadonlySet<string> = new Set(['files', 'docker', 'conda', 'venv']);

/** Throws JobmanError with the obstacle and the next step if the actor may not repeat the step now. */
export function planStep(job: Job, name: string, actor: Actor, options?: OnBehalf): StepPlan {
  const it = `Job ${job.id} (${job.spec.name})`;
  const number = Number(job.id);
  const step = stepsOf(job).find((one) => one.name === name);
  if (step === undefined) throw new JobmanError(stepNotFoundMessage(job, it, name), exitCode.usage);
  const check = checkAction(job, 'setup', actor, options);
  if (check.answer !== 'allow') {
    if (check.cause === 'permission') throw forbiddenError(check.message, job.owner);
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

/** In any state of the job, because the step was run. */
export async function recordStep(
  parts: { readonly store: Store; readonly logFiles: Pick<LogFiles, 'note'>; readonly now: () => Instant },
  stored: StoredJob,
  actor: Actor,
  done: StepResult,
  options?: OnBehalf,
): Promise<void> {
  const event: Event = { kind: 'step_run_manually', at: parts.now(), ...done, by: actor.user };
  const recorded = await commitChange(parts, stored, async (job) => {
    requirePermission(job, 'setup', actor, options?.onBehalfOf);
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

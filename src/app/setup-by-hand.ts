// Setup by hand: one setup step of a job that a person wants repeated. The attempts stay the core's alone.

import { usableAllocation } from '../core/allocate.ts';
import type { Event } from '../core/decision.ts';
import { openAttempt, stepsOf, type Allocation, type Job } from '../core/job.ts';
import { stepFor } from '../core/prepare.ts';
import type { SetupStep } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';
import { exitCode, JobmanError } from './errors.ts';
import { commitOwn } from './ask.ts';
import type { LogFiles, Store, Stored } from './ports.ts';

export interface StepPlan {
  readonly job: Job;
  readonly allocation: Allocation;
  readonly step: SetupStep;
  readonly workers: readonly number[];
}

export interface StepsDone {
  readonly allocation: number;
  readonly step: string;
  readonly by: string;
  readonly force: boolean;
  readonly workers: number;
  readonly failed: readonly { readonly worker: number; readonly detail: string }[];
}

/** Steps whose result a command runs in: to make it anew under the running command would pull the floor from under it. */
const underfoot: ReadonlySet<string> = new Set(['files', 'docker', 'conda', 'venv']);

/** That step, if `by` may repeat it now. Throws JobmanError with what is in the way and what to do. */
export function planStep(job: Job, name: string, by: string): StepPlan {
  const it = `Job ${job.id} (${job.spec.name})`;
  const number = Number(job.id);
  const refuse = (sentence: string): never => {
    throw new JobmanError(sentence, exitCode.conflict);
  };
  if (by !== job.owner) refuse(`${it} belongs to ${job.owner}; only its owner may set it up.`);
  const step = stepsOf(job).find((one) => one.name === name);
  if (step === undefined) throw new JobmanError(noSuchStep(job, it, name), exitCode.usage);
  const allocation = usableAllocation(job);
  if (allocation?.seen?.state !== 'ready' || allocation.workers === null) {
    return refuse(
      job.settled === null
        ? `${it} holds no ready workers now; \`jobman why ${number}\` says what it waits for.`
        : `${it} holds no workers any more: it is over (${job.settled.verdict}). To go on: jobman resume ${number}`,
    );
  }
  const attempt = openAttempt(job);
  if (attempt !== undefined && attempt.ending !== null) {
    refuse(`${it} is ending an attempt; say it again when that has ended: jobman wait ${number}`);
  }
  if (attempt !== undefined && attempt.startedAt === null) {
    refuse(
      `${it} is being set up by the controller right now. Watch it with \`jobman logs ${number} --step ${name} -f\`, or ` +
        `stop it first: jobman stop ${number}`,
    );
  }
  if (attempt !== undefined && underfoot.has(name)) {
    refuse(
      `${it} runs in what ${name} would replace. Stop it first, which keeps its workers, and go on afterwards: ` +
        `jobman stop ${number} && jobman wait ${number}; jobman setup ${number} ${name}; jobman resume ${number}`,
    );
  }
  const workers = Array.from({ length: allocation.workers }, (_, worker) => worker);
  return { job, allocation, step: stepFor(step, allocation, job), workers };
}

function noSuchStep(job: Job, it: string, name: string): string {
  const names = job.spec.steps.map((step) => step.name);
  const has = names.length === 0 ? 'it needs no setup' : `it has ${names.join(', ')}`;
  const isInside = names.includes('docker') && (name === 'conda' || name === 'venv');
  const inside = isInside ? `; a ${name} environment of a container is made inside it when the command starts` : '';
  return `${it} has no setup step ${name}: ${has}${inside}.`;
}

export async function recordStep(
  parts: { readonly store: Store; readonly logFiles: Pick<LogFiles, 'note'>; readonly now: () => Instant },
  stored: Stored,
  done: StepsDone,
): Promise<void> {
  const event: Event = { kind: 'step_by_hand', at: parts.now(), ...done };
  const recorded = await commitOwn(parts, stored, async (job) => {
    // When it would have been looked at, it still is: nothing has changed for the controller.
    const wakeAt = await parts.store.wakeOf(job.id);
    return { change: { job, events: [event], wakeAt } };
  });
  if (recorded === 'busy') {
    const { id } = stored.job;
    throw new JobmanError(
      `Job ${id} changes too quickly, so its history does not tell of the step. The step itself was gone through.`,
      exitCode.failed,
    );
  }
}

// Launch: the texts that one start hands to a host, with every mark filled in.

import type { Launch } from '../app/ports.ts';
import { allocationOf, commandWorkers } from '../core/job.ts';
import type { Allocation, Job } from '../core/job.ts';
import { nodeNameMark } from '../core/spec.ts';
import type { SetupStep, WorkerId } from '../core/spec.ts';

/** What is started for that attempt on that worker. Throws when the job has no such attempt, which is our own bug. */
export function launchOf(job: Job, ordinal: number, worker: WorkerId): Launch {
  const attempt = job.attempts[ordinal - 1];
  if (attempt === undefined) throw new Error(`job ${job.id} has no attempt ${ordinal}`);
  const allocation = allocationOf(job, attempt.allocation);
  const { command } = job.spec;
  const fill = (text: string): string => fillMarks(text, allocation);
  const fillOrNull = (text: string | null): string | null => (text === null ? null : fill(text));
  const checkpointDir = fillOrNull(command.checkpointDir);
  return {
    attempt,
    script: fill(command.script),
    env: {
      ...Object.fromEntries(Object.entries(command.env).map(([name, value]) => [name, fill(value)])),
      JOBMAN_JOB_ID: job.id,
      JOBMAN_ATTEMPT: `${attempt.ordinal}`,
      JOBMAN_STAGE: `${attempt.stage}`,
      JOBMAN_WORKER: `${worker}`,
      JOBMAN_WORKERS: `${commandWorkers(command, allocation.workers ?? 1).length}`,
      ...(job.spec.capacity.kind === 'tpu' ? { JOBMAN_NODE_NAME: allocation.name } : {}),
      ...(checkpointDir === null ? {} : { JOBMAN_CHECKPOINT_DIR: checkpointDir }),
    },
    workdir: fillOrNull(command.workdir),
    checkpointDir,
    resume: attempt.how === 'resume',
  };
}

/** A setup step whose texts name the node by its real name. The key stays: it is what the proof on the host is called. */
export function stepFor(step: SetupStep, allocation: Allocation): SetupStep {
  return {
    ...step,
    check: step.check === null ? null : fillMarks(step.check, allocation),
    apply: fillMarks(step.apply, allocation),
  };
}

function fillMarks(text: string, allocation: Allocation): string {
  return text.replaceAll(nodeNameMark, allocation.name);
}

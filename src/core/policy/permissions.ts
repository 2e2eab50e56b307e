// Permissions: the commands that a user may give to a job in its current state, and the messages of refusals.

import type { CommandOptions, Verb } from '../decide/commands.ts';
import { phaseOf } from '../decide/phase.ts';
import { formatVerdict, heldAllocations, openAttempt, usableAllocation } from '../model/job.ts';
import type { Job } from '../model/job.ts';

/** Accepted, or the sentence for the user. */
export type CommandCheck = { readonly ok: true } | { readonly ok: false; readonly message: string };

/** For commands whose name is not an English verb. */
const verbPhrases: Partial<Record<Verb, string>> = {
  'disable-recovery': 'turn off its recovery',
  'accept-exit': 'accept its exit',
};

const accepted: CommandCheck = { ok: true };

function rejected(message: string): CommandCheck {
  return { ok: false, message };
}

/** `message` says why the user may not give the command now, and what to do instead. */
export function checkCommand(
  job: Job,
  verb: Verb,
  by: string,
  options: Pick<CommandOptions, 'release' | 'commandOnly' | 'onBehalf'> = {},
): CommandCheck {
  const name = `job ${job.id} (${job.spec.name})`;
  if (by !== job.owner && options.onBehalf !== true)
    return rejected(`${name} belongs to ${job.owner}; only its owner may ${verbPhrases[verb] ?? `${verb} it`}`);
  const isRequest = verb === 'start' || verb === 'resume' || verb === 'rerun';
  if (job.removed)
    return rejected(isRequest ? `${name} was deleted; create a new one` : `${name} has already been deleted`);
  if (job.desired === 'deleted' && verb !== 'delete')
    return rejected(isRequest ? `${name} is being deleted; create a new one` : `${name} is already being deleted`);
  const phase = phaseOf(job);
  switch (verb) {
    case 'start':
      if (isDesiredRunning(job)) return rejected(alreadyActiveMessage(name, phase));
      if (options.commandOnly === true && usableAllocation(job)?.lastObserved?.state !== 'ready')
        return rejected(`${name} has no ready workers to run its command on; ${howToGetWorkers(job)}`);
      if (options.commandOnly === true || job.finish === null || job.finish.verdict === 'stopped') return accepted;
      return rejected(
        `${name} has ${formatVerdict(job.finish.verdict)}; use resume to continue from its last checkpoint, or rerun to start from the beginning`,
      );
    case 'resume':
    case 'rerun':
      return isDesiredRunning(job)
        ? rejected(`${alreadyActiveMessage(name, phase)}; stop it first to ${verb} it`)
        : accepted;
    case 'stop':
      if (job.finish === null) return accepted;
      if (options.release === true && heldAllocations(job).length > 0) return accepted;
      if (job.finish.verdict === 'stopped' && options.release !== true) return accepted;
      return rejected(`${name} is not running: it has ${formatVerdict(job.finish.verdict)}${heldCapacityMessage(job)}`);
    case 'cancel':
      if (job.finish === null || job.finish.verdict === 'stopped' || heldAllocations(job).length > 0) return accepted;
      if (job.finish.verdict === 'cancelled') return accepted;
      return rejected(`${name} has already ${formatVerdict(job.finish.verdict)} and holds no capacity`);
    case 'disable-recovery':
      if (job.finish === null && job.desired === 'running') return accepted;
      return rejected(`${name} has finished or is being stopped, so no rule restarts it`);
    case 'accept-exit':
      return hasUnjudgedExit(job) ? accepted : rejected(`${name} has no exit that waits for a decision`);
    case 'delete':
      return accepted;
  }
}

function hasUnjudgedExit(job: Job): boolean {
  const attempt = openAttempt(job);
  return attempt?.exitSeen !== undefined && attempt.ending === null;
}

/** `start` is not accepted after a job has finished by itself. */
function howToGetWorkers({ finish }: Job): string {
  if (finish === null || finish.verdict === 'stopped') return 'use start to get some';
  return `it has ${formatVerdict(finish.verdict)}; use resume or rerun to get some, with its setup`;
}

function isDesiredRunning(job: Job): boolean {
  return job.desired === 'running' && job.finish === null;
}

function alreadyActiveMessage(name: string, phase: string): string {
  return phase === 'queued' ? `${name} is already queued` : `${name} is already active (${phase})`;
}

function heldCapacityMessage(job: Job): string {
  const held = heldAllocations(job);
  if (held.length === 0) return ' and holds no capacity';
  const isReleasing = held.every((allocation) => allocation.releasedAt !== null);
  return isReleasing ? ', and its capacity is being released' : '; use stop --release to release its capacity';
}

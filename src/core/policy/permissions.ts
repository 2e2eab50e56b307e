// Permissions: the commands that a user may give to a job in its present state, and the messages of refusals.

import { usableAllocation } from '../decide/allocate.ts';
import type { CommandOptions, Verb } from '../decide/commands.ts';
import { phaseOf } from '../decide/phase.ts';
import { formatVerdict, heldAllocations, openAttempt } from '../model/job.ts';
import type { Job } from '../model/job.ts';

/** Accepted, or the sentence for the user. */
export type CommandCheck = { readonly ok: true } | { readonly ok: false; readonly message: string };

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
    return rejected(
      `${name} belongs to ${job.owner}; only its owner may ${verb === 'disable-recovery' ? 'say when it is not to run again' : verb === 'accept-exit' ? 'have its end judged' : `${verb} it`}`,
    );
  const instead = verb === 'start' || verb === 'resume' || verb === 'rerun' ? '; create a new one' : ' already';
  if (job.removed) return rejected(`${name} has been deleted${instead}`);
  if (job.desired === 'deleted' && verb !== 'delete') return rejected(`${name} is being deleted${instead}`);
  const phase = phaseOf(job);
  switch (verb) {
    case 'start':
      if (isDesiredRunning(job)) return rejected(alreadyActiveMessage(name, phase));
      if (options.commandOnly === true) {
        const isReady = usableAllocation(job)?.lastObserved?.state === 'ready';
        return isReady
          ? accepted
          : rejected(`${name} holds no ready workers to run its command on; ${howToGetWorkers(job)}`);
      }
      if (job.finish === null || job.finish.verdict === 'stopped') return accepted;
      return rejected(
        `${name} has ${formatVerdict(job.finish.verdict)}; use resume to go on from its last checkpoint, or rerun to begin from the start`,
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
      return rejected(`${name} is over already: it has ${formatVerdict(job.finish.verdict)}, and holds nothing`);
    case 'disable-recovery':
      if (job.finish === null && job.desired === 'running') return accepted;
      return rejected(`${name} is over or being ended, and no rule starts it again`);
    case 'accept-exit':
      return hasUnjudgedExit(job) ? accepted : rejected(`${name} has no end that waits to be judged`);
    case 'delete':
      return accepted;
  }
}

function hasUnjudgedExit(job: Job): boolean {
  const attempt = openAttempt(job);
  return attempt?.exitSeen !== undefined && attempt.ending === null;
}

/** The command that requests workers for a job without any. `start` is not accepted after a job ended by itself. */
function howToGetWorkers({ finish }: Job): string {
  if (finish === null || finish.verdict === 'stopped') return 'start brings some up first';
  return `it has ${formatVerdict(finish.verdict)}, and resume or rerun brings some up, with its setup`;
}

function isDesiredRunning(job: Job): boolean {
  return job.desired === 'running' && job.finish === null;
}

function alreadyActiveMessage(name: string, phase: string): string {
  return phase === 'queued' ? `${name} is queued already` : `${name} is under way already (${phase})`;
}

function heldCapacityMessage(job: Job): string {
  const held = heldAllocations(job);
  if (held.length === 0) return ', and holds nothing';
  const isReleasing = held.every((allocation) => allocation.releasedAt !== null);
  return isReleasing ? ', and what it held is being let go' : '; stop --release lets go of what it holds';
}

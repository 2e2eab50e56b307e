// Losses: the work and the capacity that a command gives up, for the question before the command. The same facts as in `show`.

import type { JobView } from './client.ts';
import type { PerformedCommand } from './command-steps.ts';
import { capacityPhrases, formatHourlyCost } from './phrases.ts';
import { formatDuration, formatMachine } from './format.ts';
import type { Instant } from '../core/model/time.ts';

type Subject = Pick<
  JobView,
  | 'accelerator'
  | 'allocations'
  | 'attempts'
  | 'backend'
  | 'checkpoint'
  | 'hosts'
  | 'pricePerHourUsd'
  | 'simulated'
  | 'spec'
>;

/** The consequence of each `delete`. */
export const keptFiles = 'The job leaves the list. Its history and logs are kept until its files are removed.';

/** Sentences; none for a command that ends nothing and gives nothing up. */
export function commandLosses(view: Subject, command: PerformedCommand, now: Instant): readonly string[] {
  switch (command) {
    case 'stop':
      return [...workLoss(view, now), ...keptCapacity(view)];
    case 'cancel':
      return [...workLoss(view, now), ...releasedCapacity(view)];
    case 'delete':
      return [...workLoss(view, now), ...releasedCapacity(view), keptFiles];
    case 'clean':
      return ['Its logs and files are removed and cannot be restored.'];
    case 'disable-recovery':
      return ['This attempt becomes the last one: no rule continues the job after a preemption or a failure.'];
    case 'accept-exit':
      return ['jobman does not wait for the report of the cloud: a preemption may count as a failure.'];
    case 'start':
    case 'resume':
    case 'rerun':
      return [];
  }
}

function workLoss({ attempts, checkpoint, spec }: Subject, now: Instant): readonly string[] {
  const attempt = attempts.findLast(({ endedAt }) => endedAt === null);
  if (attempt === undefined || attempt.startedAt === null || attempt.endingAt !== null) return [];
  const ran = formatDuration(now - attempt.startedAt);
  if (checkpoint !== null && checkpoint.savedAt >= attempt.startedAt)
    return [
      `Its program ends. ${formatDuration(now - checkpoint.savedAt)} of work is lost: the newest checkpoint is ${checkpoint.name}.`,
    ];
  if (checkpoint !== null || spec.command.checkpointDir === null)
    return [`Its program ends. ${ran} of work is lost: attempt ${attempt.attempt} has saved no checkpoint.`];
  return [
    `Its program ends after ${ran}. Work since its newest checkpoint is lost; this machine does not know the age of that checkpoint.`,
  ];
}

/** The ephemeral allocations that the job holds or has requested. */
function ownCapacity({ allocations }: Subject): Subject['allocations'] {
  return allocations.filter(
    ({ ownership, state, requestedAt, releasedAt, goneAt }) =>
      ownership === 'ephemeral' &&
      state !== 'refused' &&
      requestedAt !== null &&
      releasedAt === null &&
      goneAt === null,
  );
}

function keptCapacity(view: Subject): readonly string[] {
  const own = ownCapacity(view);
  if (own.length === 0 || !capacityPhrases[view.backend].hasCloud) return [];
  if (own.every(({ readyAt }) => readyAt === null)) return releasedCapacity(view);
  const cost = view.pricePerHourUsd === null ? '' : ` and costs ${formatHourlyCost(view, view.pricePerHourUsd)}`;
  return [`Its ${formatMachine(view)} is kept${cost} until it is released.`];
}

function releasedCapacity(view: Subject): readonly string[] {
  const own = ownCapacity(view);
  if (own.length === 0 || !capacityPhrases[view.backend].hasCloud) return [];
  return own.every(({ readyAt }) => readyAt === null)
    ? [`The request for its ${formatMachine(view)} is withdrawn. A new request begins at the end of the cloud's queue.`]
    : [`Its ${formatMachine(view)} is released. The same capacity may not come back.`];
}

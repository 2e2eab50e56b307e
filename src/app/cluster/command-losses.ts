// Losses: what a command on a job in a cluster gives up, for the question before the command.

import type { PerformedCommand } from '../command-steps.ts';
import { keptFiles } from '../command-losses.ts';
import type { ClusterJobView } from './job-view.ts';

type Subject = Pick<ClusterJobView, 'archivedAt' | 'job' | 'zone'>;

/** Sentences; none for a command that ends nothing and gives nothing up. */
export function clusterCommandLosses(view: Subject, command: PerformedCommand): readonly string[] {
  switch (command) {
    case 'stop':
      return [...workLoss(view), 'Its nodes are free for other jobs, so a later start may have to wait.'];
    case 'cancel':
      return [...workLoss(view), ...removal(view)];
    case 'delete':
      // Of a job that its cluster no longer has, only the copy leaves the list.
      return view.archivedAt === null ? [...workLoss(view), ...removal(view)] : [keptFiles];
    case 'clean':
      return ['Its logs and its history are removed and cannot be restored.'];
    case 'start':
    case 'resume':
    case 'rerun':
    case 'disable-recovery':
    case 'accept-exit':
      return [];
  }
}

function workLoss({ archivedAt, job: { active } }: Subject): readonly string[] {
  if (archivedAt !== null || active === 0) return [];
  const pods = active === 1 ? 'Its pod ends' : `Its ${active} pods end`;
  return [`${pods}. The work since the newest checkpoint of its program is lost.`];
}

function removal({ archivedAt, job: { installation }, zone }: Subject): readonly string[] {
  if (archivedAt !== null) return [];
  const copies =
    installation === null
      ? 'Its logs are lost, because jobman archives only the jobs that it has submitted.'
      : 'Only the logs that jobman has archived are kept.';
  return [`The Job and its pods are deleted from ${zone}. ${copies}`];
}

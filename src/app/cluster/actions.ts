// Actions: the commands that apply to a cluster job, or to one of which only the archive has a copy. commands.ts decides
// about the state of a job that its cluster has.

import {
  answerEach,
  checkClusterPermission,
  checkCopyPermission,
  type ActionAnswer,
  type JobActions,
  type JobCommand,
} from '../../core/policy/permissions.ts';
import type { Actor } from '../../core/model/user.ts';
import { capitalize } from '../format.ts';
import { cleanProblem } from './archive.ts';
import type { ClusterRecord } from './cluster-record.ts';
import { checkClusterCommand, type ClusterCommandCheck } from './commands.ts';
import { ownerLabels } from './job-object.ts';

/** `problem` is a whole sentence: the reason of the permission, or of the state of the job. */
export function checkCopy(record: ClusterRecord, command: JobCommand, actor: Actor) {
  const isOfCopy = command === 'clean' || command === 'delete';
  // In the cluster, its own permissions decide.
  const check = isOfCopy ? checkCopyPermission(record.job, command, actor, ownerLabels(actor)) : null;
  if (check !== null && check.answer !== 'allow')
    return { cause: check.cause, problem: `${capitalize(check.message)}.` };
  return { cause: 'state' as const, problem: copyProblem(record, command) };
}

/** The reason against a command for a job that its cluster no longer has; null if there is none. */
function copyProblem({ job: { name }, archived, cluster }: ClusterRecord, command: JobCommand): string | null {
  if (command === 'clean') return archived === null ? null : cleanProblem(archived);
  if (command === 'delete')
    return cluster === null ? `Job ${name} cannot be deleted: its cluster cannot be reached.` : null;
  if (command === 'rerun' && cluster !== null)
    return archived?.object === null ? `jobman has no copy of the Job ${name}, so it cannot be run again.` : null;
  return `Job ${name} is not in its cluster, so there is nothing to ${command}.`;
}

/** The state of a job that its cluster has. */
export function checkLive({ found, job }: ClusterRecord, command: JobCommand): ClusterCommandCheck {
  const { name } = job;
  switch (command) {
    case 'delete':
      return { kind: 'allowed' };
    case 'disable-recovery':
    case 'accept-exit':
    case 'setup': {
      const message = `Job ${name} is in a cluster, which has no recovery rules and no setup steps of jobman.`;
      return { kind: 'refused', message };
    }
    case 'clean': {
      // The controller would archive the job again.
      const kept = `Job ${name} is still in ${found.cluster?.context}/${job.namespace}, so its logs are kept`;
      return { kind: 'refused', message: `${kept}; jobman delete ${name} removes it there first.` };
    }
    default:
      return checkClusterCommand(job, command);
  }
}

/** Implements `JobSource.actions`. A server has permissions of its own; otherwise those of the kubeconfig decide. */
export function clusterActions(record: ClusterRecord, actor: Actor): JobActions {
  const owners = ownerLabels(actor);
  return answerEach((command) => {
    const permitted: ActionAnswer =
      record.cluster?.server === undefined
        ? { answer: 'allow' }
        : checkClusterPermission(record.job, command, actor, owners);
    if (permitted.answer === 'deny') return permitted;
    const check = checkLive(record, command);
    const live = check.kind === 'allowed' ? null : check.message;
    const copy = record.archived === null ? null : checkCopy(record, command, actor);
    const message = copy === null ? live : copy.problem;
    if (message === null) return permitted;
    return { answer: 'deny', cause: copy?.cause ?? 'state', message: message.replace(/\.$/, '') };
  });
}

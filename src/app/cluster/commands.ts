// Commands on a cluster job. The cluster's own fields do the work: stop sets `suspend`, start clears it, rerun creates
// a new Job of the same spec. Values in, values out.

import type { V1Job } from '@kubernetes/client-node';
import { formatVerdict } from '../../core/model/job.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { ClusterContext } from './cluster.ts';
import type { ClusterJob } from './objects.ts';
import { ownLabels, type Submitter, withoutClusterKeys } from './job-object.ts';
import { clusterPhase } from './job-result.ts';

/** The submissions with the user's kubeconfig. Every method may throw StoreError. */
export interface ClusterSubmissions {
  /** True if a job was ever submitted from here; otherwise the archive has no job. Reads one file. */
  readonly isUsed: boolean;
  /** Call it before a submission; the database then stays open until `recordSubmitted` or `close`. */
  registerContext(context: ClusterContext): Promise<string>;
  /** Loads the code for `recordSubmitted` while the cluster works. Never rejects. */
  preload(): Promise<void>;
  /** Stores the submission and starts the controller if none runs. Returns a message for the user, or null. */
  recordSubmitted(context: ClusterContext, created: V1Job): Promise<string | null>;
  close(): Promise<void>;
  wake(): Promise<string | null>;
}

export type ClusterVerb = 'stop' | 'start' | 'resume' | 'rerun' | 'cancel';

export type ClusterCommandCheck =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'already_done'; readonly message: string }
  | { readonly kind: 'refused'; readonly message: string };

const allowed: ClusterCommandCheck = { kind: 'allowed' };

/** Messages begin with the job's name. */
export function checkClusterCommand(job: ClusterJob, verb: ClusterVerb): ClusterCommandCheck {
  const { name, queueName } = job;
  const phase = clusterPhase(job);
  const refused = (message: string): ClusterCommandCheck => ({ kind: 'refused', message: `Job ${name} ${message}.` });
  const done = (message: string): ClusterCommandCheck => ({ kind: 'already_done', message: `Job ${name} ${message}.` });
  const hasEnded = phase === 'succeeded' || phase === 'failed';
  if (job.deleting && verb !== 'rerun')
    return verb === 'cancel' ? done('is already being deleted') : refused('is being deleted');
  switch (verb) {
    case 'stop':
      if (hasEnded) return refused(`has already ${formatVerdict(phase)}`);
      if (job.suspended && phase === 'stopping') return done('is already being stopped: its pods are terminating');
      if (job.suspended)
        return done(queueName === null ? 'is already stopped' : `is already stopped, in the queue ${queueName}`);
      return allowed;
    case 'start':
    case 'resume':
      if (hasEnded) return refused(`has already ${formatVerdict(phase)}; use rerun to start over`);
      if (!job.suspended) return refused(`is already active (${phase})`);
      // The queue itself resumes an admitted job; to resume it here would bypass all other jobs.
      if (queueName !== null) return refused(`waits in the queue ${queueName} until the queue admits it`);
      return allowed;
    case 'rerun':
      return hasEnded || job.suspended || job.deleting
        ? allowed
        : refused(`is already active (${phase}); stop or cancel it first`);
    case 'cancel':
      return hasEnded
        ? refused(`has already ${formatVerdict(phase)}; use delete to remove it from the cluster`)
        : allowed;
  }
}

const rerunAnnotation = 'jobman/rerun-of';

/** Names for reruns: `train-2`, `train-3`, …; a rerun of a rerun counts from the first job. */
export function rerunNames(job: V1Job): readonly string[] {
  const first = job.metadata?.annotations?.[rerunAnnotation] ?? job.metadata?.name ?? '';
  return Array.from({ length: maxReruns }, (_, index) => {
    const end = `-${index + 2}`;
    return `${first.slice(0, 63 - end.length)}${end}`;
  });
}

const maxReruns = 99;

export function rerunObject(job: V1Job, name: string, by: Pick<Submitter, 'owner' | 'installation'>): V1Job {
  const { metadata = {}, spec } = job;
  const labels = (entries: Readonly<Record<string, string>> | undefined): Record<string, string> => ({
    ...withoutClusterKeys(entries),
    ...ownLabels(name, by),
  });
  const {
    selector: _selector,
    manualSelector: _manual,
    suspend: _suspend,
    template,
    ...rest
  } = spec ?? { template: {} };
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name,
      labels: labels(metadata.labels),
      annotations: {
        ...withoutClusterKeys(metadata.annotations),
        [rerunAnnotation]: metadata.annotations?.[rerunAnnotation] ?? metadata.name ?? '',
      },
    },
    spec: {
      ...rest,
      template: {
        ...(template.spec === undefined ? {} : { spec: template.spec }),
        metadata: {
          ...omitUndefined({ annotations: template.metadata?.annotations }),
          labels: labels(template.metadata?.labels),
        },
      },
    },
  };
}

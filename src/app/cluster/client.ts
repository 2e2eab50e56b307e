// Client: what people may say to a job of a cluster, and what each word means there. The cluster's own switches do the work:
// stop is `suspend`, start takes that back, rerun makes a new Job of the same spec. Values in, values out.

import type { V1Job } from '@kubernetes/client-node';
import { hasEnded } from '../../core/job.ts';
import { given } from '../../core/given.ts';
import type { ClusterJob, ClusterPlace } from './cluster.ts';
import { ownLabels, type Submitter, withoutCluster } from './job-object.ts';
import type { ClusterMoment, KeptJob, KeptLog, KeptQuery } from './kept.ts';
import { clusterPhase } from './verdict.ts';

interface KeptLogFile extends KeptLog {
  readonly path: string;
}

/** The archive of cluster jobs on this machine, for commands. Every method may throw StoreError. */
export interface ClusterKeeper {
  /** Whether anything was ever submitted from here. Looks at one file; where it is false the others find nothing. */
  readonly isUsed: boolean;
  /**
   * Before a job is submitted there: the record exists, and the controller will look after that place. Answers the mark of the
   * record, by which its jobs are known. The record stays open for `submitted`, without a transaction, until that or `close`.
   */
  begin(place: ClusterPlace): Promise<string>;
  /** Loads what `submitted` needs, while the cluster is thinking. Never rejects. */
  prepare(): Promise<void>;
  /** That was submitted. Starts the controller where none runs; answers what is to be said of it, if anything. */
  submitted(place: ClusterPlace, made: V1Job): Promise<string | null>;
  /** Lets go of what `begin` has left open; does nothing where that is done. */
  close(): Promise<void>;
  /** The controller deserves to look now, as `submitted` does it. */
  wake(): Promise<string | null>;
  /** Newest first. */
  jobs(query: KeptQuery): Promise<readonly KeptJob[]>;
  job(uid: string): Promise<KeptJob | undefined>;
  /** Oldest first. */
  moments(uid: string): Promise<readonly ClusterMoment[]>;
  /** All copies of that job's logs that have a file, also those of which the record does not know yet. */
  logs(job: KeptJob): Promise<readonly KeptLogFile[]>;
  /** Writes into its history, where it is kept, that this user deletes it. */
  deleted(uid: string): Promise<void>;
  /** Takes it off the list, where it is kept; its logs and history answer to its name until they are cleaned. */
  hide(uid: string): Promise<void>;
  /** Removes its logs and all that is known of it. */
  drop(job: KeptJob): Promise<void>;
}

export type ClusterVerb = 'stop' | 'start' | 'resume' | 'rerun' | 'cancel';

/** `done`: it is so already. */
export type ClusterCan =
  | { readonly kind: 'yes' }
  | { readonly kind: 'done'; readonly sentence: string }
  | { readonly kind: 'no'; readonly sentence: string };

const yes: ClusterCan = { kind: 'yes' };

/** Whether that word means anything to that job as it is; sentences begin with its name. */
export function clusterCan(job: ClusterJob, verb: ClusterVerb): ClusterCan {
  const { name, queueName } = job;
  const phase = clusterPhase(job);
  const no = (told: string): ClusterCan => ({ kind: 'no', sentence: `${name} ${told}.` });
  const done = (told: string): ClusterCan => ({ kind: 'done', sentence: `${name} ${told}.` });
  const isOver = phase === 'succeeded' || phase === 'failed';
  if (job.deleting && verb !== 'rerun')
    return verb === 'cancel' ? done('is being deleted already') : no('is being deleted');
  switch (verb) {
    case 'stop':
      if (isOver) return no(`is not running: it has ${hasEnded(phase)}`);
      if (job.suspended && phase === 'stopping') return done('is being stopped already; its pods are terminating');
      if (job.suspended)
        return done(queueName === null ? 'is stopped already' : `waits in the queue ${queueName}, stopped`);
      return yes;
    case 'start':
    case 'resume':
      if (isOver) return no(`has ${hasEnded(phase)}; rerun begins it anew`);
      if (!job.suspended) return no(`is under way already (${phase})`);
      // The queue itself resumes a job that it admits; resuming it here would bypass all other jobs.
      if (queueName !== null) return no(`waits in the queue ${queueName}, which admits it in its turn`);
      return yes;
    case 'rerun':
      return isOver || job.suspended || job.deleting
        ? yes
        : no(`is under way already (${phase}); stop or cancel it first`);
    case 'cancel':
      return isOver ? no(`is over already: it has ${hasEnded(phase)}; delete takes it out of the cluster`) : yes;
  }
}

const rerunKey = 'jobman/rerun-of';

/** Names for repetitions of that job: `train-2`, `train-3`, …; of a repetition those of the first. */
export function rerunNames(job: V1Job): readonly string[] {
  const first = job.metadata?.annotations?.[rerunKey] ?? job.metadata?.name ?? '';
  return Array.from({ length: rerunsMost }, (_, index) => {
    const end = `-${index + 2}`;
    return `${first.slice(0, 63 - end.length)}${end}`;
  });
}

const rerunsMost = 99;

/** A Job of the same spec under another name, as it would be submitted: without all that the cluster has put in. */
export function rerunObject(job: V1Job, name: string, by: Pick<Submitter, 'owner' | 'installation'>): V1Job {
  const { metadata = {}, spec } = job;
  const labels = (words: Readonly<Record<string, string>> | undefined): Record<string, string> => ({
    ...withoutCluster(words),
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
        ...withoutCluster(metadata.annotations),
        [rerunKey]: metadata.annotations?.[rerunKey] ?? metadata.name ?? '',
      },
    },
    spec: {
      ...rest,
      template: {
        ...(template.spec === undefined ? {} : { spec: template.spec }),
        metadata: {
          ...given({ annotations: template.metadata?.annotations }),
          labels: labels(template.metadata?.labels),
        },
      },
    },
  };
}

// Job file: a whole Job object that a person wrote, as it is submitted. The spec stays theirs; jobman adds the labels by which it
// finds the job again, and what the command line says about the job as a whole.

import type { V1Job } from '@kubernetes/client-node';
import { given } from '../../core/given.ts';
import { isQualifiedName, readJobName } from '../../manifest/kubernetes-words.ts';
import { exitCode, JobmanError } from '../errors.ts';
import { isWrittenByCluster } from './client.ts';
import { annotationsOf, clusterLabels, ownLabels, wholeSeconds, type Submitter } from './job-object.ts';
import type { ClusterSettings } from './settings.ts';
import { isOwnLabel, type SubmitWishes } from './submit-request.ts';

/** The part of a request that the command line may set for a job whose spec is in a file. */
export type JobFileWishes = Pick<
  SubmitWishes,
  'name' | 'namespace' | 'context' | 'annotations' | 'labels' | 'ttl' | 'suspend' | 'queue'
>;

/** The name of the job: that of the flags, else that of the file, else a new one. Throws JobmanError (usage) for an invalid one. */
export function jobFileName(job: V1Job, wishes: JobFileWishes, freshName: string): string {
  const { name, generateName } = job.metadata ?? {};
  const fresh = generateName === undefined ? freshName : `${generateName}${freshName.slice(-8)}`;
  const chosen = wishes.name ?? name ?? fresh;
  const read = readJobName(chosen);
  if ('value' in read) return chosen;
  throw new JobmanError(
    `The name "${chosen}" ${read.wrong}${read.meant === undefined ? '.' : `; did you mean ${read.meant}?`}`,
    exitCode.usage,
  );
}

/** Throws JobmanError (usage) for labels and annotations that are not the file's to write. */
export function checkJobFile(job: V1Job, wishes: JobFileWishes): void {
  const labels = { ...job.spec?.template.metadata?.labels, ...job.metadata?.labels, ...wishes.labels };
  const own = Object.keys(labels).filter(isOwnLabel);
  // A file that was printed by `submit --dry-run` or read from a cluster has ours.
  const strange = Object.keys(wishes.labels ?? {}).filter(isOwnLabel);
  if (strange[0] !== undefined) {
    throw new JobmanError(`The label ${strange[0]} is written by jobman itself; choose another key.`, exitCode.usage);
  }
  const wrong = Object.keys(labels).find((key) => !own.includes(key) && !isQualifiedName(key));
  if (wrong !== undefined) throw new JobmanError(`The label "${wrong}" has an invalid key.`, exitCode.usage);
}

/** The object to create. What a cluster has added to it, where it was read from one, is left out. */
export function jobFromFile(
  job: V1Job,
  name: string,
  wishes: JobFileWishes,
  settings: ClusterSettings,
  submitter: Submitter,
): V1Job {
  const { metadata = {}, spec } = job;
  const { selector, template, ...rest } = spec ?? { template: {} };
  const own = ownLabels(name, submitter);
  const kept = (words: Readonly<Record<string, string>> = {}): Record<string, string> =>
    Object.fromEntries(Object.entries(words).filter(([key]) => !isWrittenByCluster(key)));
  const annotations = {
    ...annotationsOf(settings.job.annotations, submitter.env),
    ...kept(metadata.annotations),
    ...wishes.annotations,
  };
  const { ttl, suspend, queue } = wishes;
  const { ttlSecondsAfterFinished, ...withoutTtl } = rest;
  const seconds = ttl === undefined ? ttlSecondsAfterFinished : ttl === 'none' ? undefined : wholeSeconds(ttl);
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name,
      ...given({
        namespace: wishes.namespace ?? metadata.namespace,
        finalizers: metadata.finalizers,
        ownerReferences: metadata.ownerReferences,
      }),
      labels: {
        ...kept(metadata.labels),
        ...wishes.labels,
        ...own,
        ...(queue === undefined ? {} : { [clusterLabels.queue]: queue }),
      },
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    },
    spec: {
      ...withoutTtl,
      ...given({ ttlSecondsAfterFinished: seconds, suspend: suspend ?? rest.suspend }),
      // Without manualSelector the cluster chooses the selector, and refuses one that it did not choose.
      ...(rest.manualSelector === true ? given({ selector }) : {}),
      template: {
        // As objects: their fields are kept also where the types of the library do not know them, for the cluster to judge.
        ...(template as object),
        metadata: {
          ...(template.metadata as object | undefined),
          labels: { ...kept(template.metadata?.labels), ...wishes.labels, ...own },
        },
      },
    },
  };
}

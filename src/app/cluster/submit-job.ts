// Creates a Job in its cluster, with the Secret of its values.

import type { V1Job } from '@kubernetes/client-node';
import { JobmanError } from '../errors.ts';
import { identityOf, type Cluster } from './cluster.ts';
import { replacedResources } from './job-object.ts';
import type { SecretData } from './job-secrets.ts';
import { replacedResourcesAnnotation } from './job-view.ts';

/** `data` has the values of the job's secrets; null without any. Returns the Job as the cluster completed it. */
export async function submitJob(
  cluster: Cluster,
  job: V1Job,
  data: SecretData | null,
  options: { readonly signal?: AbortSignal } = {},
): Promise<V1Job> {
  if (cluster.server !== undefined) return cluster.server.submit(job, data, options);
  const made = await create(cluster, job, data, options);
  const replaced = replacedResources(job, made);
  if (replaced.length > 0) await annotateReplaced(cluster, made, replaced.join('; '));
  return made;
}

/** Most jobs have no secrets, and do without the code for them. */
async function create(
  cluster: Cluster,
  job: V1Job,
  data: SecretData | null,
  options: { readonly signal?: AbortSignal },
): Promise<V1Job> {
  if (data === null) return cluster.create(job, options);
  const { createWithSecrets } = await import('./job-secrets.ts');
  return createWithSecrets(cluster, job, data, options);
}

/** Lets every user see the text in `show`. Without the permission to change Jobs, only the submitting user has seen it. */
async function annotateReplaced(cluster: Cluster, made: V1Job, text: string): Promise<void> {
  const annotations = { [replacedResourcesAnnotation]: text };
  try {
    await cluster.patch(identityOf(made), { metadata: { annotations } });
    if (made.metadata !== undefined) made.metadata.annotations = { ...made.metadata.annotations, ...annotations };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
  }
}

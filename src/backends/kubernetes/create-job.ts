// Create job: a Job is created once, also if the reply is lost.

import type { V1Job } from '@kubernetes/client-node';
import { clusterLabels } from '../../app/cluster/job-object.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { ageText } from '../../app/figures.ts';
import { second, type Duration, type Instant } from '../../core/time.ts';
import { NoReply } from '../../http/reply.ts';
import { readJob, type RawJob } from './objects.ts';
import { findJob, jobsPath, type Scope } from './scope.ts';
import { ClusterRefusal } from './status.ts';

/** How often a creation is asked for whose reply was lost. */
const createTries = 3;
/** The cluster's clock may go a little behind ours. */
const clocksDiffer: Duration = 10 * second;

/** Cluster.create. */
export async function createJob(
  scope: Scope,
  job: V1Job,
  { dryRun = false, signal }: { readonly dryRun?: boolean; readonly signal?: AbortSignal } = {},
): Promise<V1Job> {
  const name = job.metadata?.name ?? '';
  const began = scope.now();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await scope.api.ask<V1Job>({
        method: 'POST',
        path: jobsPath(scope),
        query: { dryRun: dryRun ? 'All' : undefined, fieldValidation: 'Strict' },
        body: job,
        signal,
        what: `create the job ${name}`,
      });
    } catch (error) {
      if (!(error instanceof JobmanError) || dryRun) throw error;
      const status = error instanceof ClusterRefusal ? error.status : undefined;
      if (status?.reason === 'AlreadyExists') throw await taken(scope, name, error as ClusterRefusal);
      if (status !== undefined && status.code < 500) throw error;
      if (error.cause instanceof NoReply && !error.cause.wasSent) throw notSubmitted(error);
      // It may have been done and the reply lost. A look tells, and only what is seen not to be there is asked for again.
      const there = await findJob(scope, name, signal).catch(() => undefined);
      if (there === undefined) throw error;
      if (there !== null && isOwn(scope, there, began, job)) return there as object as V1Job;
      if (there !== null || attempt >= createTries) throw error;
    }
  }
}

/** Whether that is the Job that was asked for: it was created since then, has our labels, and runs the same. */
function isOwn({ flavorKey }: Scope, there: RawJob, began: Instant, asked: V1Job): boolean {
  const made = there as object as V1Job;
  const ours = [clusterLabels.owner, clusterLabels.installation, clusterLabels.job];
  const hasOurs = ours.every((label) => made.metadata?.labels?.[label] === asked.metadata?.labels?.[label]);
  const words = (job: V1Job): string => {
    const [container] = job.spec?.template.spec?.containers ?? [];
    return JSON.stringify([container?.image, container?.command, container?.args]);
  };
  const isNew = readJob(there, flavorKey).createdAt >= began - clocksDiffer;
  return made.metadata?.name === asked.metadata?.name && hasOurs && isNew && words(made) === words(asked);
}

/** The request never left this machine, so there is nothing to be searched for. */
function notSubmitted(error: JobmanError): JobmanError {
  return new JobmanError(error.message, error.code, [...error.lines, 'Nothing was submitted.'], { cause: error.cause });
}

async function taken(scope: Scope, name: string, refusal: ClusterRefusal): Promise<JobmanError> {
  const there = await findJob(scope, name);
  if (there === null) return refusal;
  const { createdAt, deleting, owner } = readJob(there, scope.flavorKey);
  const where = `${scope.place.context}/${scope.place.namespace}`;
  const who = owner === null ? '' : ` by ${owner}`;
  const free = await freeName(scope, name);
  return new JobmanError(
    `The name ${name} is taken in ${where}: a job of that name was created ${ageText(scope.now() - createdAt)} ago${who}${deleting ? ' and is being deleted' : ''}. Nothing was submitted.`,
    exitCode.conflict,
    [
      free === undefined
        ? 'Without a name the job gets a new one.'
        : `-j ${free} is free, or that name in the manifest; without a name the job gets a new one.`,
    ],
  );
}

/** A name nobody has, near the one that is taken. */
async function freeName(scope: Scope, name: string): Promise<string | undefined> {
  for (let number = 2; number < 10; number += 1) {
    const other = `${name.slice(0, 61)}-${number}`;
    if ((await findJob(scope, other)) === null) return other;
  }
  return undefined;
}

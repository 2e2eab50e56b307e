// Performs the owner's commands on a cluster job, or on one of which only the archive has a copy. commands.ts decides
// whether a command applies.

import type { V1Job } from '@kubernetes/client-node';
import { checkCopyPermission } from '../../core/policy/permissions.ts';
import { type Duration, second } from '../../core/model/time.ts';
import { pause } from '../concurrency.ts';
import { exitCode, JobmanError, usageError } from '../errors.ts';
import type { CommandStep, PerformedCommand, PerformOptions } from '../command-steps.ts';
import type { Client } from '../client.ts';
import { checkCopy, checkLive } from './actions.ts';
import { replacedError, type Cluster, type ClusterRemoval, type JobIdentity } from './cluster.ts';
import { type ClusterSubmissions, rerunNames, rerunObject } from './commands.ts';
import { beginArchive, reportArchiveStart } from './begin-archive.ts';
import { clusterLabels, ownerLabels } from './job-object.ts';
import { createWithSecrets, dataForRerun, jobSecretsOf, namedData, withOtherSecret } from './job-secrets.ts';
import { absentError, archivedJobs, type ClusterRecord, type ClusterParts } from './cluster-record.ts';
import { podsOf } from './observe-job.ts';

const copyTimeout: Duration = 20 * second;
const pollInterval: Duration = 0.25 * second;

type Steps = AsyncGenerator<CommandStep, void>;

interface Target {
  readonly parts: ClusterParts;
  readonly submissions: ClusterSubmissions;
  readonly record: ClusterRecord;
  readonly signal: AbortSignal | undefined;
}

export async function* performOnCluster(
  parts: ClusterParts,
  record: ClusterRecord,
  command: PerformedCommand,
  options: PerformOptions,
): Steps {
  const { signal, budgetUsd } = options;
  const { name } = record.job;
  if (budgetUsd !== undefined)
    throw usageError(`Job ${name} runs in a cluster, where jobman enforces no budget. Remove --budget.`);
  const { server } = record.cluster ?? {};
  if (server !== undefined) return yield* server.perform(record.job, command, options);
  const submissions = await parts.clusterSubmissions();
  const target: Target = { parts, submissions, record, signal };
  if (record.archived !== null) return yield* performOnCopy(target, command);
  const { cluster, job } = record;
  if (cluster === null) throw new Error(`job ${name} was found without a cluster`);
  if (command === 'delete') return yield* removeJob(target, cluster, command);
  const check = checkLive(record, command);
  if (check.kind === 'refused') return yield refused(name, check.message);
  if (check.kind === 'already_done') return yield done(name, check.message);
  switch (command) {
    case 'stop':
      await cluster.patch(job, { spec: { suspend: true } });
      yield* wakeForArchive(target);
      return yield done(name, formatStopped(record));
    case 'start':
    case 'resume': {
      const end = yield* waitForStoppedPods(target, cluster);
      if (end !== null) return yield end;
      const secrets = jobSecretsOf(await objectOf(cluster, job));
      if (secrets !== null) {
        const named = await namedData(parts, secrets, await isOwn(parts, job.owner));
        if (Object.keys(named).length > 0) await cluster.patchSecret(secrets.name, job, named);
      }
      await cluster.patch(job, { spec: { suspend: false } });
      yield* wakeForArchive(target);
      return yield done(name, `Job ${name} is started with new pods; its program finds its own checkpoint.`);
    }
    case 'cancel':
      return yield* removeJob(target, cluster, command);
    default:
      return yield* rerun(target, cluster, await objectOf(cluster, job));
  }
}

async function objectOf(cluster: Cluster, { name, uid }: JobIdentity): Promise<V1Job> {
  const object = await cluster.raw(name);
  if (object === null) throw new JobmanError(`Job ${name} was deleted meanwhile.`, exitCode.notFound);
  if (object.metadata?.uid !== uid) throw replacedError(name);
  return object;
}

async function isOwn(parts: Pick<ClusterParts, 'client'>, owner: string | null): Promise<boolean> {
  return owner !== null && ownerLabels(await (await parts.client()).whoAmI()).includes(owner);
}

function done(id: string, message: string): CommandStep {
  return { kind: 'result', id, ok: true, message, exitCode: exitCode.ok };
}

function refused(id: string, message: string, code: number = exitCode.conflict): CommandStep {
  return { kind: 'result', id, ok: false, message, exitCode: code };
}

function interrupted(id: string, message: string): CommandStep {
  return refused(id, message, exitCode.interrupted);
}

/** A function, because the value changes while the command waits. */
function hasLeft(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

function progress(message: string): CommandStep {
  return { kind: 'progress', message };
}

function formatStopped({ job: { name, active, terminating = 0 } }: ClusterRecord): string {
  const back = `Start it again: jobman start ${name}`;
  const count = active + terminating;
  if (count === 0) return `Job ${name} is stopped: it has no pods, and it holds nothing. ${back}`;
  const pods = count === 1 ? 'its pod is' : `its ${count} pods are`;
  return `Job ${name} is being stopped: ${pods} terminating, which may take half a minute. ${back}`;
}

/**
 * Waits until no earlier pod of the job runs, so that two of its programs never run at once. Returns a result if there is
 * nothing left to start. Throws JobmanError (not found) for a deleted job.
 */
async function* waitForStoppedPods(
  { record: { job }, signal }: Target,
  cluster: Cluster,
): AsyncGenerator<CommandStep, CommandStep | null> {
  const { name, uid } = job;
  for (let round = 0; ; round += 1) {
    const pods = await podsOf(cluster, job);
    const live = pods.flatMap((pod) => (pod.phase === 'Succeeded' || pod.phase === 'Failed' ? [] : [pod.name]));
    if (live.length === 0) return null;
    if (round === 0) yield progress(`${name}: waiting until its stopped pods are deleted: ${live.join(', ')}.`);
    await pause(pollInterval, signal);
    if (hasLeft(signal))
      return interrupted(name, `Interrupted before the stopped pods of ${name} were deleted; it was not started.`);
    const now = await cluster.job(name);
    if (now === null || now.uid !== uid || now.deleting)
      throw new JobmanError(`Job ${name} was deleted meanwhile; it was not started.`, exitCode.notFound);
    if (!now.suspended) return done(name, `Job ${name} was started meanwhile by another command.`);
  }
}

async function* rerun({ parts, submissions }: Target, cluster: Cluster, object: V1Job): Steps {
  const context = cluster.context();
  const before = object.metadata?.name ?? '';
  try {
    const { installation, isArchived, note } = await beginArchive(parts, submissions, context);
    if (note !== null) yield progress(note);
    const [owner = ''] = ownerLabels(await (await parts.client()).whoAmI());
    const secrets = jobSecretsOf(object);
    const isOwner = await isOwn(parts, object.metadata?.labels?.[clusterLabels.owner] ?? null);
    const data =
      secrets === null ? null : await dataForRerun(cluster, secrets, await namedData(parts, secrets, isOwner));
    for (const name of rerunNames(object)) {
      // A name that the archive has would then mean two jobs.
      if (
        (await cluster.job(name)) !== null ||
        (await archivedJobs(parts, { name, namespace: context.namespace })).length > 0
      )
        continue;
      const next = rerunObject(object, name, { owner, installation });
      const asked = secrets === null ? next : withOtherSecret(next, secrets);
      const made = await createWithSecrets(cluster, asked, data);
      const where = `${context.context}/${context.namespace}`;
      yield done(name, `Job ${name} runs what ${before} ran, from the beginning, in ${where}.`);
      if (isArchived) yield* reportStart(submissions.recordSubmitted(context, made));
      return;
    }
    yield refused(before, `${before} was run again so often that its names are used up; submit it under another.`);
  } finally {
    await submissions.close();
  }
}

/** Deletes the Job once its logs are archived, or after a time limit; `delete` also takes it off the list. */
async function* removeJob(target: Target, cluster: Cluster, verb: 'cancel' | 'delete'): Steps {
  const { parts, record, signal } = target;
  const { name, active } = record.job;
  const { context, namespace } = cluster.context();
  const isArchived = yield* wakeForArchive(target);
  const missing = isArchived ? await logsNotCopied(target, cluster) : [];
  if (hasLeft(signal))
    return yield interrupted(name, `Interrupted while the logs were still being archived; job ${name} did not change.`);
  if (missing.length > 0)
    yield progress(
      `The archive may lack the end of the logs of job ${name}: ${missing.join(', ')} could not be archived in time.`,
    );
  if (active > 0) yield progress(`${name}: its pods are ending; this may take half a minute.`);
  let removal: ClusterRemoval;
  try {
    removal = await cluster.remove(record.job, signal === undefined ? {} : { signal });
  } catch (error) {
    if (!hasLeft(signal)) throw error;
    const next = `See: jobman why ${name}`;
    return yield interrupted(name, `Interrupted before ${name} was deleted; the deletion continues. ${next}`);
  }
  if ((await parts.clusterSubmissions()).isUsed) await noteRemoval(await parts.client(), record.job, removal, verb);
  if (removal === 'absent') return yield done(name, `Job ${name} is no longer in ${context}/${namespace}.`);
  const kept = isArchived ? '; its logs and history are kept' : '';
  const subject = verb === 'cancel' ? `Job ${name} is cancelled: it` : `Job ${name}`;
  yield done(name, `${subject} and its pods are deleted from ${context}/${namespace}${kept}.`);
}

/** In the cluster its own permissions decide, but the copy of another user's job stays in the list of its owner. */
async function noteRemoval(
  client: Client,
  job: ClusterRecord['job'],
  removal: ClusterRemoval,
  verb: 'cancel' | 'delete',
): Promise<void> {
  const actor = await client.whoAmI();
  const may = (operation: 'read' | 'delete') =>
    checkCopyPermission(job, operation, actor, ownerLabels(actor)).answer === 'allow';
  if (removal === 'gone' && may('read')) await client.recordClusterDeletion(job.uid);
  if (verb === 'delete' && may('delete')) await client.hideArchivedJob(job.uid);
}

async function logsNotCopied({ parts, record: { job }, signal }: Target, cluster: Cluster): Promise<readonly string[]> {
  const client = await parts.client();
  const until = parts.io.now() + copyTimeout;
  for (;;) {
    const pods = await podsOf(cluster, job);
    const wanted = pods.flatMap((pod) =>
      pod.containers.flatMap(({ name, state }) => (state === 'waiting' ? [] : [`${pod.name} ${name}`])),
    );
    const files = await client.archivedLogs(job.uid);
    const missing = wanted.filter((one) => !files.some(({ pod, container }) => `${pod} ${container}` === one));
    if (missing.length === 0 || parts.io.now() >= until || hasLeft(signal)) return missing;
    await pause(pollInterval, signal);
  }
}

/** False if the controller cannot archive the result: the command continues without it. */
async function* wakeForArchive({ parts, submissions, record: { job } }: Target): AsyncGenerator<CommandStep, boolean> {
  if (!submissions.isUsed || job.installation === null) return false;
  if (job.installation !== (await (await parts.client()).installationId())) return false;
  const { settings } = await parts.clusterSettings();
  return settings.kubernetes.keepLogs && (yield* reportStart(submissions.wake()));
}

async function* reportStart(message: Promise<string | null>): AsyncGenerator<CommandStep, boolean> {
  const { isStarted, note } = await reportArchiveStart(message);
  if (note !== null) yield progress(note);
  return isStarted;
}

// ------------------------------------------------------------------------------------------ the archive's copy

/** Only `rerun` works for a job that its cluster no longer has, and only if the cluster answers. */
async function* performOnCopy(target: Target, command: PerformedCommand): Steps {
  const { parts, record } = target;
  const { found, archived, cluster, job } = record;
  const { name, uid } = job;
  if (archived === null) throw new Error(`job ${name} is not a copy`);
  const client = await parts.client();
  const { cause, problem } = checkCopy(record, command, await client.whoAmI());
  if (command === 'clean') {
    if (problem !== null)
      return yield refused(name, problem, found.copy?.isCertain === false ? exitCode.unreachable : exitCode.conflict);
    await client.removeArchivedJob(uid);
    return yield done(name, `The logs and history of ${name} are removed.`);
  }
  if (found.copy?.isGone === false) {
    const message = `Nothing changed: ${name} may still run in its cluster. ${found.copy.message}`;
    throw new JobmanError(message, exitCode.unreachable);
  }
  if (command !== 'rerun' && archived.hidden) throw absentError(found);
  if (problem !== null && command === 'delete' && cause === 'state')
    throw new JobmanError(problem, exitCode.unreachable);
  if (problem !== null) return yield refused(name, problem);
  if (command === 'rerun' && cluster !== null && archived.object !== null)
    return yield* rerun(target, cluster, JSON.parse(archived.object) as V1Job);
  await client.hideArchivedJob(uid);
  yield done(name, `Job ${name} left the list. Remove its logs and history too: jobman clean ${name}`);
}

// Either: whether a word means a job of the record or one of a cluster. A name is looked for in the record first; a cluster is
// asked where one is in use, and nothing of Kubernetes is loaded otherwise. What the cluster has forgotten, or cannot tell
// because it is away, is looked for in what is kept here.

import type { Client, Ref } from '../../app/client.ts';
import type { ClusterKeeper } from '../../app/cluster/client.ts';
import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { isKeptOpen, type KeptJob } from '../../app/cluster/kept.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { ageText } from '../../app/figures.ts';
import { given } from '../../core/given.ts';
import { complainAbout, refOfName, whichJob, type Cli } from '../context.ts';
import { within } from './within.ts';

/** Flags of every command that may be about a job of a cluster. */
export interface PlaceFlags {
  readonly namespace: string | undefined;
  readonly context: string | undefined;
}

/** What is done with a job of each kind; each resolves with an exit code. */
export interface Ways {
  readonly record: (client: Client, refs: readonly Ref[]) => Promise<number>;
  readonly cluster: (cluster: Cluster, job: ClusterJob) => Promise<number>;
  /** With one of which only our copy is at hand; without this way it is said what is. */
  readonly kept?: (keeper: ClusterKeeper, job: KeptJob, cluster: Cluster | null) => Promise<number>;
  /** The kept way is for one that was taken off the list too. */
  readonly evenHidden?: true;
}

/** What one word means. */
export type Meaning =
  | { readonly kind: 'record'; readonly ref: Ref }
  | { readonly kind: 'cluster'; readonly job: ClusterJob }
  /** The cluster has forgotten it, or cannot be asked; `note` says which. `isSure`: nothing can have happened to it since. */
  | { readonly kind: 'kept'; readonly job: KeptJob; readonly note: string; readonly isSure: boolean }
  | { readonly kind: 'none'; readonly error: JobmanError };

/** What the words of a command line mean; to be closed after use. */
export interface Meant {
  readonly client: Client;
  /** Null where no cluster is in use, or none can be opened. */
  readonly cluster: Cluster | null;
  readonly keeper: ClusterKeeper;
  readonly meanings: readonly Meaning[];
  close(): Promise<void>;
}

/** Up to six digits are an id of the record, wherever they are not said to be a name. */
const isId = (word: string): boolean => /^\d{1,6}$/.test(word);

/** Flags of a command that takes jobs of either kind. */
type EitherFlags = PlaceFlags & { readonly jobName: string | undefined };

/**
 * Does the one or the other with each job that is named: those of the record together, then those of the cluster. What is
 * nowhere is said, and does not keep the others from theirs. Resolves with the worst exit code.
 */
export async function onEither(cli: Cli, flags: EitherFlags, args: readonly string[], ways: Ways): Promise<number> {
  const meant = await meantBy(cli, flags, args);
  const { client, cluster, keeper, meanings } = meant;
  try {
    let worst: number = exitCode.ok;
    const refs = meanings.flatMap((meaning) => (meaning.kind === 'record' ? [meaning.ref] : []));
    if (refs.length > 0) worst = Math.max(worst, await ways.record(client, refs));
    for (const meaning of meanings) {
      try {
        if (meaning.kind === 'cluster' && cluster !== null) {
          worst = Math.max(worst, await ways.cluster(cluster, meaning.job));
        }
        if (meaning.kind === 'kept') {
          if (ways.kept === undefined || (meaning.job.hidden && ways.evenHidden !== true)) throw onlyKept(meaning);
          cli.note(meaning.note);
          worst = Math.max(worst, await ways.kept(keeper, meaning.job, cluster));
          // What is told may be old, and whoever goes by the exit code must know.
          if (!meaning.isSure) worst = Math.max(worst, exitCode.unreachable);
        }
        if (meaning.kind === 'none') throw meaning.error;
      } catch (error) {
        if (!(error instanceof JobmanError)) throw error;
        worst = Math.max(worst, complainAbout(error, cli));
      }
    }
    return worst;
  } finally {
    await meant.close();
  }
}

/** For what needs the job itself. */
export function onlyKept({ job: { job }, note }: { readonly job: KeptJob; readonly note: string }): JobmanError {
  return new JobmanError(`${job.name} is not at hand. ${note}`, exitCode.notFound, [
    `Its logs and history are kept: jobman logs ${job.name}, jobman history ${job.name}`,
  ]);
}

/** Finds out what each word means. Throws JobmanError for a command line that names no job, or one name for two. */
export async function meantBy(cli: Cli, flags: EitherFlags, args: readonly string[]): Promise<Meant> {
  const words = [
    ...args.map((text) => ({ text, isExact: false })),
    ...(flags.jobName === undefined ? [] : [{ text: flags.jobName, isExact: true }]),
  ];
  if (words.length === 0) throw whichJob();
  const { services } = cli;
  const client = await services.client();
  const isPlaceSaid = flags.namespace !== undefined || flags.context !== undefined;
  const isOfRecord = words.every(({ text, isExact }) => isId(text) && !isExact) && !isPlaceSaid;
  const keeper = await services.keeper();
  const uses = !isOfRecord && (isPlaceSaid || (await services.usesCluster()));
  if (isOfRecord || (!uses && !keeper.isUsed)) {
    const refs = words.map(async ({ text, isExact }) => (isExact ? refOfName(client, text) : text));
    const meanings = (await Promise.all(refs)).map((ref): Meaning => ({ kind: 'record', ref }));
    return { client, cluster: null, keeper, meanings, close: async () => undefined };
  }
  const opened = uses
    ? await opening(services.cluster(given({ context: flags.context, namespace: flags.namespace })))
    : null;
  const cluster = opened === null || opened instanceof JobmanError ? null : opened;
  try {
    const meanings: Meaning[] = [];
    for (const word of words) {
      const found = isPlaceSaid ? null : await inRecord(client, cluster, word);
      meanings.push(found ?? (await elsewhere(cli, opened, keeper, flags, word.text)));
    }
    return { client, cluster, keeper, meanings, close: async () => cluster?.close() };
  } catch (error) {
    await cluster?.close();
    throw error;
  }
}

async function opening(cluster: Promise<Cluster>): Promise<Cluster | JobmanError> {
  try {
    return await cluster;
  } catch (error) {
    if (error instanceof JobmanError) return error;
    throw error;
  }
}

/** Null where the record has no such job. */
async function inRecord(
  client: Client,
  cluster: Cluster | null,
  { text: name, isExact }: { readonly text: string; readonly isExact: boolean },
): Promise<Meaning | null> {
  if (isId(name) && !isExact) return { kind: 'record', ref: name };
  const { rows } = await client.list({ name, all: true });
  const named = rows.filter((row) => row.name === name);
  if (named.length === 0) return null;
  const ref = isExact ? await refOfName(client, name) : name;
  // Said exactly, it must not mean the one while there is the other. A cluster that does not answer says nothing.
  const other = isExact && cluster !== null ? await within(cluster.job(name), null).catch(() => null) : null;
  if (other === null || cluster === null) return { kind: 'record', ref };
  const { context, namespace } = cluster.place();
  throw new JobmanError(
    `The name "${name}" stands for two jobs: ${named.map(({ id }) => id).join(', ')} here, and one in ${context}/${namespace}.`,
    exitCode.conflict,
    [`Say which by its id, or with --namespace ${namespace}.`],
  );
}

/** In the cluster; else what is kept of it. */
async function elsewhere(
  cli: Cli,
  opened: Cluster | JobmanError | null,
  keeper: ClusterKeeper,
  flags: PlaceFlags,
  name: string,
): Promise<Meaning> {
  const isPlaceSaid = flags.namespace !== undefined || flags.context !== undefined;
  let trouble = opened instanceof JobmanError ? opened : null;
  const place = opened === null || opened instanceof JobmanError ? null : opened.place();
  if (opened !== null && !(opened instanceof JobmanError)) {
    try {
      const job = await opened.job(name);
      if (job !== null) return { kind: 'cluster', job };
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      trouble = error;
    }
  }
  const now = cli.io.now();
  const all = await keeper.jobs(given({ name, namespace: place?.namespace ?? flags.namespace, server: place?.server }));
  const wanted = all.filter(
    ({ context }) => place !== null || flags.context === undefined || context === flags.context,
  );
  const [job] = wanted;
  // Where no cluster says which is meant, the newest of several would be a guess.
  const spots = new Map(wanted.map((one) => [`${one.server} ${one.job.namespace}`, one]));
  if (spots.size > 1) return { kind: 'none', error: ambiguous(name, [...spots.values()]) };
  if (job !== undefined) {
    const where = `${job.context}/${job.job.namespace}`;
    const isAbsent = trouble === null && place !== null;
    const since = job.goneAt === null ? '' : ` (seen gone ${ageText(now - job.goneAt)} ago)`;
    const note = isAbsent
      ? `${where} does not have ${name} any more${since}; this is our copy.`
      : `${trouble?.message ?? `No cluster is known here.`} This is our copy of ${where}, last seen ${ageText(now - job.seenAt)} ago.`;
    return { kind: 'kept', job, note, isSure: isAbsent || !isKeptOpen(job) };
  }
  if (trouble !== null) {
    if (isPlaceSaid) return { kind: 'none', error: trouble };
    const message = `There is no job called "${name}" here, and the cluster cannot be asked. ${trouble.message}`;
    return { kind: 'none', error: new JobmanError(message, trouble.code, trouble.lines) };
  }
  const where = place === null ? null : `${place.context}/${place.namespace}`;
  const spot = where === null ? 'here' : isPlaceSaid ? `in ${where}` : `here or in ${where}`;
  const comma = where === null || isPlaceSaid ? '' : ',';
  const message = `There is no job called "${name}"${comma} ${spot}. See all of them: jobman list${isPlaceSaid ? '' : ' --all'}`;
  return { kind: 'none', error: new JobmanError(message, exitCode.notFound) };
}

/** Our copies are of several places. */
function ambiguous(name: string, jobs: readonly KeptJob[]): JobmanError {
  const [first] = jobs;
  const where = jobs.map(({ context, job }) => `${context}/${job.namespace}`).join(', ');
  return new JobmanError(
    `The name "${name}" stands for ${jobs.length} jobs that are kept here: in ${where}.`,
    exitCode.conflict,
    [`Say which: --context ${first?.context ?? ''} --namespace ${first?.job.namespace ?? ''}`],
  );
}

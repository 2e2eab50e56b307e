// Either: whether a word means a job of the record or one of a cluster. A name is looked for in the record first; a cluster is
// asked where one is in use, and nothing of Kubernetes is loaded otherwise. What the cluster has forgotten, or cannot tell
// because it is away, is looked for in what is kept here.

import type { Client, Ref } from '../../app/client.ts';
import type { ClusterKeeper } from '../../app/cluster/client.ts';
import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { manifestHint } from '../../app/refs.ts';
import { isKeptOpen, type KeptJob } from '../../app/cluster/kept.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { ageText } from '../../app/figures.ts';
import { given } from '../../core/given.ts';
import { complainAbout, refOfName, whichJob, type Cli } from '../context.ts';
import { within } from './record-and-cluster.ts';

/** Flags of every command that may be about a job of a cluster. */
export interface PlaceFlags {
  readonly namespace?: string | undefined;
  readonly context?: string | undefined;
}

/** The action for each kind of job; each resolves with an exit code. */
export interface Ways {
  readonly record: (client: Client, refs: readonly Ref[]) => Promise<number>;
  readonly cluster: (cluster: Cluster, job: ClusterJob) => Promise<number>;
  /** With one of which only our copy is at hand; without this way it is said what is. */
  readonly kept?: (keeper: ClusterKeeper, job: KeptJob, cluster: Cluster | null) => Promise<number>;
  /** The kept way is for one that was taken off the list too. */
  readonly evenHidden?: true;
  /** It changes the job: a name that means jobs of two namespaces is refused, and so is one whose cluster cannot be asked. */
  readonly changes?: true;
  /** The change is to our copies, so it does not need the cluster. */
  readonly evenAway?: true;
}

type Meaning =
  | { readonly kind: 'record'; readonly ref: Ref }
  /** `cluster` is open in the namespace of the job. */
  | { readonly kind: 'cluster'; readonly job: ClusterJob; readonly cluster: Cluster }
  /**
   * The cluster has forgotten it, or cannot be asked; `note` says which. `isSure`: nothing can have happened to it since.
   * `isGone`: the cluster said, now or earlier, that it does not have it.
   */
  | {
      readonly kind: 'kept';
      readonly job: KeptJob;
      readonly note: string;
      readonly isSure: boolean;
      readonly isGone: boolean;
      readonly cluster: Cluster | null;
    }
  | { readonly kind: 'none'; readonly error: JobmanError };

/** To be closed after use. */
export interface Meant {
  readonly client: Client;
  readonly keeper: ClusterKeeper;
  readonly meanings: readonly Meaning[];
  close(): Promise<void>;
}

/** Up to six digits are an id of the record, wherever they are not said to be a name. */
const isId = (word: string): boolean => /^\d{1,6}$/.test(word);

type EitherFlags = PlaceFlags & { readonly jobName?: string | undefined };

/**
 * Does the one or the other with each job that is named: those of the record together, then those of the cluster. What is
 * nowhere is said, and does not keep the others from theirs. Resolves with the worst exit code.
 */
export async function onEither(cli: Cli, flags: EitherFlags, args: readonly string[], ways: Ways): Promise<number> {
  const meant = await meantBy(cli, flags, args, ways.changes === true);
  const { client, keeper, meanings } = meant;
  try {
    let worst: number = exitCode.ok;
    const refs = meanings.flatMap((meaning) => (meaning.kind === 'record' ? [meaning.ref] : []));
    if (refs.length > 0) worst = Math.max(worst, await ways.record(client, refs));
    for (const meaning of meanings) {
      try {
        if (meaning.kind === 'cluster') {
          worst = Math.max(worst, await ways.cluster(meaning.cluster, meaning.job));
        }
        if (meaning.kind === 'kept') {
          if (ways.changes === true && ways.evenAway !== true && !meaning.isGone) throw notChanged(meaning);
          if (ways.kept === undefined || (meaning.job.hidden && ways.evenHidden !== true)) throw onlyKept(meaning);
          cli.note(meaning.note);
          worst = Math.max(worst, await ways.kept(keeper, meaning.job, meaning.cluster));
          // The exit code says that the answer may be old.
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
export function onlyKept({ job: { job }, note, isGone }: Kept): JobmanError {
  const lines = [`Its logs and history are kept: jobman logs ${job.name}, jobman history ${job.name}`];
  return isGone
    ? new JobmanError(`${job.name} is gone. ${note}`, exitCode.notFound, lines)
    : new JobmanError(`${job.name} cannot be reached. ${note}`, exitCode.unreachable, lines);
}

type Kept = Pick<Extract<Meaning, { readonly kind: 'kept' }>, 'job' | 'note' | 'isGone'>;

/** A cluster that does not answer may still run the job. */
function notChanged({ job: { job }, note }: Kept): JobmanError {
  return new JobmanError(
    `Nothing was changed: ${job.name} may still run in its cluster. ${note}`,
    exitCode.unreachable,
  );
}

/** Finds what each word means. Throws JobmanError without a job, for a name of two jobs, and with `changes` for a name in two namespaces. */
export async function meantBy(cli: Cli, flags: EitherFlags, args: readonly string[], changes = false): Promise<Meant> {
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
    return { client, keeper, meanings, close: async () => undefined };
  }
  const opened = uses
    ? await opening(services.cluster(given({ context: flags.context, namespace: flags.namespace })))
    : null;
  const cluster = opened === null || opened instanceof JobmanError ? null : opened;
  const places = openPlaces(cli, cluster);
  try {
    const meanings: Meaning[] = [];
    for (const word of words) {
      const found = isPlaceSaid ? null : await inRecord(client, cluster, word);
      if (found !== null) {
        meanings.push(found);
        continue;
      }
      const other = await elsewhere(cli, opened, keeper, flags, word.text);
      meanings.push(isPlaceSaid ? other : await inOtherNamespace(cli, places, keeper, word.text, other, changes));
    }
    return { client, keeper, meanings, close: places.close };
  } catch (error) {
    await places.close();
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
      if (job !== null) return { kind: 'cluster', job, cluster: opened };
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
  // Without a cluster, the newest of several would be a guess.
  const places = newestOfEach(wanted);
  const [job] = places;
  if (job !== undefined && places.length > 1) return { kind: 'none', error: twoNamespaces(places.map(spotOf), job) };
  if (job !== undefined) {
    const where = `${job.context}/${job.job.namespace}`;
    const isAbsent = trouble === null && place !== null;
    const since = job.goneAt === null ? '' : ` (seen gone ${ageText(now - job.goneAt)} ago)`;
    const note = isAbsent
      ? `${where} does not have ${name} any more${since}; this is our copy.`
      : `${trouble?.message ?? `No cluster is known here.`} This is our copy of ${where}, last seen ${ageText(now - job.seenAt)} ago.`;
    const cluster = opened instanceof JobmanError ? null : opened;
    return {
      kind: 'kept',
      job,
      note,
      isSure: isAbsent || !isKeptOpen(job),
      isGone: isAbsent || job.goneAt !== null,
      cluster,
    };
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
  return { kind: 'none', error: new JobmanError(message, exitCode.notFound, manifestHint(name)) };
}

type OpenPlaces = ReturnType<typeof openPlaces>;

function openPlaces({ services }: Cli, own: Cluster | null) {
  const others = new Map<string, Promise<Cluster>>();
  return {
    own,
    open({ context, job: { namespace } }: KeptJob): Promise<Cluster> {
      const isSame = own?.place().context === context;
      const key = `${context}/${namespace}`;
      const opened = others.get(key) ?? services.cluster({ namespace, ...(isSame ? {} : { context }) });
      others.set(key, opened);
      return opened;
    },
    close: async () => {
      await own?.close();
      for (const other of others.values()) await other.then((cluster) => cluster.close()).catch(() => undefined);
    },
  };
}

/**
 * A job that was submitted from here to another namespace or context is found there, unless the current namespace has the name.
 * A command that changes a job refuses a name that both have: it could change the wrong job.
 */
async function inOtherNamespace(
  cli: Cli,
  places: OpenPlaces,
  keeper: ClusterKeeper,
  name: string,
  found: Meaning,
  changes: boolean,
): Promise<Meaning> {
  // Our copy of a job of the current namespace, while the cluster does not answer.
  if (found.kind === 'kept' && !found.isSure) return found;
  const here = places.own?.place();
  const submitted = (await keeper.jobs({ name })).filter(
    ({ object, server, job }) => object !== null && (here?.server !== server || here.namespace !== job.namespace),
  );
  // One cluster may have two addresses.
  const uid = found.kind === 'cluster' ? found.job.uid : null;
  const open = newestOfEach(
    submitted.filter(({ goneAt, hidden, job }) => goneAt === null && !hidden && job.uid !== uid),
  );
  if (found.kind === 'cluster') {
    const current = placeText(found.cluster.place());
    for (const job of changes ? open : []) {
      if (await isThere(places, job)) return { kind: 'none', error: twoNamespaces([current, spotOf(job)], job) };
    }
    const [other] = open;
    if (other !== undefined) cli.note(`This is ${name} of ${current}; another one was submitted to ${spotOf(other)}.`);
    return found;
  }
  const listed = newestOfEach(submitted.filter(({ hidden }) => !hidden));
  // Our copy of this namespace is as good as one of another namespace; only a job that may still run is better.
  const wanted = open.length > 0 || found.kind === 'kept' ? open : listed.length > 0 ? listed : newestOfEach(submitted);
  const [job] = wanted;
  if (job === undefined) return found;
  if (wanted.length > 1) return { kind: 'none', error: twoNamespaces(wanted.map(spotOf), job) };
  const flags = { context: job.context, namespace: job.job.namespace };
  return elsewhere(cli, await opening(places.open(job)), keeper, flags, name);
}

/** One of each namespace: the newest. They are given newest first. */
function newestOfEach(jobs: readonly KeptJob[]): readonly KeptJob[] {
  const newest = new Map<string, KeptJob>();
  for (const job of jobs) {
    const key = `${job.server} ${job.job.namespace}`;
    if (!newest.has(key)) newest.set(key, job);
  }
  return [...newest.values()];
}

/** A cluster that cannot be asked may still have it. */
async function isThere(places: OpenPlaces, kept: KeptJob): Promise<boolean> {
  try {
    return (await (await places.open(kept)).job(kept.job.name)) !== null;
  } catch (error) {
    if (error instanceof JobmanError) return true;
    throw error;
  }
}

const placeText = ({ context, namespace }: { readonly context: string; readonly namespace: string }): string =>
  `${context}/${namespace}`;
const spotOf = ({ context, job: { namespace } }: KeptJob): string => placeText({ context, namespace });

function twoNamespaces(spots: readonly string[], { context, job }: KeptJob): JobmanError {
  return new JobmanError(`Several jobs are called "${job.name}": in ${spots.join(' and in ')}.`, exitCode.conflict, [
    `Say which: --context ${context} -n ${job.namespace}`,
  ]);
}

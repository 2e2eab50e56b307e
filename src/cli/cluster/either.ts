// Either: whether a word means a job of the record or one of a cluster. A name is looked for in the record first; a cluster is
// asked where one is in use, and nothing of Kubernetes is loaded otherwise.

import type { Client, Ref } from '../../app/client.ts';
import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { given } from '../../core/given.ts';
import { complainAbout, refOfName, whichJob, type Cli } from '../context.ts';
import { within } from './within.ts';

/** Flags of every command that may be about a job of a cluster. */
export interface PlaceFlags {
  readonly namespace: string | undefined;
  readonly context: string | undefined;
}

/** What is done with a job of either kind; each resolves with an exit code. */
export interface Ways {
  readonly record: (client: Client, refs: readonly Ref[]) => Promise<number>;
  readonly cluster: (cluster: Cluster, job: ClusterJob) => Promise<number>;
}

/** What one word means. */
type Meaning =
  | { readonly kind: 'record'; readonly ref: Ref }
  | { readonly kind: 'cluster'; readonly job: ClusterJob }
  | { readonly kind: 'none'; readonly error: JobmanError };

/** Up to six digits are an id of the record, wherever they are not said to be a name. */
const isId = (word: string): boolean => /^\d{1,6}$/.test(word);

/**
 * Does the one or the other with each job that is named: those of the record together, then those of the cluster. What is
 * nowhere is said, and does not keep the others from theirs. Resolves with the worst exit code.
 */
export async function onEither(
  cli: Cli,
  flags: PlaceFlags & { readonly jobName: string | undefined },
  args: readonly string[],
  ways: Ways,
): Promise<number> {
  const words = [
    ...args.map((text) => ({ text, isExact: false })),
    ...(flags.jobName === undefined ? [] : [{ text: flags.jobName, isExact: true }]),
  ];
  if (words.length === 0) throw whichJob();
  const isPlaceSaid = flags.namespace !== undefined || flags.context !== undefined;
  const isOfRecord = words.every(({ text, isExact }) => isId(text) && !isExact) && !isPlaceSaid;
  if (isOfRecord || (!isPlaceSaid && !(await cli.services.usesCluster()))) {
    const client = await cli.services.client();
    const refs = words.map(async ({ text, isExact }) => (isExact ? refOfName(client, text) : text));
    return ways.record(client, await Promise.all(refs));
  }
  const cluster = await cli.services.cluster(given({ context: flags.context, namespace: flags.namespace }));
  try {
    const client = await cli.services.client();
    const meanings: Meaning[] = [];
    for (const { text, isExact } of words) {
      meanings.push(isPlaceSaid ? await inCluster(cluster, text) : await inEither(client, cluster, text, isExact));
    }
    let worst: number = exitCode.ok;
    const refs = meanings.flatMap((meaning) => (meaning.kind === 'record' ? [meaning.ref] : []));
    if (refs.length > 0) worst = Math.max(worst, await ways.record(client, refs));
    for (const meaning of meanings) {
      try {
        if (meaning.kind === 'cluster') worst = Math.max(worst, await ways.cluster(cluster, meaning.job));
        if (meaning.kind === 'none') throw meaning.error;
      } catch (error) {
        if (!(error instanceof JobmanError)) throw error;
        worst = Math.max(worst, complainAbout(error, cli));
      }
    }
    return worst;
  } finally {
    await cluster.close();
  }
}

async function inCluster(cluster: Cluster, name: string): Promise<Meaning> {
  const job = await cluster.job(name);
  if (job !== null) return { kind: 'cluster', job };
  const { context, namespace } = cluster.place();
  const message = `There is no job called "${name}" in ${context}/${namespace}. See all of them: jobman list`;
  return { kind: 'none', error: new JobmanError(message, exitCode.notFound) };
}

async function inEither(client: Client, cluster: Cluster, name: string, isExact: boolean): Promise<Meaning> {
  if (isId(name) && !isExact) return { kind: 'record', ref: name };
  const { rows } = await client.list({ name, all: true });
  const named = rows.filter((row) => row.name === name);
  if (named.length > 0) {
    const ref = isExact ? await refOfName(client, name) : name;
    // Said exactly, it must not mean the one while there is the other. A cluster that does not answer says nothing.
    const other = isExact ? await within(cluster.job(name), null).catch(() => null) : null;
    if (other === null) return { kind: 'record', ref };
    const { context, namespace } = cluster.place();
    throw new JobmanError(
      `The name "${name}" stands for two jobs: ${named.map(({ id }) => id).join(', ')} here, and one in ${context}/${namespace}.`,
      exitCode.conflict,
      [`Say which by its id, or with --namespace ${namespace}.`],
    );
  }
  try {
    const found = await inCluster(cluster, name);
    if (found.kind === 'cluster') return found;
    const { context, namespace } = cluster.place();
    const message = `There is no job called "${name}", here or in ${context}/${namespace}. See all of them: jobman list --all`;
    return { kind: 'none', error: new JobmanError(message, exitCode.notFound) };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    const message = `There is no job called "${name}" here, and the cluster cannot be asked. ${error.message}`;
    return { kind: 'none', error: new JobmanError(message, error.code, error.lines) };
  }
}

// Archive client: the methods of Client about the archive of clusters, over the store and the copies of logs.

import type { ActionAnswer, JobOperation } from '../core/policy/permissions.ts';
import { omitUndefined } from '../core/model/omit-undefined.ts';
import type { Client, OnBehalf } from './client.ts';
import type { ClientParts, RecordChange, WhoAmI } from './store-client.ts';
import type { ArchivedJob } from './cluster/objects.ts';

type ArchiveMethod =
  | 'archivedJobs'
  | 'archivedJob'
  | 'archivedEvents'
  | 'archivedLogs'
  | 'lastArchivedLines'
  | 'readArchivedLog'
  | 'recordClusterDeletion'
  | 'hideArchivedJob'
  | 'removeArchivedJob';

/** Rows that are read at once. */
const blockSize = 250;

export function createArchiveClient(
  whoAmI: WhoAmI,
  { clusters, archivedLogs, now }: Pick<ClientParts, 'clusters' | 'archivedLogs' | 'now'>,
  record: RecordChange,
): Pick<Client, ArchiveMethod> {
  async function check() {
    const [actor, { checkCopyPermission }, { ownerLabels }, { clusterProblem }] = await Promise.all([
      whoAmI(),
      import('../core/policy/permissions.ts'),
      import('./cluster/job-object.ts'),
      import('./require-permission.ts'),
    ]);
    const owners = ownerLabels(actor);
    return ({ job, context }: ArchivedJob, operation: JobOperation, onBehalfOf?: string): ActionAnswer => {
      const problem = clusterProblem(actor, { context, namespace: job.namespace });
      if (problem !== null) return { answer: 'deny', cause: 'permission', message: problem };
      return checkCopyPermission(job, operation, actor, owners, onBehalfOf);
    };
  }
  async function readable(found: readonly ArchivedJob[]): Promise<readonly ArchivedJob[]> {
    if (found.length === 0) return found;
    const checkJob = await check();
    return found.filter((one) => checkJob(one, 'read').answer === 'allow');
  }
  async function find(uid: string): Promise<ArchivedJob | null> {
    const found = await clusters.job(uid);
    return found === undefined ? null : ((await readable([found]))[0] ?? null);
  }
  /** Does nothing without a copy: the cluster may have jobs of other installations. */
  async function change(
    uid: string,
    operation: JobOperation,
    { onBehalfOf }: OnBehalf,
    act: (job: ArchivedJob, note: (name: string) => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const found = await clusters.job(uid);
    if (found === undefined) return;
    const checked = (await check())(found, operation, onBehalfOf);
    const note = (name: string) => record(name, { kind: 'cluster_job', id: uid }, { name: found.job.name });
    if (checked.answer === 'allow') return act(found, note);
    const { forbiddenError } = await import('./require-permission.ts');
    throw forbiddenError(checked.message);
  }
  return {
    async archivedJobs({ limit, cursor, active, ...query }) {
      const [{ firstRows, spanOf, withCursor }, { mayBeActive }] = await Promise.all([
        import('./pages.ts'),
        import('./cluster/archive.ts'),
      ]);
      const { after: begin } = spanOf('archive', omitUndefined({ limit, cursor }));
      const block = limit === undefined ? {} : { limit: Math.max(blockSize, limit) };
      const jobs: ArchivedJob[] = [];
      // Reads until there is one readable row more than the limit. The cursor contains the key of a row, so the actor must be
      // allowed to read that row.
      for (let after = begin; ;) {
        const found = await clusters.jobs(query, { ...block, ...(after !== undefined && { after }) });
        const rows = await readable(found);
        jobs.push(...(active === undefined ? rows : rows.filter((one) => !one.hidden && mayBeActive(one))));
        after = found.next;
        if (after === undefined || jobs.length > (limit ?? Infinity)) break;
      }
      const rows = firstRows(jobs, limit, ({ job }) => [job.createdAt, job.uid]);
      return withCursor('archive', rows, rows.next);
    },
    archivedJob: find,
    async archivedEvents(uid, page = {}) {
      const { spanOf, withCursor } = await import('./pages.ts');
      const span = spanOf('archived-events', page);
      if ((await find(uid)) === null) return [];
      const found = await clusters.events(uid, span);
      return withCursor('archived-events', found, found.next);
    },
    async archivedLogs(uid) {
      const job = await find(uid);
      return job === null ? [] : (await archivedLogs()).list(job);
    },
    async lastArchivedLines(uid, pods) {
      const job = await find(uid);
      if (job === null) return [];
      const logs = await archivedLogs();
      return (await logs.list(job)).flatMap(({ pod, container }) => {
        const last = pods.includes(pod) ? logs.lastLine(job, { pod, container }) : null;
        return last === null ? [] : [{ pod, container, ...last }];
      });
    },
    async *readArchivedLog(uid, { pod, container }, query) {
      const [job, logs] = await Promise.all([find(uid), archivedLogs()]);
      const known = job === null ? [] : await logs.list(job);
      const isKnown = job !== null && known.some((log) => log.pod === pod && log.container === container);
      if (isKnown) return yield* logs.read(job, { pod, container }, query);
      const { JobmanError, exitCode } = await import('./errors.ts');
      throw new JobmanError(`The archive has no log of ${container} in pod ${pod}.`, exitCode.notFound);
    },
    recordClusterDeletion: (uid) =>
      change(uid, 'read', {}, async (_job, note) => {
        await note('record-cluster-deletion');
        const [{ user }, { deletedEvent }] = await Promise.all([whoAmI(), import('./cluster/archive.ts')]);
        await clusters.archiveEvent(uid, deletedEvent(now(), user));
      }),
    hideArchivedJob: (uid, options = {}) =>
      change(uid, 'delete', options, async (_job, note) => {
        await note('hide-archived-job');
        await clusters.hide(uid);
      }),
    removeArchivedJob: (uid, options = {}) =>
      change(uid, 'clean', options, async (job, note) => {
        const { cleanProblem } = await import('./cluster/archive.ts');
        const problem = cleanProblem(job);
        if (problem !== null) {
          const { JobmanError, exitCode } = await import('./errors.ts');
          throw new JobmanError(problem, exitCode.conflict);
        }
        await note('remove-archived-job');
        await (await archivedLogs()).remove(job);
        await clusters.remove(uid);
      }),
  };
}

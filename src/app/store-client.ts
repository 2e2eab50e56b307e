// Store client: the Client in this process, over the store.

import type { Verb } from '../core/decide/commands.ts';
import type { Job } from '../core/model/job.ts';
import { isFinishedPhase, phaseOf } from '../core/decide/phase.ts';
import type { JobSpec } from '../core/model/spec.ts';
import type { Price } from '../reports/prices.ts';
import type { Instant } from '../core/model/time.ts';
import type { Client, JobList, JobRow, ListQuery } from './client.ts';
import type { Grant } from './settings.ts';
import type { NotificationStore } from './notifications/outbox.ts';
import { folderOf } from './job-folder.ts';
import type { JobFilter, LogFiles, Store, StoredJob } from './ports.ts';
import { nameFilter, resolve, resolveName, type RefPurpose } from './refs.ts';
import { jobRow } from './views.ts';
import type { Freeze } from './workdir.ts';

const maxFinishedShown = 50;

export interface ClientParts {
  readonly store: Store;
  readonly notifications: Pick<NotificationStore, 'messages' | 'waiting' | 'pending' | 'drop'>;
  readonly home: string;
  /** The user who asks: a name shared by several jobs means this user's. */
  readonly owner: string;
  readonly logFiles: Pick<LogFiles, 'note' | 'mirror'>;
  readonly now: () => Instant;
  readonly pricePerHour: (spec: JobSpec) => Promise<Price | null> | Price | null;
  readonly grants: () => Promise<readonly Grant[]>;
  readonly freeze: Freeze;
  readonly slots: () => Promise<number>;
  /** Called after a commit. Only a hint to a running controller, so it never throws. */
  readonly notifyController: (id: string) => Promise<void>;
  /** Rejects with StoreError if a damaged lock hides it. */
  readonly isControllerRunning: () => Promise<boolean>;
  readonly wakeController: () => Promise<string | null>;
}

/** Loads modules on demand, so that a list starts quickly. */
export function createClient(parts: ClientParts): Client {
  const { store, home, owner, logFiles, now, notifyController } = parts;
  const find = (ref: string, purpose: RefPurpose = 'read') => resolve(store, ref, owner, now(), purpose);
  async function createWorkdirCopy(job: Job, verb: Verb, by: string) {
    const [{ checkCommand }, { recopyWorkdir }] = await Promise.all([
      import('../core/policy/permissions.ts'),
      import('./workdir.ts'),
    ]);
    return checkCommand(job, verb, by).ok ? recopyWorkdir(parts, job, folderOf(home, job)) : undefined;
  }
  return {
    ...createReports(parts, find),
    ...createNotifications(parts),

    async create(request) {
      const { createJob } = await import('./create.ts');
      return createJob(parts, request);
    },

    async plan(spec) {
      const [{ createPlan }, { formatBudgetLeft, possibleCapacity, readOwnerSpending }] = await Promise.all([
        import('./plan.ts'),
        import('./grants.ts'),
      ]);
      const [grants, at] = [await parts.grants(), now()];
      const budgets = await readOwnerSpending(store, grants, owner, possibleCapacity(spec), at);
      const left = budgets.map((one) => formatBudgetLeft(one, owner, at));
      return createPlan(spec, (await parts.pricePerHour(spec))?.usdPerHour ?? null, left);
    },

    async checkPolicy(target) {
      const job = typeof target === 'string' ? (await find(target, 'change')).job : null;
      const spec = job?.spec ?? (target as JobSpec);
      const { checkGrants, checkpointsInUse, tpuInUse } = await import('./confirmation.ts');
      const conflict = (await checkpointsInUse(store, spec, job)) ?? (await tpuInUse(store, spec, job));
      return conflict ?? checkGrants(parts, spec, job);
    },

    resolveName: (name, purpose) => resolveName(store, name, owner, now(), purpose),

    list: (query) => listJobs(store, query, now()),

    async activity() {
      const { activeJobs } = await import('./activity.ts');
      return activeJobs(parts);
    },

    async show(ref, options) {
      const [{ job }, { showJob }] = await Promise.all([find(ref), import('./show.ts')]);
      return showJob(parts, job, options);
    },

    usage: (query) => store.usage(query),

    async why(ref) {
      const [{ job }, { whyJob }] = await Promise.all([find(ref), import('./show.ts')]);
      return whyJob(parts, job);
    },

    async events(ref, after) {
      return store.events((await find(ref)).job.id, after);
    },

    async sendCommand(ref, verb, options) {
      const [stored, { commitCommand }] = await Promise.all([find(ref, 'change'), import('./commit-command.ts')]);
      // Check first: do not store or copy anything for a job that no controller could run.
      if (verb === 'start' || verb === 'resume' || verb === 'rerun') await parts.isControllerRunning();
      const copy = options.recopyWorkdir === true ? await createWorkdirCopy(stored.job, verb, options.by) : undefined;
      const commandOptions = copy === undefined ? options : { ...options, workdirCopy: copy.copy };
      const { changed, ...answer } = await commitCommand({ store, logFiles, now }, stored, verb, commandOptions);
      if (changed) {
        await copy?.removePrevious();
        await notifyController(answer.id);
      }
      return answer;
    },

    async planStep(ref, step, by) {
      const [{ job }, { planStep }] = await Promise.all([find(ref, 'change'), import('./manual-step.ts')]);
      return planStep(job, step, by);
    },

    async recordStep(ref, done) {
      const [stored, { recordStep }] = await Promise.all([find(ref, 'change'), import('./manual-step.ts')]);
      await recordStep({ store, logFiles, now }, stored, done);
    },

    async logs(ref, query) {
      const [{ job }, { logFilesOf }] = await Promise.all([find(ref), import('./logs.ts')]);
      return logFilesOf(home, job, query);
    },

    async clean(ref, by) {
      const { cleanFiles } = await import('./clean.ts');
      return cleanFiles(home, (await find(ref, 'change')).job, by);
    },

    async listCleanable(owner) {
      const { isCleanable } = await import('./clean.ts');
      const { jobs } = await store.list({ owners: [owner], maxFinished: null, includeRemoved: true });
      const cleanable = await Array.fromAsync(jobs, async (job) => ((await isCleanable(home, job)) ? [job] : []));
      return cleanable.flat().map(({ id, spec: { name } }) => ({ id, name }));
    },

    changeCount: () => store.changeCount(),
    wake: () => parts.wakeController(),
    close: () => store.close(),
  };
}

/** The methods of reports. They change no job. */
function createReports(
  { store, home, now }: ClientParts,
  find: (ref: string) => Promise<StoredJob>,
): Pick<Client, 'zones' | 'cost' | 'diffSide' | 'metrics' | 'metricPoints'> {
  return {
    async zones(query) {
      const { zonesOf } = await import('./zones.ts');
      return zonesOf(store, query, now());
    },

    async cost(request) {
      const { costOf } = await import('./cost.ts');
      return costOf(store, request, now());
    },

    async diffSide(ref, attempt) {
      const [{ job }, { diffSide }] = await Promise.all([find(ref), import('./diff-side.ts')]);
      return diffSide(job, attempt, { home, manifest: await store.manifest(job.id), now: now() });
    },

    async metrics(ref, query) {
      const [{ job }, { metricsOfJob }] = await Promise.all([find(ref), import('./metrics.ts')]);
      return metricsOfJob(home, job, now(), query);
    },

    async *metricPoints(ref, query) {
      const [{ job }, { metricPointsOfJob }] = await Promise.all([find(ref), import('./metrics.ts')]);
      yield* metricPointsOfJob(home, job, query);
    },
  };
}

function createNotifications({
  store,
  notifications,
  now,
}: ClientParts): Pick<Client, 'messages' | 'heldEvents' | 'recipientsInUse' | 'dropEvents'> {
  return {
    messages: (limit) => notifications.messages(limit),
    async heldEvents(limits) {
      const { digestSince, heldEvents } = await import('./notifications/digest.ts');
      const time = now();
      const waiting = await notifications.waiting(digestSince(time, limits));
      return heldEvents(waiting, waiting.length === 0 ? [] : await notifications.pending(), time, limits);
    },
    async recipientsInUse() {
      const { recipientsInUse } = await import('./notifications/recipients.ts');
      const { jobs } = await store.list({ maxFinished: 0 });
      const unfinished = jobs.filter((job) => !isFinishedPhase(phaseOf(job)));
      return recipientsInUse(unfinished, [...(await notifications.pending()), ...(await notifications.waiting(now()))]);
    },
    dropEvents: (recipient, by) =>
      notifications.drop(recipient, { at: now(), error: `dropped by ${by} with \`jobman notify drop\`` }),
  };
}

async function listJobs(store: Store, query: ListQuery, now: Instant): Promise<JobList> {
  const byPhase = query.phases !== undefined;
  const all = query.all === true;
  const filter: JobFilter = {
    ...(query.owner === undefined ? {} : { owners: [query.owner] }),
    ...(query.tag === undefined ? {} : { tag: query.tag }),
    ...nameFilter(query.name),
    // The phase is computed, so the store cannot filter by it: filter here and keep the newest 50.
    maxFinished: all || byPhase ? null : maxFinishedShown,
  };
  const page = await store.listRows(filter, (job) => jobRow(job, now));
  if (query.phases === undefined) return { rows: newestFirst(page.rows), more: page.more, notes: [] };
  const wantedPhases = new Set(query.phases);
  // The store's order: the newest end first among the finished jobs.
  const rows = page.rows.filter((row) => wantedPhases.has(row.phase));
  const finished = rows.filter(({ phase }) => isFinishedPhase(phase));
  const hidden = new Set(all ? [] : finished.slice(maxFinishedShown));
  return { rows: newestFirst(rows.filter((row) => !hidden.has(row))), more: hidden.size, notes: [] };
}

function newestFirst(rows: readonly JobRow[]): readonly JobRow[] {
  return rows.toSorted((one, other) => Number(other.id) - Number(one.id));
}

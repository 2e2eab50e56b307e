// Jobman: the Client in process, over the store.

import type { Verb } from '../core/commands.ts';
import type { Job } from '../core/job.ts';
import { isSettledPhase } from '../core/phase.ts';
import type { JobSpec } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';
import type { Client, JobList, JobRow, ListQuery } from './client.ts';
import type { Grant } from './settings.ts';
import { folderOf } from './job-folder.ts';
import type { JobFilter, LogFiles, Store } from './ports.ts';
import { resolve } from './refs.ts';
import { jobRow } from './views.ts';
import type { Freeze } from './workdir.ts';

/** How many settled jobs a list shows that was not asked for all of them. */
const settledShown = 50;

export interface ClientParts {
  readonly store: Store;
  readonly home: string;
  /** The user who asks; a name that several jobs share means this user's. */
  readonly owner: string;
  readonly logFiles: Pick<LogFiles, 'note' | 'mirror'>;
  readonly now: () => Instant;
  readonly pricePerHour: (spec: JobSpec) => Promise<number | null> | number | null;
  /** The requests to a cloud that need no question (`grants`); absent: anything. */
  readonly grants?: () => Promise<readonly Grant[]>;
  readonly freeze: Freeze;
  readonly slots: () => Promise<number>;
  /** Tells a controller that runs that this job has changed. Called after the commit; a hint, so it never throws. */
  readonly hint: (id: string) => Promise<void>;
  /** Rejects with a StoreError when nothing can tell whether a controller runs, because its lock is damaged. */
  readonly expectController?: () => Promise<void>;
  readonly wake: () => Promise<string | null>;
}

/** The client over this machine's record. Modules that a list does not need are loaded when they are asked for. */
export function createClient(parts: ClientParts): Client {
  const { store, home, owner, logFiles, now, hint } = parts;
  const find = (ref: string) => resolve(store, ref, owner, now());
  async function copyFor(job: Job, verb: Verb, by: string) {
    const [{ jobCan }, { copyAnew }] = await Promise.all([import('../core/commands.ts'), import('./workdir.ts')]);
    return jobCan(job, verb, by).ok ? copyAnew(parts, job, folderOf(home, job)) : undefined;
  }
  return {
    async create(request) {
      const { createJob } = await import('./create.ts');
      return createJob(parts, request);
    },

    async plan(spec) {
      const { planOf } = await import('./plan.ts');
      return planOf(spec, await parts.pricePerHour(spec));
    },

    async beyond(asked) {
      const job = typeof asked === 'string' ? (await find(asked)).job : null;
      const spec = job?.spec ?? (asked as JobSpec);
      const { beyondGrants, checkpointsInUse, usedByOthers } = await import('./confirmation.ts');
      const inUse = (await checkpointsInUse(store, spec, job)) ?? (await usedByOthers(store, spec, job));
      return inUse ?? beyondGrants({ ...parts, grants: parts.grants ?? (() => Promise.resolve([])) }, spec, job);
    },

    list: (query) => listJobs(store, query, now()),

    async zones(query) {
      const { zonesOf } = await import('./zones.ts');
      return zonesOf(store, query, now());
    },

    async show(ref) {
      const [{ job }, { showJob }] = await Promise.all([find(ref), import('./show.ts')]);
      return showJob(parts, job);
    },

    async why(ref) {
      const [{ job }, { whyJob }] = await Promise.all([find(ref), import('./show.ts')]);
      return whyJob(parts, job);
    },

    async events(ref, after) {
      return store.events((await find(ref)).job.id, after);
    },

    async ask(ref, verb, options) {
      const [stored, { sayTo }] = await Promise.all([find(ref), import('./ask.ts')]);
      // Before anything is stored or copied: a job that no controller could run is not asked for.
      if (verb === 'start' || verb === 'resume' || verb === 'rerun') await parts.expectController?.();
      const copy = options.workdirAnew === true ? await copyFor(stored.job, verb, options.by) : undefined;
      const said = copy === undefined ? options : { ...options, copy: copy.snapshot };
      const { changed, ...answer } = await sayTo({ store, logFiles, now }, stored, verb, said);
      if (changed) {
        await copy?.forget();
        await hint(answer.id);
      }
      return answer;
    },

    async planStep(ref, step, by) {
      const [{ job }, { planStep }] = await Promise.all([find(ref), import('./setup-by-hand.ts')]);
      return planStep(job, step, by);
    },

    async recordStep(ref, done) {
      const [stored, { recordStep }] = await Promise.all([find(ref), import('./setup-by-hand.ts')]);
      await recordStep({ store, logFiles, now }, stored, done);
    },

    async logs(ref, query) {
      const [{ job }, { logFilesOf }] = await Promise.all([find(ref), import('./logs.ts')]);
      return logFilesOf(home, job, query);
    },

    async clean(ref, by) {
      const { cleanAll, cleanFiles } = await import('./clean.ts');
      if (ref !== null) return [await cleanFiles(home, (await find(ref)).job, by)];
      const { jobs } = await store.list({ owner: by, settledMost: null, withRemoved: true });
      return cleanAll(home, jobs, by);
    },

    changes: () => store.changes(),
    wake: () => parts.wake(),
    close: () => store.close(),
  };
}

/** The rows of that query, the highest id first: the order of the column that a list begins with. */
async function listJobs(store: Store, query: ListQuery, now: Instant): Promise<JobList> {
  const byPhase = query.phases !== undefined;
  const all = query.all === true;
  const filter: JobFilter = {
    ...(query.owner === undefined ? {} : { owner: query.owner }),
    ...(query.tag === undefined ? {} : { tag: query.tag }),
    ...nameFilter(query.name),
    // A phase is computed and so cannot be asked of the store: of those of a phase, the newest 50 are found here.
    settledMost: all || byPhase ? null : settledShown,
  };
  const page = await store.rows(filter, (job) => jobRow(job, now));
  if (query.phases === undefined) return { rows: newestFirst(page.rows), more: page.more, notes: [] };
  const wanted = new Set(query.phases);
  // As the store has them: what settled last comes first among the settled.
  const rows = page.rows.filter((row) => wanted.has(row.phase));
  const settled = rows.filter(({ phase }) => isSettledPhase(phase));
  const hidden = new Set(all ? [] : settled.slice(settledShown));
  return { rows: newestFirst(rows.filter((row) => !hidden.has(row))), more: hidden.size, notes: [] };
}

function newestFirst(rows: readonly JobRow[]): readonly JobRow[] {
  return rows.toSorted((one, other) => Number(other.id) - Number(one.id));
}

function nameFilter(name: string | undefined): Pick<JobFilter, 'names' | 'nameGlob'> {
  if (name === undefined) return {};
  return /[*?]/.test(name) ? { nameGlob: name } : { names: [name] };
}

// Looking: everything that `tpu check` shows of a user, read from the record and from the new bytes of logs.

import { statSync } from 'node:fs';
import { attemptFile, folderOf } from '../app/job-folder.ts';
import type { Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import { checkRows, type CheckRow } from './check.ts';
import { familiesOf, nameOf } from './lineage.ts';
import { openLogCache } from './log-cache.ts';
import { readLog } from './log-reading.ts';
import type { LabUser } from './people.ts';
import { betweenWorkers } from '../core/patterns.ts';
import type { LogSoFar } from '../core/phases.ts';
import type { LabRecord } from './record.ts';
import type { LabJob } from './windows.ts';

export interface Looker {
  /** The rows now. Changes nothing of the record. */
  look(now: Instant): Promise<readonly CheckRow[]>;
  /** Keeps what was read of logs, so that the next one reads on from there; where that fails, the next one reads anew. */
  keep(): void;
}

/** Looks at the jobs of that user, again and again for the monitor: each look reads the new bytes of logs alone. */
export function createLooker(given: {
  readonly record: LabRecord;
  /** `$JOBMAN_HOME`, absolute. */
  readonly home: string;
  readonly user: LabUser;
  readonly namePrefix: string;
}): Looker {
  const { record, home, user, namePrefix } = given;
  const cache = openLogCache(home, user.name);
  const bounds = { first: user.settings.monitor_length, tail: user.settings.show_length };
  return {
    async look(now) {
      const read = await record.windows({ user: user.name, cleared: 'beside shown' });
      const windows = read.filter(({ window }) => window.clearedAt === null);
      const listed = [...new Set(windows.map(({ window }) => window.job))];
      const [lives, labJobs] = await Promise.all([record.lives(user.name, listed), record.jobs(user.name)]);
      const jobs = new Map(lives.map((job) => [job.id, job]));
      const coming = labJobs.filter(({ job }) => jobs.get(job)?.settled === null && !listed.includes(job));
      const shown = new Set([...listed, ...coming.map(({ job }) => job)]);
      // A job on another TPU says who its father is; the father does not know of it.
      const wanted = labJobs.filter(({ job, father }) => shown.has(job) || (father !== null && shown.has(father.job)));
      const families = await familiesOf(record, [...wanted, ...windows.map(({ job }) => job)], read);
      const logs = new Map<string, LogSoFar>();
      const hangs = new Map<string, Instant>();
      for (const { window } of windows) {
        const job = jobs.get(window.job);
        if (job === undefined) continue;
        const path = attemptFile(folderOf(home, job), window.attempt, 'here');
        const name = nameOf(window);
        const log = readLog(path, cache.of(name), bounds);
        logs.set(name, log);
        const hangsAt = hangsAtOf(job, window.attempt, log, path);
        if (hangsAt !== null) hangs.set(name, hangsAt);
      }
      cache.take(logs);
      const waiting = labJobs.filter(({ job }) => coming.some((one) => one.job === job) || isHeldUp(jobs.get(job)));
      const [waits, follows] = await Promise.all([waitsOf(record, waiting, jobs, now), followsOf(lives, now)]);
      return checkRows({ windows, coming, waits, follows, families, jobs, logs, hangs, namePrefix, now });
    },
    keep: () => cache.write(),
  };
}

/** True while its TPU does not answer, or it waits for one: the row then needs the reason why nothing happens. */
function isHeldUp(job: Job | undefined): boolean {
  const attempt = job?.attempts.at(-1);
  if (job === undefined || attempt === undefined || job.settled !== null || attempt.ending !== null) return false;
  const allocation = job.allocations[attempt.allocation - 1];
  if (allocation === undefined) return false;
  const { silentSince, readyAt, lastFailure, seen } = allocation;
  const isWaitedFor = readyAt === null && (lastFailure !== null || seen?.state === 'waiting');
  return silentSince !== null || isWaitedFor;
}

/** When that attempt counts as hung; the rule itself is in core/situation.ts. */
function hangsAtOf(job: Job, ordinal: number, { trouble }: LogSoFar, path: string): Instant | null {
  const { troubleTimeout } = job.spec.limits;
  const attempt = job.attempts[ordinal - 1];
  if (troubleTimeout === undefined || trouble === null || !betweenWorkers.includes(trouble)) return null;
  if (attempt === undefined || attempt.ending !== null) return null;
  const printedAt = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
  return printedAt === undefined ? null : Math.floor(printedAt) + troubleTimeout;
}

/** What the list of jobs says of those. It is loaded with half of the rules, and mostly there is nothing that it is needed for. */
async function waitsOf(
  record: LabRecord,
  coming: readonly LabJob[],
  jobs: ReadonlyMap<string, Job>,
  now: Instant,
): Promise<ReadonlyMap<string, string>> {
  if (coming.length === 0) return new Map();
  const { waitOf } = await import('./waiting.ts');
  const known = coming.flatMap((labJob) => jobs.get(labJob.job) ?? []);
  return new Map(await Promise.all(known.map(async (job) => [job.id, await waitOf(record, job, now)] as const)));
}

/** How rules go on with those jobs whose newest attempt has ended. Loaded only then: it is the other half of the rules. */
async function followsOf(jobs: readonly Job[], now: Instant): Promise<ReadonlyMap<string, 'resume' | 'rerun'>> {
  const ended = jobs.flatMap((job) => {
    const attempt = job.attempts.at(-1);
    const isAsked = job.settled === null && job.desired === 'run' && attempt !== undefined && attempt.ending !== null;
    return isAsked ? [{ job, attempt }] : [];
  });
  if (ended.length === 0) return new Map();
  const { whatFollows } = await import('../core/recover.ts');
  return new Map(
    ended.flatMap(({ job, attempt }) => {
      const following = whatFollows(job, attempt, now);
      return following.next === 'attempt' ? [[job.id, following.how === 'rerun' ? 'rerun' : 'resume'] as const] : [];
    }),
  );
}

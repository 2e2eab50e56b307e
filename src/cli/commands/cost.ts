import type { LedgerJob } from '../../app/job-source.ts';
import type { Client, CostRequest } from '../../app/client.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { isIdRef } from '../../app/refs.ts';
import { escapeLine, formatTime } from '../../app/format.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { day, type Instant } from '../../core/model/time.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { forEachJob } from '../jobs/resolve.ts';
import { costTitle, formatNoUsage } from '../../app/cost-report.ts';
import { costCsv, costLines, costObjects } from '../render/cost.ts';
import { columnsOf } from '../screen.ts';
import type { CostFlags } from '../table/flags.ts';

const defaultPeriod = 30 * day;
const maxGroups = 50;

export async function cost(cli: Cli, flags: CostFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  if (flags.csv === true && cli.json) throw usageError('--csv and --json exclude each other.');
  const now = cli.io.now();
  const hasJobs = args.length > 0 || flags.jobName !== undefined;
  const isWholeLife = hasJobs || flags.name !== undefined;
  const period = periodOf(flags, isWholeLife, now);
  const named = new Map<string, LedgerJob>();
  const code = hasJobs
    ? await forEachJob(cli, flags, args, 'read', async (job, found) => {
        const one = await found.ledgerJob(job);
        named.set(one.key, one);
        return exitCode.ok;
      })
    : exitCode.ok;
  const jobs = [...named.values()];
  if (hasJobs && jobs.length === 0) return code;
  const client = await cli.services.client();
  const { by = 'job', user, name, tag, accelerator, zone, all } = flags;
  const request: CostRequest = {
    by,
    ...(hasJobs ? { jobs: jobs.map(({ key }) => key) } : {}),
    ...omitUndefined({ user, name, tag, accelerator, zone, limit: all === true ? undefined : maxGroups }),
  };
  for (const job of jobs) if (isGivenByName(job, flags, args)) await noteNamesakes(cli, client, job);
  const report = await client.cost({ ...request, ...period });
  const isDefaultPeriod = !isWholeLife && flags.since === undefined && flags.until === undefined;
  const title = { report, request, jobs: jobs.map(({ id }) => `job ${id}`), isDefaultPeriod, now };
  if (cli.json) cli.printJsonLines(costObjects(report));
  else if (flags.csv === true) {
    cli.note(costTitle(title));
    cli.printAll(costCsv(report));
  } else if (report.groups.length > 0) cli.printAll(costLines(title, columnsOf(cli.io.stdout)));
  else cli.note(formatNoUsage(title, (await client.cost(request)).beginsAt));
  return code;
}

function isGivenByName({ name }: LedgerJob, { jobName }: CostFlags, args: readonly string[]): boolean {
  return jobName === name || (args.includes(name) && !isIdRef(name));
}

async function noteNamesakes(cli: Cli, client: Client, { key, id, name }: LedgerJob): Promise<void> {
  const { groups } = await client.cost({ by: 'job', name });
  if (groups.every((one) => (one.uid ?? one.key) === key)) return;
  const others = groups.filter((one) => (one.uid ?? one.key) !== key);
  const isNewest = others.every((one) => one.uid === null && (one.key ?? '') < key);
  const which = `job ${id}, ${isNewest ? 'the newest of' : 'one of'} ${others.length + 1} named ${name}`;
  cli.note(escapeLine(`This is ${which}. All of them: jobman cost --name ${name}`));
}

/** Throws JobmanError for a period that has no time before now. */
function periodOf(
  { since, until }: CostFlags,
  isWholeLife: boolean,
  now: Instant,
): { readonly since?: Instant; readonly until?: Instant } {
  const end = until?.(now).until;
  const begin = since?.(now).from ?? (isWholeLife ? undefined : Math.min(end ?? now, now) - defaultPeriod);
  if (begin !== undefined && begin >= now)
    throw usageError(`--since is not in the past: ${formatTime(begin, now)}. It is now ${formatTime(now, now)}.`);
  if (begin !== undefined && end !== undefined && begin >= end)
    throw usageError(`--since (${formatTime(begin, now)}) is not before --until (${formatTime(end, now)}).`);
  return omitUndefined({ since: begin, until: end });
}

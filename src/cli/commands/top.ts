import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { escapeLine } from '../../app/format.ts';
import { openJobs } from '../../app/jobs.ts';
import type { Client, Ref } from '../../app/client.ts';
import { isIdRef } from '../../app/refs.ts';
import type { TopFilter, TopRow, TopRows } from '../../app/top.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { second, type Duration } from '../../core/model/time.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { pause } from '../../app/concurrency.ts';
import { untilInterrupted } from '../interrupt.ts';
import { jobLines, noJobsText, topLines, zoneLines } from '../render/top.ts';
import { layoutOf } from '../screen.ts';
import { topOrders, type TopFlags } from '../table/flags.ts';
import { topScreen } from '../top/screen.ts';
import { createTopSources, type TopSources } from '../top/sources.ts';
import { watchUntilExit } from '../watch/live.ts';

const defaultInterval: Duration = 5 * second;
const minInterval: Duration = second;

export async function top(cli: Cli, flags: TopFlags & GlobalFlags, ...refs: readonly Ref[]): Promise<number> {
  const interval = flags.interval ?? defaultInterval;
  if (interval < minInterval) throw usageError('--interval is at least 1 s: each round measures every worker.');
  const client = await cli.services.client();
  const sources = createTopSources(cli, client, openJobs(cli.services, flags), interval);
  try {
    if (cli.screen.live && !cli.json) {
      // A name may be that of a job in the cluster.
      await (refs.length === 0 ? sources.poll() : sources.readJobs());
      const [filter, { user }] = [await filterOf(client, sources, flags, refs), await client.whoAmI()];
      return await watchUntilExit(cli, {
        usesAlternateScreen: true,
        screen: (controls) => topScreen(cli, sources, filter, { order: flags.sort ?? topOrders[0], user }, controls),
        lines: () => Promise.resolve([]),
        linesInterval: interval,
      });
    }
    return await untilInterrupted(cli, async (signal) => {
      await sources.readOnce();
      const filter = await filterOf(client, sources, flags, refs);
      for (;;) {
        print(cli, sources.rows(filter), flags);
        for (const note of sources.notes()) cli.note(escapeLine(`note: ${note}`));
        if (flags.interval === undefined) return exitCode.ok;
        await pause(interval, signal);
        if (signal.aborted || cli.io.stdout.closed) return signal.aborted ? exitCode.interrupted : exitCode.ok;
        await sources.readOnce();
      }
    });
  } finally {
    await sources.close();
  }
}

/** Throws JobmanError (3, 4) for a job that does not exist or is not active. */
async function filterOf(
  client: Client,
  sources: TopSources,
  { user, zone, tag }: TopFlags,
  refs: readonly Ref[],
): Promise<TopFilter> {
  const others = omitUndefined({ user, zone, tag });
  if (refs.length === 0) return others;
  const active = sources.rows({}).jobs;
  const jobs = refs.map(async (ref) => {
    const found = active.filter((job) => (isIdRef(ref) ? job.id === ref.padStart(6, '0') : job.name === ref));
    if (found.length > 0) return found.map(({ id }) => id);
    const { id, phase } = await client.show(ref);
    throw new JobmanError(`Job ${id} is not active (${phase}).`, exitCode.conflict, [
      `jobman show ${Number(id)}    shows its end`,
    ]);
  });
  return { ...others, jobs: (await Promise.all(jobs)).flat() };
}

function print(cli: Cli, rows: TopRows, flags: TopFlags): void {
  if (cli.json) {
    const objects: readonly TopRow[] = [
      ...rows.zones,
      ...rows.jobs.flatMap((job) => [job, ...(rows.workers.get(job.id) ?? [])]),
      ...rows.tpus,
    ];
    cli.printJsonLines(objects);
    return;
  }
  const layout = layoutOf(cli);
  const zones = zoneLines(rows.zones, layout);
  const lines = topLines(rows, flags.sort ?? topOrders[0], () => true);
  cli.printAll([...zones, ...(zones.length > 0 && lines.length > 0 ? [''] : [])]);
  if (lines.length > 0) cli.printAll(jobLines(lines, lines, layout));
  else cli.note(noJobsText(flags));
}

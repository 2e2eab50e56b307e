// `tpu check`, `tpu monitor` and `tpu news`: a user's jobs once, live, and their recent events.

import { basename } from 'node:path';
import type { NewsOutput } from '../../outputs.ts';
import { exitCode } from '../../../app/errors.ts';
import { escapeLine } from '../../../app/format.ts';
import { isUnderWay } from '../../../lab/check-rows.ts';
import { timeFormatter } from '../../../lab/local-time.ts';
import { newsTimeFormatter, type JobNews, newsEventKinds, groupNews } from '../../../lab/news.ts';
import type { LabUser } from '../../../lab/users.ts';
import { shortName } from '../../../lab/tpus.ts';
import { restartIfKilled, createWaker } from '../../controller.ts';
import { hangingIndent } from '../../render/cell.ts';
import { columnsOf } from '../../screen.ts';
import type { TpuHandler, TpuCli } from '../command.ts';
import { currentUser, resolveUser } from '../resolve-user.ts';
import { columnsFor, rowJson, rowLines } from '../screen/rows.ts';

export const check: TpuHandler = async (cli, args) => {
  const { io, screen } = cli;
  const user = await resolveUser(cli, args);
  const rows = await cli.lab.checkRows(user, io.now());
  if (cli.json) {
    cli.printJsonLines(rows.map(rowJson));
    await restartIfKilled(cli, createWaker(cli), rows.some(isUnderWay));
    return exitCode.ok;
  }
  const lines = rowLines(rows, {
    letters: columnsFor(args.letters, user.settings),
    columns: columnsOf(io.stdout),
    style: screen.styleOut,
    clock: timeFormatter(user.settings.time_zone, io.now()),
  });
  io.stdout.write([...lines.heading, ...lines.rows.flat()].map((line) => `${line}\n`).join(''));
  if (rows.length === 0) cli.note(`${user.name} has no windows. \`tpu run <tpu> ${user.name}\` starts a job.`);
  await restartIfKilled(cli, createWaker(cli), rows.some(isUnderWay));
  return exitCode.ok;
};

export const monitor: TpuHandler = async (cli, args) => runMonitor(cli, await resolveUser(cli, args), args.letters);

/** The monitor of the user, also for `tpu run`. Without letters it shows the columns of the user's settings. */
export async function runMonitor(cli: TpuCli, user: LabUser, letters = ''): Promise<number> {
  const { watchWindows } = await import('../screen/monitor.ts');
  return watchWindows(cli, { user, letters });
}

const maxNewsLines = 12;

export const news: TpuHandler = async (cli, args) => {
  const { store } = cli.lab;
  const user = await resolveUser(cli, args);
  const events = await store.eventsSince(user.name, user.newsSeen, newsEventKinds);
  const ids = [...new Set(events.map(({ job }) => job))];
  const windows = await store.windows({ jobs: ids, cleared: true });
  const inWindows = new Set(windows.map(({ job }) => job.job));
  const jobs = ids.every((id) => inWindows.has(id)) ? [] : await store.jobs(user.name);
  const groups = groupNews(events, jobs, windows);
  if (cli.json) cli.printJsonLines(groups.map(newsJson));
  else await printNews(cli, groups, user.settings.time_zone);
  const last = events.at(-1)?.number;
  // Print first and record as seen afterwards, so that interrupted output is news again. News that another user reads
  // stays news.
  const reader = currentUser(cli, await store.users(), user.name);
  if (last !== undefined && reader?.name === user.name && !args.flags.has('peek'))
    await store.changeUser(user.name, { kind: 'see_news', upTo: last });
  if (groups.length === 0) cli.note(`No news about the jobs of ${user.name}.`);
  return exitCode.ok;
};

async function printNews(cli: TpuCli, groups: readonly JobNews[], zone: string): Promise<void> {
  const { io, screen, lab } = cli;
  const clock = newsTimeFormatter(zone, io.now());
  const columns = columnsOf(io.stdout) ?? 1_000;
  const { namePrefix } = await lab.site();
  const text: string[] = [];
  for (const [index, { job, windows, lines }] of groups.entries()) {
    const which = windows.length === 0 ? `job ${job.job}` : `window ${windows.join(', ')}`;
    const parts = [which, basename(job.directory), shortName(job.tpu, namePrefix), job.tag ?? ''];
    if (index > 0) text.push('');
    text.push(screen.styleOut('bold', escapeLine(parts.filter((part) => part !== '').join(', '))));
    const shown = lines.slice(-maxNewsLines);
    if (shown.length < lines.length) text.push(`  ${lines.length - shown.length} earlier: jobman history ${job.job}`);
    for (const { at, message } of shown) text.push(...hangingIndent(`  ${clock(at)}  `, escapeLine(message), columns));
  }
  if (text.length > 0) cli.print(text.join('\n'));
}

function newsJson({ job, windows, lines }: JobNews): NewsOutput {
  const { job: id, user, directory, tpu, tag } = job;
  return {
    job: id,
    user,
    windows,
    directory,
    tpu,
    tag,
    events: lines,
  };
}

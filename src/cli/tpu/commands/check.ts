// `tpu check`, `tpu monitor` and `tpu news`: the jobs of a user, once, as they change, and what happened to them.

import { exitCode } from '../../../app/errors.ts';
import { moment, inertWord } from '../../../app/figures.ts';
import { createLooker, isUnderWay } from '../../../lab/check.ts';
import { clockFor } from '../../../lab/local-time.ts';
import { clockOf, type JobNews, newsKinds, newsOf } from '../../../lab/news.ts';
import { actsForAnother, type LabUser } from '../../../lab/people.ts';
import { shortName } from '../../../lab/tpus.ts';
import { replaceKilled, wakerOf } from '../../controller.ts';
import { hanging } from '../../render/cell.ts';
import { columnsOf } from '../../screen.ts';
import type { TpuBody, TpuCli } from '../command.ts';
import { typing, userOf } from '../people.ts';
import { columnsFor, rowJson, rowLines } from '../screen/rows.ts';

export const check: TpuBody = async (desk, words) => {
  const { io, lab, screen, services } = desk;
  const user = await userOf(desk, words);
  const { namePrefix } = await lab.site();
  const looker = createLooker({ record: lab.record, home: services.home, user, namePrefix });
  const now = io.now();
  const rows = await looker.look(now);
  looker.keep();
  if (desk.json) {
    io.stdout.write(rows.map((row) => `${JSON.stringify(rowJson(row))}\n`).join(''));
    await replaceKilled(desk, wakerOf(desk), rows.some(isUnderWay));
    return exitCode.ok;
  }
  const lines = rowLines(rows, {
    letters: columnsFor(words.letters, user.settings),
    columns: columnsOf(io.stdout),
    ink: screen.out,
    clock: clockFor(user.settings.time_zone, now),
  });
  io.stdout.write([...lines.heading, ...lines.rows.flat()].map((line) => `${line}\n`).join(''));
  if (rows.length === 0) desk.note(`${user.name} has no windows. \`tpu run <tpu> ${user.name}\` begins a job.`);
  await replaceKilled(desk, wakerOf(desk), rows.some(isUnderWay));
  return exitCode.ok;
};

export const monitor: TpuBody = async (desk, words) => monitorOf(desk, await userOf(desk, words), words.letters);

/** The monitor of that user, for `tpu run` too; the columns that they have chosen where no letters say others. */
export async function monitorOf(desk: TpuCli, user: LabUser, letters = ''): Promise<number> {
  const { lab, services } = desk;
  const { namePrefix } = await lab.site();
  const looker = createLooker({ record: lab.record, home: services.home, user, namePrefix });
  const { watchWindows } = await import('../screen/monitor.ts');
  return watchWindows(desk, { user, letters, looker });
}

const linesMost = 12;

export const news: TpuBody = async (desk, words) => {
  const { record } = desk.lab;
  const user = await userOf(desk, words);
  const events = await record.eventsSince(user.name, user.newsSeen, newsKinds);
  const ids = [...new Set(events.map(({ job }) => job))];
  const windows = await record.windows({ jobs: ids, cleared: true });
  const inWindows = new Set(windows.map(({ job }) => job.job));
  const jobs = ids.every((id) => inWindows.has(id)) ? [] : await record.jobs(user.name);
  const told = newsOf(events, jobs, windows);
  if (desk.json) for (const one of told) desk.print(JSON.stringify(newsJson(one)));
  else await show(desk, told, user.settings.time_zone);
  const last = events.at(-1)?.number;
  // Told first and marked then: what was not read to its end is news again; and what somebody else has read.
  const isTheirs = !actsForAnother(typing(desk, await record.users()), user.name);
  if (last !== undefined && isTheirs && !words.flags.has('peek')) {
    await record.changeUser(user.name, (now) => ({ ...now, newsSeen: Math.max(now.newsSeen, last) }));
  }
  if (told.length === 0) desk.note(`Nothing has happened to the jobs of ${user.name} since they last looked.`);
  return exitCode.ok;
};

async function show(desk: TpuCli, told: readonly JobNews[], zone: string): Promise<void> {
  const { io, screen, lab } = desk;
  const clock = clockOf(zone, io.now());
  const columns = columnsOf(io.stdout) ?? 1_000;
  const { namePrefix } = await lab.site();
  const text: string[] = [];
  for (const [index, { job, windows, lines }] of told.entries()) {
    const which = windows.length === 0 ? `job ${job.job}` : `window ${windows.join(', ')}`;
    const parts = [which, job.directory.split('/').at(-1) ?? '', shortName(job.tpu, namePrefix), job.tag ?? ''];
    if (index > 0) text.push('');
    text.push(screen.out('bold', inertWord(parts.filter((part) => part !== '').join(', '))));
    const shown = lines.slice(-linesMost);
    if (shown.length < lines.length) text.push(`  ${lines.length - shown.length} earlier: jobman history ${job.job}`);
    for (const { at, says } of shown) text.push(...hanging(`  ${clock(at)}  `, inertWord(says), columns));
  }
  // Written as one: after a night there are hundreds of lines.
  if (text.length > 0) desk.print(text.join('\n'));
}

function newsJson({ job, windows, lines }: JobNews): object {
  const { job: id, user, directory, tpu, tag } = job;
  return {
    job: id,
    user,
    windows,
    directory,
    tpu,
    tag,
    events: lines.map(({ at, says }) => ({ at: moment(at), says })),
  };
}

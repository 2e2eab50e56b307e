// `tpu news`: what happened to a user's jobs since they last looked.

import { moment } from '../../../app/moment.ts';
import { exitCode } from '../../../app/errors.ts';
import { shortName } from '../../../lab/names-of-tpus.ts';
import { actsForAnother } from '../../../lab/who.ts';
import { clockOf, newsKinds, newsOf, type JobNews } from '../../../lab/news.ts';
import { hanging } from '../../render/cell.ts';
import { inertWord } from '../../render/inert.ts';
import { columnsOf } from '../../screen.ts';
import { typing, userOf } from '../people.ts';
import type { TpuBody, TpuCli } from '../tpu-cli.ts';

/** So many lines of one job are shown; what came before them is counted. */
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

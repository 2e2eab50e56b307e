// ack: has jobs looked at now: those of the user that the line names, else everybody's, whoever types.

import { exitCode } from '../../../app/errors.ts';
import { countText } from '../../../app/figures.ts';
import { isSettled } from '../../settled.ts';
import { usersOf } from '../people.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';

export async function ack(desk: TpuCli, words: Words): Promise<number> {
  const users = await usersOf(desk, words);
  const client = await desk.services.client();
  const { rows } = await client.list({});
  const live = rows.filter((row) => !isSettled(row) && users.some(({ name }) => name === row.user));
  if (live.length === 0) {
    const whose = words.user === null ? 'Nobody has a job' : `${words.user} has no job`;
    desk.tell(`${whose} under way, so nothing is to be looked at.`);
    return exitCode.ok;
  }
  const ids = live.map(({ id }) => id);
  // Of several attempts of one job, people know the newest by its number.
  const windows = await desk.lab.record.windows({ jobs: ids });
  const newest = new Map(windows.map(({ window }) => [window.job, window.window]));
  const news = await desk.lab.lookNow(ids);
  for (const { name } of users) {
    const theirs = live.filter(({ user }) => user === name);
    if (theirs.length === 0) continue;
    const shown = theirs.flatMap(({ id }) => newest.get(id) ?? []).toSorted((a, b) => a - b);
    const which = shown.length === 0 ? '' : `: ${shown.join(', ')}`;
    desk.tell(`${countText(theirs.length, 'job')} of ${name} will be looked at now${which}.`);
  }
  if (news !== null) desk.note(news);
  return exitCode.ok;
}

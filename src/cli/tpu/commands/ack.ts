// ack: has a user's jobs looked at now.

import { exitCode } from '../../../app/errors.ts';
import { isSettled } from '../../settled.ts';
import { userOf } from '../people.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';

export async function ack(desk: TpuCli, words: Words): Promise<number> {
  const user = await userOf(desk, words);
  const windows = await desk.lab.record.windows({ user: user.name });
  const client = await desk.services.client();
  const { rows } = await client.list({ owner: user.name });
  const live = new Set(rows.filter((row) => !isSettled(row)).map(({ id }) => id));
  if (live.size === 0) {
    desk.tell(`${user.name} has no job under way, so nothing is to be looked at.`);
    return exitCode.ok;
  }
  const news = await desk.lab.lookNow([...live]);
  // Of several attempts of one job, people know the newest by its number.
  const newest = new Map(windows.map(({ window }) => [window.job, window.window]));
  const shown = [...live].map((id) => newest.get(id)).filter((number) => number !== undefined);
  const which = shown.length === 0 ? '' : `: ${shown.toSorted((a, b) => a - b).join(', ')}`;
  desk.tell(`${live.size} ${live.size === 1 ? 'job' : 'jobs'} of ${user.name} will be looked at now${which}.`);
  if (news !== null) desk.note(news);
  return exitCode.ok;
}

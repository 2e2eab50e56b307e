// What the shell may propose where a command takes a setup step of a job: behind `logs 42 --step`, and behind `setup 42`.

import type { Client, JobView } from '../../app/client.ts';
import type { Context } from '../entry.ts';
import type { Proposal } from './happenings.ts';

/** The steps of the job that the line names; nothing anywhere else, and nothing rather than failing. */
export async function proposeSteps(words: readonly string[], context: Context): Promise<readonly Proposal[]> {
  const [command, ...rest] = words;
  const partial = rest.at(-1) ?? '';
  const isLog = command === 'logs' && rest.at(-2) === '--step';
  if (!isLog && !(command === 'setup' && rest.length === 2)) return [];
  const named = rest.slice(0, isLog ? -2 : -1);
  const job = await context.services
    .client()
    .then((client) => jobAmong(client, named))
    .catch(() => undefined);
  const steps = (job?.spec.steps ?? []).map(({ name }) => ({ completion: name, brief: 'a setup step' }));
  return [...steps, ...(isLog ? logs : [])].filter(({ completion }) => completion.startsWith(partial));
}

/** The logs that every job has beside those of its steps. */
const logs: readonly Proposal[] = [
  { completion: 'command', brief: 'what the command printed' },
  { completion: 'job', brief: 'the life of the job' },
  { completion: 'tpu', brief: 'what was asked of the cloud, and answered' },
];

/** The first word that names a job: the others are flags, and what belongs to them. */
async function jobAmong(client: Client, words: readonly string[]): Promise<JobView | undefined> {
  for (const word of words) {
    if (word.startsWith('-')) continue;
    const job = await client.show(word).catch(() => undefined);
    if (job !== undefined) return job;
  }
  return undefined;
}

// Which job and which of its workers a command by hand is about.

import type { Client, JobView } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { refOfName } from '../context.ts';
import type { WorkerChoice } from '../parse.ts';

/** The numbers that are meant, in order and each once. Throws JobmanError when one of them is no worker of that job. */
export function chosenWorkers(choice: WorkerChoice | undefined, all: readonly number[], id: string): readonly number[] {
  if (choice === undefined || choice === 'all') return all;
  const last = all.length - 1;
  const beyond = choice.find(([, to]) => to > last)?.[1];
  if (beyond !== undefined) {
    const which = last === 0 ? 'its only worker is 0' : `its workers are 0 to ${last}`;
    throw new JobmanError(`Job ${id} has no worker ${beyond}; ${which}.`, exitCode.usage);
  }
  return all.filter((worker) => choice.some(([from, to]) => from <= worker && worker <= to));
}

/** The job that is named, by the first word or by `--job-name`, and the words that are left. */
export async function jobAndWords(
  client: Client,
  words: readonly string[],
  jobName: string | undefined,
): Promise<{ readonly view: JobView; readonly words: readonly string[] }> {
  const [first, ...rest] = words;
  const ref = jobName === undefined ? first : await refOfName(client, jobName);
  if (ref === undefined)
    throw new JobmanError('Which job? Say its id or name; `jobman list` shows them.', exitCode.usage);
  return { view: await client.show(ref), words: jobName === undefined ? rest : words };
}

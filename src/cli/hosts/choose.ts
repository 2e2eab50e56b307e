// The job of a command by hand, and its workers.

import { noSuchWorker } from '../../app/by-hand.ts';
import type { WorkerChoice } from '../parse.ts';

/** The numbers that are meant, in order and each once. Throws JobmanError when one of them is no worker of that job. */
export function chosenWorkers(choice: WorkerChoice | undefined, all: readonly number[], id: string): readonly number[] {
  if (choice === undefined || choice === 'all') return all;
  const beyond = choice.find(([, to]) => to >= all.length)?.[1];
  if (beyond !== undefined) throw noSuchWorker(id, beyond, all.length);
  return all.filter((worker) => choice.some(([from, to]) => from <= worker && worker <= to));
}

/** The word that names the job, where `--job-name` does not, and the words that are left. */
export function refAndWords(
  words: readonly string[],
  jobName: string | undefined,
): { readonly refs: readonly string[]; readonly words: readonly string[] } {
  return jobName === undefined ? { refs: words.slice(0, 1), words: words.slice(1) } : { refs: [], words };
}

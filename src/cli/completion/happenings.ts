// Proposals behind `jobman emulator`: what can happen in the built-in cloud.

import type { Candidate, PartialLine } from '../command.ts';
import { emulatorVerbs } from '../emulator-verbs.ts';
import { jobIds } from './ids.ts';

/** The verbs in the place of a verb, and jobs in the place of its target. */
export async function happenings(line: PartialLine): Promise<readonly Candidate[]> {
  const [verb, target] = line.args;
  if (verb === undefined) return emulatorVerbs.map(([word, summary]) => ({ word, summary }));
  if (target !== undefined || !emulatorVerbs.some(([name]) => name === verb)) return [];
  const jobs = await jobIds(line);
  return jobs.map((word) => ({ word, summary: 'its TPU, or one worker of it: 1/3' }));
}

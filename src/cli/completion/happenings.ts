// What the shell may propose behind `jobman emulator`, beside its commands: what can happen in the built-in cloud.

import { emulatorVerbs } from '../emulator-verbs.ts';
import type { Context } from '../entry.ts';
import { jobIds } from './ids.ts';

export interface Proposal {
  readonly completion: string;
  /** Its meaning, in a few words. */
  readonly brief: string;
}

/** The verbs in the place of a verb, and jobs in the place of its target; nothing anywhere else. */
export async function proposeHappenings(words: readonly string[], context: Context): Promise<readonly Proposal[]> {
  const [group, verb, ...rest] = words;
  if (group !== 'emulator' || verb === undefined || rest.length > 1) return [];
  const [partial] = rest;
  if (partial === undefined) {
    return emulatorVerbs
      .filter(([name]) => name.startsWith(verb))
      .map(([completion, brief]) => ({ completion, brief }));
  }
  if (!emulatorVerbs.some(([name]) => name === verb)) return [];
  const jobs = await jobIds.call(context, partial);
  return jobs.map((completion) => ({ completion, brief: 'its TPU, or one worker of it: 1/3' }));
}

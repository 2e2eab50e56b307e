// Proposals for a shell: jobs, setup steps, settings, and what can happen in the built-in cloud.

import type { Candidate, PartialLine, Proposal, Propose } from '../command.ts';
import { inertWord } from '../../app/figures.ts';

export async function setupSteps(line: PartialLine): Promise<readonly Candidate[]> {
  return line.args.length === 0 ? jobIds(line) : line.args.length === 1 ? stepsOf(line) : [];
}

export async function logSteps(line: PartialLine): Promise<readonly Candidate[]> {
  return [
    ...(await stepsOf(line)),
    { word: 'command', summary: 'what the command printed' },
    { word: 'job', summary: 'the life of the job' },
    { word: 'tpu', summary: 'what was asked of the cloud, and answered' },
  ];
}

async function stepsOf({ services, args: [ref] }: PartialLine): Promise<readonly Proposal[]> {
  try {
    const job = ref === undefined ? undefined : await (await services.client()).show(ref);
    return (job?.spec.steps ?? []).map(({ name }) => ({ word: name, summary: 'a setup step' }));
  } catch {
    return [];
  }
}

/** Ids of the jobs in the list, and their names once a letter has been typed. */
export async function jobIds({ services, partial }: PartialLine): Promise<readonly string[]> {
  try {
    const client = await services.client();
    const { rows } = await client.list({});
    const ids = rows.map((row) => row.id);
    const names = partial === '' ? [] : rows.map((row) => row.name);
    return [...new Set([...ids, ...names])];
  } catch {
    return [];
  }
}

export async function proposed(
  place: { readonly summary: string; readonly propose?: Propose; readonly choices?: readonly string[] } | undefined,
  line: PartialLine,
): Promise<readonly Proposal[]> {
  if (place === undefined) return [];
  const { summary, propose, choices = [] } = place;
  const found = propose === undefined ? choices : await propose(line);
  return found.map((one) => (typeof one === 'string' ? { word: one, summary } : one));
}

/**
 * One line each, as the scripts of the shells read them: the word, a tab, its meaning. A word with a control character is left out: it
 * would be another candidate on the next line, or a sequence that the shell sends to the terminal. Names come from other people, and
 * from other servers.
 */
export function proposalLines(proposals: readonly Proposal[]): string {
  const possible = proposals.filter(({ word }) => word !== '' && word === inertWord(word));
  return possible.map(({ word, summary }) => `${word}\t${inertWord(summary)}\n`).join('');
}

export async function happenings(line: PartialLine): Promise<readonly Candidate[]> {
  const [verb, target] = line.args;
  if (verb === undefined) return emulatorVerbs.map(([word, summary]) => ({ word, summary }));
  if (target !== undefined || !emulatorVerbs.some(([name]) => name === verb)) return [];
  const jobs = await jobIds(line);
  return jobs.map((word) => ({ word, summary: 'its TPU, or one worker of it: 1/3' }));
}

export async function settingWords({ partial }: PartialLine): Promise<readonly string[]> {
  const { settingKeys } = await import('../../app/settings.ts');
  return ['set', 'unset', ...(partial === '' ? [] : settingKeys.map(({ key }) => key))];
}

export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

/** Each verb in the cloud's own words. From `stockout` on a verb leaves a condition. */
export const emulatorVerbs: readonly (readonly [verb: string, meaning: string])[] = [
  ['preempt', 'take a node away, as the cloud takes spot capacity'],
  ['maintenance', 'take a node down for maintenance; it comes back with its disks'],
  ['kill-host', 'cut the power of one worker: nobody answers there, while the cloud still says READY'],
  ['hang-host', 'freeze one worker: its processes stand still and its connections stay silent'],
  ['fill-disk', 'fill the disk of one worker: nothing can be written there'],
  ['ssh-refuse', 'close the SSH door of one worker: its programs run on, and nobody gets in'],
  ['start-host', 'end all that is the matter with one worker; a dead one boots'],
  ['stockout', 'no capacity in a zone, for a type or a generation'],
  ['capacity', 'how many chips of a generation a zone has'],
  ['quota', 'how much a project may hold in a region: cores (of v5e, v6e chips), `addresses`, `requests` a minute'],
  ['reserve', 'set chips of a generation in a zone aside, as a reservation does'],
  ['price', 'what a chip costs an hour, in US dollars; `bill` counts with it'],
  [
    'permission',
    'refuse: a zone, a right (tpu.nodes.create, storage.objects.get), `login` (it has expired) or `api` (off)',
  ],
  ['hold', 'a queue that stays waiting, a creation that does not end'],
  ['fail', 'let the next creation fail (once, or `times`)'],
  ['slow', 'let things take `factor` times longer, or delay every reply (those of `storage`) by `replies`'],
  ['drop', 'lose the next reply (or `times`) of a changing call, although the act is done'],
  ['flaky', 'answer 503 with probability `p`: to some calls, in a zone, or from `storage`'],
  [
    'bucket',
    'say where a bucket is, or put it there: a region, a zone, US, EU, ASIA, NAM4, or two regions with a comma',
  ],
  ['bill', 'say what all nodes so far would have cost at Google'],
  ['clear', 'take conditions off: those of one verb, or all'],
];

import type { Candidate, PartialLine, Proposal, Propose } from '../command.ts';
import { escapeLine } from '../../app/format.ts';

export async function setupSteps(line: PartialLine): Promise<readonly Candidate[]> {
  return line.args.length === 0 ? jobIds(line) : line.args.length === 1 ? stepsOf(line) : [];
}

export async function logSteps(line: PartialLine): Promise<readonly Candidate[]> {
  return [
    ...(await stepsOf(line)),
    { value: 'command', summary: 'what the command printed' },
    { value: 'job', summary: 'the life of the job' },
    { value: 'tpu', summary: 'what was asked of the cloud, and answered' },
  ];
}

async function stepsOf({ services, args: [ref] }: PartialLine): Promise<readonly Proposal[]> {
  try {
    const job = ref === undefined ? undefined : await (await services.client()).show(ref);
    return (job?.spec.steps ?? []).map(({ name }) => ({ value: name, summary: 'a setup step' }));
  } catch {
    return [];
  }
}

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

export async function proposalsOf(
  source: { readonly summary: string; readonly propose?: Propose; readonly choices?: readonly string[] } | undefined,
  line: PartialLine,
): Promise<readonly Proposal[]> {
  if (source === undefined) return [];
  const { summary, propose, choices = [] } = source;
  const found = propose === undefined ? choices : await propose(line);
  return found.map((one) => (typeof one === 'string' ? { value: one, summary } : one));
}

/**
 * One line per proposal: value, tab, summary. Values come from other users and servers; one with a control character is
 * left out: it could add a candidate, or send an escape sequence to the terminal.
 */
export function formatProposals(proposals: readonly Proposal[]): string {
  const possible = proposals.filter(({ value }) => value !== '' && value === escapeLine(value));
  return possible.map(({ value, summary }) => `${value}\t${escapeLine(summary)}\n`).join('');
}

export async function emulatorArguments(line: PartialLine): Promise<readonly Candidate[]> {
  const [verb, target] = line.args;
  if (verb === undefined) return emulatorVerbs.map(([value, summary]) => ({ value, summary }));
  if (target !== undefined || !emulatorVerbs.some(([name]) => name === verb)) return [];
  const jobs = await jobIds(line);
  return jobs.map((value) => ({ value, summary: 'its TPU, or one worker of it: 1/3' }));
}

export async function settingArguments({ partial }: PartialLine): Promise<readonly string[]> {
  const { settingKeys } = await import('../../app/settings.ts');
  return ['set', 'unset', ...(partial === '' ? [] : settingKeys.map(({ key }) => key))];
}

export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

/** From `stockout` on a verb leaves a condition. */
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

import type { Candidate, PartialLine, Proposal, Propose } from '../command.ts';
import { acceleratorsOf, generations } from '../../catalogue/accelerators.ts';
import { escapeLine } from '../../app/format.ts';
import { roles } from '../../core/model/user.ts';

export async function setupSteps(line: PartialLine): Promise<readonly Candidate[]> {
  return line.args.length === 0 ? jobRefs(line) : line.args.length === 1 ? stepsOf(line) : [];
}

export async function logSteps(line: PartialLine): Promise<readonly Candidate[]> {
  return [
    ...(await stepsOf(line)),
    { value: 'command', summary: 'the output of the command' },
    { value: 'job', summary: 'the events of the job' },
    { value: 'tpu', summary: 'requests to the cloud and its answers' },
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

/** Ids and names of the listed jobs; the summary says which is which. */
export async function jobRefs({ services }: PartialLine): Promise<readonly Proposal[]> {
  try {
    const { rows } = await (await services.client()).list({});
    const ids = rows.map(({ id, name, phase }) => ({ value: id, summary: `${name}, ${phase}` }));
    // The newest job of a name comes first, and a Map keeps the last value of a key.
    const names = new Map(rows.toReversed().map((row) => [row.name, row]));
    return [...ids, ...[...names.values()].map(({ id, name, phase }) => ({ value: name, summary: `${id}, ${phase}` }))];
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
 * One per line: value, tab, summary. Omits values with a control character, which other users could choose to do harm.
 */
export function formatProposals(proposals: readonly Proposal[]): string {
  const possible = proposals.filter(({ value }) => value !== '' && value === escapeLine(value));
  return possible.map(({ value, summary }) => `${value}\t${escapeLine(summary)}\n`).join('');
}

export async function emulatorArguments(line: PartialLine): Promise<readonly Candidate[]> {
  const [verb, target] = line.args;
  if (verb === undefined) return emulatorVerbs.map(([value, summary]) => ({ value, summary }));
  if (target !== undefined || !emulatorVerbs.some(([name]) => name === verb)) return [];
  return jobRefs(line);
}

export async function settingArguments({ args }: PartialLine): Promise<readonly string[]> {
  if (args.length === 0) return ['list', 'get', 'set', 'add', 'unset'];
  if (args.length > 1 || args[0] === 'list') return [];
  const { settingKeys } = await import('../../app/settings.ts');
  return settingKeys.map(({ key }) => key);
}

export async function hostNames({ services }: PartialLine): Promise<readonly string[]> {
  return Object.keys((await services.settings()).hosts);
}

export async function userNames({ services, args }: PartialLine): Promise<readonly string[]> {
  return args.length > 0 ? [] : (await (await services.client()).users()).map(({ name }) => name);
}

export async function roleArguments(line: PartialLine): Promise<readonly string[]> {
  return line.args.length === 1 ? roles : userNames(line);
}

/** The names of the limits of a user on the command line. */
export const limitKeys = [
  'chips',
  'jobs',
  'usd-per-day',
  'projects',
  'clusters',
  'hosts',
  'tokens',
  'files-mib',
] as const;

export async function limitArguments(line: PartialLine): Promise<readonly string[]> {
  if (line.args.length === 0) return userNames(line);
  return [...limitKeys.map((key) => `${key}=`), ...(line.args.length === 1 ? ['none'] : [])];
}

export async function tokenNames({ services }: PartialLine): Promise<readonly string[]> {
  const tokens = await (await services.client()).tokens();
  return tokens.filter(({ revokedAt }) => revokedAt === null).map(({ name }) => name);
}

export async function contextNames({ services, args }: PartialLine): Promise<readonly Proposal[]> {
  if (args.length > 0) return [];
  const { contexts } = await (await services.contexts()).read();
  return Object.entries(contexts).map(([value, { server }]) => ({ value, summary: server }));
}

export async function serverNames(line: PartialLine): Promise<readonly Proposal[]> {
  const { thisMachine } = await import('../../app/server-in-use.ts');
  return [{ value: thisMachine, summary: 'this machine' }, ...(await contextNames({ ...line, args: [] }))];
}

export function serverArgument(line: PartialLine): Promise<readonly Proposal[]> | readonly Proposal[] {
  return line.args.length > 0 ? [] : serverNames(line);
}

export async function secretNames({ services }: PartialLine): Promise<readonly string[]> {
  return (await (await services.client()).secrets()).map(({ name }) => name);
}

export async function notifyArguments({ args, services }: PartialLine): Promise<readonly string[]> {
  if (args.length === 0) return ['list', 'test', 'drop'];
  if (args[0] !== 'test' && args[0] !== 'drop') return [];
  const { configuredRecipients } = await import('../../app/notifications/recipients.ts');
  return configuredRecipients((await services.settings()).notify);
}

/** A command such as `controller status` is two arguments. */
export function commandNames({ program, args: [family] }: PartialLine): readonly string[] {
  const names = program.commands.filter(({ hidden }) => hidden !== true).map(({ names: [name] }) => name.split(' '));
  const proposed = names.map(([first = '', second = '']) =>
    family === undefined ? first : first === family ? second : '',
  );
  return [...new Set(proposed)];
}

/** Only the smallest of each generation, because some have a hundred. */
export function acceleratorTypes(): readonly string[] {
  const types = generations.flatMap((generation) => acceleratorsOf(generation).slice(0, 8));
  return ['emulator', 'local', ...types.map(({ type }) => type)];
}

export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

/** From `stockout` on a verb leaves a condition. */
export const emulatorVerbs: readonly (readonly [verb: string, meaning: string])[] = [
  ['preempt', 'preempt a node, as Google does with spot TPUs'],
  ['maintenance', 'take a node down for maintenance; it comes back with its disks'],
  ['kill-host', 'cut the power of one worker: it does not answer, and its node stays READY'],
  ['hang-host', 'freeze one worker: its processes stop and its connections are silent'],
  ['fill-disk', 'fill the disk of one worker: writes fail'],
  ['ssh-refuse', 'refuse SSH connections to one worker: its programs keep running'],
  ['start-host', 'clear all faults of one worker; boot it if it has no power'],
  ['stockout', 'have no capacity in a zone, for a type or a generation'],
  ['capacity', 'limit the chips of a generation in a zone'],
  [
    'quota',
    'limit the cores (for v5e and v6e: chips), `addresses` or `requests` per minute of a project in a region; `--limit 32` is 32 cores',
  ],
  ['reserve', 'reserve chips of a generation in a zone'],
  ['price', 'set the price of a chip per hour in US dollars; `bill` uses it'],
  [
    'permission',
    'deny a zone, a permission (tpu.nodes.create, storage.objects.get), `login` (expired) or `api` (disabled)',
  ],
  ['hold', 'keep queued requests waiting, and creations unfinished'],
  ['fail', 'fail the next creation, or as many as `times`'],
  ['slow', 'take `factor` times longer, or delay every reply by `replies` (of `storage`: only its replies)'],
  ['drop', 'make the next change, or as many as `times`, and lose the reply'],
  ['flaky', 'answer calls with 503, with probability `p`: every call, one kind, those of a zone, or of `storage`'],
  ['bucket', 'show or set the location of a bucket: a region, a zone, US, EU, ASIA, NAM4, or two regions with a comma'],
  ['bill', 'show what all nodes so far would cost at Google'],
  ['clear', 'remove conditions: those of one verb, or all'],
];

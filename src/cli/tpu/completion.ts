// Proposals for a shell behind `tpu`; none rather than failing.

import { exitCode } from '../../app/errors.ts';
import type { LabServices } from '../../lab/lab.ts';
import type { LabUser } from '../../lab/people.ts';
import { type LabTpu, tpuCalled } from '../../lab/tpus.ts';
import type { LabRecord } from '../../lab/record.ts';
import type { Proposal } from '../command.ts';
import { proposalLines, proposed } from '../completion/proposals.ts';
import { typing } from './people.ts';
import { keysOf, windowKeys } from './line.ts';
import type { TpuCommand } from './command.ts';
import { table, tpuProgram } from './table.ts';

/** Prints what could stand in the place of the last word. */
export async function propose(words: readonly string[], services: LabServices): Promise<number> {
  const partial = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  const row = table.find((one) => before[0] !== undefined && one.names.includes(before[0]));
  const proposals =
    before.length === 0 ? commands() : row === undefined ? [] : await wordsFor(row, before, partial, services);
  // Behind a key that is there already the key alone is no help.
  const isTypedKey = (word: string): boolean => word === partial && word.endsWith('=');
  const wanted = proposals.filter(
    ({ word }) => word.startsWith(partial) && !before.slice(1).includes(word) && !isTypedKey(word),
  );
  services.io.stdout.write(proposalLines(wanted));
  return exitCode.ok;
}

function commands(): readonly Proposal[] {
  const rows = table.filter(({ hidden }) => !hidden);
  return [
    ...rows.flatMap(({ names, summary }) => names.map((word) => ({ word, summary }))),
    { word: 'help', summary: 'Which words a command takes' },
  ];
}

async function wordsFor(
  row: TpuCommand,
  before: readonly string[],
  partial: string,
  services: LabServices,
): Promise<readonly Proposal[]> {
  const { takes, args, flags } = row;
  const { record } = await services.lab();
  const ask = async <T>(question: Promise<T>, otherwise: T): Promise<T> => question.catch(() => otherwise);
  const users = takes.user === undefined ? [] : await ask(record.users(), []);
  const whoTypes = (): LabUser | undefined => {
    try {
      return typing({ io: services.io, me: undefined }, users) ?? undefined;
    } catch {
      // TPU_USER names nobody; the command itself will say so.
      return undefined;
    }
  };
  const named = users.find(({ name }) => before.includes(name) || before.includes(`user=${name}`)) ?? whoTypes();
  const ofUsers = users.map(({ name, id }) => ({ word: name, summary: `user ${id}` }));
  const ofTpus = takes.tpu === undefined ? [] : await ask(tpus(record), []);
  const ofWindows = takes.windows === undefined ? [] : await ask(windows(record, named), []);
  // The same once more behind the key that is typed: `tpu=v2-32-6`.
  const [key = '', ...rest] = partial.split('=');
  const windowKey = windowKeys.map((one) => [one, ofWindows] as const);
  const ofKeys = new Map([['user', ofUsers], ['tpu', ofTpus], ['ka', ofTpus], ...windowKey]);
  const behindKey = rest.length === 0 ? [] : (ofKeys.get(key) ?? []);
  const proposals = [
    ...ofUsers,
    ...ofTpus,
    ...ofWindows,
    ...behindKey.map(({ word, summary }) => ({ word: `${key}=${word}`, summary })),
    ...(takes.configs === undefined ? [] : aliases(named, '=')),
    ...(args.some(({ of }) => of === 'config aliases') ? aliases(named, '') : []),
    ...(args.some(({ of }) => of === 'TPU aliases') ? await ask(tpuAliases(record), []) : []),
    ...(
      await Promise.all(args.map((one) => proposed(one, { services, program: tpuProgram, args: [], partial })))
    ).flat(),
    ...keysOf(row).map((key) => ({ word: `${key}=`, summary: takes.keys?.[key]?.summary ?? '' })),
    ...Object.entries(takes.keys ?? {}).flatMap(([key, { choices = [], summary }]) =>
      choices.map((value) => ({ word: `${key}=${value}`, summary })),
    ),
    ...Object.entries(flags).map(([name, { summary }]) => ({
      word: name.includes('-') ? `--${name}` : `-${name}`,
      summary,
    })),
  ];
  await (await services.lab()).close();
  return proposals;
}

async function tpus(record: LabRecord): Promise<readonly Proposal[]> {
  const [all, byAlias] = await Promise.all([record.tpus(), record.tpuAliases()]);
  return [
    ...[...byAlias].map(([word, summary]) => ({ word, summary })),
    ...all.flatMap(({ name, zone }) => shortNames(all, byAlias, name, zone)),
    ...all.map(({ name, zone }) => ({ word: name, summary: zone ?? 'its zone is not known' })),
  ];
}

/** The part of a full name from its type on, which is how `check` shows it in most labs. */
function shortNames(
  all: readonly LabTpu[],
  byAlias: ReadonlyMap<string, string>,
  name: string,
  zone: string | null,
): readonly Proposal[] {
  const words = name.split('-');
  const word = words.map((_, at) => words.slice(at).join('-')).findLast((one) => tpuCalled(all, one)?.name === name);
  if (word === undefined || byAlias.has(word)) return [];
  return [{ word, summary: zone ?? 'its zone is not known' }];
}

/** Numbers mean something for one user only. */
async function windows(record: LabRecord, user: LabUser | undefined): Promise<readonly Proposal[]> {
  if (user === undefined) return [];
  const found = await record.windows({ user: user.name });
  return found.map(({ window, job }) => ({
    word: String(window.window),
    summary: [job.tpu, ...(job.tag === null ? [] : [job.tag])].join(', '),
  }));
}

function aliases(user: LabUser | undefined, end: '' | '='): readonly Proposal[] {
  return Object.entries(user?.aliases ?? {}).map(([alias, key]) => ({ word: `${alias}${end}`, summary: key }));
}

async function tpuAliases(record: LabRecord): Promise<readonly Proposal[]> {
  return [...(await record.tpuAliases())].map(([word, summary]) => ({ word, summary }));
}

// What a shell may propose behind `tpu`. One candidate a line, with its meaning after a tab; nothing rather than failing.

import { exitCode } from '../../app/errors.ts';
import type { LabServices } from '../../lab/lab.ts';
import type { LabUser } from '../../lab/people.ts';
import { tpuCalled } from '../../lab/names-of-tpus.ts';
import type { LabRecord } from '../../lab/record.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import { userSettings } from '../../lab/user-settings.ts';
import { proposalLines } from '../completion/lines.ts';
import { shells } from '../completion/shells.ts';
import { typing } from './people.ts';
import type { Row, TextSlot } from './row.ts';
import { table } from './table.ts';
import { keysOf } from './words.ts';

interface Proposal {
  readonly word: string;
  /** Its meaning, in a few words. */
  readonly brief: string;
}

/** Prints what could stand in the place of the last word. */
export async function propose(words: readonly string[], services: LabServices): Promise<number> {
  const partial = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  const row = table.find((one) => before[0] !== undefined && one.words.includes(before[0]));
  const proposals =
    before.length === 0 ? commands() : row === undefined ? [] : await wordsFor(row, before, partial, services);
  // Behind a key that is there already the key alone is no help.
  const isTypedKey = (word: string): boolean => word === partial && word.endsWith('=');
  const wanted = proposals.filter(
    ({ word }) => word.startsWith(partial) && !before.slice(1).includes(word) && !isTypedKey(word),
  );
  services.io.stdout.write(proposalLines(wanted.map(({ word, brief }) => [word, brief])));
  return exitCode.ok;
}

function commands(): readonly Proposal[] {
  const rows = table.filter(({ hidden }) => !hidden);
  return [
    ...rows.flatMap(({ words, brief }) => words.map((word) => ({ word, brief }))),
    { word: 'help', brief: 'Which words a command takes' },
  ];
}

async function wordsFor(
  row: Row,
  before: readonly string[],
  partial: string,
  services: LabServices,
): Promise<readonly Proposal[]> {
  const { takes } = row;
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
  const ofUsers = users.map(({ name, id }) => ({ word: name, brief: `user ${id}` }));
  const ofTpus = takes.tpu === undefined ? [] : await ask(tpus(record), []);
  const ofWindows = takes.windows === undefined ? [] : await ask(windows(record, named), []);
  const proposals = [
    ...ofUsers,
    ...ofTpus,
    ...ofWindows,
    ...behindKey(partial, {
      user: ofUsers,
      tpu: ofTpus,
      ka: ofTpus,
      w: ofWindows,
      window: ofWindows,
      windows: ofWindows,
    }),
    ...(takes.configs === undefined ? [] : aliases(named)),
    ...(takes.texts ?? []).flatMap(({ of }) => (of === undefined ? [] : texts(of, named))),
    ...((takes.texts ?? []).some(({ of }) => of === 'TPU aliases') ? await ask(tpuAliases(record), []) : []),
    ...keysOf(takes).map((key) => ({ word: `${key}=`, brief: takes.keys?.[key]?.brief ?? '' })),
    ...Object.entries(takes.keys ?? {}).flatMap(([key, { values = [], brief }]) =>
      values.map((value) => ({ word: `${key}=${value}`, brief })),
    ),
    ...Object.entries(takes.flags ?? {}).map(([name, { brief }]) => ({
      word: name.includes('-') ? `--${name}` : `-${name}`,
      brief,
    })),
  ];
  await (await services.lab()).close();
  return proposals;
}

/** The same once more behind the key that is typed: `tpu=v2-32-6`. */
function behindKey(partial: string, values: Readonly<Record<string, readonly Proposal[]>>): readonly Proposal[] {
  const [key = '', ...rest] = partial.split('=');
  if (rest.length === 0 || !Object.hasOwn(values, key)) return [];
  return (values[key] ?? []).map(({ word, brief }) => ({ word: `${key}=${word}`, brief }));
}

async function tpus(record: LabRecord): Promise<readonly Proposal[]> {
  const [all, byAlias] = await Promise.all([record.tpus(), record.tpuAliases()]);
  return [
    ...[...byAlias].map(([word, brief]) => ({ word, brief })),
    ...all.flatMap(({ name, zone }) => shortNames(all, byAlias, name, zone)),
    ...all.map(({ name, zone }) => ({ word: name, brief: zone ?? 'its zone is not known' })),
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
  return [{ word, brief: zone ?? 'its zone is not known' }];
}

/** Numbers mean something for one user only. */
async function windows(record: LabRecord, user: LabUser | undefined): Promise<readonly Proposal[]> {
  if (user === undefined) return [];
  const found = await record.windows({ user: user.name });
  return found.map(({ window, job }) => ({
    word: String(window.window),
    brief: [job.tpu, ...(job.tag === null ? [] : [job.tag])].join(', '),
  }));
}

function aliases(user: LabUser | undefined): readonly Proposal[] {
  return Object.entries(user?.aliases ?? {}).map(([alias, key]) => ({ word: `${alias}=`, brief: key }));
}

/** What the command's own words may be, as far as that needs no look. */
function texts(of: NonNullable<TextSlot['of']>, user: LabUser | undefined): readonly Proposal[] {
  switch (of) {
    case 'settings':
      return userSettings.map(({ key, meaning }) => ({ word: key, brief: meaning }));
    case 'config aliases':
      return Object.entries(user?.aliases ?? {}).map(([word, brief]) => ({ word, brief }));
    case 'shells':
      return shells.map((word) => ({ word, brief: 'a shell' }));
    case 'TPU aliases':
      return [];
  }
}

async function tpuAliases(record: LabRecord): Promise<readonly Proposal[]> {
  return [...(await record.tpuAliases())].map(([word, brief]) => ({ word, brief }));
}

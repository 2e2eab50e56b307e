// Shell completion for `tpu`. On an error it proposes nothing.

import { exitCode } from '../../app/errors.ts';
import type { LabServices } from '../../lab/lab.ts';
import type { LabUser } from '../../lab/users.ts';
import { type LabTpu, findTpuBySuffix } from '../../lab/tpus.ts';
import type { SharedLabStore } from '../../lab/lab-store.ts';
import type { Proposal } from '../command.ts';
import { formatProposals, proposalsOf } from '../completion/proposals.ts';
import { defaultUser, requestedInEnv } from './resolve-user.ts';
import { acceptedKeys, windowKeys } from './parse-arguments.ts';
import type { TpuCommand } from './command.ts';
import { table, tpuProgram } from './table.ts';

export async function propose(args: readonly string[], services: LabServices): Promise<number> {
  const partial = args.at(-1) ?? '';
  const before = args.slice(0, -1);
  const row = table.find((one) => before[0] !== undefined && one.names.includes(before[0]));
  const proposals =
    before.length === 0
      ? commandProposals()
      : row === undefined
        ? []
        : await argumentProposals(row, before, partial, services);
  const isTypedKey = (arg: string): boolean => arg === partial && arg.endsWith('=');
  const wanted = proposals.filter(
    ({ value }) => value.startsWith(partial) && !before.slice(1).includes(value) && !isTypedKey(value),
  );
  services.io.stdout.write(formatProposals(wanted));
  return exitCode.ok;
}

function commandProposals(): readonly Proposal[] {
  const rows = table.filter(({ hidden }) => !hidden);
  return [
    ...rows.flatMap(({ names, summary }) => names.map((value) => ({ value, summary }))),
    { value: 'help', summary: 'Show the arguments of a command' },
  ];
}

async function argumentProposals(
  row: TpuCommand,
  before: readonly string[],
  partial: string,
  services: LabServices,
): Promise<readonly Proposal[]> {
  const { takes, args, flags } = row;
  const lab = await services.lab();
  const { store } = lab;
  const orNothing = async <T>(read: Promise<readonly T[]>): Promise<readonly T[]> => read.catch(() => []);
  const users = takes.user === undefined ? [] : await orNothing(store.users());
  const named =
    users.find(({ name }) => before.includes(name) || before.includes(`user=${name}`)) ?? typingUser(services, users);
  const ofUsers = users.map(({ name, id }) => ({ value: name, summary: `user ${id}` }));
  const ofTpus = takes.tpu === undefined ? [] : await orNothing(tpuProposals(store));
  const ofWindows = takes.windows === undefined ? [] : await orNothing(windowProposals(store, named));
  const takesTpuAlias = args.some(({ suggests }) => suggests === 'TPU aliases');
  const ofTpuAliases = takesTpuAlias ? await orNothing(store.tpuAliases().then((aliases) => [...aliases])) : [];
  const configAliases = Object.entries(named?.aliases ?? {});
  const takesConfigAlias = args.some(({ suggests }) => suggests === 'config aliases');
  const ofArguments = args.map((one) => proposalsOf(one, { services, program: tpuProgram, args: [], partial }));
  const [key = ''] = partial.split('=');
  const keyed = {
    user: ofUsers,
    tpu: ofTpus,
    ka: ofTpus,
    ...Object.fromEntries(windowKeys.map((one) => [one, ofWindows])),
  };
  const afterKey = partial.includes('=') ? (new Map(Object.entries(keyed)).get(key) ?? []) : [];
  await lab.close();
  return [
    ...ofUsers,
    ...ofTpus,
    ...ofWindows,
    ...afterKey.map(({ value, summary }) => ({ value: `${key}=${value}`, summary })),
    ...(takes.configs === true ? configAliases.map(([alias, summary]) => ({ value: `${alias}=`, summary })) : []),
    ...[...(takesConfigAlias ? configAliases : []), ...ofTpuAliases].map(([value, summary]) => ({ value, summary })),
    ...(await Promise.all(ofArguments)).flat(),
    ...acceptedKeys(row).map((one) => ({ value: `${one}=`, summary: takes.keys?.[one]?.summary ?? '' })),
    ...Object.entries(takes.keys ?? {}).flatMap(([one, { choices = [], summary }]) =>
      choices.map((choice) => ({ value: `${one}=${choice}`, summary })),
    ),
    ...Object.entries(flags).map(([name, { summary }]) => ({
      value: name.includes('-') ? `--${name}` : `-${name}`,
      summary,
    })),
  ];
}

function typingUser({ io }: LabServices, users: readonly LabUser[]): LabUser | undefined {
  try {
    return defaultUser({ io, tokenUser: null, requestedUser: requestedInEnv(io) }, users) ?? undefined;
  } catch {
    // TPU_USER names no user. The command itself reports it.
    return undefined;
  }
}

async function tpuProposals(store: SharedLabStore): Promise<readonly Proposal[]> {
  const [all, byAlias] = await Promise.all([store.tpus(), store.tpuAliases()]);
  return [
    ...[...byAlias].map(([value, summary]) => ({ value, summary })),
    ...all.flatMap(({ name, zone }) => shortNameProposals(all, byAlias, name, zone)),
    ...all.map(({ name, zone }) => ({ value: name, summary: zone ?? 'zone unknown' })),
  ];
}

/** The part of a full name from its type on, as `check` shows it in most labs. */
function shortNameProposals(
  all: readonly LabTpu[],
  byAlias: ReadonlyMap<string, string>,
  name: string,
  zone: string | null,
): readonly Proposal[] {
  const parts = name.split('-');
  const value = parts
    .map((_, at) => parts.slice(at).join('-'))
    .findLast((one) => findTpuBySuffix(all, one)?.name === name);
  if (value === undefined || byAlias.has(value)) return [];
  return [{ value, summary: zone ?? 'zone unknown' }];
}

async function windowProposals(store: SharedLabStore, user: LabUser | undefined): Promise<readonly Proposal[]> {
  if (user === undefined) return [];
  const found = await store.windows({ user: user.name });
  return found.map(({ window, job }) => ({
    value: String(window.window),
    summary: [job.tpu, ...(job.tag === null ? [] : [job.tag])].join(', '),
  }));
}

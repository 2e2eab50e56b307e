// People: who shares the lab's TPUs, which of them types, and where their code is.

import { exitCode, JobmanError } from '../app/errors.ts';
import { choiceText } from '../app/figures.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Instant } from '../core/time.ts';
import { kept } from './names.ts';
import type { UserSettings } from './user-settings.ts';

/** A user of the registry. Jobs of `tpu` are owned by one of them, whoever typed the command. */
export interface LabUser {
  /** Unique, and no word that a command line could read as something else (names.ts). Any letters of any language. */
  readonly name: string;
  /** A number for life, the lowest that was free; `id=3` names the user on a command line. */
  readonly id: number;
  /** The tmux session that this user's windows are in; unique. */
  readonly session: string;
  readonly sheetName: string;
  /** Login names of this machine that are this user's; none where people share one login. */
  readonly logins: readonly string[];
  /** Working directories by their number, 1 to 100; 1 is the one that `run` takes unless told otherwise. Absolute. */
  readonly directories: Readonly<Record<number, string>>;
  /** Words of one's own for keys of a config: `lr` for `config.training.learning_rate`. */
  readonly aliases: Readonly<Record<string, string>>;
  readonly settings: UserSettings;
  /** The number that the next window gets, unless it is taken. From 1. */
  readonly nextWindow: number;
  readonly createdAt: Instant;
  /** The newest event that `tpu news` has told to this user: its number in the record; 0 before the first. */
  readonly newsSeen: number;
}

/** The variable by which somebody says who they are, where several people share one login. */
export const userVariable = 'TPU_USER';

/**
 * The user who types: TPU_USER (or --user), else whose logins include this one, else who has its name. Null on a login that
 * people share. Throws JobmanError (3) for an unknown name.
 */
export function me(
  { env, login }: { readonly env: Readonly<Record<string, string | undefined>>; readonly login: string },
  users: readonly LabUser[],
): LabUser | null {
  const said = kept(env[userVariable] ?? '');
  if (said === '') {
    return users.find(({ logins }) => logins.includes(login)) ?? users.find(({ name }) => name === login) ?? null;
  }
  const found = users.find(({ name }) => name === said);
  if (found !== undefined) return found;
  const near = didYouMean(
    said,
    users.map(({ name }) => name),
  );
  const guess = near === undefined ? '' : ` Did you mean "${near}"?`;
  throw new JobmanError(
    `There is no user "${said}", who you are by --user or ${userVariable}.${guess}`,
    exitCode.notFound,
    ['tpu list-users    lists those that there are'],
  );
}

/**
 * Whether that login may act for a job's owner in a command that names no user; `if named` on a shared login, where only
 * TPU_USER can tell who types.
 */
export function mayActAs(
  { env, login }: { readonly env: Readonly<Record<string, string | undefined>>; readonly login: string },
  users: readonly LabUser[],
  owner: string,
): 'yes' | 'if named' | 'no' {
  const user = users.find(({ name }) => name === owner);
  if (user === undefined) return 'no';
  if (user.logins.includes(login)) return 'yes';
  // A login of one user is not shared, and a user with logins is reached by these alone.
  if (user.logins.length > 0 || me({ env: {}, login }, users) !== null) return 'no';
  return kept(env[userVariable] ?? '') === owner ? 'yes' : 'if named';
}

/** True when that is to be asked about: it is known who types, and it is somebody else. On a shared login nobody can tell. */
export function actsForAnother(typing: LabUser | null, user: string): boolean {
  return typing !== null && typing.name !== user;
}

/** The actor in a job's history: the user who types, where that is known, else the user that the line names. */
export function actor(typing: LabUser | null, user: string): string {
  return typing?.name ?? user;
}

const most = 100;

/** The lowest id that no user has. */
export function lowestFreeId(users: readonly Pick<LabUser, 'id'>[]): number {
  let id = 0;
  while (users.some((user) => user.id === id)) id += 1;
  return id;
}

/** The folder of that number. Throws JobmanError (2) for a number that there cannot be, (3) where there is none of it. */
export function directoryOf(user: LabUser, number: number): string {
  checkNumber(number);
  const folder = user.directories[number];
  if (folder === undefined) throw noDirectory(user, number);
  return folder;
}

/** The user with that folder, absolute, as that number. Throws JobmanError (2). */
export function withDirectory(user: LabUser, number: number, folder: string): LabUser {
  checkNumber(number);
  return { ...user, directories: { ...user.directories, [number]: folder } };
}

/** The user without that number; the folder itself is not touched. Throws JobmanError (2), (3). */
export function withoutDirectory(user: LabUser, number: number): LabUser {
  directoryOf(user, number);
  const { [number]: _gone, ...directories } = user.directories;
  return { ...user, directories };
}

/** The user with what those two numbers stand for swapped. Throws JobmanError (2); (3) where one of them has no directory. */
export function withSwapped(user: LabUser, one: number, other: number): LabUser {
  checkNumber(one);
  checkNumber(other);
  const { [one]: first, [other]: second, ...rest } = user.directories;
  // To move a directory to a free number would take the default away without a word.
  if (first === undefined) throw noDirectory(user, one);
  if (second === undefined) throw noDirectory(user, other);
  return {
    ...user,
    directories: {
      ...rest,
      [one]: second,
      [other]: first,
    },
  };
}

function checkNumber(number: number): void {
  if (number < 1 || number > most) {
    throw new JobmanError(`Working directories have numbers from 1 to ${most}, and ${number} is none.`, exitCode.usage);
  }
}

function noDirectory(user: LabUser, number: number): JobmanError {
  const numbers = Object.keys(user.directories);
  return new JobmanError(
    `${user.name} has no working directory ${number}. ${choiceText(numbers)} \`tpu set-cur ${number} ${user.name}\` makes this folder that one.`,
    exitCode.notFound,
  );
}

// The users who share the lab's TPUs: their rights and working directories.

import { exitCode, JobmanError } from '../app/errors.ts';
import { escapeLine, formatChoices } from '../app/format.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Instant } from '../core/model/time.ts';
import type { Role } from '../core/model/user.ts';
import { defaultAliases } from './names.ts';
import type { UserChange } from './service.ts';
import { defaultUserSettings, withoutSetting, withSetting, type UserSettings } from './user-settings.ts';

/** A user of the registry. Such a user owns each job of `tpu`, even if another user typed the command. */
export interface LabUser {
  /** Unique, and not ambiguous on a command line (names.ts). Letters of any language are allowed. */
  readonly name: string;
  /** Permanent; the lowest free number at creation. `id=3` names the user on a command line. */
  readonly id: number;
  readonly role: Role;
  /** The tmux session of the user's windows; unique. */
  readonly session: string;
  readonly sheetName: string;
  /** Login names on this machine that belong to this user; empty for users of a shared login. */
  readonly logins: readonly string[];
  /** Absolute folders by number, 1 to 100. `run` uses 1 by default. */
  readonly directories: Readonly<Record<number, string>>;
  /** Short names for config keys: `lr` for `config.training.learning_rate`. */
  readonly aliases: Readonly<Record<string, string>>;
  readonly settings: UserSettings;
  /** From 1. The next window gets this number unless it is taken. */
  readonly nextWindow: number;
  readonly createdAt: Instant;
  /** The number of the newest event that `tpu news` has shown; 0 before the first. */
  readonly newsSeen: number;
}

/** The values that are chosen for a new user. */
export interface NewLabUser extends Pick<LabUser, 'name' | 'session' | 'sheetName' | 'logins' | 'directories'> {
  /** Null: the lowest free one. */
  readonly id: number | null;
  readonly timeZone: string;
}

/** Throws JobmanError (2) for an unknown time zone. */
export function newLabUser(
  { timeZone, ...chosen }: NewLabUser,
  now: Instant,
): Omit<LabUser, 'id'> & Pick<NewLabUser, 'id'> {
  return {
    ...chosen,
    role: 'member',
    aliases: defaultAliases,
    settings: withSetting(defaultUserSettings, 'time_zone', timeZone),
    nextWindow: 1,
    createdAt: now,
    newsSeen: 0,
  };
}

const maxDirectory = 100;

export function lowestFreeId(users: readonly Pick<LabUser, 'id'>[]): number {
  let id = 0;
  while (users.some((user) => user.id === id)) id += 1;
  return id;
}

/** Throws the JobmanError of the change; see `UserChange`. */
export function changedUser(user: LabUser, change: UserChange): LabUser {
  switch (change.kind) {
    case 'set':
      return { ...user, ...change.values };
    case 'set_directory':
      return withDirectory(user, change.number, change.folder);
    case 'remove_directory':
      return withoutDirectory(user, change.number);
    case 'swap_directories':
      return withSwappedDirectories(user, change.one, change.other);
    case 'set_setting':
      return { ...user, settings: withSetting(user.settings, change.key, change.text) };
    case 'reset_setting':
      return { ...user, settings: withoutSetting(user.settings, change.key) };
    case 'set_config_alias':
      return { ...user, aliases: { ...user.aliases, [change.alias]: change.key } };
    case 'remove_config_alias':
      return withoutConfigAlias(user, change.alias);
    case 'see_news':
      return { ...user, newsSeen: Math.max(user.newsSeen, change.upTo) };
    case 'fill':
      return {
        ...user,
        directories: { ...change.from.directories, ...user.directories },
        aliases: { ...change.from.aliases, ...user.aliases },
        nextWindow: Math.max(user.nextWindow, change.from.nextWindow),
      };
  }
}

function withoutConfigAlias(user: LabUser, alias: string): LabUser {
  const { [alias]: found, ...aliases } = user.aliases;
  if (found !== undefined) return { ...user, aliases };
  const all = Object.keys(user.aliases);
  const near = didYouMean(alias, all);
  const guess = near === undefined ? formatChoices(all) : `Did you mean ${near}?`;
  throw new JobmanError(`${user.name} has no config alias ${escapeLine(alias)}. ${guess}`, exitCode.notFound);
}

/** Throws JobmanError: (2) for an invalid number, (3) if the number has no folder. */
export function directoryOf(user: LabUser, number: number): string {
  checkDirectoryNumber(number);
  const folder = user.directories[number];
  if (folder === undefined) throw noDirectory(user, number);
  return folder;
}

function withDirectory(user: LabUser, number: number, folder: string): LabUser {
  checkDirectoryNumber(number);
  return { ...user, directories: { ...user.directories, [number]: folder } };
}

function withoutDirectory(user: LabUser, number: number): LabUser {
  directoryOf(user, number);
  const { [number]: _gone, ...directories } = user.directories;
  return { ...user, directories };
}

function withSwappedDirectories(user: LabUser, one: number, other: number): LabUser {
  checkDirectoryNumber(one);
  checkDirectoryNumber(other);
  const { [one]: first, [other]: second, ...rest } = user.directories;
  // Moving a folder to a free number would silently remove the default.
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

function checkDirectoryNumber(number: number): void {
  if (number < 1 || number > maxDirectory)
    throw new JobmanError(`${number} is not a directory number: 1 to ${maxDirectory}.`, exitCode.usage);
}

function noDirectory(user: LabUser, number: number): JobmanError {
  const numbers = Object.keys(user.directories);
  return new JobmanError(
    `${user.name} has no working directory ${number}. ${formatChoices(numbers)} \`tpu set-cur ${number} ${user.name}\` sets it to the current folder.`,
    exitCode.notFound,
  );
}

// Working directories of a user: numbered folders, of which `tpu run` takes 1 unless told otherwise.

import { exitCode, JobmanError } from '../app/errors.ts';
import { choiceText } from '../app/figures.ts';
import type { LabUser } from './people.ts';

const most = 100;

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

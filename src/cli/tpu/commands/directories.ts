// Working directories: which folders a user runs code from, by number.

import { existsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { directoryOf, withDirectory, withoutDirectory, withSwapped } from '../../../lab/directories.ts';
import { inertWord } from '../../render/inert.ts';
import { actingFor, userOf } from '../people.ts';
import { printList } from '../print-table.ts';
import type { TpuCli } from '../tpu-cli.ts';
import { numberOf, textOf, type Words } from '../words.ts';

export async function setCur(desk: TpuCli, words: Words): Promise<number> {
  return setFolder(desk, words, words.numbers['dir'] ?? 1, desk.io.cwd);
}

export async function setDir(desk: TpuCli, words: Words): Promise<number> {
  return setFolder(desk, words, numberOf(words, 'dir'), folderCalled(desk, textOf(words, 'path')));
}

async function setFolder(desk: TpuCli, words: Words, number: number, folder: string): Promise<number> {
  const { user } = await actingFor(desk, words, `set working directory ${number}`);
  checkFolder(folder);
  await desk.lab.record.changeUser(user.name, (now) => withDirectory(now, number, folder));
  const before = user.directories[number];
  const was = before === undefined || before === folder ? '' : ` It was ${before}.`;
  desk.tell(inertWord(`Working directory ${number} of ${user.name} is ${folder}.${was}`));
  if (!existsSync(join(folder, 'staging.sh'))) {
    desk.note('note: There is no staging.sh in it, which `tpu run` sources.');
  }
  return exitCode.ok;
}

/** The absolute path. `~` is the home of the caller, which not every shell expands behind `dir=`. */
export function folderCalled({ io }: Pick<TpuCli, 'io'>, path: string): string {
  return resolve(
    io.cwd,
    path.replace(/^~(?=\/|$)/, () => io.userHome),
  );
}

/** Throws JobmanError (3) where there is no such folder. */
export function checkFolder(folder: string): void {
  const facts = statSync(folder, { throwIfNoEntry: false });
  if (facts?.isDirectory() !== true) {
    throw new JobmanError(`There is no folder ${inertWord(folder)}. Nothing was changed.`, exitCode.notFound);
  }
}

export async function getDir(desk: TpuCli, words: Words): Promise<number> {
  desk.print(directoryOf(await userOf(desk, words), numberOf(words, 'dir')));
  return exitCode.ok;
}

export async function listDirs(desk: TpuCli, words: Words): Promise<number> {
  const { name: user, directories } = await userOf(desk, words);
  const remark = (dir: string, path: string): string => (existsSync(path) ? (dir === '1' ? 'default' : '') : 'is gone');
  return printList(desk, Object.entries(directories), {
    json: ([dir, path]) => ({ user, dir: Number(dir), path, gone: !existsSync(path) }),
    none: `${user} has no working directory yet. \`tpu set-cur 1 ${user}\` makes this folder the first.`,
    headings: ['DIR', 'PATH', ''],
    cells: ([dir, path]) => [dir, inertWord(path), remark(dir, path)],
    sides: { 0: 'right' },
  });
}

export async function delDir(desk: TpuCli, words: Words): Promise<number> {
  const number = numberOf(words, 'dir');
  const { user } = await actingFor(desk, words, `forget working directory ${number}`);
  const folder = directoryOf(user, number);
  await desk.lab.record.changeUser(user.name, (now) => withoutDirectory(now, number));
  desk.tell(
    inertWord(`${user.name} has no working directory ${number} any more; the folder ${folder} stays as it is.`),
  );
  return exitCode.ok;
}

export async function swapDir(desk: TpuCli, words: Words): Promise<number> {
  const [one, other] = [numberOf(words, 'dir'), numberOf(words, 'with')];
  const { user } = await actingFor(desk, words, `swap working directories ${one} and ${other}`);
  const now = await desk.lab.record.changeUser(user.name, (before) => withSwapped(before, one, other));
  for (const number of [one, other]) {
    desk.tell(inertWord(`Working directory ${number} of ${now.name} is ${now.directories[number]}.`));
  }
  return exitCode.ok;
}

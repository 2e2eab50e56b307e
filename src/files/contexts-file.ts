// Contexts file: the servers and tokens of one login. Its mode is 0600, also in a home that a group shares.

import { closeSync, existsSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { JobmanError, exitCode, usageError } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { contextNamePattern, thisMachine, type Contexts } from '../app/server-in-use.ts';
import { formatJsonProblems, readJson } from '../schema/json.ts';
import { isHttpUrl, objectMap, objectOf, textOrNull, textWhere, type Kind } from '../schema/kinds.ts';
import { lockOf, makeHome, ownUid, replaceIfUnchanged } from './files.ts';

/** Throws JobmanError for a file that is damaged, that another user can read, or that cannot be read. */
export async function readContexts(file: string): Promise<Contexts> {
  return parseContexts(file, readPrivateText(file));
}

/** Applies the change to the newest contents. Throws as `readContexts` does, and then writes nothing. */
export async function changeContexts(
  home: string,
  file: string,
  change: (contexts: Contexts) => Contexts,
): Promise<void> {
  makeHome(home);
  for (let tries = 0; tries < 40; tries += 1) {
    const before = readPrivateText(file);
    const text = `${JSON.stringify(change(await parseContexts(file, before)), null, 2)}\n`;
    try {
      if (replaceIfUnchanged(file, before, text, 0o600)) return;
    } catch (error) {
      throw fileError(file, error);
    }
    await sleep(50);
  }
  throw new JobmanError(`Another command is changing ${file}. Nothing was changed.`, exitCode.conflict, [
    `If no other command runs: rm ${lockOf(file)}`,
  ]);
}

/** Undefined without the file. */
function readPrivateText(path: string): string | undefined {
  if (!existsSync(path)) return undefined;
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (error) {
    throw fileError(path, error);
  }
  try {
    const { mode, uid } = fstatSync(file);
    if ((mode & 0o077) !== 0)
      throw usageError(`Other users can read ${path}, which has tokens. jobman does not use it.`, [
        `chmod 600 ${path}`,
        'If others may have read it, revoke its tokens: jobman token revoke NAME',
      ]);
    if (uid !== ownUid()) throw usageError(`${path} belongs to another user, so jobman does not use it.`);
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

const contextKind = objectOf(
  '{ "server": "https://jobman.example", "token": "jobman_..." }',
  { server: textWhere('an address like "https://jobman.example"', isHttpUrl) },
  { token: textOrNull, user: textOrNull, tokenName: textOrNull, ca: textOrNull },
);

const fileKind = objectOf(
  '{ "current": null, "contexts": {} }',
  {
    current: {
      ...textOrNull,
      description: 'the name of a context, or null for this machine',
    } satisfies Kind<string | null>,
    contexts: objectMap(
      'an object of contexts by name',
      (name) => (contextNamePattern.test(name) && name !== thisMachine ? null : 'is not a possible name of a context'),
      contextKind,
    ),
  },
  {},
);

async function parseContexts(file: string, text: string | undefined): Promise<Contexts> {
  if (text === undefined) return { current: null, contexts: {} };
  const { value, problems } = await readJson(text, (tree, report) => fileKind.read(tree, [], report));
  if (value === undefined || problems.length > 0)
    throw usageError(`${file} is damaged. Nothing was changed.`, [
      ...formatJsonProblems(text, file, problems),
      `Correct it, or remove it and log in again. Without it: --server local`,
    ]);
  const contexts = Object.entries(value.contexts).map(
    ([name, { server, token = null, user = null, tokenName = null, ca = null }]) =>
      [name, { server, token, user, tokenName, ca }] as const,
  );
  return { current: value.current, contexts: Object.fromEntries(contexts) };
}

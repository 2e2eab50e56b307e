// Create from: a manifest file and the files that it names become a job of a server.

import { randomUUID } from 'node:crypto';
import { access, constants, readdir, readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, dirname, relative, resolve, sep } from 'node:path';
import type { Client, CreateAnswer, GivenFile, ManifestRequest } from '../app/client.ts';
import { messageOf, problemLine, usageError } from '../app/errors.ts';
import type { Environment } from '../http/client.ts';

export interface CreateFromOptions {
  /** As `--set`: `job.name=iris`. */
  readonly sets?: readonly string[];
  readonly confirmed?: readonly string[];
  /** The variables that the manifest may name. Absent: none. */
  readonly env?: Environment;
}

export interface CreateFrom {
  createFrom(path: string, options?: CreateFromOptions): Promise<CreateAnswer>;
}

/** Sends only what the manifest names, so that no server can read other files. Throws JobmanError. */
export async function createFrom(
  client: Client,
  path: string,
  { sets = [], confirmed = [], env = {} }: CreateFromOptions = {},
): Promise<CreateAnswer> {
  const file = resolve(path);
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw usageError(`The manifest ${file} cannot be read: ${messageOf(error)}.`);
  });
  const folder = dirname(file);
  const requireNamed = (wanted: string): void => {
    if (!isNamed(wanted, [text, ...sets].join('\n'), folder))
      throw usageError(`The server requests ${wanted}, which the manifest does not name.`);
  };
  const variable = (name: string): string | null => {
    requireNamed(name);
    return env[name] ?? null;
  };
  const request: ManifestRequest = { text, folder, home: homedir(), file: basename(file), sets };
  const files: Record<string, GivenFile> = {};
  const variables: Record<string, string | null> = {};
  for (;;) {
    const answer = await client.readManifest({ ...request, files, variables });
    if (answer.kind === 'wanted') {
      for (const wanted of [...answer.paths, ...answer.contents]) {
        if (wanted !== folder) requireNamed(wanted);
        files[wanted] = wanted === folder ? { kind: 'folder', entries: [] } : await describe(wanted, answer.contents);
      }
      for (const name of answer.variables) variables[name] = variable(name);
      continue;
    }
    const secrets: Record<string, string> = {};
    for (const { secret, path: from, variable: name } of answer.secrets) {
      if (from !== undefined) requireNamed(from);
      const value = from === undefined ? Buffer.from(variable(name ?? '') ?? '') : await readFile(from);
      secrets[secret] = value.toString('base64');
    }
    const { spec, manifest } = answer;
    const created = await client.create({ spec, manifest, secrets, confirmed, idempotencyKey: randomUUID() });
    if (created.kind !== 'created') return created;
    await client.wake();
    return { ...created, warnings: [...answer.warnings.map(problemLine), ...created.warnings] };
  }
}

async function describe(path: string, contents: readonly string[]): Promise<GivenFile> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory() === true) return { kind: 'folder', entries: await readdir(path) };
  if (found?.isFile() !== true) return { kind: 'absent' };
  const isExecutable = await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
  const described = { kind: 'file', bytes: found.size, isExecutable } as const;
  return contents.includes(path) ? { ...described, base64: (await readFile(path)).toString('base64') } : described;
}

/** True if the text has the name, or the path or a folder above it, as a manifest writes it. */
function isNamed(wanted: string, text: string, folder: string): boolean {
  const home = homedir();
  for (let path = wanted; path !== dirname(path); path = dirname(path)) {
    const isBelow = (base: string): boolean => path.startsWith(base + sep);
    const spellings = [
      ...(path.length > 2 ? [path] : []),
      ...(isBelow(home) ? [`~/${relative(home, path)}`] : []),
      ...(path.startsWith(sep) && !folder.startsWith(path) ? [relative(folder, path)] : []),
    ];
    if (spellings.some((one) => one.length > 0 && !/^[./]*$/.test(one) && text.includes(one))) return true;
    if (!path.startsWith(sep)) return text.includes(path);
  }
  return false;
}

// Job files: `job.files`, read here and frozen into the job, so that every attempt gets the same bytes; and the places that the
// values of `job.secrets` are read from, which are no part of a manifest.

import { basename, join } from 'node:path/posix';
import type { FilesModule, FrozenFile } from '../setup/modules.ts';
import { binarySizeText, leavesHome, pathHere, pathOnWorker, type Surroundings } from './files.ts';
import type { Sections } from './sections.ts';
import type { CommandSpec, SecretSource } from '../core/spec.ts';

/** A file is stored with the job and sent to every worker of every allocation; this is what that stays cheap for. */
const fileMost = 1024 * 1024;
const allMost = 4 * fileMost;
const countMost = 500;
const depthMost = 20;

/** Left out of a folder: no program needs them. */
const leftOut = new Set(['.git', '__pycache__', '.DS_Store']);

const bucket = 'put it in a bucket and mount that with gcsfuse';

export function readJobFiles(sections: Sections, { folder, home, door }: Surroundings): FilesModule {
  const entries = sections.read('job')?.files ?? [];
  const refuse = (index: number, message: string): void => sections.problem(['job', 'files', index], message);
  const files = new Map<string, FrozenFile>();
  let total = 0;
  let isOver = false;

  for (const [index, entry] of entries.entries()) {
    const at = entry.lastIndexOf(':');
    const from = at === -1 ? entry : entry.slice(0, at);
    const source = pathHere(from, folder, home);
    const to = at === -1 ? basename(source) : entry.slice(at + 1).trim();
    if (from === '' || to === '') {
      refuse(index, 'wants from:to, a path here and a path on the worker');
      continue;
    }
    if (leavesHome(to)) {
      refuse(index, `${to} lies outside the login folder; write a path below it, or an absolute one`);
      continue;
    }
    // `to` with a slash at its end is a folder to put the thing into, as cp has it.
    const target = to.endsWith('/') ? join(pathOnWorker(to), basename(source)) : pathOnWorker(to);
    if (target === '~') {
      refuse(index, 'the login folder itself cannot be replaced; name a file or folder in it');
      continue;
    }
    add(index, source, target, from, 0);
  }
  return { name: 'files', files: [...files.values()] };

  function add(index: number, source: string, target: string, name: string, depth: number): void {
    if (isOver) return;
    // A backslash would be an escape in the list of checksums that the worker compares.
    // oxlint-disable-next-line no-control-regex -- Names with control characters are what is refused.
    if (/[\\\u0000-\u001f\u007f]/.test(target))
      return refuse(index, `${JSON.stringify(name)} has a character in its name that jobman cannot copy`);
    const look = door.look(source);
    if (look.kind === 'absent') return refuse(index, `${name} does not exist (looked for ${source})`);
    if (look.kind === 'unreadable') return refuse(index, `${name} cannot be read: ${look.detail}`);
    if (look.kind === 'stream') return refuse(index, `${name} is neither a file nor a folder`);
    if (look.kind === 'folder') {
      if (depth > depthMost) return refuse(index, `${name} is a folder more than ${depthMost} levels deep`);
      for (const entry of look.entries) {
        if (!leftOut.has(entry)) add(index, join(source, entry), join(target, entry), `${name}/${entry}`, depth + 1);
      }
      return;
    }
    if (look.bytes > fileMost)
      return refuse(
        index,
        `${name} has ${binarySizeText(look.bytes)}, the limit is ${binarySizeText(fileMost)}; ${bucket}`,
      );
    const read = door.read(source, fileMost);
    if ('detail' in read) return refuse(index, `${name} cannot be read: ${read.detail}`);
    total += read.bytes.length;
    if (total > allMost || files.size >= countMost) {
      isOver = true;
      const limit = files.size >= countMost ? `${countMost} files` : binarySizeText(allMost);
      return refuse(index, `job.files together are more than ${limit}; ${bucket}`);
    }
    files.set(target, {
      to: target,
      base64: Buffer.from(read.bytes).toString('base64'),
      mode: look.isExecutable ? 0o755 : 0o644,
    });
  }
}

// ------------------------------------------------------------------------------------------ secrets

/** Reads where each secret is. A missing one is a problem for `create` and a warning for a check. */
export function readSecrets(
  sections: Sections,
  written: Readonly<Record<string, string>>,
  plain: Readonly<Record<string, string>>,
  around: Surroundings,
): NonNullable<CommandSpec['secrets']> {
  const secrets: Record<string, SecretSource> = {};
  for (const [name, from] of Object.entries(written)) {
    const at = ['job', 'secrets', name];
    if (Object.hasOwn(plain, name))
      sections.problem(at, `${name} is a plain variable of the command too (job.env or command.env); keep one of them`);
    const variable = from === 'env' ? name : from.startsWith('env:') ? from.slice('env:'.length) : undefined;
    const missing = variable === undefined ? missingFile(from, around) : missingVariable(variable, around);
    if (missing !== undefined) sections.missing(at, missing);
    secrets[name] =
      variable === undefined
        ? { kind: 'file', path: pathHere(from, around.folder, around.home) }
        : { kind: 'environment', variable };
  }
  return secrets;
}

// A value in place of a name is a common mistake, so no message repeats what the manifest says: it is printed and kept in logs.

const howToName = 'a secret is named, not written: `env`, `env:NAME`, or the path of a file';

function missingVariable(variable: string, { env }: Surroundings): string | undefined {
  if ((env[variable] ?? '') !== '') return undefined;
  return /^[A-Z_][A-Z0-9_]*$/.test(variable)
    ? `the variable ${variable} is not set where the job is created`
    : `names a variable that is not set where the job is created (${howToName})`;
}

function missingFile(from: string, { folder, home, door }: Surroundings): string | undefined {
  if (from === '') return 'says neither `env` nor a file';
  const look = door.look(pathHere(from, folder, home));
  switch (look.kind) {
    case 'file':
    case 'stream':
      return undefined;
    case 'folder':
      return 'names a folder, not a file';
    case 'absent':
      return `names a file that does not exist on this machine (${howToName})`;
    case 'unreadable':
      return `names a file that cannot be read (${howToName})`;
  }
}

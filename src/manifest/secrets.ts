// Secrets: `job.secrets`, as the places that their values are read from. The values themselves are no part of a manifest.

import type { CommandSpec, SecretSource } from '../core/spec.ts';
import { pathHere } from './paths.ts';
import type { Sections } from './sections.ts';
import type { Surroundings } from './surroundings.ts';

/**
 * Reads where each secret is. A missing secret is a problem for `create` and a warning for a check, because the checked job may have run on
 * another machine. A name that is also a plain variable of the command is a problem: one of the two would not count.
 */
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

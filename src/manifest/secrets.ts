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
    if (missing !== undefined) {
      if (around.purpose === 'create') sections.problem(at, missing);
      else sections.warning(at, missing);
    }
    secrets[name] =
      variable === undefined
        ? { kind: 'file', path: pathHere(from, around.folder, around.home) }
        : { kind: 'environment', variable };
  }
  return secrets;
}

function missingVariable(variable: string, { env }: Surroundings): string | undefined {
  return (env[variable] ?? '') === '' ? `the variable ${variable} is not set where the job is created` : undefined;
}

function missingFile(from: string, { folder, home, door }: Surroundings): string | undefined {
  if (from === '') return 'says neither `env` nor a file';
  const file = pathHere(from, folder, home);
  const look = door.look(file);
  switch (look.kind) {
    case 'file':
    case 'stream':
      return undefined;
    case 'folder':
      return `${file} is a folder`;
    case 'absent':
      return `the file ${file} does not exist on this machine`;
    case 'unreadable':
      return `the file ${file} cannot be read (${look.detail})`;
  }
}

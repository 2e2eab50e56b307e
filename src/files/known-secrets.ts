// The secrets that a user of this machine has in the usual files and variables, so that a report can leave them out.
// Values are only compared with the text of the report. An unreadable file is not an error: a login may have none of them.

import { readdirSync } from 'node:fs';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import type { CommandSpec } from '../core/model/spec.ts';
import type { UserName } from '../core/model/user.ts';
import { readRegularFile } from './files.ts';
import { jobFolder, secretFile } from './job-folder.ts';
import { isSecretName, secretsIn } from '../catalogue/redact.ts';

/** Below the user's home. */
const userFiles: readonly string[] = [
  '.netrc',
  '_netrc',
  '.git-credentials',
  '.npmrc',
  '.pypirc',
  '.pgpass',
  '.my.cnf',
  '.aws/credentials',
  '.docker/config.json',
  '.kube/config',
  '.huggingface/token',
  '.cache/huggingface/token',
  '.config/gh/hosts.yml',
  '.config/wandb/settings',
  '.config/gcloud/application_default_credentials.json',
];

/** Variables with the paths of files that contain secrets. */
const fileVariables: readonly string[] = [
  'GOOGLE_APPLICATION_CREDENTIALS',
  'KUBECONFIG',
  'NETRC',
  'AWS_SHARED_CREDENTIALS_FILE',
  'JOBMAN_WANDB_KEY_FILE',
];

/** A file of credentials has a few kilobytes. */
const maxFileBytes = 1024 * 1024;

export interface SecretSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly userHome: string;
  /** `$JOBMAN_HOME`. */
  readonly home: string;
  /** Texts of settings files, with the paths of further files in their values. */
  readonly settings: readonly string[];
  /** The values that the database has encrypted. */
  readonly sealed: readonly string[];
  /** Null for a job without them. */
  readonly job: {
    readonly owner: UserName;
    readonly id: string;
    readonly command: Pick<CommandSpec, 'env' | 'secrets'>;
  } | null;
}

/** Values of at least six characters; some may be no secrets. */
export function knownSecrets({ env, userHome, home, settings, sealed, job }: SecretSources): readonly string[] {
  const files = [
    ...userFiles.map((name) => join(userHome, name)),
    ...fileVariables.flatMap((name) => (env[name] ?? '').split(delimiter)).filter(isAbsolute),
    ...settings.flatMap((text) => pathsIn(text, home, userHome)),
    ...Object.values(job?.command.secrets ?? {}).flatMap((ref) => (ref.kind === 'localFile' ? [ref.path] : [])),
  ];
  // Each file of the secret store is a secret as a whole.
  const storedFolders = [
    ...filesIn(join(home, 'secrets')),
    ...(job === null ? [] : [secretFile(jobFolder(home, job.owner, job.id), '')]),
  ];
  const stored = [...sealed, ...storedFolders.flatMap(filesIn).flatMap((path) => readSafely(path) ?? [])];
  const variables = [env, job?.command.env ?? {}].flatMap((one) => Object.entries(one));
  const values = variables.flatMap(([name, value]) =>
    value !== undefined && isSecretName(name) && !isAbsolute(value) ? [value] : secretsIn(value ?? ''),
  );
  const fromVariables = Object.values(job?.command.secrets ?? {}).flatMap((ref) =>
    ref.kind === 'job' && ref.variable !== undefined ? [env[ref.variable] ?? ''] : [],
  );
  const named = settings.flatMap((text) => [...text.matchAll(/"env:(\w+)"/g)].map(([, name = '']) => env[name] ?? ''));
  const texts = files.flatMap((path) => {
    const text = readSafely(path);
    return text === null ? [] : [text];
  });
  // A short file, such as that of a token, may be a secret as a whole.
  const whole = texts.filter((text) => text.length <= 512 && !text.trim().startsWith('{'));
  return [
    ...values,
    ...fromVariables,
    ...named,
    ...settings.flatMap(secretsIn),
    ...texts.flatMap(secretsIn),
    ...whole,
    ...stored.flatMap((text) => [text.trim(), ...secretsIn(text)]),
  ].filter((value) => value.trim().length >= 6);
}

/** The paths in the values of a settings file: absolute, below `~`, or relative to `$JOBMAN_HOME`. */
function pathsIn(text: string, home: string, userHome: string): readonly string[] {
  return [...text.matchAll(/"((?:~|\.{1,2})?\/[^"\n]+)"/g)].map(([, path = '']) =>
    resolve(home, path.replace(/^~(?=\/)/, userHome)),
  );
}

function filesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).map((name) => join(folder, name));
  } catch {
    return [];
  }
}

function readSafely(path: string): string | null {
  try {
    return readRegularFile(path, maxFileBytes).toString('utf8');
  } catch {
    return null;
  }
}

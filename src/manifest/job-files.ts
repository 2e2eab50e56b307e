import { basename, join } from 'node:path/posix';
import type { FilesModule, SentFile } from '../setup/modules.ts';
import { fileProblem, formatBinarySize, leavesHome, localPath, remotePath, type ManifestContext } from './files.ts';
import type { Sections } from './sections.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { secretNamePattern, type CommandSpec, type SecretName, type SecretRef } from '../core/model/spec.ts';
import type { Path } from '../schema/kinds.ts';

/** Each file is stored with the job and sent to every worker of every allocation, so the sizes are limited. */
const maxFileBytes = 1024 * 1024;
const maxTotalBytes = 4 * maxFileBytes;
const maxFileCount = 500;
const maxFolderDepth = 20;

const ignoredNames = new Set(['.git', '__pycache__', '.DS_Store']);

const bucketHint = 'put it in a bucket and mount the bucket with gcsfuse';

export function readJobFiles(sections: Sections, { folder, home, files }: ManifestContext): FilesModule {
  const entries = sections.read('job')?.files ?? [];
  const refuse = (index: number, message: string): void => sections.problem(['job', 'files', index], message);
  const sentFiles = new Map<string, SentFile>();
  let total = 0;
  let isTooLarge = false;

  for (const [index, entry] of entries.entries()) {
    const at = entry.lastIndexOf(':');
    const from = at === -1 ? entry : entry.slice(0, at);
    const source = localPath(from, folder, home);
    const to = at === -1 ? basename(source) : entry.slice(at + 1).trim();
    if (from === '' || to === '') {
      refuse(index, 'must be from:to, a path on this machine and a path on the worker');
      continue;
    }
    if (leavesHome(to)) {
      refuse(index, `${to} is outside the login folder; write a path inside it, or an absolute path`);
      continue;
    }
    // As with cp, a target with a slash at its end is the folder that receives the file.
    const target = to.endsWith('/') ? join(remotePath(to), basename(source)) : remotePath(to);
    if (target === '~') {
      refuse(index, 'the login folder cannot be replaced; name a file or folder inside it');
      continue;
    }
    add(index, source, target, from, 0);
  }
  return { name: 'files', files: [...sentFiles.values()] };

  function add(index: number, source: string, target: string, name: string, depth: number): void {
    if (isTooLarge) return;
    // A backslash would be an escape in the list of checksums that the worker compares.
    // oxlint-disable-next-line no-control-regex -- The expression rejects names with control characters.
    if (/[\\\u0000-\u001f\u007f]/.test(target))
      return refuse(
        index,
        `${JSON.stringify(name)} has a control character or a backslash in its name, which jobman cannot copy`,
      );
    const info = files.inspect(source);
    if (info.kind === 'absent') return refuse(index, `${name} does not exist (path: ${source})`);
    if (info.kind === 'unreadable' || info.kind === 'elsewhere') return refuse(index, `${name} ${fileProblem(info)}`);
    if (info.kind === 'stream') return refuse(index, `${name} is neither a file nor a folder`);
    if (info.kind === 'folder') {
      if (depth > maxFolderDepth) return refuse(index, `${name} is nested deeper than ${maxFolderDepth} folders`);
      for (const entry of info.entries) {
        if (!ignoredNames.has(entry))
          add(index, join(source, entry), join(target, entry), `${name}/${entry}`, depth + 1);
      }
      return;
    }
    if (info.bytes > maxFileBytes)
      return refuse(
        index,
        `${name} has ${formatBinarySize(info.bytes)}; the limit is ${formatBinarySize(maxFileBytes)}, so ${bucketHint}`,
      );
    const read = files.read(source, maxFileBytes);
    if ('detail' in read) return refuse(index, `${name} cannot be read: ${read.detail}`);
    total += read.bytes.length;
    if (total > maxTotalBytes || sentFiles.size >= maxFileCount) {
      isTooLarge = true;
      const limit = sentFiles.size >= maxFileCount ? `${maxFileCount} files` : formatBinarySize(maxTotalBytes);
      return refuse(index, `the files have more than ${limit} in total; ${bucketHint}`);
    }
    sentFiles.set(target, {
      to: target,
      content: read.bytes,
      mode: info.isExecutable ? 0o755 : 0o644,
    });
  }
}

/** A missing source is a problem for `create` and a warning for `check`. */
export function readSecrets(
  sections: Sections,
  written: Readonly<Record<string, string>>,
  plain: Readonly<Record<string, string>>,
  context: ManifestContext,
): NonNullable<CommandSpec['secrets']> {
  const secrets: Record<string, SecretRef> = {};
  for (const [name, from] of Object.entries(written)) {
    const at = ['job', 'secrets', name];
    if (Object.hasOwn(plain, name))
      sections.problem(at, `${name} is also a plain variable (job.env or command.env); remove one of them`);
    secrets[name] = readSecret(sections, at, name, from, context);
  }
  return secrets;
}

function readSecret(sections: Sections, at: Path, name: string, from: string, context: ManifestContext): SecretRef {
  const named = readNamedSecret(sections, at, from, context);
  if (named !== null) return named;
  const variable = variableOf(name, from);
  const missing =
    variable === undefined ? missingFileMessage(from, context) : missingVariableMessage(variable, context);
  if (missing !== undefined) sections.missingHere(at, missing);
  if (variable !== undefined) return { kind: 'job', secret: name, variable };
  return fileRef(localPath(from, context.folder, context.home), name, context);
}

/** `create` stores the file under that name. No client sends the secrets of an imported job. */
export function fileRef(path: string, secret: SecretName, { purpose }: ManifestContext): SecretRef {
  return purpose === 'check' ? { kind: 'localFile', path } : { kind: 'job', secret };
}

/** Null for another source than `secret:NAME`. */
export function readNamedSecret(
  sections: Sections,
  at: Path,
  written: string,
  context: ManifestContext,
): { readonly kind: 'named'; readonly secret: SecretName } | null {
  const secret = /^secret:(.*)$/.exec(written)?.[1]?.trim();
  if (secret === undefined) return null;
  checkSecretName(sections, at, secret, context);
  return { kind: 'named', secret };
}

/** Undefined for a file. */
function variableOf(name: string, from: string): string | undefined {
  return from === 'env' ? name : from.startsWith('env:') ? from.slice('env:'.length) : undefined;
}

/** A value that the client sends with a new job. */
export interface SecretSource {
  readonly secret: SecretName;
  readonly from:
    | { readonly kind: 'file'; readonly path: string }
    | { readonly kind: 'environment'; readonly variable: string };
}

/** The sources of those secrets of the job itself. */
export function secretSources(
  sections: Sections,
  names: readonly SecretName[],
  { folder, home }: Pick<ManifestContext, 'folder' | 'home'>,
): readonly SecretSource[] {
  const { private_key: login, identities = [] } = sections.read('ssh') ?? {};
  const keys = identities.map(({ private_key: key }, index) => [`ssh.identities.${index}`, key] as const);
  const variables = sections.read('job')?.secrets ?? {};
  const written = new Map([...Object.entries(variables), ['ssh.private_key', login] as const, ...keys]);
  return names.map((secret): SecretSource => {
    const text = written.get(secret) ?? '';
    const variable = variableOf(secret, text);
    if (variable !== undefined) return { secret, from: { kind: 'environment', variable } };
    return { secret, from: { kind: 'file', path: localPath(text, folder, home) } };
  });
}

/** `secretNames` of the context are those of the store. */
export function checkSecretName(sections: Sections, at: Path, name: string, { secretNames }: ManifestContext): void {
  if (!secretNamePattern.test(name)) {
    sections.problem(at, 'must be `secret:NAME` with the name of a secret: letters, digits, _, . and -');
  } else if (secretNames?.includes(name) === false) {
    const message = `there is no secret ${name}; store it: jobman secret set ${name}`;
    sections.missingHere(at, message, didYouMean(name, secretNames));
  }
}

// Messages are printed and logged, so they repeat only what is certainly a path: users often write a secret instead of
// its source.

const certainPath = /^~?\/[\w./-]+$|\.(env|json|key|pem|token|txt)$/;

const secretHint =
  'write the source of the secret, not the secret: `secret:NAME`, `env`, `env:NAME` or the path of a file';

function missingVariableMessage(variable: string, { env }: ManifestContext): string | undefined {
  if ((env[variable] ?? '') !== '') return undefined;
  return /^[A-Z_][A-Z0-9_]*$/.test(variable)
    ? `the environment variable ${variable} is not set on this machine`
    : `names an environment variable that is not set on this machine (${secretHint})`;
}

function missingFileMessage(from: string, { folder, home, files }: ManifestContext): string | undefined {
  if (from === '') return 'must be `secret:NAME`, `env` or the path of a file';
  const info = files.inspect(localPath(from, folder, home));
  if (info.kind === 'elsewhere')
    return 'names a file of your machine; store its content with jobman secret set NAME, and write secret:NAME';
  const problem = fileProblem(info);
  if (problem === undefined) return undefined;
  return certainPath.test(from)
    ? `the file ${from} ${problem} on this machine`
    : `names a file that ${problem} on this machine (${secretHint})`;
}

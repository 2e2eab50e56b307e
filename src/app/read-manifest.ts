// Read manifest: a manifest becomes a spec for a client without the parser, which sends the files that the manifest names.

import { digestOf } from '../catalogue/digest.ts';
import type { JobSpec } from '../core/model/spec.ts';
import { noFiles, type FileReader } from '../manifest/files.ts';
import { parseManifest } from '../manifest/parse.ts';
import { parseSetArgument } from '../manifest/overrides.ts';
import type { Path } from '../schema/kinds.ts';
import { fileProblem, type Problem } from '../schema/problems.ts';
import { hasMoreTokens } from '../schema/yaml.ts';
import type { GivenFile, ManifestAnswer, ManifestRequest } from './client.ts';
import { exitCode, JobmanError, problemLine, usageError, type ManifestProblem } from './errors.ts';
import type { OwnBlobs } from './own-blobs.ts';
import { channelsOf } from './notifications/recipients.ts';
import type { ClientParts } from './store-client.ts';

type Parts = Pick<ClientParts, 'channels' | 'defaultProject' | 'pools'>;

/** Stores the contents of files. Throws JobmanError (2) with every problem, or for a manifest that needs the command. */
export async function readManifest(
  parts: Parts,
  { text, file = 'manifest.yaml', sets = [], files = {}, variables = {}, ...request }: ManifestRequest,
  secretNames: readonly string[],
  stored: Pick<OwnBlobs, 'put'>,
): Promise<ManifestAnswer> {
  const hasFolder = request.folder !== undefined || request.home !== undefined;
  const { folder = unknownFolder, home = unknownFolder } = request;
  if (!folder.startsWith('/') || !home.startsWith('/'))
    throw usageError('`folder` and `home` are absolute paths of the machine with the manifest.');
  requireShort([text, ...sets]);
  const [project, pools, { settings }] = await Promise.all([parts.defaultProject(), parts.pools(), parts.channels()]);
  const wanted = { paths: new Set<string>(), contents: new Set<string>(), variables: new Set<string>() };
  const result = parseManifest({
    text,
    file: `${folder}/${file}`,
    home,
    sets: sets.map(parseSetArgument),
    env: askingFor(variables, (name) => wanted.variables.add(name)),
    files: hasFolder ? givenFiles(files, wanted) : noFiles,
    project,
    hosts: pools.map(({ name }) => name),
    channels: channelsOf(settings),
    secretNames,
    purpose: 'create',
  });
  // Problems may be those of files that were not sent yet.
  if (hasFolder && Object.values(wanted).some(({ size }) => size > 0))
    return {
      kind: 'wanted',
      paths: [...wanted.paths],
      contents: [...wanted.contents],
      variables: [...wanted.variables],
    };
  const shown = (problem: Problem): ManifestProblem => {
    const { path, ...rest } = problem;
    return { file, key: path, ...rest };
  };
  if ('problems' in result) throw invalid(result.problems.map(shown));
  if ('cluster' in result)
    throw usageError('A manifest with a section kubernetes is for the cluster: jobman submit FILE');
  const { spec, uploads, storedText, secretSources, warnings, problemAt } = result;
  if (uploads.workdir !== null)
    throw invalid([shown({ ...fileProblem('only `jobman create` copies a working directory'), path: 'job.workdir' })]);
  const relative = pathsIn(spec).filter(([, path]) => `${path}/`.startsWith(`${unknownFolder}/`));
  if (!hasFolder && relative.length > 0)
    throw invalid(
      relative.map(([at]) => shown(problemAt(at, 'must be an absolute path: the folder of the manifest is not known'))),
    );
  const blobs = uploads.contents.map((content) => ({ digest: digestOf(content), content }));
  if (blobs.length > 0) await stored.put(blobs);
  return {
    kind: 'spec',
    spec,
    manifest: storedText,
    secrets: secretSources.map(({ secret, from }) => ({
      secret,
      ...(from.kind === 'file' ? { path: from.path } : { variable: from.variable }),
    })),
    warnings: warnings.map(shown),
  };
}

/** Parsing delays all other requests. */
function requireShort(texts: readonly string[]): void {
  const all = texts.join('\n');
  if (all.length > maxCharacters || hasMoreTokens(all, maxTokens))
    throw usageError('The manifest is too large: a server parses up to 256 KiB with some 7,000 values.', [
      'The command parses a larger one itself: jobman create FILE',
    ]);
}

const maxCharacters = 256 * 1024;
const maxTokens = 50_000;

/** Stands for the folder of a manifest of which only the text is known. */
const unknownFolder = '/…';

/** The paths of a spec that may be relative in the manifest, with their keys. */
function pathsIn({ command }: JobSpec): readonly (readonly [Path, string])[] {
  const { workdir, checkpointDir, resumeFrom } = command;
  return [
    [['command', 'workdir'], workdir ?? ''],
    [['job', 'checkpoint_dir'], checkpointDir ?? ''],
    [['job', 'resume_from'], resumeFrom?.kind === 'folder' || resumeFrom?.kind === 'entry' ? resumeFrom.path : ''],
  ];
}

function invalid(problems: readonly ManifestProblem[]): JobmanError {
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  return new JobmanError(`The manifest has ${count}.`, exitCode.usage, problems.map(problemLine), {
    errorCode: 'invalid_manifest',
    problems,
  });
}

function askingFor(
  given: Readonly<Record<string, string | null>>,
  ask: (name: string) => void,
): Readonly<Record<string, string | undefined>> {
  return new Proxy<Record<string, string | undefined>>(
    {},
    {
      get(_, name) {
        if (typeof name !== 'string') return undefined;
        if (!Object.hasOwn(given, name)) ask(name);
        return given[name] ?? undefined;
      },
    },
  );
}

function givenFiles(
  files: Readonly<Record<string, GivenFile>>,
  wanted: { readonly paths: Set<string>; readonly contents: Set<string> },
): FileReader {
  const find = (path: string): GivenFile | undefined => (Object.hasOwn(files, path) ? files[path] : undefined);
  return {
    inspect(path) {
      const found = find(path);
      if (found === undefined) wanted.paths.add(path);
      return found ?? { kind: 'absent' };
    },
    read(path, maxBytes) {
      const found = find(path);
      if (found === undefined) wanted.paths.add(path);
      else if (found.kind === 'file' && found.base64 === undefined) wanted.contents.add(path);
      const base64 = found?.kind === 'file' ? (found.base64 ?? '') : '';
      return { bytes: Buffer.from(base64, 'base64').subarray(0, maxBytes + 1) };
    },
  };
}

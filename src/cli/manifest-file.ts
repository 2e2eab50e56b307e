// A manifest from the command line: the file, the `--set`s, the settings; a spec comes out, or every problem at once.

import type { JobSpec } from '../core/spec.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { countText } from '../app/figures.ts';
import { loadManifest } from '../manifest/parse.ts';
import { formatProblems, type Problem } from '../manifest/problems.ts';
import type { SetValue } from '../manifest/sets.ts';
import type { Cli } from './context.ts';
import { disk } from './disk.ts';

export interface Manifest {
  readonly spec: JobSpec;
  /** As it was written. */
  readonly text: string;
  /** One line each, with their place. */
  readonly warnings: readonly string[];
}

export type ManifestFindings =
  | { readonly manifest: Manifest }
  | { readonly problems: readonly Problem[]; readonly lines: readonly string[] };

/** Throws a usage error with one line for each problem. */
export async function readManifest(
  cli: Cli,
  path: string,
  sets: readonly string[],
  purpose: 'create' | 'check',
): Promise<Manifest> {
  const found = await checkManifest(cli, path, sets, purpose);
  if ('manifest' in found) return found.manifest;
  const count = countText(found.lines.length, 'problem');
  throw new JobmanError(`Nothing was created: the manifest has ${count}.`, exitCode.usage, found.lines);
}

/** The same with the problems as a value. Throws only for a `--set` that is none. */
export async function checkManifest(
  cli: Cli,
  path: string,
  sets: readonly string[],
  purpose: 'create' | 'check',
): Promise<ManifestFindings> {
  const { io, services } = cli;
  const settings = await services.settings();
  const result = loadManifest({
    file: path,
    cwd: io.cwd,
    sets: sets.map(parseSet),
    home: io.userHome,
    env: io.env,
    door: disk,
    project: settings.tpu.project,
    purpose,
  });
  if ('problems' in result) return { problems: result.problems, lines: formatProblems(path, result.problems) };
  return {
    manifest: { spec: result.spec, text: result.text ?? '', warnings: formatProblems(path, result.warnings) },
  };
}

function parseSet(text: string): SetValue {
  const equals = text.indexOf('=');
  if (equals < 1)
    throw new JobmanError(`--set ${text}: write it as key=value, as in --set command.lr=0.01.`, exitCode.usage);
  return { path: text.slice(0, equals), value: text.slice(equals + 1) };
}

// A manifest from the command line: the file, the `--set`s, the settings; a spec comes out, or every problem at once.

import type { JobSpec } from '../core/spec.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { countText } from '../app/figures.ts';
import { loadManifest } from '../manifest/parse.ts';
import { formatProblems, type Problem } from '../manifest/problems.ts';
import { parseSet } from '../manifest/sets.ts';
import type { Cli } from './context.ts';
import { disk } from './disk.ts';

export interface Manifest {
  readonly spec: JobSpec;
  /** As it was written. */
  readonly text: string;
}

/** What a manifest is, or what is wrong with it; and what is worth a warning either way. */
export type ManifestFindings = { readonly warnings: readonly Problem[] } & (
  | { readonly manifest: Manifest }
  | { readonly problems: readonly Problem[] }
);

/** The manifest, its warnings said on standard error. Throws a usage error with one line for each problem. */
export async function readManifest(
  cli: Cli,
  path: string,
  sets: readonly string[],
  purpose: 'create' | 'check',
): Promise<Manifest & { readonly warnings: readonly Problem[] }> {
  const found = await checkManifest(cli, path, sets, purpose);
  sayWarnings(cli, path, found.warnings);
  if ('manifest' in found) return { ...found.manifest, warnings: found.warnings };
  const lines = formatProblems(path, found.problems);
  const count = countText(lines.length, 'problem');
  throw new JobmanError(`Nothing was created: the manifest has ${count}.`, exitCode.usage, lines);
}

/** One line for each, in the form of problems, behind a word that stands out. */
export function sayWarnings(cli: Cli, path: string, warnings: readonly Problem[]): void {
  const { err } = cli.screen;
  // Bold magenta as everything that asks for attention: yellow vanishes on a white terminal.
  const word = err('bold', err('magenta', 'warning:'));
  for (const line of formatProblems(path, warnings)) cli.note(`${word} ${line}`);
}

/** The same with all findings as values, and nothing said. */
export async function checkManifest(
  cli: Cli,
  path: string,
  sets: readonly string[],
  purpose: 'create' | 'check',
): Promise<ManifestFindings> {
  const { io, services } = cli;
  // As of a script's variable that is not set; it would be read as the folder we stand in.
  if (path === '') throw new JobmanError('The path of the manifest is empty.', exitCode.usage);
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
  const { warnings } = result;
  if ('problems' in result) return { problems: result.problems, warnings };
  return { manifest: { spec: result.spec, text: result.text ?? '' }, warnings };
}

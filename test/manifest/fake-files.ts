/** A fake disk and a short way to parse a manifest with it. */
import assert from 'node:assert/strict';
import type { JobSpec } from '../../src/core/model/spec.ts';
import type { Uploads } from '../../src/manifest/build.ts';
import type { FileReader } from '../../src/manifest/files.ts';
import type { ClusterManifest } from '../../src/manifest/kubernetes.ts';
import { parseManifest, type ManifestInput } from '../../src/manifest/parse.ts';
import { formatProblems } from '../../src/schema/problems.ts';

/** Files by absolute path; a text ends in `*` when it may be executed. A folder is what some file is in. */
export function fakeDisk(files: Readonly<Record<string, string | Uint8Array>>): FileReader {
  const bytesOf = (path: string): Uint8Array | undefined => {
    const content = files[path];
    return typeof content === 'string' ? new TextEncoder().encode(content) : content;
  };
  return {
    inspect(path) {
      const bytes = bytesOf(path);
      if (bytes !== undefined) return { kind: 'file', bytes: bytes.length, isExecutable: path.endsWith('.sh') };
      const inside = Object.keys(files).filter((file) => file.startsWith(`${path}/`));
      if (inside.length === 0) return { kind: 'absent' };
      const entries = inside.map((file) => file.slice(path.length + 1).split('/')[0] ?? '');
      return { kind: 'folder', entries: [...new Set(entries)].toSorted() };
    },
    read(path, maxBytes) {
      const bytes = bytesOf(path);
      return bytes === undefined ? { detail: 'it is not there' } : { bytes: bytes.slice(0, maxBytes + 1) };
    },
  };
}

export type ParseOptions = Partial<Omit<ManifestInput, 'text' | 'files'>> & {
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
};

/** The result of parsing, valid or not. */
export function parse(text: string, { files = {}, ...options }: ParseOptions = {}) {
  return parseManifest({
    text,
    file: '/work/cfg.yaml',
    env: { HOME: '/home/ada', USER: 'ada' },
    home: '/home/ada',
    files: fakeDisk(files),
    project: null,
    purpose: 'create',
    ...options,
  });
}

/** The spec of a manifest that must be right, and its warnings as lines. */
export function specOf(
  text: string,
  options: ParseOptions = {},
): { readonly spec: JobSpec; readonly uploads: Uploads; readonly warnings: readonly string[] } {
  const result = parse(text, options);
  if ('problems' in result) throw new Error(formatProblems('cfg.yaml', result.problems).join('\n'));
  if (!('spec' in result)) throw new Error('the manifest is one for a cluster');
  return { spec: result.spec, uploads: result.uploads, warnings: formatProblems('cfg.yaml', result.warnings) };
}

/** The options of a valid manifest for a cluster, and its warnings as lines. */
export function clusterOf(
  text: string,
  options: ParseOptions = {},
): { readonly cluster: ClusterManifest; readonly warnings: readonly string[] } {
  const result = parse(text, options);
  if ('problems' in result) throw new Error(formatProblems('cfg.yaml', result.problems).join('\n'));
  if (!('cluster' in result)) throw new Error('the manifest is none for a cluster');
  return { cluster: result.cluster, warnings: formatProblems('cfg.yaml', result.warnings) };
}

/** The problems of a manifest that must be wrong, as lines. */
export function problemsOf(text: string, options: ParseOptions = {}): readonly string[] {
  const result = parse(text, options);
  if (!('problems' in result)) throw new Error('the manifest was accepted');
  return formatProblems('cfg.yaml', result.problems);
}

/** The problems of an invalid manifest as one text. */
export function problemText(text: string, options: ParseOptions = {}): string {
  return problemsOf(text, options).join('\n');
}

/** Fails unless one of the problems of a manifest, which must be wrong, fits. */
export function assertRefused(text: string, pattern: RegExp, options: ParseOptions = {}): void {
  assert.match(problemText(text, options), pattern);
}

/** Fails unless the result for each text equals or matches the value of its row. */
export function assertEach(textOf: (text: string) => string, rows: Readonly<Record<string, RegExp | string>>): void {
  for (const [text, expected] of Object.entries(rows)) {
    if (typeof expected === 'string') assert.equal(textOf(text), expected, text);
    else assert.match(textOf(text), expected, text);
  }
}

/** The names of the setup steps of a spec. */
export function stepNames({ steps }: Pick<JobSpec, 'steps'>): readonly string[] {
  return steps.map(({ name }) => name);
}

/** The same of a manifest that must be right. */
export function stepsOf(text: string, options: ParseOptions = {}): readonly string[] {
  return stepNames(specOf(text, options).spec);
}

/** The warnings of a manifest, right or wrong, as lines. */
export function warningsOf(text: string, options: ParseOptions = {}): readonly string[] {
  return formatProblems('cfg.yaml', parse(text, options).warnings);
}

/** A local job with this command and whatever else is given. */
export function local(run: string, more = ''): string {
  return `local: {}\ncommand:\n  run: ${JSON.stringify(run)}\n${more}`;
}

/** A TPU job with two workers. */
export function tpu(more = '', command = 'run: "true"'): string {
  return `tpu: {project: emulator, accelerator: v4-16, zone: us-central2-b}\ncommand: {${command}}\n${more}`;
}

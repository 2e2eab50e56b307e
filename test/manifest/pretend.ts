/** A pretend disk and a short way to parse a manifest with it. */
import assert from 'node:assert/strict';
import type { JobSpec } from '../../src/core/spec.ts';
import type { FileDoor } from '../../src/manifest/files.ts';
import type { ClusterManifest } from '../../src/manifest/kubernetes.ts';
import { parseManifest, type ManifestInput } from '../../src/manifest/parse.ts';
import { formatProblems } from '../../src/schema/problems.ts';

/** Files by absolute path; a text ends in `*` when it may be executed. A folder is what some file is in. */
export function pretendDisk(files: Readonly<Record<string, string | Uint8Array>>): FileDoor {
  const bytesOf = (path: string): Uint8Array | undefined => {
    const content = files[path];
    return typeof content === 'string' ? new TextEncoder().encode(content) : content;
  };
  return {
    look(path) {
      const bytes = bytesOf(path);
      if (bytes !== undefined) return { kind: 'file', bytes: bytes.length, isExecutable: path.endsWith('.sh') };
      const inside = Object.keys(files).filter((file) => file.startsWith(`${path}/`));
      if (inside.length === 0) return { kind: 'absent' };
      const entries = inside.map((file) => file.slice(path.length + 1).split('/')[0] ?? '');
      return { kind: 'folder', entries: [...new Set(entries)].toSorted() };
    },
    read(path, most) {
      const bytes = bytesOf(path);
      return bytes === undefined ? { detail: 'it is not there' } : { bytes: bytes.slice(0, most + 1) };
    },
  };
}

export type Given = Partial<Omit<ManifestInput, 'text' | 'door'>> & {
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
};

/** What parsing gives, whichever it is. */
export function parse(text: string, { files = {}, ...given }: Given = {}) {
  return parseManifest({
    text,
    file: '/work/cfg.yaml',
    env: { HOME: '/home/ada', USER: 'ada' },
    home: '/home/ada',
    door: pretendDisk(files),
    project: null,
    purpose: 'create',
    ...given,
  });
}

/** The spec of a manifest that must be right, and its warnings as lines. */
export function specOf(
  text: string,
  given: Given = {},
): { readonly spec: JobSpec; readonly warnings: readonly string[] } {
  const result = parse(text, given);
  if ('problems' in result) throw new Error(formatProblems('cfg.yaml', result.problems).join('\n'));
  if (!('spec' in result)) throw new Error('the manifest is one for a cluster');
  return { spec: result.spec, warnings: formatProblems('cfg.yaml', result.warnings) };
}

/** What a manifest for a cluster says, which must be right, and its warnings as lines. */
export function clusterOf(
  text: string,
  given: Given = {},
): { readonly cluster: ClusterManifest; readonly warnings: readonly string[] } {
  const result = parse(text, given);
  if ('problems' in result) throw new Error(formatProblems('cfg.yaml', result.problems).join('\n'));
  if (!('cluster' in result)) throw new Error('the manifest is none for a cluster');
  return { cluster: result.cluster, warnings: formatProblems('cfg.yaml', result.warnings) };
}

/** The problems of a manifest that must be wrong, as lines. */
export function problemsOf(text: string, given: Given = {}): readonly string[] {
  const result = parse(text, given);
  if (!('problems' in result)) throw new Error('the manifest was accepted');
  return formatProblems('cfg.yaml', result.problems);
}

/** What a manifest that must be wrong is told, as one text. */
export function told(text: string, given: Given = {}): string {
  return problemsOf(text, given).join('\n');
}

/** Fails unless one of the problems of a manifest, which must be wrong, fits. */
export function assertRefused(text: string, says: RegExp, given: Given = {}): void {
  assert.match(told(text, given), says);
}

/** Fails unless what is said of each text is what stands beside it, or fits that. */
export function assertEach(said: (text: string) => string, rows: Readonly<Record<string, RegExp | string>>): void {
  for (const [text, says] of Object.entries(rows)) {
    if (typeof says === 'string') assert.equal(said(text), says, text);
    else assert.match(said(text), says, text);
  }
}

/** The names of the setup steps of a spec. */
export function stepNames({ steps }: Pick<JobSpec, 'steps'>): readonly string[] {
  return steps.map(({ name }) => name);
}

/** The same of a manifest that must be right. */
export function stepsOf(text: string, given: Given = {}): readonly string[] {
  return stepNames(specOf(text, given).spec);
}

/** The warnings of a manifest, right or wrong, as lines. */
export function warningsOf(text: string, given: Given = {}): readonly string[] {
  return formatProblems('cfg.yaml', parse(text, given).warnings);
}

/** A local job with this command and whatever else is given. */
export function local(run: string, more = ''): string {
  return `local: {}\ncommand:\n  run: ${JSON.stringify(run)}\n${more}`;
}

/** A TPU job with two workers. */
export function tpu(more = '', command = 'run: "true"'): string {
  return `tpu: {project: emulator, accelerator: v4-16, zone: us-central2-b}\ncommand: {${command}}\n${more}`;
}

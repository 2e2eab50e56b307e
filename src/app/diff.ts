// Diff: the differences between two jobs or attempts, wherever they ran. diff-side.ts describes a job of the store.

import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import { digestOf } from '../catalogue/digest.ts';
import type { StepFile } from '../core/model/spec.ts';
import { mainMetrics, throughputName } from '../reports/metrics.ts';
import type { MetricsView } from './client.ts';
import { formatBytes } from './format.ts';
import type { WorkdirFiles } from './ports.ts';

/**
 * `manifest`: as written. `spec`: as resolved. `environment`, `rules` and `image` are parts of it. `hosts`: the capacity.
 * `workdir`: the copy of the working directory, its commit and its uncommitted changes. `files`: the files of that copy,
 * and those that setup steps put on the workers. `job`: the phase and, unless an attempt is named, the cost of all
 * attempts. `result`: of the attempt, with its metrics.
 */
type DiffSection =
  | 'job'
  | 'manifest'
  | 'spec'
  | 'environment'
  | 'rules'
  | 'image'
  | 'hosts'
  | 'workdir'
  | 'files'
  | 'result';

/** A job, or one of its attempts. */
export interface DiffSide {
  /** Its id; of a job in a cluster its name. */
  readonly job: string;
  readonly name: string;
  /** The attempt whose hosts, files and result are compared; null before the first, and in a cluster. */
  readonly attempt: number | null;
  /** JSON by section. Times are durations in milliseconds, with names in `Ms`. */
  readonly values: Readonly<Partial<Record<Exclude<DiffSection, 'files'>, unknown>>>;
  /** The files of the copy of the working directory; null if they are not kept. */
  readonly files: { readonly copy: number; readonly byPath: WorkdirFiles } | null;
  /** The files that setup steps put on the workers, such as those of `job.files`. Absent: none. */
  readonly stepFiles?: readonly StepFile[];
  /** The reason why its metrics are not compared. */
  readonly metricsProblem?: string;
  /** A local job that ran files of this machine without a copy of them. */
  readonly isCodeUnknown?: true;
}

/** A field that differs. Null: this side does not have it. */
export interface ValueDifference {
  readonly kind: 'value';
  /** The part of the job that the field belongs to. */
  readonly section: DiffSection;
  /** The path of the field, such as `command.workdir`; the path of a file; empty for the whole section. */
  readonly key: string;
  /** The value of the first job. */
  readonly left: unknown;
  /** The value of the second job. */
  readonly right: unknown;
}

/** A text of several lines that differs. */
export interface TextDifference {
  readonly kind: 'text';
  /** The part of the job that the text belongs to. */
  readonly section: DiffSection;
  /** As in `ValueDifference`. */
  readonly key: string;
  /** A unified diff. */
  readonly patch: string;
}

export type Difference = ValueDifference | TextDifference;

const sections = ['job', 'result', 'hosts', 'manifest', 'spec', 'environment', 'rules', 'image', 'workdir'] as const;

/** Reads a file of that copy of a side, or without a number one that a setup step puts on the workers. */
export type ReadSideFile = (side: DiffSide, copy: number | null, path: string) => Promise<Uint8Array>;

/** In the order of the sections. Reads the files that differ. */
export async function compareSides(
  left: DiffSide,
  right: DiffSide,
  readFile: ReadSideFile,
): Promise<readonly Difference[]> {
  const hasBoth = left.files !== null && right.files !== null;
  const values = sections
    .flatMap((section) => compareValues(section, '', left.values[section] ?? null, right.values[section] ?? null))
    // The files have the same changes.
    .filter(({ section, key }) => !(hasBoth && section === 'workdir' && key === 'changes'));
  const files = hasBoth ? await compareFiles(left, right, readFile) : [];
  return [...values, ...(await compareStepFiles(left, right, readFile)), ...files];
}

/** Adds the metrics of its attempt, or of the newest pod, to its result: last step, last losses, steps per second. */
export function withMetrics(side: DiffSide, { attempts, names, series }: MetricsView): DiffSide {
  const about = attempts.find(({ attempt }) => attempt === side.attempt) ?? attempts.at(-1);
  const losses = names.filter((name) => /loss/i.test(name));
  const shown = losses.length > 0 ? losses : mainMetrics(names).filter((name) => name !== throughputName);
  const last = series
    .filter(({ name }) => shown.includes(name))
    .map(({ name, last: { value } }) => [name, Number.isFinite(value) ? value : String(value)]);
  if (about === undefined || (about.lastStep === null && last.length === 0)) return side;
  const { lastStep, stepsPerSecond } = about;
  const metrics = { lastStep, last: Object.fromEntries(last) as object, stepsPerSecond };
  return { ...side, values: { ...side.values, result: { ...(side.values.result as Fields | null), metrics } } };
}

type Fields = Readonly<Record<string, unknown>>;

function compareValues(section: DiffSection, key: string, left: unknown, right: unknown): readonly Difference[] {
  if (JSON.stringify(left) === JSON.stringify(right)) return [];
  if (isObject(left ?? right) && isObject(right ?? left)) {
    const [before, after] = [(left ?? {}) as Fields, (right ?? {}) as Fields];
    return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) =>
      compareValues(section, key === '' ? name : `${key}.${name}`, before[name] ?? null, after[name] ?? null),
    );
  }
  const only = left ?? right;
  if (section !== 'workdir' && (left === null || right === null) && typeof only === 'string' && only.includes('\n')) {
    const about = describeBytes(Buffer.from(only));
    return [{ kind: 'value', section, key, left: left === null ? null : about, right: right === null ? null : about }];
  }
  const [one, other] = [left ?? '', right ?? ''];
  if (typeof one === 'string' && typeof other === 'string' && `${one}${other}`.includes('\n'))
    return [textDifference(section, key, one, other)];
  return [{ kind: 'value', section, key, left, right }];
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The time and memory for a diff grow with the square of the number of changes. */
const maxChanges = 5_000;

function textDifference(section: DiffSection, key: string, left: string, right: string): Difference {
  const name = key === '' ? section : key;
  const options = { context: 3, headerOptions: FILE_HEADERS_ONLY, maxEditLength: maxChanges };
  const patch = createTwoFilesPatch(`a/${name}`, `b/${name}`, left, right, undefined, undefined, options);
  return patch === undefined
    ? { kind: 'value', section, key, left: describeBytes(Buffer.from(left)), right: describeBytes(Buffer.from(right)) }
    : { kind: 'text', section, key, patch };
}

// ------------------------------------------------------------------------------------------ files

async function compareStepFiles(
  left: DiffSide,
  right: DiffSide,
  readFile: ReadSideFile,
): Promise<readonly Difference[]> {
  const [before, after] = [left, right].map(({ stepFiles = [] }) => new Map(stepFiles.map((file) => [file.to, file])));
  const differences: Difference[] = [];
  for (const path of [...new Set([...(before ?? []), ...(after ?? [])].map(([to]) => to))].toSorted()) {
    const [one, other] = [before?.get(path), after?.get(path)];
    const [from, to] = [one, other].map((file) => (file === undefined ? null : sourceOf(file)));
    if (from !== to && (one?.kind === 'secret' || other?.kind === 'secret'))
      differences.push({ ...valueOf(path), left: from, right: to });
    else if (from !== to) {
      const read = async (side: DiffSide, file: StepFile | undefined) =>
        file === undefined ? null : Buffer.from(await readFile(side, null, path));
      differences.push(fileDifference(path, await read(left, one), await read(right, other)));
    }
    if (one !== undefined && other !== undefined && one.mode !== other.mode)
      differences.push({ ...valueOf(`mode of ${path}`), left: one.mode.toString(8), right: other.mode.toString(8) });
  }
  return differences;
}

function valueOf(key: string): Pick<ValueDifference, 'kind' | 'section' | 'key'> {
  return { kind: 'value', section: 'files', key };
}

function sourceOf(file: StepFile): string {
  if (file.kind === 'secret') return `a secret: ${JSON.stringify(file.secret)}`;
  return file.kind === 'blob' ? file.blob : digestOf(Buffer.from(file.base64, 'base64'));
}

const maxTextBytes = 1024 * 1024;

async function compareFiles(left: DiffSide, right: DiffSide, readFile: ReadSideFile): Promise<readonly Difference[]> {
  const entryOf = ({ files }: DiffSide, path: string) => files?.byPath[path] ?? null;
  const paths = [left, right].flatMap(({ files }) => Object.keys(files?.byPath ?? {}));
  const differences: Difference[] = [];
  for (const path of [...new Set(paths)].toSorted()) {
    const [before, after] = [entryOf(left, path), entryOf(right, path)];
    if (before?.digest === after?.digest) continue;
    if (before === null || after === null || Math.max(before.size, after.size) > maxTextBytes) {
      const [one, other] = [before, after].map((entry) => (entry === null ? null : describeFile(entry)));
      differences.push({ ...valueOf(path), left: one, right: other });
      continue;
    }
    const read = async (side: DiffSide) => Buffer.from(await readFile(side, side.files?.copy ?? 0, path));
    differences.push(fileDifference(path, await read(left), await read(right)));
  }
  return differences;
}

function fileDifference(key: string, left: Buffer | null, right: Buffer | null): Difference {
  const texts = [left, right].map((content) => (content === null ? null : textOf(content)));
  const [before = null, after = null] = texts;
  if (before !== null && after !== null) return textDifference('files', key, before, after);
  const [one, other] = [left, right].map((content) => (content === null ? null : describeBytes(content)));
  return { kind: 'value', section: 'files', key, left: one, right: other };
}

/** Null for a binary or large file. */
function textOf(content: Buffer): string | null {
  if (content.length > maxTextBytes || content.includes(0)) return null;
  const text = content.toString('utf8');
  return text.includes('\uFFFD') ? null : text;
}

function describeBytes(content: Buffer): string {
  return describeFile({ size: content.length, digest: digestOf(content) });
}

function describeFile({ size, digest }: WorkdirFiles[string]): string {
  return `${formatBytes(size)}, SHA-256 ${digest.slice('sha256:'.length, 'sha256:'.length + 12)}`;
}

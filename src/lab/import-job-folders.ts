// Import of the job folders of the earlier TPU manager: each job becomes a finished job with its manifest and logs. The
// folders are `jobs/<id>/`, or `jobs/<user>/<id>/` next to `jobs/.jobman/meta.json`. Owner, name and creation time
// identify a job that an earlier import took over.

import { join } from 'node:path';
import type { JobSpec } from '../core/model/spec.ts';
import { importedPrefix } from '../app/format.ts';
import { parseInstant, type Instant } from '../core/model/time.ts';
import type { ImportLine } from './import-old-data.ts';
import { importedEnd, type ImportedJob } from './imported-job.ts';
import { asObject, asText, type Json } from './old-data.ts';

export interface FolderReader {
  list(folder: string): readonly string[] | null;
  /** The text of a file, only its end if it is long; null if unreadable. */
  readText(file: string): string | null;
  modifiedAt(file: string): Instant | null;
}

export interface OldJobFolder {
  readonly path: string;
  readonly id: string;
  readonly user: string | null;
  readonly status: string | null;
  readonly createdAt: Instant | null;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant | null;
  readonly logs: readonly string[];
  /** The end of its own log, which reports the result of its command. */
  readonly logTail: string;
}

/** Every job of the folder; null if another program made the folder. */
export function readOldJobFolders(folder: string, reader: FolderReader): readonly OldJobFolder[] | null {
  const names = reader.list(folder);
  if (names === null) return null;
  const meta = parseMeta(reader.readText(join(folder, '.jobman', 'meta.json')));
  const found = names.flatMap((name): readonly OldJobFolder[] => {
    if (name.startsWith('.')) return [];
    if (isId(name)) return [readJobFolder(join(folder, name), name, null, meta.get(name), reader)];
    const ids = (reader.list(join(folder, name)) ?? []).filter(isId);
    return ids.map((id) => readJobFolder(join(folder, name, id), id, name, meta.get(id), reader));
  });
  const isTheirs = names.includes('.jobman') || names.includes('.state');
  return found.length === 0 && !isTheirs ? null : found.toSorted((one, other) => (one.id < other.id ? -1 : 1));
}

function isId(name: string): boolean {
  return /^\d{6,}$/.test(name);
}

/** By id. meta.json has entries by id, a list, or either of them under `jobs`. */
function parseMeta(text: string | null): ReadonlyMap<string, Json> {
  let value: unknown = null;
  try {
    value = JSON.parse(text ?? 'null');
  } catch {
    // That program wrote the file in place, so it may be cut. The folders have the rest.
  }
  const jobs = asObject(value)?.['jobs'];
  const whole = asObject(jobs) !== undefined || Array.isArray(jobs) ? jobs : value;
  const pairs: readonly (readonly [string, unknown])[] = Array.isArray(whole)
    ? whole.map((entry: unknown) => ['', entry])
    : Object.entries(asObject(whole) ?? {});
  return new Map(
    pairs.flatMap(([id, value]) => {
      const entry = asObject(value);
      return entry === undefined ? [] : [[(asText(entry['job_id']) ?? id).padStart(6, '0'), entry]];
    }),
  );
}

function readJobFolder(
  path: string,
  id: string,
  user: string | null,
  meta: Json | undefined,
  reader: FolderReader,
): OldJobFolder {
  const logs = (reader.list(join(path, 'logs')) ?? []).filter((name) => name.endsWith('.log'));
  const textOf = (name: string): string | null => asText(reader.readText(join(path, name)));
  return {
    path,
    id,
    user: user ?? asText(meta?.['user']),
    status: asText(meta?.['status']) ?? textOf('status.txt') ?? textOf('.job_status'),
    createdAt:
      parseTime(meta?.['created_at']) ??
      parseTime(textOf('start_time.txt')) ??
      reader.modifiedAt(join(path, 'config.yaml')),
    startedAt: parseTime(meta?.['started_at']) ?? parseTime(textOf('start_time.txt')),
    endedAt:
      parseTime(meta?.['ended_at']) ??
      parseTime(meta?.['last_seen']) ??
      reader.modifiedAt(join(path, 'logs', 'job.log')),
    logs,
    logTail: reader.readText(join(path, 'logs', 'job.log')) ?? '',
  };
}

export interface JobsImportOptions {
  readonly owner: string;
  /** The manifest's spec and text, with the contents of the files that the spec names by digest; or why it is unreadable. */
  readonly readManifest: (
    config: string,
  ) => { readonly spec: JobSpec; readonly text: string; readonly contents: readonly Uint8Array[] } | string;
  /** The id of the job if it was imported before, else null. */
  readonly existingId: (job: Pick<ImportedJob, 'owner' | 'createdAt'> & { readonly name: string }) => string | null;
  readonly now: Instant;
}

export interface JobsImportPlan {
  readonly lines: readonly ImportLine[];
  readonly imports: readonly {
    readonly from: OldJobFolder;
    readonly job: ImportedJob;
    readonly subject: string;
    /** To store before the job. */
    readonly contents: readonly Uint8Array[];
  }[];
  readonly existing: readonly (Readonly<Record<'id' | 'owner' | 'subject', string>> & {
    readonly from: OldJobFolder;
  })[];
}

/** Plans the import, with a line for each job. Changes nothing. */
export function planJobsImport(
  folders: readonly OldJobFolder[],
  { owner: defaultOwner, readManifest, existingId, now }: JobsImportOptions,
): JobsImportPlan {
  const lines: ImportLine[] = [];
  const imports: JobsImportPlan['imports'][number][] = [];
  const existing: JobsImportPlan['existing'][number][] = [];
  for (const from of folders) {
    const subject = `job ${from.id}${from.user === null ? '' : ` of ${from.user}`}`;
    const manifest = readManifest(join(from.path, 'config.yaml'));
    if (typeof manifest === 'string') {
      lines.push({ kind: 'skip', subject, message: manifest });
      continue;
    }
    const { spec, text, contents } = manifest;
    const owner = from.user ?? defaultOwner;
    const createdAt = from.createdAt ?? now;
    const id = existingId({ owner, createdAt, name: spec.name });
    if (id !== null) {
      existing.push({ from, id, owner, subject });
      lines.push({ kind: 'exists', subject, message: spec.name });
      continue;
    }
    const end = outcomeOf(from);
    lines.push({ kind: 'import', subject, message: `${spec.name}, ${end.verdict}, ${from.logs.length} logs` });
    if (end.verdict === 'stopped' && /^(running|queueing|idle|init)/i.test(from.status ?? '')) {
      const where = spec.capacity.kind === 'tpu' ? `, and its TPU in ${spec.capacity.zone} may cost money` : '';
      const message = `it was ${from.status}; imported as stopped. Its program may still run${where}: jobman tpus --all`;
      lines.push({ kind: 'note', subject, message });
    }
    const job: ImportedJob = {
      owner,
      spec,
      manifest: text,
      createdAt,
      startedAt: from.startedAt ?? (from.logs.some((name) => commandLogPattern.test(name)) ? createdAt : null),
      endedAt: Math.max(createdAt, from.endedAt ?? createdAt),
      ...end,
      lab: null,
      window: null,
    };
    imports.push({ from, job, subject, contents });
  }
  return { lines, imports, existing };
}

const commandLogPattern = /^(?:main_)?command_worker_(\d+)\.log$/;

export function classifyLog(
  name: string,
): { readonly kind: 'command'; readonly worker: number } | { readonly kind: 'other' } {
  const [, worker] = commandLogPattern.exec(name) ?? [];
  return worker === undefined ? { kind: 'other' } : { kind: 'command', worker: Number(worker) };
}

/** A success in the log wins over the status, which that program often only guessed from a tmux session. */
function outcomeOf({ status, logTail }: OldJobFolder): ReturnType<typeof importedEnd> {
  if (/Main command completed successfully|Multihost runner finished successfully/.test(logTail))
    return importedEnd('succeeded', 'succeeded', 'succeeded before the import');
  const text = status ?? '';
  if (/^cancel/i.test(text)) return importedEnd('cancelled', 'stopped', 'cancelled before the import');
  if (/^preempt/i.test(text)) return importedEnd('failed', 'preempted', 'preempted before the import');
  if (/fail/i.test(text) || /Main command (failed|finished with errors)/.test(logTail))
    return importedEnd('failed', 'command_failed', 'failed before the import');
  return importedEnd('stopped', 'stopped', `${importedPrefix}, ${text === '' ? 'end unknown' : `was ${text}`}`);
}

/** Seconds since 1970, or a date. A date without a zone is in local time: this machine wrote it. */
function parseTime(value: unknown): Instant | null {
  const seconds = typeof value === 'number' ? value : /^\d+(\.\d+)?$/.test(asText(value) ?? '') ? Number(value) : null;
  if (seconds !== null) return Math.round(seconds * 1_000);
  return parseInstant(asText(value)?.replace(' ', 'T'));
}

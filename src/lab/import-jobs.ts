// Import of the folders of the TPU manager before this one: each of its jobs becomes a job that has ended, with manifest and logs.
// It wrote `jobs/<id>/` with files about the job, or `jobs/<user>/<id>/` next to `jobs/.jobman/meta.json`. A job's name and
// creation time tell that it was imported before.

import { join } from 'node:path';
import type { JobSpec, Reason } from '../core/spec.ts';
import { importedWords } from '../app/figures.ts';
import type { Instant } from '../core/time.ts';
import type { ImportLine } from './import-data.ts';
import type { PastJob } from './past-job.ts';

export interface FolderDoor {
  names(folder: string): readonly string[] | null;
  /** The text of a file, or of its end where it is long; null where it cannot be read. */
  text(file: string): string | null;
  changedAt(file: string): Instant | null;
}

export interface OldJobFolder {
  readonly path: string;
  readonly id: string;
  /** Null in the layout that knew no users. */
  readonly user: string | null;
  readonly status: string | null;
  readonly createdAt: Instant | null;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant | null;
  readonly logs: readonly string[];
  /** The end of its own log, in which it says how its command came out. */
  readonly lastWords: string;
}

/** Every job of that folder; null where it is no folder of that program. */
export function oldJobFolders(folder: string, door: FolderDoor): readonly OldJobFolder[] | null {
  const names = door.names(folder);
  if (names === null) return null;
  const meta = entriesIn(door.text(join(folder, '.jobman', 'meta.json')));
  const found = names.flatMap((name): readonly OldJobFolder[] => {
    if (name.startsWith('.')) return [];
    if (isId(name)) return [jobIn(join(folder, name), name, null, meta.get(name), door)];
    const ids = (door.names(join(folder, name)) ?? []).filter(isId);
    return ids.map((id) => jobIn(join(folder, name, id), id, name, meta.get(id), door));
  });
  const isTheirs = names.includes('.jobman') || names.includes('.state');
  return found.length === 0 && !isTheirs ? null : found.toSorted((one, other) => (one.id < other.id ? -1 : 1));
}

function isId(name: string): boolean {
  return /^\d{6,}$/.test(name);
}

type Json = Readonly<Record<string, unknown>>;

/** By id: the entries of meta.json are keyed by their ids, or in a list, or under `jobs`. */
function entriesIn(text: string | null): ReadonlyMap<string, Json> {
  let value: unknown = null;
  try {
    value = JSON.parse(text ?? 'null');
  } catch {
    // Written in place, so it may be cut: the folders tell the rest.
  }
  const whole = isRecord(value) && (isRecord(value['jobs']) || Array.isArray(value['jobs'])) ? value['jobs'] : value;
  const pairs: readonly (readonly [string, unknown])[] = Array.isArray(whole)
    ? whole.map((entry: unknown) => [isRecord(entry) ? String(textIn(entry['job_id']) ?? '') : '', entry])
    : Object.entries(isRecord(whole) ? whole : {});
  return new Map(
    pairs.flatMap(([id, entry]) =>
      isRecord(entry) ? [[(textIn(entry['job_id']) ?? id).padStart(6, '0'), entry]] : [],
    ),
  );
}

function jobIn(path: string, id: string, user: string | null, meta: Json | undefined, door: FolderDoor): OldJobFolder {
  const logs = (door.names(join(path, 'logs')) ?? []).filter((name) => name.endsWith('.log'));
  const said = (name: string): string | null => textIn(door.text(join(path, name)));
  return {
    path,
    id,
    user: user ?? textIn(meta?.['user']),
    status: textIn(meta?.['status']) ?? said('status.txt') ?? said('.job_status'),
    createdAt:
      momentIn(meta?.['created_at']) ?? momentIn(said('start_time.txt')) ?? door.changedAt(join(path, 'config.yaml')),
    startedAt: momentIn(meta?.['started_at']) ?? momentIn(said('start_time.txt')),
    endedAt:
      momentIn(meta?.['ended_at']) ?? momentIn(meta?.['last_seen']) ?? door.changedAt(join(path, 'logs', 'job.log')),
    logs,
    lastWords: door.text(join(path, 'logs', 'job.log')) ?? '',
  };
}

export interface JobsImport {
  /** Whose the jobs are that name no user. */
  readonly owner: string;
  /** The spec of the manifest and its text, or the reason why it cannot be read. */
  readonly read: (config: string) => { readonly spec: JobSpec; readonly text: string } | string;
  /** The id of such a job that is here already; null when there is none. */
  readonly idHere: (job: Pick<PastJob, 'owner' | 'createdAt'> & { readonly name: string }) => string | null;
  readonly now: Instant;
}

export interface JobsPlan {
  readonly lines: readonly ImportLine[];
  readonly taken: readonly { readonly from: OldJobFolder; readonly past: PastJob; readonly what: string }[];
  /** Jobs that an earlier import took over. */
  readonly known: readonly (Readonly<Record<'id' | 'owner' | 'what', string>> & { readonly from: OldJobFolder })[];
}

/** The jobs that would be taken over, those that are here already, and a line for each. Changes nothing. */
export function planJobsImport(
  folders: readonly OldJobFolder[],
  { owner: usual, read, idHere, now }: JobsImport,
): JobsPlan {
  const lines: ImportLine[] = [];
  const taken: JobsPlan['taken'][number][] = [];
  const known: JobsPlan['known'][number][] = [];
  for (const from of folders) {
    const what = `job ${from.id}${from.user === null ? '' : ` of ${from.user}`}`;
    const manifest = read(join(from.path, 'config.yaml'));
    if (typeof manifest === 'string') {
      lines.push({ kind: 'leave', what, says: manifest });
      continue;
    }
    const { spec, text } = manifest;
    const owner = from.user ?? usual;
    const createdAt = from.createdAt ?? now;
    const id = idHere({ owner, createdAt, name: spec.name });
    if (id !== null) {
      known.push({ from, id, owner, what });
      lines.push({ kind: 'have', what, says: spec.name });
      continue;
    }
    const { mayLive, ...end } = endOf(from);
    lines.push({ kind: 'take', what, says: `${spec.name}, ${end.verdict}, ${from.logs.length} logs` });
    if (mayLive) {
      const where = spec.capacity.kind === 'tpu' ? ` and its TPU in ${spec.capacity.zone} may cost` : '';
      const says = `it was ${from.status} there: taken as stopped; what goes on there goes on${where}: jobman tpus --all`;
      lines.push({ kind: 'note', what, says });
    }
    const past: PastJob = {
      owner,
      spec,
      manifest: text,
      createdAt,
      startedAt: from.startedAt ?? (from.logs.some((name) => commandLog.test(name)) ? createdAt : null),
      endedAt: Math.max(createdAt, from.endedAt ?? createdAt),
      ...end,
      lab: null,
      window: null,
    };
    taken.push({ from, past, what });
  }
  return { lines, taken, known };
}

const commandLog = /^(?:main_)?command_worker_(\d+)\.log$/;

export function logHere(
  name: string,
): { readonly kind: 'command'; readonly worker: number } | { readonly kind: 'other' } {
  const [, worker] = commandLog.exec(name) ?? [];
  return worker === undefined ? { kind: 'other' } : { kind: 'command', worker: Number(worker) };
}

type End = Pick<PastJob, 'verdict' | 'reason' | 'evidence'> & { readonly mayLive: boolean };

/** Its own words about the command come first: what the status says was often only guessed from a session of tmux. */
function endOf({ status, lastWords }: OldJobFolder): End {
  if (/Main command completed successfully|Multihost runner finished successfully/.test(lastWords)) {
    return ended('succeeded', 'succeeded', 'finished there');
  }
  const word = status ?? '';
  if (/^cancel/i.test(word)) return ended('cancelled', 'stopped', 'cancelled there');
  if (/^preempt/i.test(word)) return ended('failed', 'preempted', 'preempted there');
  if (/fail/i.test(word) || /Main command (failed|finished with errors)/.test(lastWords)) {
    return ended('failed', 'command_failed', 'failed there');
  }
  const mayLive = /^(running|queueing|idle|init)/i.test(word);
  const detail = word === '' ? `${importedWords}, end not known` : `${importedWords}, was ${word}`;
  return { ...ended('stopped', 'stopped', detail), mayLive };
}

function ended(verdict: PastJob['verdict'], reason: Reason, detail: string): End {
  return { verdict, reason, evidence: { detail }, mayLive: false };
}

/** Seconds since 1970, or a date; one without a zone is of this machine's clock, which wrote it. */
function momentIn(value: unknown): Instant | null {
  const seconds = typeof value === 'number' ? value : /^\d+(\.\d+)?$/.test(textIn(value) ?? '') ? Number(value) : null;
  if (seconds !== null) return Math.round(seconds * 1_000);
  const moment = Date.parse((textIn(value) ?? '').replace(' ', 'T'));
  return Number.isNaN(moment) ? null : moment;
}

function textIn(value: unknown): string | null {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : null;
}

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

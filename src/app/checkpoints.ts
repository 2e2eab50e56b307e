// Checkpoint folders of all jobs, with their contents. jobman only lists them and names the command; people remove them.

import type { Job } from '../core/model/job.ts';
import { emulatorProject } from '../core/model/spec.ts';
import {
  checkpointFolders,
  checkpointRows,
  type CheckpointFolder,
  type CheckpointRow,
  type FolderContents,
} from '../reports/checkpoints.ts';
import { mapConcurrent, reportsOf } from './concurrency.ts';
import { quote } from '../catalogue/shell.ts';
import type { Store } from './ports.ts';
import { isAllowedProject } from './require-permission.ts';
import {
  countProgress,
  describeError,
  maxConcurrentBuckets,
  type CountProgress,
  type StorageParts,
  type StoragePort,
  type StorageProblem,
} from './storage.ts';
import { emulatorStopped, type TpuSettings } from './tpus.ts';

/** The result so far. */
export interface CheckpointReport {
  readonly counted: CountProgress;
  readonly rows: readonly CheckpointRow[];
  readonly problems: readonly StorageProblem[];
  /** Ids of jobs whose folders cannot be listed from this machine. */
  readonly unlisted: readonly string[];
}

/**
 * The report so far; the last one is complete. Reads every folder once: buckets through the storage API, folders of this
 * machine directly. A folder is listed if the actor may read one of its jobs and use its project. Throws StoreError.
 */
export async function* readCheckpoints(
  parts: Pick<StorageParts, 'storageOf'> & {
    readonly countFiles: CountFiles;
    readonly store: Pick<Store, 'list'>;
    /** The login of its project reads the buckets of jobs that run on this machine. */
    readonly settings: Pick<TpuSettings, 'project' | 'allowedProjects'>;
    readonly isReadable: (job: Job) => boolean;
  },
  signal: AbortSignal,
): AsyncGenerator<CheckpointReport, void> {
  const { isReadable } = parts;
  const { allowedProjects = null } = parts.settings;
  const { jobs } = await parts.store.list({ maxFinished: null, includeRemoved: true });
  const all = checkpointFolders(jobs);
  const folders = all.folders.filter(
    ({ jobs: writers, project }) =>
      writers.some(isReadable) && (project === null || isAllowedProject(allowedProjects, project)),
  );
  const unlisted = all.unlisted.filter(isReadable).map(({ id }) => id);
  const problems = new Map<string, StorageProblem>();
  const contents = new Map<CheckpointFolder, FolderContents>();
  const prefixes = new Map<CheckpointFolder, string>();
  const ports = new Map<string, Promise<StoragePort | undefined>>();
  const portOf = ({ project: own }: CheckpointFolder): Promise<StoragePort | undefined> => {
    const project = own ?? parts.settings.project ?? 'google';
    const port = ports.get(project) ?? parts.storageOf(project);
    ports.set(project, port);
    return port;
  };
  let counted = 0;
  const report = (): CheckpointReport => {
    const counts = [...contents.values()].flatMap((content) => ('count' in content ? [content.count] : []));
    return {
      counted: countProgress(counts, counted, folders.length),
      rows: checkpointRows(folders, contents, jobs, (folder) => prefixes.get(folder) ?? ''),
      problems: [...problems.values()],
      unlisted,
    };
  };
  yield* reportsOf(report, signal, (onChange) =>
    mapConcurrent(folders, maxConcurrentBuckets, async (folder) => {
      prefixes.set(folder, await prefixOf(folder, portOf));
      for await (const content of contentsOf(folder, { ...parts, portOf }, signal, problems)) {
        contents.set(folder, content);
        onChange();
      }
      counted += 1;
      onChange();
    }),
  );
}

/**
 * Counts the regular files of a folder of this machine, folder by folder; follows no links. An absent folder is empty. An
 * abort ends it after a partial count.
 */
export type CountFiles = (root: string, signal: AbortSignal) => AsyncIterable<FolderContents>;

type PortOf = (folder: CheckpointFolder) => Promise<StoragePort | undefined>;

async function prefixOf(folder: CheckpointFolder, portOf: PortOf): Promise<string> {
  if (folder.source.kind === 'local') return '';
  const endpoint = (await portOf(folder))?.gcloudEndpoint ?? null;
  return endpoint === null ? '' : `CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE=${quote(endpoint)} `;
}

async function* contentsOf(
  folder: CheckpointFolder,
  { portOf, countFiles }: { readonly portOf: PortOf; readonly countFiles: CountFiles },
  signal: AbortSignal,
  problems: Map<string, StorageProblem>,
): AsyncGenerator<FolderContents, void> {
  const { source, project } = folder;
  if (source.kind === 'local') return yield* countFiles(source.path, signal);
  const port = await portOf(folder);
  if (port === undefined) {
    const problem = { project: emulatorProject, bucket: null, message: emulatorStopped, severity: 'note' } as const;
    problems.set(emulatorProject, { ...problem, hints: [], isUnreachable: false });
    yield { unreadable: 'the TPU emulator is not running' };
    return;
  }
  for await (const { count, error } of port.count(source, signal)) {
    if (count !== null) yield { count };
    if (error === null) continue;
    const problem = describeError(error, project ?? '', 'storage.objects.list');
    problems.set(source.bucket, { project: project ?? '', bucket: source.bucket, severity: 'unread', ...problem });
    if (count === null) yield { unreadable: problem.message };
  }
}

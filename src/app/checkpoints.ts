// Checkpoint folders of all jobs, with their contents. jobman only lists them and names the command; people remove them.

import { emulatorProject } from '../core/model/spec.ts';
import {
  checkpointFolders,
  checkpointRows,
  type CheckpointFolder,
  type CheckpointRow,
  type FolderContents,
} from '../reports/checkpoints.ts';
import { mapConcurrent } from './concurrency.ts';
import { quote } from '../catalogue/shell.ts';
import type { Store } from './ports.ts';
import {
  createProgress,
  describeError,
  maxConcurrentBuckets,
  type CountOptions,
  type StorageOptions,
  type StorageParts,
  type StoragePort,
  type StorageProblem,
} from './storage.ts';
import { emulatorStopped } from './tpus.ts';

export interface CheckpointReport {
  readonly rows: readonly CheckpointRow[];
  readonly problems: readonly StorageProblem[];
  /** Ids of jobs whose folders cannot be listed from this machine. */
  readonly unlisted: readonly string[];
}

/** Reads every folder once: buckets through the storage API, folders of this machine directly. Throws StoreError. */
export async function readCheckpoints(
  parts: {
    readonly store: Pick<Store, 'list'>;
    readonly portFor: StorageParts['portFor'];
    readonly countFiles: CountFiles;
    /** The project whose login reads the buckets of jobs that run on this machine. */
    readonly project: string | null;
  },
  options: StorageOptions,
): Promise<CheckpointReport> {
  const { jobs } = await parts.store.list({ maxFinished: null, includeRemoved: true });
  const { folders, unlisted } = checkpointFolders(jobs);
  const problems = new Map<string, StorageProblem>();
  const track = createProgress(options);
  track.expect(folders.length);
  const ports = new Map<string, Promise<StoragePort | undefined>>();
  const portOf = ({ project: own }: CheckpointFolder): Promise<StoragePort | undefined> => {
    const project = own ?? parts.project ?? 'google';
    const port = ports.get(project) ?? parts.portFor(project);
    ports.set(project, port);
    return port;
  };
  const read = await mapConcurrent(folders, maxConcurrentBuckets, async (folder) => {
    const contents = await contentsOf(folder, { ...parts, portOf }, track.options, problems);
    track.finish();
    return [folder, contents, await prefixOf(folder, portOf)] as const;
  });
  const contents = new Map(read.map(([folder, content]) => [folder, content]));
  const prefixes = new Map(read.map(([folder, , prefix]) => [folder, prefix]));
  return {
    rows: checkpointRows(folders, contents, jobs, (folder) => prefixes.get(folder) ?? ''),
    problems: [...problems.values()],
    unlisted: unlisted.map(({ id }) => id),
  };
}

/** Counts the regular files of a folder of this machine; follows no links. An absent folder is empty. */
export type CountFiles = (root: string, options: CountOptions) => Promise<FolderContents>;

type PortOf = (folder: CheckpointFolder) => Promise<StoragePort | undefined>;

async function prefixOf(folder: CheckpointFolder, portOf: PortOf): Promise<string> {
  if (folder.source.kind === 'local') return '';
  const endpoint = (await portOf(folder))?.gcloudEndpoint ?? null;
  return endpoint === null ? '' : `CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE=${quote(endpoint)} `;
}

async function contentsOf(
  folder: CheckpointFolder,
  { portOf, countFiles }: { readonly portOf: PortOf; readonly countFiles: CountFiles },
  options: CountOptions,
  problems: Map<string, StorageProblem>,
): Promise<FolderContents> {
  const { source, project } = folder;
  if (source.kind === 'local') return countFiles(source.path, options);
  const port = await portOf(folder);
  if (port === undefined) {
    const problem = { project: emulatorProject, bucket: null, message: emulatorStopped, severity: 'note' } as const;
    problems.set(emulatorProject, { ...problem, hints: [], isUnreachable: false });
    return { unreadable: 'the TPU emulator is not running' };
  }
  const { count, error } = await port.count(source, options);
  if (error !== null) {
    const problem = describeError(error, project ?? '', 'storage.objects.list');
    problems.set(source.bucket, { project: project ?? '', bucket: source.bucket, severity: 'unread', ...problem });
    if (count === null) return { unreadable: problem.message };
  }
  return count === null ? { unreadable: 'interrupted' } : { count };
}

// Data: where a home keeps the logs and the files of jobs, by the setting `server.data`.

import type { ArchivedLogs, ClusterJob } from '../app/cluster/objects.ts';
import type { Blobs, JobFolders, LogFiles, Store } from '../app/ports.ts';
import type { Io } from '../app/services.ts';
import { parseBucketAddress, resolveSettingPath, type Settings } from '../app/settings.ts';
import { fileError } from '../app/file-errors.ts';
import type { ArchivedLogWriter } from '../files/archived-logs.ts';
import { createBlobs } from '../files/blobs.ts';
import { linkDataFolder } from '../files/data-folder.ts';
import { createLogFiles } from '../files/log-files.ts';
import type { BucketData } from './bucket-data.ts';

export interface DataParts {
  readonly io: Pick<Io, 'env' | 'userHome' | 'now'>;
  readonly home: string;
  readonly settings: Settings;
}

export interface Data {
  readonly blobs: Blobs;
  /** Null without a bucket: the files of the home are all there is. */
  readonly bucket: BucketData | null;
  readonly openLogFiles: (history: Store['events']) => LogFiles;
  readonly openFolders: (folders: JobFolders) => JobFolders;
  readonly openArchivedLogs: (files: ArchivedLogs) => ArchivedLogs;
  /** `open` opens the file of a log of that job. */
  readonly openArchivedLog: (job: ClusterJob, open: () => ArchivedLogWriter) => Promise<ArchivedLogWriter>;
  /** Throws StoreError if the setting names a folder that cannot be used. The home must exist. */
  readonly prepare: () => void;
}

/** One for each process and setting, so that all parts of a process send and receive the files of a job one after the other. */
const opened = new WeakMap<DataParts['io'], Map<string, Promise<Data>>>();

/** Sends no request yet. */
export function openData(parts: DataParts): Promise<Data> {
  const { io, home, settings } = parts;
  const known = opened.get(io) ?? new Map<string, Promise<Data>>();
  opened.set(io, known);
  const key = JSON.stringify([home, settings.server.data, settings.tpu, settings.google]);
  const data = known.get(key) ?? createData(parts);
  known.set(key, data);
  return data;
}

async function createData(parts: DataParts): Promise<Data> {
  const { io, home, settings } = parts;
  const { data } = settings.server;
  if (data === null) return homeData(home);
  const address = parseBucketAddress(data);
  if (address !== null) {
    const shared = await import('./bucket-data.ts');
    const bucket = shared.openBucketData(parts, address);
    return {
      ...homeData(home),
      blobs: bucket.blobs,
      bucket,
      openLogFiles: (history) => shared.shareLogFiles(createLogFiles({ home, history }), bucket.logs),
      openFolders: (folders) => shared.shareJobFolders(folders, bucket.logs),
      openArchivedLogs: (files) => shared.shareArchivedLogs(files, bucket.logs),
      openArchivedLog: (job, open) => shared.openSharedCopy(job, open, bucket.logs),
    };
  }
  const folder = resolveSettingPath(data, { home, userHome: io.userHome });
  const prepare = (): void => {
    try {
      linkDataFolder(home, folder);
    } catch (error) {
      throw fileError(folder, error);
    }
  };
  return { ...homeData(home), prepare };
}

/** Without the setting. */
export function homeData(home: string): Data {
  return {
    blobs: createBlobs(home),
    bucket: null,
    openLogFiles: (history) => createLogFiles({ home, history }),
    openFolders: (folders) => folders,
    openArchivedLogs: (files) => files,
    openArchivedLog: async (_job, open) => open(),
    prepare: () => undefined,
  };
}
